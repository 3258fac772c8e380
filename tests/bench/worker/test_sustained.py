"""The sampling rules on accelerators with misleading timings, due to heat, power limits, events or waiting for them."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.worker import timing
from torchperf_ci.machine.devices.interface import Timing
from torchperf_ci.machine.devices.mps import Mps
from torchperf_ci.machine.devices.nvidia import Cuda

if TYPE_CHECKING:
    from collections.abc import Callable

BURST, KEPT_UP = 1.37e-3, 1.596e-3
"""Seconds that a product of two 8192 × 8192 matrices in bf16 takes on an H100 at first, and for good."""


class Gpu:
    """A device on a clock of its own. Its steps take what ``seconds`` says after so long under load.

    Events read that within ``jitter`` seconds; who waits for the device waits ``wait`` seconds longer.
    """

    def __init__(
        self, seconds: Callable[[float], float], timing: Timing, wait: float = 0.0, jitter: float = 0.0
    ) -> None:
        self.timing = timing
        self.now = self.busy = 0.0
        self.batches: list[int] = []
        self._seconds, self._wait, self._jitter = seconds, wait, jitter
        self._random = random.Random(0)

    def step(self) -> None:
        seconds = self._seconds(self.busy)
        self.now += seconds
        self.busy += seconds

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        self.batches.append(count)
        start, seconds = self.now, []
        for _ in range(count):
            before = self.now
            step()
            seconds.append(self.now - before + self._random.uniform(-self._jitter, self._jitter))
        self.now += self._wait
        return [(self.now - start) / count] if self.timing.batches else seconds


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[timing.Samples, float]]:
    """Warmed up and sampled; and the median seconds a step."""

    def measure(gpu: Gpu, budget: float = 3.0) -> tuple[timing.Samples, float]:
        monkeypatch.setattr(timing.time, "perf_counter", lambda: gpu.now)
        warm = timing.warm_up(gpu, gpu.step, budget)
        found = timing.sample(gpu, gpu.step, warm.inner, 0.01, budget)
        return found, sorted(found.seconds)[len(found.seconds) // 2]

    return measure


def capped(busy: float) -> float:
    """The power limit grips after 0.3 s; then the clock swings around what it allows, ever less, once a second."""
    if busy < 0.3:
        return BURST
    return KEPT_UP * (1 + 0.05 * math.exp(-busy / 3) * math.cos(2 * math.pi * busy))


def test_a_burst_is_no_measurement_where_the_power_limit_grips_later(measured) -> None:
    found, seconds = measured(Gpu(capped, Cuda.timing))
    assert seconds == pytest.approx(KEPT_UP, rel=0.01)
    assert found.settling.seconds >= 1.0
    assert sum(found.seconds) * found.inner >= Cuda.timing.total


def test_the_rules_of_a_cpu_would_have_measured_the_burst(measured) -> None:
    found, seconds = measured(Gpu(capped, Timing()))
    assert seconds == pytest.approx(BURST, rel=0.01)
    assert found.settling is None


def test_a_clock_that_does_not_settle_is_waited_for_no_longer_than_the_budget_and_told(measured) -> None:
    found, _ = measured(Gpu(lambda busy: 1e-3 * (1 + 0.2 * math.sin(4.7 * busy)), Cuda.timing))
    assert not found.settling.settled
    assert 3.0 <= found.settling.seconds < 4.0


def test_a_steady_device_takes_a_second_of_load_and_little_more_of_samples(measured) -> None:
    gpu = Gpu(lambda _: 5e-3, Cuda.timing)
    found, seconds = measured(gpu)
    assert (seconds, found.settling.settled) == (pytest.approx(5e-3), True)
    assert gpu.now < 2.7


def test_a_small_budget_takes_nothing_from_the_load(measured) -> None:
    found, seconds = measured(Gpu(capped, Cuda.timing), budget=0.1)
    assert seconds == pytest.approx(KEPT_UP, rel=0.02)
    assert sum(found.seconds) * found.inner >= Cuda.timing.total


def test_a_step_of_many_seconds_does_not_take_many_times_the_budget(measured) -> None:
    gpu = Gpu(lambda _: 10.0, Cuda.timing)
    measured(gpu)
    assert gpu.now <= 140


@pytest.mark.parametrize("step", [5e-6, 1e-4, 3e-3, 4e-2])
def test_waiting_for_a_device_without_events_weighs_little_and_always_the_same(measured, step) -> None:
    gpu = Gpu(lambda _: step, Mps.timing, wait=3e-4)
    found, seconds = measured(gpu)
    assert seconds == pytest.approx(step, rel=0.004)
    assert len(set(gpu.batches[-len(found.seconds) :])) == 1
    assert 0.05 <= found.inner * step <= 0.15


def test_events_that_jitter_by_more_than_a_step_lasts_do_not_move_the_median(measured) -> None:
    _, seconds = measured(Gpu(lambda _: 2e-6, Cuda.timing, jitter=5e-6))
    assert seconds == pytest.approx(2e-6, rel=0.01)
