"""Definition of workloads: a workload has a name, a task and a function that builds one step."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

Loss = Callable[[Any], torch.Tensor]
OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
Build = Callable[..., "Task"]

MODES = ("inference", "training")
DEVICE_CLASSES = ("cpu", "integrated", "accelerator")

_NAME = re.compile(r"(?=.{3,160}$)[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+")
"""It names the file of its records, and one that begins with a dot is hidden from those who read and keep records.

A file's name has at most 255 characters, of which mode, dtype, backend and batch size take up to 80.
"""
_PACKAGE = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9]")
_BATCH_SIZE_KEYS = (*MODES, *(f"{mode}/{device}" for mode in MODES for device in DEVICE_CLASSES))


@dataclass(frozen=True)
class Task:
    """The parts of one step, built on the CPU in fp32. The worker moves, casts and compiles them.

    ``model`` is called as ``model(*inputs)``, or as ``model(**inputs)`` if ``inputs`` is a mapping, which is converted
    to a dict. A training step zeroes the gradients, computes ``loss(output)``, and runs backward and
    ``optimizer.step()``; ``model`` must then be a ``torch.nn.Module``. ``inputs`` may nest tuples, lists and dicts;
    floating-point tensors are cast to the case's dtype, others keep theirs.

    ``step`` replaces all of this by a custom step, called as ``step(mark, *inputs)`` or with inputs by name. It calls
    the modules in ``model`` with any number of optimizers, and ``mark(name)`` at the end of each phase. The model is
    moved, cast and compiled in place, so the step may refer to it by name; of a ``ModuleDict`` or ``ModuleList`` each
    member is compiled. ``config`` describes how the model was built: if it changes for the same workload name, new
    records are not compared with older ones.

    Raises TypeError for a model or an optimizer that cannot be called, and for inputs of another type: a tensor, for
    example, would be unpacked along its first dimension.
    """

    model: Callable[..., Any]
    inputs: tuple[Any, ...] | list[Any] | Mapping[str, Any] = ()
    loss: Loss | None = None
    optimizer: OptimizerFactory = field(default=lambda parameters: torch.optim.SGD(parameters, lr=1e-3))
    step: Callable[..., object] | None = None
    config: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise TypeError(f"Task(model, inputs): the model is {_kind(self.model)}, which cannot be called")
        if self.step is None and not callable(self.optimizer):
            msg = (
                f"Task(optimizer=...) is {_kind(self.optimizer)}; write a function that makes one, such as "
                "lambda parameters: torch.optim.Adam(parameters)"
            )
            raise TypeError(msg)
        if isinstance(self.inputs, Mapping):
            if not all(isinstance(name, str) for name in self.inputs):
                msg = "Task(model, inputs): the keys of a mapping are the names of arguments, so they must be texts"
                raise TypeError(msg)
            # A tokenizer returns its own type of mapping, which torch's tools for nested inputs do not look into.
            object.__setattr__(self, "inputs", dict(self.inputs))
        elif not isinstance(self.inputs, (tuple, list)):
            msg = (
                f"Task(model, inputs): inputs is {_kind(self.inputs)}; write a tuple, such as (x,), "
                'or a mapping for arguments by name, such as {"x": x}'
            )
            raise TypeError(msg)

    def call(self, forward: Callable[..., Any]) -> Any:
        """Call ``forward``, which is the model or its compiled version, with the inputs."""
        return forward(**self.inputs) if isinstance(self.inputs, dict) else forward(*self.inputs)

    def config_digest(self) -> str:
        """Return a digest of the config that does not depend on the order of its members; empty without a config.

        Raises TypeError for keys that have no order, or that JSON does not have.
        """
        if self.config is None:
            return ""
        try:
            text = json.dumps(self.config, sort_keys=True, default=_for_json)
        except TypeError as error:
            msg = f"Task(config=...): the keys of a mapping in it must all be texts, or all numbers ({error})"
            raise TypeError(msg) from None
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _for_json(value: object) -> object:
    """Return a value for JSON that is the same in every process: a set in order, a function without its address."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))


