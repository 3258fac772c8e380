"""Measure a step's peak memory and memory leaks, and profile its operators and kernels.

Profiling slows a step down, so it runs in a separate process from the measurement of latency.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker.protocol import Leak, LineKind, Peak, ProfileLine
from torchperf_ci.bench.worker.timing import garbage_collector_off
from torchperf_ci.bench.worker.torch_environment import running_profiler
from torchperf_ci.machine.devices import system_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.machine.devices.interface import Device


PEAK_STEPS = 3
PEAK_SECONDS = 10.0
"""After this time no further step is made for the peak."""
LEAK_STEPS = 60
MIN_LEAK_STEPS = 20
LEAK_PARTS = 5


def peak(device: Device, step: Callable[[], object], *, replayed: bool = False) -> Peak:
    """Return the peak memory of a few steps after warm-up.

    A step that is ``replayed`` as a graph allocates nothing, so the memory that the allocator holds is counted instead.
    """
    gc.collect()  # what steps have left while the collector was off is not in use
    device.synchronize()
    device.reset_peak_memory()
    system_files.reset_peak_memory()
    end = time.perf_counter() + PEAK_SECONDS
    for _ in range(PEAK_STEPS):
        step()
        if time.perf_counter() >= end:
            break
    device.synchronize()
    used = device.peak_held_memory() if replayed else device.peak_memory()
    return Peak(used, system_files.peak_memory(), system_files.peak_memory_method(), replayed)


def leak(device: Device, step: Callable[[], object], budget: float) -> Leak:
    """Return the memory that each step leaves behind; 0 in 0 steps if too few steps fit in ``budget`` seconds.

    Objects that only the garbage collector frees are not a leak, so it runs before each reading.
    """
    on_device: list[int] = []
    on_host: list[int] = []
    deadline = time.perf_counter() + budget
    with garbage_collector_off():
        while len(on_host) < LEAK_STEPS and time.perf_counter() < deadline:
            step()
            device.synchronize()
            gc.collect()
            on_device.append(device.memory_allocated())
            on_host.append(system_files.resident_memory())
    if len(on_host) < MIN_LEAK_STEPS:
        return Leak()
    return Leak(_growth(on_device), _growth(on_host), len(on_host))


def _growth(values: Sequence[int]) -> float:
    """Growth per step: the median over the parts of the last half, because an allocator grows in jumps.

    One or two jumps do not count. A slope through all values (Theil–Sen) contains even a single one in the middle.
    """
    tail = values[len(values) // 2 :]
    ends = [round(part * (len(tail) - 1) / LEAK_PARTS) for part in range(LEAK_PARTS + 1)]
    return median((tail[end] - tail[start]) / (end - start) for start, end in pairwise(ends))


IDLE_STEPS = 2
"""Steps that run under the profiler before those that count, while it allocates its buffers."""
STEPS = 10
"""Few enough to read the trace, and enough for a median that a single interruption does not change."""
MAX_EVENTS = 500_000
"""About so many events are recorded in all, at least those of one step: each takes some 5 KB and 50 µs to read."""
OUTSIDE_OPERATORS = "(between operators)"
"""Name of the line for host time outside all operators: Python code and waiting for other threads."""

_STEP = "ProfilerStep"
_WAITING = "Synchronize"
"""Suffix of the CUDA and HIP calls that wait for kernels, whose time is counted with the kernels already."""


def profile(device: Device, step: Callable[[], object], trace: str) -> list[ProfileLine]:
    """Profile a few warm steps and return one line per operator and kernel.

    The ``trace`` for chrome://tracing or Perfetto is written to that file, compressed if its name ends in ``.gz``; an
    empty name writes none. A line's time is the median over the steps, each of which ends when the device has
    finished. Shapes and stacks are not recorded, because recording takes longer than many operators.
    """
    steps = _affordable_steps(device, step)
    schedule = torch.profiler.schedule(wait=0, warmup=IDLE_STEPS, active=steps, repeat=1)
    with running_profiler(
        torch.profiler.profile(activities=_activities(device), schedule=schedule)
    ) as profiler:
        for _ in range(IDLE_STEPS + steps):
            step()
            device.synchronize()
            profiler.step()
    if trace:
        profiler.export_chrome_trace(trace)
    return profile_lines(profiler.events())


def _affordable_steps(device: Device, step: Callable[[], object]) -> int:
    """The number of steps to profile: a step of very many small operators would fill the memory if repeated."""
    with running_profiler(torch.profiler.profile(activities=_activities(device))) as profiler:
        step()
        device.synchronize()
    return min(STEPS, max(1, MAX_EVENTS // max(1, len(profiler.events()))))


def graph_breaks() -> Mapping[str, int]:
    """Return how often the compiler has broken a graph in this process, by reason."""
    from torch._dynamo.utils import counters

    return dict(counters["graph_break"])


def profile_lines(events: Sequence[Any]) -> list[ProfileLine]:
    """Add up torch's profiler events in each step and return one line per operator and kernel."""
    starts = sorted(event.time_range.start for event in events if _is_step(event))
    times: dict[tuple[LineKind, str], list[float]] = defaultdict(lambda: [0.0] * len(starts))
    counts: dict[tuple[LineKind, str], int] = defaultdict(int)
    for kind, name, event in _named_events(events):
        number = bisect_right(starts, event.time_range.start) - 1
        if number >= 0:
            times[kind, name][number] += _self_ms(kind, name, event)
            counts[kind, name] += 1
    return [
        ProfileLine(kind, name, median(each), counts[kind, name] / len(starts))
        for (kind, name), each in times.items()
    ]


def _activities(device: Device) -> Iterable[Any]:
    """The profiler activities of the host and, if this torch supports it, of the device."""
    wanted = {"CPU", device.torch_type.upper()}
    return [activity for activity in torch.profiler.supported_activities() if activity.name in wanted]


def _named_events(events: Sequence[Any]) -> Iterator[tuple[LineKind, str, Any]]:
    """Yield the events with their kinds and names.

    A range marked in Python appears twice. Its copy on the device is skipped, because it spans the kernels inside it.
    """
    on_host = {event.name for event in events if _is_on_host(event)}
    for event in events:
        if _is_on_host(event):
            yield "operator", OUTSIDE_OPERATORS if _is_step(event) else event.name, event
        elif event.name not in on_host:
            yield "kernel", event.name, event


def _self_ms(kind: str, name: str, event: Any) -> float:
    """Milliseconds of an event without the operators inside it; 0 for a call that waits for kernels.

    A kernel's time comes from its range, because the attributes for device times were renamed in torch 2.4.
    """
    if kind == "kernel":
        return float(event.time_range.elapsed_us()) / 1000
    return 0.0 if name.endswith(_WAITING) else float(event.self_cpu_time_total) / 1000


def _is_on_host(event: Any) -> bool:
    return bool(event.device_type.name == "CPU")


def _is_step(event: Any) -> bool:
    return _is_on_host(event) and event.name.startswith(_STEP)
