"""What is measured: a workload is a name, a task and a way to build one step of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Loss = Callable[[Any], torch.Tensor]
OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]

MODES = ("inference", "training")
DEVICE_CLASSES = ("cpu", "integrated", "accelerator")

_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_BATCH_SIZE_KEYS = (*MODES, *(f"{mode}/{device}" for mode in MODES for device in DEVICE_CLASSES))


@dataclass(frozen=True)
class Task:
    """One step's ingredients, built on the CPU in fp32; the worker moves, casts and compiles them.

    ``model`` is called as ``model(*inputs)``, or as ``model(**inputs)`` where ``inputs`` is a mapping, which becomes
    a dict. In training the step is: zero the gradients, ``loss(output)``, backward, ``optimizer.step()``; ``model``
    must then be a ``torch.nn.Module``. ``inputs`` may nest tuples, lists and dicts; floating tensors follow the
    dtype, others keep theirs. Raises TypeError for a model that cannot be called, and for other inputs: a tensor
    would be taken apart along its first dimension.
    """

    model: Callable[..., Any]
    inputs: tuple[Any, ...] | list[Any] | Mapping[str, Any] = ()
    loss: Loss | None = None
    optimizer: OptimizerFactory = field(default=lambda parameters: torch.optim.SGD(parameters, lr=1e-3))

    def __post_init__(self) -> None:
        if not callable(self.model):
            msg = f"Task(model, inputs): the model is {_kind(self.model)}, which cannot be called"
            raise TypeError(msg)
        if isinstance(self.inputs, Mapping):
            if not all(isinstance(name, str) for name in self.inputs):
                msg = "Task(model, inputs): the keys of a mapping are the names of arguments, so they must be texts"
                raise TypeError(msg)
            # A tokenizer's answer is a mapping of its own kind, into which torch's tools for nested inputs do not look.
            object.__setattr__(self, "inputs", dict(self.inputs))
        elif not isinstance(self.inputs, (tuple, list)):
            msg = (
                f"Task(model, inputs): inputs is {_kind(self.inputs)}; write a tuple, such as (x,), "
                'or a mapping for arguments by name, such as {"x": x}'
            )
            raise TypeError(msg)

    def call(self, forward: Callable[..., Any]) -> Any:
        """What ``forward``, the model or what a compiler made of it, gives for the inputs."""
        return forward(**self.inputs) if isinstance(self.inputs, dict) else forward(*self.inputs)


@dataclass(frozen=True)
class Workload:
    """A named, reproducible piece of PyTorch work.

    ``build(batch_size)`` is called after ``torch.manual_seed(0)`` and must not depend on anything else.
    ``batch_sizes`` maps ``mode`` and ``mode/device class`` (``cpu``, ``integrated`` for a GPU that shares the host's
    memory, or ``accelerator``) to a default batch size; the more specific key wins. Raises ValueError where the parts
    contradict each other.
    """

    name: str
    task: str
    build: Callable[[int], Task]
    batch_sizes: Mapping[str, int]
    modes: tuple[str, ...] = MODES
    origin: str = "torch"

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(problem)

    def _problem(self) -> str | None:
        if not _NAME.fullmatch(self.name):
            return (
                f"workload name {self.name!r}: write domain/model, each of letters, digits, '_', '.' and '-'"
            )
        if not self.modes or not set(self.modes) <= set(MODES):
            return f"workload {self.name}: modes is {self.modes!r}; choose from {MODES!r}"
        for mode in self.modes:
            if mode not in self.batch_sizes:
                return f"workload {self.name}: give batch_sizes a default batch size for mode {mode!r}"
        for key, size in self.batch_sizes.items():
            if key not in _BATCH_SIZE_KEYS:
                return f"workload {self.name}: {key!r} in batch_sizes is none of {_BATCH_SIZE_KEYS!r}"
            if type(size) is not int or size < 1:
                return f"workload {self.name}: batch size {size!r} for {key!r} must be a positive integer"
        return None

    @property
    def domain(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    def task_of(self, batch_size: int) -> Task:
        """What ``build`` returns; raises TypeError where that is no :class:`Task`."""
        task = self.build(batch_size)
        if not isinstance(task, Task):
            msg = f"workload {self.name}: the function returned {_kind(task)}; end it with: return Task(model, inputs)"
            raise TypeError(msg)
        return task

    def batch_size(self, mode: str, device_class: str) -> int:
        """The default number of samples a step, for a mode and a device class."""
        return self.batch_sizes.get(f"{mode}/{device_class}", self.batch_sizes[mode])


def _kind(value: object) -> str:
    """The type in a sentence."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def workload(
    name: str,
    task: str,
    *,
    batch: int | Mapping[str, int] = 1,
    modes: tuple[str, ...] = MODES,
    origin: str = "torch",
) -> Callable[[Callable[[int], Task]], Workload]:
    """Turn a function ``batch_size -> Task`` into a workload called ``domain/model``.

    ``batch`` is one default for all modes and devices, or a mapping as in :class:`Workload`.
    """
    sizes = dict(batch) if isinstance(batch, Mapping) else dict.fromkeys(modes, batch)

    def decorate(build: Callable[[int], Task]) -> Workload:
        return Workload(name, task, build, sizes, modes, origin)

    return decorate


def per_device(cpu: int, accelerator: int) -> dict[str, int]:
    """Default batch sizes that depend on the device class and not on the mode; an integrated GPU has a CPU's."""
    return dict.fromkeys(MODES, cpu) | {f"{mode}/accelerator": accelerator for mode in MODES}
