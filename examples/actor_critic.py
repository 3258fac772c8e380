"""Reinforcement learning: the model's own batch, an update of the critic, then one of the actor.

torchperf run --suite examples/actor_critic.py --mode training
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from torchperf_ci.suite import Task, workload

if TYPE_CHECKING:
    from collections.abc import Callable

TRANSITIONS = 256
"""The batch that the algorithm was published with. With batch=None, --batch-size does not change it."""


@workload("reinforcement/actor_critic", "continuous control", batch=None, modes=("training",))
def actor_critic() -> Task:
    actor = nn.Sequential(nn.Linear(17, 128), nn.ReLU(), nn.Linear(128, 6), nn.Tanh())
    critic = nn.Sequential(nn.Linear(17 + 6, 128), nn.ReLU(), nn.Linear(128, 1))
    of_actor, of_critic = (torch.optim.Adam(part.parameters(), lr=3e-4) for part in (actor, critic))

    def step(mark: Callable[[str], None], state: Tensor, action: Tensor, gain: Tensor) -> Tensor:
        of_critic.zero_grad()
        error = (critic(torch.cat((state, action), dim=1)) - gain).float().square().mean()
        error.backward()
        of_critic.step()
        mark("critic")
        of_actor.zero_grad()
        value = critic(torch.cat((state, actor(state)), dim=1)).float().mean()
        (-value).backward()
        of_actor.step()
        mark("actor")
        return error

    inputs = (torch.randn(TRANSITIONS, 17), torch.randn(TRANSITIONS, 6), torch.randn(TRANSITIONS, 1))
    return Task(nn.ModuleDict({"actor": actor, "critic": critic}), inputs, step=step)
