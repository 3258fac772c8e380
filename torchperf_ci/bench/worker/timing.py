"""Time a step: warm-up, samples and their stopping rule, and phases; and measure how steady the device is."""

from __future__ import annotations

import gc
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

import torch

from torchperf_ci.bench.worker import freeze_once
from torchperf_ci.bench.worker.protocol import LONG_STEP, MIN_SAMPLES, Samples, Settling, WarmUp

if TYPE_CHECKING:
    from torchperf_ci.bench.worker.step import BuiltStep
    from torchperf_ci.machine.devices.interface import Device


FIRST_LOOK = 10
MAX_SAMPLES = 5_000
"""More samples are never needed for a precision of 1% and would bloat the record."""
CHUNK_SECONDS = 0.1
"""Time between two checks of the stopping rule; also the work queued on a device before a synchronization."""
LONG_SECONDS = 50.0
"""After this time warm-up and samples end, however few steps they had, unless ``--budget`` is longer."""
STABLE_WITHIN = 0.01
Z95 = 1.959963984540054

StepFunction = Callable[[], object]


def median_half_width(values: Sequence[float]) -> float:
    """Relative half-width of the distribution-free 95% confidence interval of the median.

    The interval leaves out ``(n - 1 - z·√n)/2`` values at each end, rounded down (binomial, normal approximation with
    continuity correction; David & Nagaraja, *Order Statistics*, §7.1). Infinite below six values, too few for any two
    of them to enclose the median with 95%.
    """
    n = len(values)
    if n < 6:
        return math.inf
    ordered = sorted(values)
    low = math.floor((n - 1 - Z95 * math.sqrt(n)) / 2)
    half = (ordered[n - 1 - low] - ordered[low]) / 2
    centre = median(ordered)
    return half / centre if centre > 0 else math.inf


def warm_up(device: Device, step: StepFunction, budget: float) -> WarmUp:
    """Step until a window of samples has a median at most 1% below that of the window before, or time is up."""
    start = time.perf_counter()
    limit = start + max(budget, LONG_SECONDS)
    singles = _sample_until(limit, device, step, 1, 3, LONG_STEP)
    first = min(singles)
    inner = _steps_per_sample(device, first)
    window = max(MIN_SAMPLES, math.ceil(CHUNK_SECONDS / max(first * inner, device.timing.sample)))
    steps, before = len(singles), math.inf
    while True:
        values = _sample_until(limit, device, step, inner, window, first)
        now = median(values or singles)
        steps += inner * len(values)
        elapsed = time.perf_counter() - start
        stable = now > before * (1 - STABLE_WITHIN)
        if stable or elapsed >= budget:
            return WarmUp(steps, elapsed, _steps_per_sample(device, now), stable)
        before = now


def sample(
    device: Device, step: StepFunction, inner: int, target: float, budget: float, expected: float = 0.0
) -> Samples:
    """Sample until the median is known to ``target`` (relative half-width) or ``budget`` seconds have passed.

    ``expected`` is how many seconds a step took before.

    The rule is checked only when the number of samples has grown by half, because frequent checks would make a lucky
    early stop likely, and not before the device has been sampled for its ``timing.total`` seconds.
    """
    values: list[float] = []
    steps, next_look, half_width = 0, FIRST_LOOK, math.inf
    least, limit = device.timing.total, max(budget, LONG_SECONDS)
    with garbage_collector_off():
        settling = _settle(device, step, inner, budget) if device.timing.load else None
        wall, cpu = time.perf_counter(), time.process_time()
        while half_width > target and len(values) < MAX_SAMPLES:
            chunk = _chunk(values, inner, next_look)
            new = _sample_until(wall + limit, device, step, inner, chunk, expected)
            gc.collect()
            values += new
            steps += inner * len(new)
            elapsed = time.perf_counter() - wall
            enough = len(values) >= MIN_SAMPLES or elapsed >= limit
            if elapsed >= max(budget, least) and enough:
                break
            if len(values) >= next_look and elapsed >= least:
                half_width = median_half_width(values)
                next_look = math.ceil(len(values) * 1.5)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    half_width = median_half_width(values)
    return Samples(
        tuple(values), inner, half_width, half_width <= target, wall / steps, cpu / steps, settling
    )


def block(device: Device, step: StepFunction, steps: int) -> float:
    """Return the mean seconds per step over one synchronized block, the unit that alternating pairs compare."""
    with garbage_collector_off():
        return device.mean_seconds(step, steps)


def _settle(device: Device, step: StepFunction, inner: int, budget: float) -> Settling:
    """Step until medians of consecutive halves of ``timing.load`` seconds are within 1%, or ``budget`` is spent.

    Samples must follow immediately: in a pause the device cools down and would have to settle again.
    """
    load = device.timing.load
    start, before = time.perf_counter(), math.inf
    while True:
        now = median(_sampled_for(load / 2, device, step, inner))
        elapsed = time.perf_counter() - start
        settled = abs(now / before - 1) <= STABLE_WITHIN
        if settled or elapsed >= max(budget, load):
            return Settling(elapsed, settled)
        before = now


