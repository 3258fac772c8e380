"""Reinforcement learning workloads: updates that consist of many small kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from torchperf_ci.suite.building_blocks import adamw, mean, mlp
from torchperf_ci.suite.workload import Task, per_device, workload

_OBSERVATION, _ACTION = 17, 6  # HalfCheetah
_DISCOUNT = 0.99


def _frozen(module: nn.Module) -> nn.Module:
    """Return an untrained copy that serves as the target network."""
    return deepcopy(module).requires_grad_(requires_grad=False)


class _Actor(nn.Module):
    """A Gaussian policy squashed by tanh. Returns actions (batch, action) and their log-probabilities (batch, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(_OBSERVATION, 256, 256, 2 * _ACTION)

    def forward(self, observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_deviation = self.body(observation).chunk(2, dim=-1)
        log_deviation = log_deviation.clamp(-5, 2)
        raw = mean + log_deviation.exp() * noise
        gaussian = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
        # log(1 - tanh(x)^2), in a form without cancellation
        squash = 2 * (math.log(2) - raw - functional.softplus(-2 * raw))
        return torch.tanh(raw), (gaussian - squash).sum(-1, keepdim=True)


class _Critics(nn.Module):
    """Independent networks that return the values (count, batch, 1) of state-action pairs."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.members = nn.ModuleList(mlp(_OBSERVATION + _ACTION, 256, 256, 1) for _ in range(count))

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        pair = torch.cat((observation, action), dim=-1)
        return torch.stack([member(pair) for member in self.members])


class _SoftActorCritic(nn.Module):
    """Returns the losses (batch, 1) of critics and actor for a batch of transitions.

    Nothing is random: the policy's noise is an input, and the goal uses the first two critics. ``actor_value`` reduces
    the critics' values (count, batch, 1) to the value that the actor maximizes.
    """

    def __init__(self, critics: int, actor_value: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.actor = _Actor()
        self.critics = _Critics(critics)
        self.target = _frozen(self.critics)
        self.actor_value = actor_value
        self.temperature = 0.2

    def forward(
        self,
        observation: Tensor,
        action: Tensor,
        reward: Tensor,
        following: Tensor,
        noise: Tensor,
        next_noise: Tensor,
    ) -> Tensor:
        goal = self._goal(reward, following, next_noise)
        values = self.critics(observation, action)
        return (values - goal).square().mean(0) + self._actor_loss(observation, noise)

    def _goal(self, reward: Tensor, following: Tensor, noise: Tensor) -> Tensor:
        with torch.no_grad():
            action, log_probability = self.actor(following, noise)
            values = self.target(following, action)[:2].amin(0)
            return reward + _DISCOUNT * (values - self.temperature * log_probability)

    def _actor_loss(self, observation: Tensor, noise: Tensor) -> Tensor:
        action, log_probability = self.actor(observation, noise)
        # The actor's loss must not train the critics.
        constants = {name: value.detach() for name, value in self.critics.named_parameters()}
        values = functional_call(self.critics, constants, (observation, action))
        return self.temperature * log_probability - self.actor_value(values, 0)


def _transitions(batch: int) -> tuple[Tensor, ...]:
    widths = (_OBSERVATION, _ACTION, 1, _OBSERVATION, _ACTION, _ACTION)
    return tuple(torch.randn(batch, width) for width in widths)


@workload("reinforcement/soft_actor_critic", "continuous control", batch=per_device(256, 4096))
def soft_actor_critic(batch: int) -> Task:
    """Soft actor-critic (Haarnoja et al., 2018, arXiv:1812.05905): two critics, one update."""
    return Task(_SoftActorCritic(critics=2, actor_value=torch.amin), _transitions(batch), mean, adamw)


@workload("reinforcement/redq", "continuous control", batch=per_device(64, 4096))
def redq(batch: int) -> Task:
    """REDQ (Chen et al., 2021, arXiv:2101.05982): ten critics, which give the optimizer many small tensors."""
    return Task(_SoftActorCritic(critics=10, actor_value=torch.mean), _transitions(batch), mean, adamw)


class _Dqn(nn.Module):
    """Returns the temporal-difference losses (batch,) for a batch of transitions between Atari frames."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.online = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
            nn.Flatten(),
            mlp(64 * 7 * 7, 512, actions),
        )
        self.target = _frozen(self.online)

    def forward(self, frames: Tensor, actions: Tensor, rewards: Tensor, following: Tensor) -> Tensor:
        values = self.online(frames).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            goals = rewards + _DISCOUNT * self.target(following).amax(1)
        return functional.smooth_l1_loss(values, goals, reduction="none")


@workload("reinforcement/dqn", "discrete control", batch=per_device(16, 1024))
def dqn(batch: int) -> Task:
    """Deep Q-network (Mnih et al., 2015, doi:10.1038/nature14236): one update with a target network."""
    frames, following = torch.rand(2, batch, 4, 84, 84)
    inputs = (frames, torch.randint(6, (batch,)), torch.randn(batch), following)
    return Task(_Dqn(actions=6), inputs, mean, adamw)
