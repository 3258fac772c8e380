"""Trace what a process uses: the files it opens, the programs it starts, and of PyTorch the operators and functions.

Python calls its audit hooks for every file that it opens, whether to import it, execute it or read it as data. A hook
cannot be removed, and a forked child inherits it, so the child's files are in the same log. Operators are those that
torch's profiler reports; anything that could run kernels without an operator is logged as unknown. What one step uses
of PyTorch's API is counted apart: its public functions, and the ATen operators with the dtype and layout they ran on.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
import os
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, get_testing_overrides, resolve_name
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torchperf_ci.bench.worker.protocol import ApiUse, Callers, Inventory, OperatorsRun
from torchperf_ci.bench.worker.torch_environment import running_profiler, without_compiler

PROGRAMS = {
    "subprocess.Popen": 0,
    "os.system": 0,
    "os.exec": 0,
    "os.posix_spawn": 0,
    "os.spawn": 1,
    "pty.spawn": 0,
}
"""Audit events that start a program, and the position of the program among their arguments."""
UNSEEN = ("cpython.PyInterpreterState_New", "_interpreters.create")
"""Audit events after which a hook no longer sees everything."""
STATIC_RUNTIME = ("_jit_to_static_module", "_fuse_to_static_module")
"""Functions of ``torch._C`` that make a module of torch's static runtime, which calls kernels without operators."""


@dataclass
class FileTrace:
    """Writes each fact once, as a line of JSON: ``["file", path]``, ``["startup", path]``, ``["program", path]``,
    ``["fork", event]`` or ``["unseen", why]``.

    The path of a file that does not exist is written as given, so it may be relative. The log is reopened for each
    line, because a workload may close all open files.
    """

    log: str
    _written: set[tuple[str, str]] = field(default_factory=set)
    _faults_of_children: int = 0

    def begin(self) -> None:
        """Start tracing this process, and log the modules that it has already imported."""
        self._write_modules()
        self._watch_multiprocessing()
        for name in STATIC_RUNTIME:
            if make := getattr(torch._C, name, None):  # noqa: SLF001
                setattr(torch._C, name, partial(self._make_static, make))  # noqa: SLF001
        self._faults_of_children = _faults_of_children()
        sys.addaudithook(self._on_audit_event)

    def end(self) -> None:
        """Log the modules imported by now, and whether a child process ran that no audit event announced."""
        self._write_modules()
        ended = _faults_of_children() > self._faults_of_children
        if ended and not any(kind in ("program", "fork") for kind, _ in self._written):
            self._write("unseen", "a process was started that Python does not know of")

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            self._write_file(arguments[0])
        elif event in PROGRAMS:
            self._write("program", _text(arguments[PROGRAMS[event]]))
        elif event in ("os.fork", "os.forkpty"):
            self._write("fork", event)
        elif event in UNSEEN:
            self._write("unseen", event)

    def _watch_multiprocessing(self) -> None:
        """Wrap the function by which ``multiprocessing`` starts processes, because it raises no audit event."""
        import _posixsubprocess

        start = _posixsubprocess.fork_exec

        def fork_exec(arguments: Any, *others: Any) -> int:
            self._write("program", _text(next(iter(arguments), "")))
            return start(arguments, *others)

        _posixsubprocess.fork_exec = fork_exec

    def _make_static(self, make: Callable[..., Any], *arguments: Any) -> Any:
        self._write("unseen", "it makes a static module of TorchScript, which calls kernels directly")
        return make(*arguments)

    def _write_modules(self) -> None:
        for module in [*sys.modules.values()]:
            self._write_file(getattr(module, "__file__", None))
        for name in ("sitecustomize", "usercustomize"):
            if path := getattr(sys.modules.get(name), "__file__", None):
                self._write("startup", path)

    def _write_file(self, given: object) -> None:
        if not isinstance(given, (str, bytes, os.PathLike)):
            return  # a file descriptor: the file is open already
        path = os.fsdecode(given)
        if path == self.log:
            return
        if not os.path.exists(path):  # noqa: PTH110  # cheap, and called for every file
            self._write("file", path)
            return
        self._write("file", os.path.abspath(path))  # noqa: PTH100
        self._write("file", os.path.realpath(path))
        if path.endswith(".pyc"):
            self._write("file", _source_of(path))

    def _write(self, kind: str, value: str) -> None:
        if (kind, value) in self._written:
            return
        self._written.add((kind, value))
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(log, json.dumps([kind, value]).encode() + b"\n")
        finally:
            os.close(log)