def _sampled_for(seconds: float, device: Device, step: StepFunction, inner: int) -> list[float]:
    values: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        values += _sample(device, step, inner, _affordable(values[-1] * inner) if values else 1)
        gc.collect()
    return values


def _steps_per_sample(device: Device, seconds_per_step: float) -> int:
    return max(1, math.ceil(device.timing.sample / max(seconds_per_step, 1e-9)))


def _chunk(values: Sequence[float], inner: int, next_look: int) -> int:
    wanted = next_look - len(values)
    if not values:
        return min(wanted, MIN_SAMPLES)
    affordable = _affordable(values[-1] * inner)
    return min(wanted, affordable) if wanted > 0 else affordable


def _affordable(seconds_per_sample: float) -> int:
    return max(1, int(CHUNK_SECONDS / seconds_per_sample))


def _sample_until(
    limit: float, device: Device, step: StepFunction, inner: int, count: int, expected: float
) -> list[float]:
    """Take ``count`` samples. If a step is ``expected`` to be long, none begins at or after the ``limit``."""
    if expected < LONG_STEP:
        return _sample(device, step, inner, count)
    values: list[float] = []
    while len(values) < count and time.perf_counter() < limit:
        values += _sample(device, step, inner, 1)
    return values


def _sample(device: Device, step: StepFunction, inner: int, count: int) -> list[float]:
    if device.timing.batches:
        return [device.time_steps(step, inner)[0] for _ in range(count)]
    if inner == 1:
        return device.time_steps(step, count)

    def several() -> None:
        for _ in range(inner):
            step()

    return [seconds / inner for seconds in device.time_steps(several, count)]


@contextmanager
def garbage_collector_off() -> Iterator[None]:
    """Collect garbage now, then disable the collector for the duration of the block.

    The remaining objects are frozen: scanning the hundreds of thousands of objects of torch and its compiler before
    each block of a pair would take longer than the block itself. Thus garbage can be collected between samples, too,
    in microseconds; else what a workload leaves in cycles would fill the memory of the device within seconds. They are
    frozen once: what a step keeps until the next one is garbage then, and would stay, one from each block.
    """
    gc.collect()
    freeze_once()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


PHASE_REPEATS = 10


def phase_seconds(device: Device, step: BuiltStep, budget: float) -> Mapping[str, float]:
    """Return median seconds by phase.

    The device is synchronized between phases, so on an asynchronous device their sum exceeds the latency.
    """
    times: dict[str, list[float]] = defaultdict(list)
    deadline = time.perf_counter() + budget
    for _ in range(PHASE_REPEATS):
        for phase, seconds in _phases_of_one(device, step).items():
            times[phase].append(seconds)
        if time.perf_counter() > deadline:
            break
    return {phase: median(values) for phase, values in times.items()}


def _phases_of_one(device: Device, step: BuiltStep) -> Mapping[str, float]:
    """Return the seconds by phase of one step, which may come to a phase several times."""
    seconds: dict[str, float] = defaultdict(float)
    device.synchronize()
    last = time.perf_counter()

    def mark(phase: str) -> None:
        nonlocal last
        device.synchronize()
        now = time.perf_counter()
        seconds[phase] += now - last
        last = now

    step.phases(mark)
    return seconds


EXERCISE_WARM_UP_SECONDS = 0.5
EXERCISE_SECONDS = 0.5
BLOCK_SECONDS = 0.02
MATRIX_SIZE = 4096
LAUNCHES = 100


def time_equal_blocks(device: Device) -> dict[str, list[float]]:
    """Return the seconds of each block by kind of work: matrix products, and kernels shorter than their launch."""
    left = torch.full(
        (MATRIX_SIZE, MATRIX_SIZE), 1 / MATRIX_SIZE, device=device.torch_type, dtype=torch.bfloat16
    )
    small = torch.zeros(1, device=device.torch_type)

    def launches() -> None:
        for _ in range(LAUNCHES):
            small.add_(1)

    return {
        "matrix products": _blocks(device, lambda: left @ left),
        "tiny kernels": _blocks(device, launches),
    }


def _blocks(device: Device, work: Callable[[], object]) -> list[float]:
    end = time.perf_counter() + EXERCISE_WARM_UP_SECONDS
    while time.perf_counter() < end:
        once = device.time_steps(work, 1)[0]
    times = max(1, round(BLOCK_SECONDS / max(once, 1e-6)))

    def block() -> None:
        for _ in range(times):
            work()

    return [device.time_steps(block, 1)[0] for _ in range(round(EXERCISE_SECONDS / BLOCK_SECONDS))]