@dataclass(frozen=True)
class Workload:
    """A named, reproducible piece of PyTorch work.

    ``build(batch_size)`` is called after all global random generators are seeded with 0 and must not depend on anything
    else, except on ``mode`` and ``device`` (``cpu``, ``cuda``, …) if it has parameters of these names. ``batch_sizes``
    maps ``mode`` and ``mode/device class`` (``cpu``, ``integrated`` for a GPU that shares the host's memory, or
    ``accelerator``) to a default batch size; the more specific key wins. If it is empty, the model has a fixed batch
    size: ``build`` gets no size, and a step counts as one sample. ``requires`` lists the packages that ``build``
    imports, by their pip names. Raises ValueError if the parts contradict each other.
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
            return (
                f"workload name {self.name!r}: write domain/model, of A-Z, a-z, 0-9, '_', '-' and, not first, '.', in "
                "at most 160 characters"
            )
        if not isinstance(self.task, str):
            return f"workload {self.name}: the task is {_kind(self.task)}; write a text, such as 'image classification'"
        if not isinstance(self.origin, str):
            return f"workload {self.name}: the origin is {_kind(self.origin)}; write a text, such as 'torch'"
        if not self.modes or not set(self.modes) <= set(MODES):
            return f"workload {self.name}: modes is {self.modes!r}; choose from {MODES!r}"
        if isinstance(self.requires, str):
            return f'workload {self.name}: requires is a text; write a tuple, such as ("{self.requires}",)'
        for package in self.requires:
            if not _PACKAGE.fullmatch(package):
                return f"workload {self.name}: {package!r} in requires: write a package's name, without a version"
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
        """Which required packages this Python lacks and how to install them; empty if none are missing."""
        missing = [name for name in self.requires if not _is_installed(name)]
        return (
            f"needs {', '.join(missing)}: {sys.executable} -m pip install {' '.join(missing)}"
            if missing
            else ""
        )

    def task_of(self, batch_size: int, mode: str = "inference", device: str = "cpu") -> Task:
        """Call ``build`` and return its task. Raises TypeError if the result is not a :class:`Task`."""
        known = {"mode": mode, "device": device}
        wanted = {name: known[name] for name in inspect.signature(self.build).parameters if name in known}
        task = self.build(batch_size, **wanted) if self.batch_sizes else self.build(**wanted)
        if not isinstance(task, Task):
            msg = f"workload {self.name}: the function returned {_kind(task)}; end it with: return Task(model, inputs)"
            raise TypeError(msg)
        return task


def _is_installed(package: str) -> bool:
    """Whether the package is installed or can be imported, such as from a checkout. Does not import it."""
    with suppress(importlib.metadata.PackageNotFoundError):
        if importlib.metadata.version(package):  # an interrupted pip leaves metadata without one
            return True
    with suppress(ModuleNotFoundError):  # of the package before a dot
        return importlib.util.find_spec(package.replace("-", "_")) is not None
    return False


def _kind(value: object) -> str:
    """Return the type of a value with its article, for use in a message."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


DECORATED: list[tuple[Workload, Mapping[str, object] | None]] = []
"""The workloads that :func:`workload` has made, also those that no name in their file refers to, as in a loop.

Each has the variables of the module that was being imported, which made it.
"""


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

    ``batch`` is a single default for all modes and devices, a mapping as in :class:`Workload`, or None for a function
    that takes no batch size.
    """
    sizes = (
        dict(batch) if isinstance(batch, Mapping) else {} if batch is None else dict.fromkeys(modes, batch)
    )

    def decorate(build: Build) -> Workload:
        made = Workload(name, task, build, sizes, modes, origin, requires)
        DECORATED.append((made, _importing_module()))
        return made

    return decorate


def _importing_module() -> Mapping[str, object] | None:
    """Return the variables of the module whose import is running; None if none is."""
    frame = inspect.currentframe()
    while frame and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_globals if frame else None


def per_device(cpu: int, accelerator: int) -> dict[str, int]:
    """Return default batch sizes that depend on the device class only. An integrated GPU gets that of the CPU."""
    return dict.fromkeys(MODES, cpu) | {f"{mode}/accelerator": accelerator for mode in MODES}
