from __future__ import annotations

import gc
import math
import random
import time
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.bench.worker import timing, unfreeze
from torchperf_ci.bench.worker.profiling import PEAK_STEPS, peak
from torchperf_ci.bench.worker.session import WorkerSession
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.machine.devices.interface import Device, Timing

if TYPE_CHECKING:
    from collections.abc import Callable


class Clockwork:
    """Stands in for a device, on a clock of its own: a step takes what ``durations`` says."""

    timing = Timing()
    mean_seconds = Device.mean_seconds

    def __init__(self, duration: Callable[[int], float]) -> None:
        self.now = 0.0
        self.steps = 0
        self._duration = duration

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            before = self.now
            step()
            seconds.append(self.now - before)
        return seconds

    def synchronize(self) -> None:
        pass

    def step(self) -> None:
        self.now += self._duration(self.steps)
        self.steps += 1


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], float]], Clockwork]:
    def make(duration: Callable[[int], float]) -> Clockwork:
        clock = Clockwork(duration)
        monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
        return clock

    return make


class Cycle:
    """What only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("load", [0.0, 1.0])
def test_what_steps_leave_in_cycles_does_not_grow_while_they_are_sampled(on, load: float) -> None:
    clock, left, most = on(lambda n: 0.005 + n % 7 * 1e-4), WeakSet[Cycle](), 0
    clock.timing = Timing(load=load)

    def step() -> None:
        nonlocal most
        clock.step()
        left.add(Cycle())
        most = max(most, len(left))

    timing.sample(clock, step, 1, 0.0, 3.0)
    assert clock.steps > 400
    assert most <= timing.CHUNK_SECONDS / 0.005 + 1


@pytest.mark.parametrize("n", [*range(6, 100), 500, 1000])
def test_the_interval_holds_the_median_with_at_least_95_percent(n: int) -> None:
    """By the exact binomial distribution of how many values are below the median, and hardly wider than needed."""
    values = [float(v) for v in range(1, n + 1)]
    random.Random(1).shuffle(values)
    left_out = (n - 1 - 2 * median(values) * timing.median_half_width(values)) / 2
    assert left_out == pytest.approx(round(left_out))
    below = [math.comb(n, k) / 2**n for k in range(n + 1)]
    inside = slice(round(left_out) + 1, n - round(left_out))
    assert 0.95 <= sum(below[inside]) < 0.993


def test_five_samples_bound_nothing() -> None:
    assert timing.median_half_width([1.0] * 5) == math.inf
    assert timing.median_half_width([1.0] * 6) == 0.0


def test_sampling_stops_at_the_target(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda n: 0.01 * (1 + 0.002 * (n % 3)))
    result = timing.sample(clock, clock.step, inner=1, target=0.01, budget=60)
    assert result.converged
    assert len(result.seconds) == timing.FIRST_LOOK


def test_sampling_that_cannot_reach_the_target_ends_with_the_budget(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda n: 0.01 if n % 2 else 0.02)
    result = timing.sample(clock, clock.step, inner=1, target=0.01, budget=2)
    assert not result.converged
    assert result.half_width > 0.1
    assert clock.now == pytest.approx(2, abs=0.2)


def test_the_width_is_that_of_all_samples_also_where_there_are_enough(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda n: 0.01 * (2 - n / 6000 + n % 2))
    result = timing.sample(clock, clock.step, inner=1, target=1e-9, budget=1e9)
    assert len(result.seconds) >= timing.MAX_SAMPLES
    assert result.half_width == timing.median_half_width(result.seconds)


def test_a_step_longer_than_the_budget_still_gives_samples(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda _: 10.0)
    result = timing.sample(clock, clock.step, inner=1, target=0.01, budget=1)
    assert result.seconds == (10.0,) * timing.MIN_SAMPLES
    assert result.half_width == math.inf


def test_short_steps_are_sampled_in_blocks_and_told_by_the_step(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda _: 1e-5)
    warm = timing.warm_up(clock, clock.step, budget=5)
    assert warm.inner * 1e-5 >= clock.timing.sample
    result = timing.sample(clock, clock.step, warm.inner, target=0.01, budget=5)
    assert result.seconds[0] == pytest.approx(1e-5)
    assert result.wall_per_step == pytest.approx(1e-5)


def test_warm_up_goes_on_while_steps_get_faster(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda n: 0.01 * (1 + 4 * 0.9**n))
    warm = timing.warm_up(clock, clock.step, budget=60)
    assert warm.stable
    assert 0.01 * (1 + 4 * 0.9**warm.steps) < 0.0102


def test_warm_up_that_never_settles_ends_with_the_budget_and_says_so(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda n: 1.0 / (n + 1))
    warm = timing.warm_up(clock, clock.step, budget=2)
    assert not warm.stable


@given(st.lists(st.floats(1e-6, 1e3), min_size=6, max_size=200), st.floats(1e-3, 1e3))
def test_the_half_width_does_not_depend_on_the_unit(values: list[float], unit: float) -> None:
    scaled = timing.median_half_width([v * unit for v in values])
    assert scaled == pytest.approx(timing.median_half_width(values), rel=1e-6)


def test_the_collector_is_off_while_sampling_and_on_afterwards() -> None:
    seen = []
    cpu = device_of("cpu")
    timing.sample(cpu, lambda: (seen.append(gc.isenabled()), time.sleep(0.001)), 1, 0.5, 0.1)
    timing.block(cpu, lambda: seen.append(gc.isenabled()), 3)
    assert not any(seen)
    assert gc.isenabled()


def test_a_block_does_not_look_again_at_what_was_there_before_it() -> None:
    unfreeze()
    timing.block(device_of("cpu"), lambda: None, 1)
    assert gc.get_freeze_count() > 0
    unfreeze()
    assert gc.get_freeze_count() == 0
    timing.block(device_of("cpu"), lambda: None, 1)
    assert gc.get_freeze_count() > 0
    unfreeze()


def test_no_block_leaves_what_its_last_step_has_kept() -> None:
    """It is in a cycle, so only the collector frees it, which does not look at what is frozen."""

    class State:
        def __init__(self) -> None:
            self.itself = self

    states, kept = WeakSet[State](), list[State]()

    def step() -> None:
        kept[:] = [State()]
        states.add(kept[0])

    for _ in range(5):
        timing.block(device_of("cpu"), step, 2)
    gc.collect()
    unfreeze()
    assert len(states) <= 2  # the newest, and that of the first block


def test_a_block_is_the_mean_of_its_steps(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda n: 0.1 * (n + 1))
    assert timing.block(clock, clock.step, 3) == pytest.approx(0.2)


@pytest.mark.parametrize(("seconds", "steps"), [(6.0, 8), (10.0, 5), (25.0, 2), (60.0, 1)])
def test_long_steps_get_fewer_of_them(on: Callable[..., Clockwork], seconds: float, steps: int) -> None:
    clock = on(lambda _: seconds)
    warm = timing.warm_up(clock, clock.step, budget=3)
    assert (warm.steps, warm.inner) == (steps, 1)
    taken = timing.sample(clock, clock.step, 1, target=0.01, budget=3, expected=seconds).seconds
    assert taken == (seconds,) * min(steps, timing.MIN_SAMPLES)


def test_a_long_step_is_sampled_more_often_with_a_budget(on: Callable[..., Clockwork]) -> None:
    clock = on(lambda _: 25.0)
    assert (
        len(timing.sample(clock, clock.step, 1, 0.01, budget=125, expected=25.0).seconds)
        == timing.MIN_SAMPLES
    )


def test_a_worker_samples_a_step_as_long_as_its_warm_up_found_it(on: Callable[..., Clockwork]) -> None:
    clock, session = on(lambda _: 25.0), WorkerSession()
    session._device, session._step = clock, SimpleNamespace(run=clock.step)
    warm = session.warm_up(budget=3)
    assert session.sample(warm.inner, 0.01, 3).seconds == (25.0, 25.0)


@pytest.mark.parametrize(("seconds", "steps"), [(2.0, PEAK_STEPS), (25.0, 1)])
def test_the_peak_of_a_long_step_takes_one(on: Callable[..., Clockwork], seconds: float, steps: int) -> None:
    clock = on(lambda _: seconds)
    clock.reset_peak_memory = lambda: None
    clock.peak_memory = lambda: 1
    peak(clock, clock.step)
    assert clock.steps == steps


def test_a_phase_that_a_step_comes_to_several_times_takes_all_of_them(on: Callable[..., Clockwork]) -> None:
    """As in a step that accumulates gradients."""
    clock = on(lambda n: 1.0 + n % 2)

    def phases(mark: Callable[[str], None]) -> None:
        for phase in ("forward", "backward") * 4:
            clock.step()
            mark(phase)

    assert timing.phase_seconds(clock, SimpleNamespace(phases=phases), 1.0) == {
        "forward": 4.0,
        "backward": 8.0,
    }
