"""Trace a process: the files it opens through Python, the programs it starts, and the operators that its steps run.

Python calls its audit hooks for every file that it opens, whether to import it, execute it or read it as data. A hook
cannot be removed, and a forked child inherits it, so the child's files are in the same log. Operators are those that
torch's profiler reports; anything that could run kernels without an operator is logged as unknown.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
import os
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker.protocol import OperatorsRun
from torchperf_ci.bench.worker.torch_environment import running_profiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


@dataclass
class FileTrace:
    """Writes each fact once, as a line of JSON: ``["file", path]``, ``["startup", path]``, ``["program", path]`` or
    ``["unseen", why]``.

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
        self._faults_of_children = _faults_of_children()
        sys.addaudithook(self._heard)

    def end(self) -> None:
        """Log the modules imported by now, and whether a child process ran that no audit event announced."""
        self._write_modules()
        ended = _faults_of_children() > self._faults_of_children
        if ended and not any(kind in ("program", "fork") for kind, _ in self._written):
            self._write("unseen", "a process was started that Python does not know of")

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            self._write_file(arguments[0])
        elif event in PROGRAMS:
            self._write("program", _text(arguments[PROGRAMS[event]]))
        elif event in ("os.fork", "os.forkpty"):
            self._written.add(("fork", ""))
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
_STATIC_RUNTIME = ("_jit_to_static_module", "_fuse_to_static_module")
_KERNELS = (b"2at6native", b"aoti_torch_", b"StaticModule")
"""Text found in the symbols of a library that calls kernels directly, or that was compiled to do so."""


class OperatorTrace:
    """Collects the operators that steps run. Must begin before anything is built.

    torch's profiler only sees calls that go through the dispatcher, so everything else is reported as unknown.
    """

    def __init__(self) -> None:
        self._unknown: list[str] = []

    def begin(self) -> None:
        """Watch for the creation of a module of torch's static runtime, which bypasses the dispatcher."""
        for name in _STATIC_RUNTIME:
            if make := getattr(torch._C, name, None):  # noqa: SLF001
                setattr(torch._C, name, self._noticed(make))  # noqa: SLF001

    def _noticed(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def noticed(*arguments: Any, **more: Any) -> Any:
            self._unknown.append("it makes a static module of TorchScript, which calls kernels itself")
            return make(*arguments, **more)

        return noticed

    def operators(self, step: Callable[[], object]) -> OperatorsRun:
        """Run ``step`` and return operator names without namespace and overload, and why there may be more."""
        names = set[str]()
        end, count = time.monotonic() + SECONDS, 0
        while count < FEWEST or (count < MOST and time.monotonic() < end):
            names |= _run_in(step)
            count += 1
        self._unknown += [f"{library} calls kernels itself" for library in _libraries_with_kernels()]
        return OperatorsRun(sorted(names), list(dict.fromkeys(self._unknown)))


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


def unbuilt_devices() -> list[str]:
    """Return the names of ATen folders for devices that this torch was not built for."""
    cuda, hip = torch.version.cuda is not None, torch.version.hip is not None
    built = {
        "cuda": cuda or hip,
        "cudnn": cuda,
        "miopen": hip,
        "hip": hip,
        "mps": torch.backends.mps.is_built(),
    }
    return [name for name, there in built.items() if not there]