def _faults_of_children() -> int:
    """Page faults of all child processes that have ended. Every process has some, so growth reveals a child."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _text(program: object) -> str:
    return os.fsdecode(program) if isinstance(program, (str, bytes, os.PathLike)) else str(program)


def _source_of(path: str) -> str:
    try:
        return os.path.realpath(importlib.util.source_from_cache(path))
    except ValueError:
        return str(Path(path).with_suffix(".py"))


SECONDS = 5.0
FEWEST, MOST = 10, 200
"""Number of steps that are profiled."""
GRAPHS = (("cuda", "CUDAGraph"), ("xpu", "XPUGraph"), ("accelerator", "Graph"))
"""Classes of torch that replay captured kernels without calling their operators."""
_KERNELS = (b"2at6native", b"aoti_torch_", b"StaticModule")
"""Text found in the symbols of a library that calls kernels directly, or that was compiled to do so."""


def operators_run(step: Callable[[], object]) -> OperatorsRun:
    """Run ``step`` and return operator names without namespace and overload, and why there may be more.

    torch's profiler only sees calls that go through the dispatcher.
    """
    names, unknown = set[str](), list[str]()
    _watch_graphs(unknown)
    end, count = time.monotonic() + SECONDS, 0
    while count < FEWEST or (count < MOST and time.monotonic() < end):
        names |= _run_in(step)
        count += 1
    unknown += [f"{library} calls kernels directly" for library in _libraries_with_kernels()]
    return OperatorsRun(sorted(names), unknown)


def _watch_graphs(unknown: list[str]) -> None:
    """Wrap the methods that replay captured kernels, for the rest of this process, to add why these are ``unknown``."""

    def watched(replay: Callable[..., None]) -> Callable[..., None]:
        def noted(*arguments: object) -> None:
            unknown[:] = ["it replays a graph, whose kernels run without operators"]
            replay(*arguments)

        return noted

    for device, name in GRAPHS:
        if graph := getattr(getattr(torch, device), name, None):
            graph.replay = watched(graph.replay)


def _run_in(step: Callable[[], object]) -> set[str]:
    """Return the operators that ``step`` runs in all threads. Raises if this torch can profile only one thread."""
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)  # noqa: SLF001
    activities = [torch.profiler.ProfilerActivity.CPU]
    with running_profiler(
        torch.profiler.profile(activities=activities, experimental_config=config)
    ) as profiler:
        step()
    events = profiler.profiler.kineto_results.events()
    names = (event.name() for event in events)
    return {name.removeprefix("aten::").partition(".")[0] for name in names if name.startswith("aten::")}


def _libraries_with_kernels() -> Iterator[str]:
    """Yield loaded libraries outside torch that call kernels directly.

    Raises :class:`OSError` if the system has no ``/proc/self/maps``.
    """
    own = Path(torch.__file__).parent.resolve()
    lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
    paths = {Path(line.split(maxsplit=5)[5]) for line in lines if line.count("/") and len(line.split()) > 5}
    for path in sorted(path for path in paths if ".so" in path.name and own not in path.parents):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if any(content.find(mark) >= 0 for mark in _KERNELS):
                yield str(path)


TIMED_SECONDS = 0.5
"""Once the timed steps add up to this many seconds, no further step is timed."""
MAX_TIMED = 5
_EXPLICIT = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_NEEDS_TORCH = re.compile(r"torch(?![\w.-])")
_CALL = re.compile(r"(?<![\w.])(?:(F|(?:nn\.)?functional)|torch((?:\.\w+)*))\.(\w+)\(")


@cache
def public_functions() -> Mapping[Any, str]:
    """Names of the functions in ``torch.overrides.get_testing_overrides()``: all that a ``TorchFunctionMode`` sees."""
    named = {function: resolve_name(function) for function in get_testing_overrides()}
    return {function: _public(name) for function, name in named.items() if name}


def _public(name: str) -> str:
    return name.replace("torch.functional.", "torch.")


def family(operator: str) -> str:
    """Return an ATen operator's name without namespace, overload and the ``_`` of an in-place variant."""
    base = operator.removeprefix("aten::").partition(".")[0]
    return base.removesuffix("_") if not base.endswith("__") else base


