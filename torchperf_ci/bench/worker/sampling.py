"""Warm-up and the stopping rule, on the standard library alone."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.machine.devices.base import Device

MIN_SAMPLE_SECONDS = 0.002
"""A sample lasts at least this long, so that reading the clock (some 50 ns) stays below 0.01% of it."""
MIN_SAMPLES = 10
MAX_SAMPLES = 5_000
"""More than this is never needed for 1% and would bloat the record."""
CHUNK_SECONDS = 0.1
"""Between two looks at the stopping rule; also what is queued on a device before one synchronisation."""
WINDOW = 5
STABLE_WITHIN = 0.01
Z95 = 1.959963984540054

Step = Callable[[], object]


@dataclass(frozen=True)
class WarmUp:
    """What it took until steps stopped getting faster. Times in seconds; ``inner`` is steps a sample."""

    steps: int
    seconds: float
    inner: int
    stable: bool


@dataclass(frozen=True)
class Samples:
    """Seconds a step, in the order taken, and the relative half-width of the median's 95% interval."""

    seconds: tuple[float, ...]
    inner: int
    half_width: float
    converged: bool
    wall_per_step: float
    cpu_per_step: float


def median_half_width(values: Sequence[float]) -> float:
    """Relative half-width of the distribution-free 95% confidence interval of the median.

    The interval runs between the order statistics ``n/2 ± z·√n/2`` (binomial, normal approximation; David & Nagaraja,
    *Order Statistics*, §7.1). Infinite below six values, where no two order statistics enclose the median with 95%.
    """
    n = len(values)
    if n < 6:
        return math.inf
    ordered = sorted(values)
    low = max(0, math.floor((n - Z95 * math.sqrt(n)) / 2))
    half = (ordered[n - 1 - low] - ordered[low]) / 2
    centre = median(ordered)
    return half / centre if centre > 0 else math.inf


def warm_up(device: Device, step: Step, budget: float) -> WarmUp:
    """Step until the median of a window of samples is no more than 1% faster than the one before, or time is up."""
    start = time.perf_counter()
    first = min(device.time_steps(step, 1)[0] for _ in range(3))
    inner = _steps_per_sample(first)
    window = max(WINDOW, math.ceil(CHUNK_SECONDS / max(first * inner, MIN_SAMPLE_SECONDS)))
    steps, before = 3, math.inf
    while True:
        now = median(_sample(device, step, inner, window))
        steps += inner * window
        elapsed = time.perf_counter() - start
        stable = now > before * (1 - STABLE_WITHIN)
        if stable or elapsed >= budget:
            return WarmUp(steps, elapsed, _steps_per_sample(now), stable)
        before = now


def sample(device: Device, step: Step, inner: int, target: float, budget: float) -> Samples:
    """Sample until the median is known to ``target`` (relative half-width) or ``budget`` seconds have passed.

    The rule is looked at only when the number of samples has grown by half, so that looking often does not buy a lucky
    early stop.
    """
    values: list[float] = []
    steps, next_look, half_width = 0, MIN_SAMPLES, math.inf
    with _collector_off():
        wall, cpu = time.perf_counter(), time.process_time()
        while half_width > target and len(values) < MAX_SAMPLES:
            chunk = _chunk(values, inner, next_look)
            values += _sample(device, step, inner, chunk)
            steps += inner * chunk
            out_of_time = time.perf_counter() - wall >= budget and len(values) >= WINDOW
            if len(values) >= next_look or out_of_time:
                half_width = median_half_width(values)
                next_look = math.ceil(len(values) * 1.5)
            if out_of_time:
                break
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Samples(tuple(values), inner, half_width, half_width <= target, wall / steps, cpu / steps)


def block(device: Device, step: Step, steps: int) -> float:
    """Mean seconds a step over one synchronised block, the unit that alternating pairs compare."""
    with _collector_off():
        device.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            step()
        device.synchronize()
        return (time.perf_counter() - start) / steps


def _steps_per_sample(seconds_per_step: float) -> int:
    return max(1, math.ceil(MIN_SAMPLE_SECONDS / max(seconds_per_step, 1e-9)))


def _chunk(values: Sequence[float], inner: int, next_look: int) -> int:
    wanted = next_look - len(values)
    if not values:
        return min(wanted, WINDOW)
    affordable = int(CHUNK_SECONDS / (values[-1] * inner))
    return max(1, min(wanted, affordable))


def _sample(device: Device, step: Step, inner: int, count: int) -> list[float]:
    if inner == 1:
        return device.time_steps(step, count)

    def several() -> None:
        for _ in range(inner):
            step()

    return [seconds / inner for seconds in device.time_steps(several, count)]


@contextmanager
def _collector_off() -> Iterator[None]:
    """Collect now and nothing meanwhile.

    What is still there is frozen: torch's and the compiler's hundred thousands of objects would take longer to look
    through, before each block of a pair, than the block itself.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
