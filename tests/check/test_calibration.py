from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.check.sensitivity import Alarms, GateInputs, false_alarms, levels, replayed
from torchperf_ci.stats.gate import Repetitions

SERIES, NIGHTS = 300, 40


def recorded(values: np.ndarray, spread: float = 0.0) -> GateInputs:
    """A past of processes that all measured the same, but for ``spread`` to either side."""
    series, nights = values.shape
    numbers = np.tile(np.arange(nights), (series, 1))
    return GateInputs(
        values,
        np.full(series, 0.03),
        np.ones(series, dtype=np.int64),
        numbers,
        np.zeros(series, dtype=np.int64),
        numbers,
        Repetitions(values - spread, values + spread),
    )


@pytest.fixture
def values() -> np.ndarray:
    """A past without change."""
    return 0.02 * np.random.default_rng(5).standard_normal((SERIES, NIGHTS))


def test_each_night_with_enough_before_it_is_judged_once(values) -> None:
    alarms = replayed(recorded(values))
    assert alarms.runs == NIGHTS - 9
    assert alarms.judged == alarms.runs * SERIES
    assert alarms.candidates / alarms.judged < 0.06
    assert alarms.proven == 0


def test_a_real_step_is_found_in_the_past_and_is_no_false_alarm(values) -> None:
    values[:, 25:] += 0.15
    assert replayed(recorded(values)).proven > 200
    false = false_alarms(recorded(values), shuffles=50)
    assert (
        false.proven / false.runs < 0.02
    )  # the gate allows itself 0.005 of what is worse, and of what is better
    assert false.candidates / false.judged < 0.06


def test_a_step_is_taken_out_and_nothing_else() -> None:
    values = 0.001 * np.random.default_rng(5).standard_normal((2, NIGHTS))
    values[0, 20:] += 0.5
    values[1, 3] = np.nan
    level = values - levels(values)
    assert np.nanmax(np.abs(level)) < 0.01
    assert np.isnan(level[1, 3])


def test_a_past_too_short_has_no_run_to_judge(values) -> None:
    assert replayed(recorded(values[:, :9])) == Alarms()


def test_what_one_run_alone_would_have_proven_counts() -> None:
    values = 0.005 * np.random.default_rng(5).standard_normal((30, NIGHTS))
    values[3, 30] += np.log(3)
    assert replayed(recorded(values)).proven == 1
    assert replayed(recorded(values, spread=1.0)).proven == 0


def test_a_shuffled_past_remembers_what_the_past_remembers(values) -> None:
    for night in range(1, NIGHTS):
        values[:, night] = 0.8 * values[:, night - 1] + 0.6 * values[:, night]
    forgotten = np.random.default_rng(5).permuted(values, axis=1)
    rates = [
        alarms.candidates / alarms.judged
        for alarms in (false_alarms(recorded(one), shuffles=30) for one in (values, forgotten))
    ]
    assert rates[0] > 1.4 * rates[1]
