"""Peak memory and leaks, on the device and on the host."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices import host_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_ci.machine.devices.base import Device

PEAK_STEPS = 3
LEAK_STEPS = 60
FEWEST_LEAK_STEPS = 20


@dataclass(frozen=True)
class Peak:
    """Bytes at the peak of a few steps, and how the host's was read. ``held``: the device's include what is kept."""

    device: int
    host: int
    host_method: str
    held: bool = False


@dataclass(frozen=True)
class Leak:
    """Growth in bytes a step over the last half of ``steps`` steps."""

    device: float
    host: float
    steps: int


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


def leak(device: Device, step: Callable[[], object], budget: float) -> Leak | None:
    """Memory that every step leaves behind; None if ``budget`` seconds do not hold enough steps to tell.

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
        return None
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
