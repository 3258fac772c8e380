"""What is measured: a workload is a name, a task and a way to build one step of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Loss = Callable[[Any], torch.Tensor]
OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
Build = Callable[..., "Task"]

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
    dtype, others keep theirs.

    ``step`` replaces all of this by a whole step of one's own, called as ``step(mark, *inputs)``, or by names: it
    calls the modules in ``model``, with as many optimizers as it likes, and ``mark(name)`` at the end of each phase.
    The model is moved, cast and compiled in place, so that a step may refer to it by name; of a ``ModuleDict`` or
    ``ModuleList`` each member is compiled. ``config`` is what the model was made from: where it changes under a
    workload's name, new records are not compared with older ones.

    Raises TypeError for a model that cannot be called, and for other inputs: a tensor would be taken apart along its
    first dimension.
    """

    model: Callable[..., Any]
    inputs: tuple[Any, ...] | list[Any] | Mapping[str, Any] = ()
    loss: Loss | None = None
    optimizer: OptimizerFactory = field(default=lambda parameters: torch.optim.SGD(parameters, lr=1e-3))
    step: Callable[..., object] | None = None
    config: Mapping[str, object] | None = None

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

    def config_digest(self) -> str:
        """The same for the same config, whatever the order of its members; empty without one."""
        if self.config is None:
            return ""
        text = json.dumps(self.config, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Workload:
    """A named, reproducible piece of PyTorch work.

    ``build(batch_size)`` is called after ``torch.manual_seed(0)`` and must not depend on anything else, but on
    ``mode`` and ``device`` (``cpu``, ``cuda``, …) if it has parameters of these names. ``batch_sizes`` maps ``mode``
    and ``mode/device class`` (``cpu``, ``integrated`` for a GPU that shares the host's memory, or ``accelerator``) to
    a default batch size; the more specific key wins. Where there are none, the batch is the model's own: ``build``
    gets no size, and a step counts as one sample. ``requires`` are the packages that ``build`` imports, as pip knows
    them. Raises ValueError where the parts contradict each other.
    """

    name: str
    task: str
    build: Build
    batch_sizes: Mapping[str, int]
    modes: tuple[str, ...] = MODES
    origin: str = "torch"
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(problem)

    def _problem(self) -> str | None:
        if not _NAME.fullmatch(self.name):
            return f"workload name {self.name!r}: write domain/model, each of A-Z, a-z, 0-9, '_', '.' and '-'"
        if not self.modes or not set(self.modes) <= set(MODES):
            return f"workload {self.name}: modes is {self.modes!r}; choose from {MODES!r}"
        if isinstance(self.requires, str):
            return f'workload {self.name}: requires is a text; write a tuple, such as ("{self.requires}",)'
        for mode in self.modes:
            if self.batch_sizes and mode not in self.batch_sizes:
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

    @property
    def unavailable(self) -> str:
        """Which required packages this Python lacks, and how to install them; empty where none is missing."""
        missing = [name for name in self.requires if not _is_installed(name)]
        return (
            f"needs {', '.join(missing)}: {sys.executable} -m pip install {' '.join(missing)}"
            if missing
            else ""
        )

    def task_of(self, batch_size: int, mode: str = "inference", device: str = "cpu") -> Task:
        """What ``build`` returns; raises TypeError where that is no :class:`Task`."""
        known = {"mode": mode, "device": device}
        wanted = {name: known[name] for name in inspect.signature(self.build).parameters if name in known}
        task = self.build(batch_size, **wanted) if self.batch_sizes else self.build(**wanted)
        if not isinstance(task, Task):
            msg = f"workload {self.name}: the function returned {_kind(task)}; end it with: return Task(model, inputs)"
            raise TypeError(msg)
        return task

    def batch_size(self, mode: str, device_class: str) -> int:
        """The default number of samples a step, for a mode and a device class."""
        return self.batch_sizes.get(f"{mode}/{device_class}", self.batch_sizes.get(mode, 1))


def _is_installed(package: str) -> bool:
    """Whether pip knows it, or Python finds it where it lies in a checkout; nothing is imported."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return importlib.util.find_spec(package.replace("-", "_")) is not None
    return True


def _kind(value: object) -> str:
    """The type in a sentence."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def workload(
    name: str,
    task: str,
    *,
    batch: int | Mapping[str, int] | None = 1,
    modes: tuple[str, ...] = MODES,
    origin: str = "torch",
    requires: tuple[str, ...] = (),
) -> Callable[[Build], Workload]:
    """Turn a function ``batch_size -> Task`` into a workload called ``domain/model``.

    ``batch`` is one default for all modes and devices, a mapping as in :class:`Workload`, or None for a function that
    takes no batch size.
    """
    sizes = (
        dict(batch) if isinstance(batch, Mapping) else {} if batch is None else dict.fromkeys(modes, batch)
    )

    def decorate(build: Build) -> Workload:
        return Workload(name, task, build, sizes, modes, origin, requires)

    return decorate


def per_device(cpu: int, accelerator: int) -> dict[str, int]:
    """Default batch sizes that depend on the device class and not on the mode; an integrated GPU has a CPU's."""
    return dict.fromkeys(MODES, cpu) | {f"{mode}/accelerator": accelerator for mode in MODES}
