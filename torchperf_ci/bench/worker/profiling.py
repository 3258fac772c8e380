"""What a step needs beside time: memory at its peak and leaks; and what it does, operator by operator.

Profiling slows a step down, so it comes after all timing, in a process of its own.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from collections import defaultdict
from contextlib import contextmanager
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker.protocol import Leak, LineKind, Peak, ProfileLine
from torchperf_ci.machine.devices import host_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.machine.devices.interface import Device


PEAK_STEPS = 3
LEAK_STEPS = 60
FEWEST_LEAK_STEPS = 20


def peak(device: Device, step: Callable[[], object], *, replayed: bool = False) -> Peak:
    """The largest use of memory while stepping, after warm-up.

    A step that is ``replayed`` as a graph allocates nothing: what it works in is counted as what is held.
    """
    device.synchronize()
    device.reset_peak_memory()
    host_memory.reset_peak()
    for _ in range(PEAK_STEPS):
        step()
    device.synchronize()
    used = device.peak_held_memory() if replayed else device.peak_memory()
    return Peak(used, host_memory.peak(), host_memory.peak_method(), replayed)


def leak(device: Device, step: Callable[[], object], budget: float) -> Leak:
    """Memory that every step leaves behind; nothing in no steps if ``budget`` seconds do not hold enough steps to tell.

    What only the garbage collector would free is garbage, not a leak: it is collected before each reading.
    """
    on_device: list[int] = []
    on_host: list[int] = []
    deadline = time.perf_counter() + budget
    with _quick_collector():
        while len(on_host) < LEAK_STEPS and time.perf_counter() < deadline:
            step()
            device.synchronize()
            gc.collect()
            on_device.append(device.memory_allocated())
            on_host.append(host_memory.allocated())
    if len(on_host) < FEWEST_LEAK_STEPS:
        return Leak()
    return Leak(_slope(on_device), _slope(on_host), len(on_host))


@contextmanager
def _quick_collector() -> Iterator[None]:
    """The collector need not look at torch's own hundred thousand objects again for each step."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _slope(values: Sequence[int]) -> float:
    """Theil–Sen slope of the last half: the median over all pairs, unmoved by single jumps of an allocator."""
    tail = list(enumerate(values))[len(values) // 2 :]
    return median((b - a) / (j - i) for (i, a), (j, b) in combinations(tail, 2))


IDLE_STEPS = 2
"""With the profiler on, before what counts: it allocates its buffers then."""
STEPS = 10
"""Few, because a trace is to be looked at; enough for a median that one interruption does not move."""
OUTSIDE = "(between operators)"
"""What the host does in a step outside all operators: Python, and waiting for other threads."""

_STEP = "ProfilerStep"
_WAITING = "Synchronize"
"""How the names of CUDA's and HIP's calls end that wait for kernels, whose time is told already."""


def profile(device: Device, step: Callable[[], object], trace: str) -> list[ProfileLine]:
    """Profile some steps that are warm; the ``trace`` for chrome://tracing or Perfetto goes to a file, gzipped if it
    ends in ``.gz``, or nowhere if it is empty.

    A line's time is the median over the steps, each of which ends when the device is done with it. Shapes and stacks
    are not recorded: they cost more than many operators take.
    """
    schedule = torch.profiler.schedule(wait=0, warmup=IDLE_STEPS, active=STEPS, repeat=1)
    with torch.profiler.profile(activities=_activities(device), schedule=schedule) as profiler:
        for _ in range(IDLE_STEPS + STEPS):
            step()
            device.synchronize()
            profiler.step()
    if trace:
        profiler.export_chrome_trace(trace)
    return profile_lines(profiler.events())


def graph_breaks() -> Mapping[str, int]:
    """How often the compiler broke a graph since the process began, by its reasons."""
    from torch._dynamo.utils import counters

    return dict(counters["graph_break"])


def profile_lines(events: Sequence[Any]) -> list[ProfileLine]:
    """Sum up torch's events, step by step."""
    starts = sorted(event.time_range.start for event in events if _is_step(event))
    times: dict[tuple[LineKind, str], list[float]] = defaultdict(lambda: [0.0] * len(starts))
    counts: dict[tuple[LineKind, str], int] = defaultdict(int)
    for kind, name, event in _told(events):
        number = bisect_right(starts, event.time_range.start) - 1
        if number >= 0:
            times[kind, name][number] += _own_ms(kind, name, event)
            counts[kind, name] += 1
    return [
        ProfileLine(kind, name, median(each), counts[kind, name] / len(starts))
        for (kind, name), each in times.items()
    ]


def _activities(device: Device) -> Iterable[Any]:
    """The host's, and the device's own where this torch can see it."""
    wanted = {"CPU", device.torch_type.upper()}
    return [one for one in torch.profiler.supported_activities() if one.name in wanted]


def _told(events: Sequence[Any]) -> Iterator[tuple[LineKind, str, Any]]:
    """The events with their kinds and names.

    A range that somebody marked in Python is there twice, and on the device it spans the kernels inside.
    """
    on_host = {event.name for event in events if _is_on_host(event)}
    for event in events:
        if _is_on_host(event):
            yield "operator", OUTSIDE if _is_step(event) else event.name, event
        elif event.name not in on_host:
            yield "kernel", event.name, event


def _own_ms(kind: str, name: str, event: Any) -> float:
    """Without what other operators inside it took. The names of the attributes for devices changed with torch 2.4."""
    if kind == "kernel":
        return float(event.time_range.elapsed_us()) / 1000
    return 0.0 if name.endswith(_WAITING) else float(event.self_cpu_time_total) / 1000


def _is_on_host(event: Any) -> bool:
    return bool(event.device_type.name == "CPU")


def _is_step(event: Any) -> bool:
    return _is_on_host(event) and event.name.startswith(_STEP)