def inventory() -> Inventory:
    """Return all that this torch offers: public functions, families of ATen operators with a CPU kernel, core families.

    A family counts if one of its operators has a kernel for the CPU or for all devices; ``out`` variants do not count.
    Core families have an operator with torch's tag ``core``.
    """
    families, core = set[str](), set[str]()
    for name in torch._C._dispatch_get_all_op_names():  # noqa: SLF001
        if not name.startswith("aten::"):
            continue
        base, _, overload = name.removeprefix("aten::").partition(".")
        if not any(part.is_out for part in torch._C._get_schema(f"aten::{base}", overload).arguments):  # noqa: SLF001
            has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001
            families |= {family(name)} if any(has_kernel(name, key) for key in _EXPLICIT) else set()
            core |= {family(name)} if torch.Tag.core in _operator(base, overload).tags else set()
    return Inventory(frozenset(public_functions().values()), frozenset(families), frozenset(core))


def _operator(base: str, overload: str) -> Any:
    return getattr(getattr(torch.ops.aten, base), overload or "default")


class _Functions(TorchFunctionMode):
    """Records the public functions called from Python, but not the functions that those call themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def __torch_function__(
        self, function: Any, _types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if name := public_functions().get(function):
            self.names.add(name)
        return function(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    """Records the operators that reach ATen, including those of the backward pass."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.triples = set[tuple[str, str, str]]()

    def __torch_dispatch__(
        self, operator: Any, _types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = operator(*args, **(kwargs or {}))
        if operator.namespace == "aten":
            tensor = next(_tensors((args, kwargs)), None)
            tensor = next(_tensors(result), None) if tensor is None else tensor
            dtype = str(getattr(tensor, "dtype", "none")).removeprefix("torch.")
            kind = "none" if tensor is None else layout(tensor)
            self.triples.add((family(operator._schema.name), dtype, kind))  # noqa: SLF001
        return result


def _tensors(tree: object) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def layout(tensor: torch.Tensor) -> str:
    """Return ``contiguous``, ``channels_last``, ``strided`` for other strides, or torch's name of another layout."""
    if tensor.layout != torch.strided:
        return str(tensor.layout).removeprefix("torch.")
    if tensor.is_contiguous():
        return "contiguous"
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return "channels_last" if last and tensor.is_contiguous(memory_format=last) else "strided"


def used_by(step: Callable[[], object]) -> ApiUse:
    """Return what the second step uses (the first one fills caches) and the fewest CPU seconds of a later step."""
    step()
    with without_compiler(_Operators), _Operators() as operators, _Functions() as functions:
        step()
    return ApiUse(frozenset(functions.names), frozenset(operators.triples), _cpu_seconds(step))


def _cpu_seconds(step: Callable[[], object]) -> float:
    taken = list[float]()
    while len(taken) < MAX_TIMED and sum(taken) < TIMED_SECONDS:
        start = time.process_time()
        step()
        taken.append(time.process_time() - start)
    return min(taken)


def files_that_call() -> Callers:
    """Count, for each public function, the files that call it in installed packages that require torch, except ours.

    The source is only searched: ``torch.cat(`` and ``F.pad(`` are found, but not methods of tensors, because the
    text does not tell the type of the object.
    """
    files, packages = Counter[str](), list[str]()
    public, seen = {*public_functions().values()}, {"torchperf-ci"}
    for package in metadata.distributions():
        name = package.metadata["Name"]
        if name in seen:  # a package of the system that one of a virtual environment hides
            continue
        seen.add(name)
        if any(map(_NEEDS_TORCH.match, package.requires or ())):
            packages.append(f"{name} {package.version}")
            for path in package.files or ():
                if path.suffix == ".py" and (source := path.locate()).exists():  # type: ignore[attr-defined]
                    files.update(_called_in(source.read_text("utf-8", "replace")) & public)  # type: ignore[attr-defined]
    return Callers(sorted(packages), dict(files.most_common()))


def _called_in(source: str) -> set[str]:
    return {
        _public(f"torch{'.nn.functional' if functional else inner}.{name}")
        for functional, inner, name in _CALL.findall(source)
    }
