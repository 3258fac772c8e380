"""Build one step of a workload for a mode, dtype, device and backend, and count what its compilation took."""

from __future__ import annotations

import os
import random
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from torchperf_ci.bench.worker import garbage_collector_paused
from torchperf_ci.bench.worker.protocol import Compilation, FirstStep
from torchperf_ci.bench.worker.torch_environment import UnsupportedError, pinned
from torchperf_ci.suite.torchbench import UnbuildableError

if TYPE_CHECKING:
    from torchperf_ci.machine.devices.interface import Device
    from torchperf_ci.suite.workload import Task, Workload


SEED = 0
CAST = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
"""Dtypes that models are cast to, else fp32. fp64 is only the reference for correctness and is never measured."""
REPLAYED = ("inductor:reduce-overhead", "inductor:max-autotune")
"""Backends that capture the step's kernels as a graph, if the device supports it."""
LAZY = (GeneratorType, CoroutineType, AsyncGeneratorType, map, filter)
"""Types that do no work until someone iterates over them or awaits them."""

MAX_COMPILATIONS = 100_000
"""Most compilations that dynamo remembers. Of its 64, a model with many graph breaks would show the last ones only."""
MAX_REASONS = 64
"""Most reasons of recompilations that a record lists."""

Model = Callable[..., Any]
Precision = Callable[[], AbstractContextManager[Any]]
Mark = Callable[[str], None]


@dataclass(frozen=True)
class StepRequest:
    """What to build. ``backend`` is ``eager``, ``inductor`` or ``inductor:MODE`` (a ``torch.compile`` mode)."""

    mode: str
    dtype: str
    backend: str
    batch_size: int


@dataclass(frozen=True)
class BuiltStep:
    """A built step. ``model`` is the eager model and ``forward`` the same model as compiled by the backend.

    ``phases`` runs one step and calls its argument with the name of each phase that has just ended. ``moved`` lists
    switches that the workload's build changed and that were restored (:func:`pinned`). The model of a custom step is
    compiled in place, so its ``forward`` is ``model``.
    """

    model: Model
    forward: Model
    task: Task
    precision: Precision
    phases: Callable[[Mark], object]
    run: Callable[[], object]
    moved: Mapping[str, str] = field(default_factory=dict)


def build_step(workload: Workload, request: StepRequest, device: Device) -> BuiltStep:
    """Build the workload on the CPU with a fixed seed, then move, cast and compile it.

    Raises :class:`UnsupportedError` if the combination does not exist or a package is missing.
    """
    if workload.unavailable:
        raise UnsupportedError(workload.unavailable)
    if request.mode not in workload.modes:
        raise UnsupportedError(f"{workload.name} has no {request.mode} mode")
    with pinned(request.dtype, device) as moved:
        _seed_generators()
        try:
            task = workload.task_of(request.batch_size, request.mode, device.torch_type)
        except UnbuildableError as error:
            raise UnsupportedError(str(error)) from error
        task = _on_device(task, request, device)
    return replace(_step(task, request, device), moved=moved)


def _seed_generators() -> None:
    """Seed all global random generators, so that a workload that draws its sizes or data does the same in each process.

    torch imports NumPy if it is installed.
    """
    torch.manual_seed(SEED)
    random.seed(SEED)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(SEED)


def _step(task: Task, request: StepRequest, device: Device) -> BuiltStep:
    if task.step:
        return _custom_step(task, task.step, request)
    forward = _compiled(task.model, request.backend)
    precision = _autocast(request.dtype, device)
    if request.mode == "inference":
        return _inference(task, forward, precision)
    # bf16 autocast has fp32's range and needs no scaling (torch.amp documentation).
    scaler = torch.amp.GradScaler("cuda", enabled=request.dtype == "amp" and device.torch_type == "cuda")
    return _training(task, forward, precision, scaler)


def _on_device(task: Task, request: StepRequest, device: Device) -> Task:
    target, dtype = torch.device(device.torch_type), CAST.get(request.dtype, torch.float32)

    def place(tensor: torch.Tensor) -> torch.Tensor:
        is_cast = tensor.is_floating_point() and tensor.element_size() > 1  # fp8 is what its kernels take
        return tensor.to(device=target, dtype=dtype if is_cast else None)

    def place_input(tensor: torch.Tensor) -> torch.Tensor:
        """Place it as a leaf, in which its gradient stays; else each backward would go on to the tensor before."""
        placed = place(tensor)
        return placed if placed is tensor else placed.detach().requires_grad_(tensor.requires_grad)

    model = task.model
    if isinstance(model, torch.nn.Module):
        # Not .to(dtype), which also casts complex numbers, losing half of them.
        model = model._apply(place).to(target).train(request.mode == "training")  # noqa: SLF001
    return replace(task, model=model, inputs=pytree.tree_map_only(torch.Tensor, place_input, task.inputs))


def _compiled(model: Model, backend: str) -> Model:
    name, _, mode = backend.partition(":")
    if name == "eager":
        return model
    with garbage_collector_paused():  # it imports the compiler
        compiled: Model = torch.compile(model, backend=name, mode=mode or None)
        from torch._dynamo.utils import set_compilation_metrics_limit
    set_compilation_metrics_limit(MAX_COMPILATIONS)
    _keep_headers_in_cache()
    return compiled


