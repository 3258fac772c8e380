"""One step of a workload, for a mode, dtype, device and backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from torchperf_ci.bench.worker.errors import UnsupportedError
from torchperf_ci.bench.worker.precision import pinned
from torchperf_ci.suite.workload import Task, Workload

if TYPE_CHECKING:
    from torchperf_ci.machine.devices.base import Device

SEED = 0
CAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
REPLAYED = ("inductor:reduce-overhead", "inductor:max-autotune")
"""Backends that capture the step's kernels as a graph, where the device can."""

Model = Callable[..., Any]
Precision = Callable[[], AbstractContextManager[Any]]
Mark = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What to build. ``backend`` is ``eager``, ``inductor`` or ``inductor:MODE`` (a ``torch.compile`` mode)."""

    mode: str
    dtype: str
    backend: str
    batch_size: int


@dataclass(frozen=True)
class Step:
    """A built step. ``model`` is the eager model and ``forward`` what the backend made of it.

    ``phases`` runs one step and calls its argument with the name of each phase that has just ended. ``moved`` are the
    switches that the workload's build has moved, and that were put back (:func:`pinned`).
    """

    model: Model
    forward: Model
    task: Task
    precision: Precision
    phases: Callable[[Mark], None]
    run: Callable[[], object]
    moved: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """How many numbers the model learns; 0 for a plain function."""
        return (
            sum(p.numel() for p in self.model.parameters()) if isinstance(self.model, torch.nn.Module) else 0
        )


def build(workload: Workload, request: Request, device: Device) -> Step:
    """Build on the CPU with a fixed seed, then move, cast and compile.

    Raises :class:`UnsupportedError` for a combination that does not exist.
    """
    if request.mode not in workload.modes:
        msg = f"{workload.name} has no {request.mode} mode"
        raise UnsupportedError(msg)
    with pinned(request.dtype, device) as moved:
        torch.manual_seed(SEED)
        task = _placed(workload.task_of(request.batch_size), request, device)
    return replace(_step(task, request, device), moved=moved)


def _step(task: Task, request: Request, device: Device) -> Step:
    forward = _compiled(task.model, request.backend)
    precision = _autocast(request.dtype, device)
    if request.mode == "inference":
        return _inference(task, forward, precision)
    # bf16 autocast has fp32's range and needs no scaling (torch.amp documentation).
    scaler = torch.amp.GradScaler("cuda", enabled=request.dtype == "amp" and device.torch_type == "cuda")
    return _training(task, forward, precision, scaler)


def _placed(task: Task, request: Request, device: Device) -> Task:
    target, dtype = torch.device(device.torch_type), CAST.get(request.dtype)

    def place(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device=target, dtype=dtype if tensor.is_floating_point() else None)

    model = task.model
    if isinstance(model, torch.nn.Module):
        model = model.to(device=target, dtype=dtype).train(request.mode == "training")
    return Task(model, pytree.tree_map_only(torch.Tensor, place, task.inputs), task.loss, task.optimizer)


def _compiled(model: Model, backend: str) -> Model:
    name, _, mode = backend.partition(":")
    if name == "eager":
        return model
    compiled: Model = torch.compile(model, backend=name, mode=mode or None)
    return compiled


def _autocast(dtype: str, device: Device) -> Precision:
    if dtype != "amp":
        return nullcontext
    half = torch.float16 if device.torch_type == "cuda" else torch.bfloat16
    return lambda: torch.autocast(device.torch_type, dtype=half)


def _inference(task: Task, forward: Model, precision: Precision) -> Step:
    def run() -> object:
        with torch.no_grad(), precision():
            return task.call(forward)

    def phases(mark: Mark) -> None:
        run()
        mark("forward")

    return Step(task.model, forward, task, precision, phases, run)


def _training(task: Task, forward: Model, precision: Precision, scaler: torch.amp.GradScaler) -> Step:
    model, loss_of = task.model, task.loss
    if not isinstance(model, torch.nn.Module) or loss_of is None:
        msg = "training needs a torch.nn.Module and a loss"
        raise UnsupportedError(msg)
    optimizer = task.optimizer(model.parameters())

    def phases(mark: Mark) -> None:
        optimizer.zero_grad(set_to_none=True)
        with precision():
            loss = loss_of(task.call(forward))
        mark("forward")
        scaler.scale(loss).backward()
        mark("backward")
        scaler.step(optimizer)
        scaler.update()
        mark("optimizer")

    return Step(model, forward, task, precision, phases, lambda: phases(_unmarked))


def _unmarked(_phase: str) -> None:
    """Phases are timed apart from the latency, because the synchronisation between them costs time."""
