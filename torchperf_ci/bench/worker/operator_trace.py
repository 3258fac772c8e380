"""Find which operators a case's steps run, and what could run kernels without going through an operator."""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker.protocol import OperatorsRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    with torch.profiler.profile(activities=activities, experimental_config=config) as profiler:
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