def _keep_headers_in_cache() -> None:
    """Let inductor keep its precompiled C++ headers in the cache of the case, too.

    By default they stay in the temporary directory, so that the first process ever to compile with a build of torch
    took 4 CPU seconds more than all later ones, cold or not.
    """
    cache, codecache = os.environ.get("TORCHINDUCTOR_CACHE_DIR"), sys.modules.get("torch._inductor.codecache")
    if cache and hasattr(codecache, "_HEADER_DIR"):
        headers = Path(cache, "precompiled_headers")
        vars(codecache).update(_HEADER_DIR=str(headers), _HEADER_LOCK_DIR=str(headers / "locks"))


def _autocast(dtype: str, device: Device) -> Precision:
    if dtype != "amp":
        return nullcontext
    half = torch.float16 if device.torch_type == "cuda" else torch.bfloat16
    return lambda: torch.autocast(device.torch_type, dtype=half)


def _inference(task: Task, forward: Model, precision: Precision) -> BuiltStep:
    def run() -> object:
        with torch.no_grad(), precision():
            return task.call(forward)

    def phases(mark: Mark) -> None:
        run()
        mark("forward")

    return BuiltStep(task.model, forward, task, precision, phases, run)


def _training(task: Task, forward: Model, precision: Precision, scaler: torch.amp.GradScaler) -> BuiltStep:
    model, loss_of = task.model, task.loss
    if not isinstance(model, torch.nn.Module) or loss_of is None:
        msg = 'training needs a torch.nn.Module and a loss: give Task both, or write modes=("inference",)'
        raise UnsupportedError(msg)
    with garbage_collector_paused():  # torch's optimizers import a part of the compiler
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

    return BuiltStep(model, forward, task, precision, phases, lambda: phases(_unmarked))


def _custom_step(task: Task, step: Callable[..., object], request: StepRequest) -> BuiltStep:
    """Build a custom step, which calls its modules and optimizers itself.

    amp is refused, because only the author of the step knows which parts need autocast, and so is a dtype to which
    nothing is cast, because the step does not use it.
    """
    if request.dtype == "amp":
        msg = "a custom step cannot be measured as amp: only its author knows which parts need autocast"
        raise UnsupportedError(msg)
    if request.dtype in CAST and not _can_be_cast(task):
        msg = f"a custom step can be measured as {request.dtype} only if Task's model or inputs hold what is cast"
        raise UnsupportedError(msg)
    if request.backend != "eager":
        _compile_in_place(task.model, request.backend)

    def phases(mark: Mark) -> object:
        with torch.set_grad_enabled(request.mode == "training"):
            return task.call(partial(step, mark))

    return BuiltStep(task.model, task.model, task, nullcontext, phases, lambda: phases(_unmarked))


def _can_be_cast(task: Task) -> bool:
    model = task.model if isinstance(task.model, torch.nn.Module) else torch.nn.Identity()
    leaves = [*pytree.tree_leaves(task.inputs), *model.parameters(), *model.buffers()]
    return any(isinstance(leaf, torch.Tensor) and leaf.is_floating_point() for leaf in leaves)


def _compile_in_place(model: Model, backend: str) -> None:
    """Compile like ``nn.Module.compile``, but also torch's own modules, such as ``Sequential``, which that skips."""
    if not isinstance(model, torch.nn.Module):
        msg = "a custom step is compiled module by module: give Task a torch.nn.Module, or a ModuleDict of several"
        raise UnsupportedError(msg)
    members = isinstance(model, (torch.nn.ModuleDict, torch.nn.ModuleList))
    for module in model.children() if members else [model]:
        module._compiled_call_impl = _compiled(_call_of(module), backend)  # noqa: SLF001


def _call_of(module: torch.nn.Module) -> Callable[..., Any]:
    """Return a function that calls the module and that the compiler traces into.

    Each has its own code object, because the compiler identifies a frame by its code.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return module._call_impl(*args, **kwargs)  # noqa: SLF001

    return FunctionType(call.__code__.replace(), call.__globals__, call.__name__, None, call.__closure__)


def _unmarked(_phase: str) -> None:
    """Ignore the end of a phase. Phases are timed separately, because synchronizing between them takes time."""


def time_first_step(device: Device, step: Callable[[], object]) -> tuple[FirstStep, object]:
    """Time the first step, with compilation, lazy initialization and cold caches; also return the step's result.

    Raises TypeError if the result is a generator, coroutine or the like, whose work would not be measured.
    """
    wall, cpu = time.perf_counter(), _cpu_seconds()
    returned = step()
    device.synchronize()
    took = FirstStep(time.perf_counter() - wall, _cpu_seconds() - cpu)
    if isinstance(returned, LAZY):
        msg = f"a step returned a {type(returned).__name__}, none of whose work is done: do it all before returning"
        raise TypeError(msg)
    return took, returned


def compilation_counts() -> Compilation:
    """Read dynamo's and inductor's counters."""
    from torch._dynamo.utils import counters, get_compilation_metrics

    reasons = tuple(filter(None, map(_recompile_reason, get_compilation_metrics())))
    inductor = counters["inductor"]
    return Compilation(
        graphs=counters["stats"]["unique_graphs"],
        graph_breaks=counters["graph_break"].total(),
        recompiles=len(reasons),
        recompile_reasons=reasons[:MAX_REASONS],
        cache_hits=inductor["fxgraph_cache_hit"],
        cache_misses=inductor["fxgraph_cache_miss"] + inductor["fxgraph_cache_bypass"],
        cudagraph_skips=inductor["cudagraph_skips"],
    )


def _recompile_reason(metrics: Any) -> str:
    """Return why a frame was recompiled; empty if it was not. torch 2.6 counts recompilations without a reason."""
    if hasattr(metrics, "recompile_reason"):
        return str(metrics.recompile_reason or "")
    return "not reported by this torch" if metrics.cache_size else ""


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
