from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.calibration import Alarms, false_alarms, replayed, without_steps

SERIES, NIGHTS = 300, 40


@pytest.fixture
def past() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values, least effects, jobs and groups of a past without change."""
    values = 0.02 * np.random.default_rng(5).standard_normal((SERIES, NIGHTS))
    jobs = np.tile(np.arange(NIGHTS), (SERIES, 1))
    return values, np.full(SERIES, 0.03), jobs, np.zeros(SERIES, dtype=np.int64)


def test_each_night_with_enough_before_it_is_judged_once(past) -> None:
    alarms = replayed(*past)
    assert alarms.runs == NIGHTS - 9
    assert alarms.judged == alarms.runs * SERIES
    assert alarms.candidates / alarms.judged < 0.06
    assert alarms.proven == 0


def test_a_real_step_is_found_in_the_past_and_is_no_false_alarm(past) -> None:
    values, *rest = past
    values[:, 25:] += 0.15
    assert replayed(values, *rest).proven > 200
    false = false_alarms(values, *rest, shuffles=20)
    assert false.proven == 0
    assert false.candidates / false.judged < 0.06


def test_a_step_is_taken_out_and_nothing_else() -> None:
    values = 0.001 * np.random.default_rng(5).standard_normal((2, NIGHTS))
    values[0, 20:] += 0.5
    values[1, 3] = np.nan
    level = without_steps(values)
    assert np.nanmax(np.abs(level)) < 0.01
    assert np.isnan(level[1, 3])


def test_a_past_too_short_has_no_run_to_judge(past) -> None:
    values, effects, jobs, groups = past
    assert replayed(values[:, :9], effects, jobs[:, :9], groups) == Alarms()
