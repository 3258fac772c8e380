from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.noise import level_and_sigma
from torchperf_ci.stats.past import BASELINE, NEWEST, is_one_session, of_current_level, past, without_gaps

NAN = np.nan


def begins(values: np.ndarray) -> list[int]:
    return np.isnan(of_current_level(values)).sum(axis=1).tolist()


def noise(series: int, runs: int) -> np.ndarray:
    return 0.01 * np.random.default_rng(12).standard_t(4, (series, runs))


def test_the_current_level_begins_at_the_last_clear_step() -> None:
    values = noise(3, 46)
    values[0, 15:] += 0.08
    values[1, 10:] += 0.08
    values[1, 25:] -= 0.06
    first, second, none = begins(values)
    assert first == pytest.approx(15, abs=1)
    assert second == pytest.approx(25, abs=1)
    assert none == 0


def test_where_nothing_changed_hardly_a_past_is_cut() -> None:
    for runs in (15, 25, 46):
        assert np.count_nonzero(begins(noise(2000, runs))) <= 20


@pytest.mark.parametrize(("memory", "share"), [(0.3, 0.05), (0.6, 0.2), (0.8, 0.4)])
def test_where_runs_remember_the_one_before_hardly_more_are_cut(memory: float, share: float) -> None:
    values = noise(1000, 46)
    for run in range(1, 46):
        values[:, run] = memory * values[:, run - 1] + (1 - memory**2) ** 0.5 * values[:, run]
    assert np.count_nonzero(begins(values)) <= 1000 * share


def test_what_went_up_and_came_back_is_cut_although_both_steps_look_like_a_memory() -> None:
    values = 0.01 * np.random.default_rng(12).standard_normal((500, 46))
    values[:, 16:28] += 0.06
    assert np.median(begins(values)) == 28


@pytest.mark.parametrize(("length", "quiet"), [(4, 12), (5, 20), (8, 25), (12, 15)])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_excursion_is_not_the_noise_of_the_runs_after_it(length: int, quiet: int, sign: int) -> None:
    values = 0.01 * np.random.default_rng(12).standard_normal((200, 20 + length + quiet + NEWEST))
    values[:, 20 : 20 + length] += 0.2 * sign
    current = of_current_level(values)
    assert np.isnan(current[:, 20 : 20 + length]).mean() > 0.99
    assert np.isnan(current[:, 20 + length + 2 :]).mean() < 0.05
    assert np.median(level_and_sigma(current)[1]) == pytest.approx(0.01, rel=0.05)


def test_the_runs_before_an_excursion_stay() -> None:
    values = 0.01 * np.random.default_rng(12).standard_normal((200, 45))
    values[:, 20:24] += 0.2
    assert np.isnan(of_current_level(values))[:, :20].any(axis=1).mean() < 0.2


def test_two_excursions_do_not_hide_a_step_before_them() -> None:
    values = 0.01 * np.random.default_rng(12).standard_normal((200, 65))
    values[:, 15:] += 0.03
    values[:, 25:30] += 0.3
    values[:, 42:48] += 0.3
    left_out = np.isnan(of_current_level(values))
    assert left_out[:, [*range(14), 27, 45]].mean() > 0.95
    assert left_out[:, [*range(31, 42), *range(49, 65)]].mean() < 0.05


def test_a_spike_and_the_newest_runs_are_no_step() -> None:
    values = noise(2, 46)
    values[0, [20, 21]] += 3.0
    values[1, -NEWEST:] += 0.5
    assert begins(values) == [0, 0]


def test_a_constant_series_that_moved_once_is_cut_there() -> None:
    values = np.zeros((1, 40))
    values[0, 20:] = 0.05
    assert begins(values) == [20]


@pytest.mark.parametrize("runs", [1, 5, 12])
def test_too_few_runs_are_not_cut(runs: int) -> None:
    values = np.linspace(0, 1, runs)[None]
    np.testing.assert_array_equal(of_current_level(values), values)


def test_the_past_is_before_the_newest_and_not_too_long_ago() -> None:
    values = np.arange(100.0)[None]
    assert past(values, 3)[0].tolist() == list(range(97 - BASELINE, 97))
    assert past(values[:, :2], 5).shape == (1, 0)


def test_gaps_close_and_jobs_stay_with_their_values_but_the_newest_run_stays_last() -> None:
    values = np.array([[1.0, NAN, 3.0, NAN], [NAN, 2.0, NAN, 4.0]])
    numbers = np.array([[10, 11, 12, 13], [20, 21, 22, 23]])
    closed, jobs, sessions = without_gaps(values, numbers, numbers + 100)
    np.testing.assert_array_equal(closed, [[NAN, 1.0, 3.0, NAN], [NAN, NAN, 2.0, 4.0]])
    assert jobs[0].tolist() == [11, 10, 12, 13]
    assert jobs[1, 2:].tolist() == [21, 23]
    np.testing.assert_array_equal(sessions, jobs + 100)


@pytest.mark.parametrize(
    ("sessions", "is_one"),
    [
        ([0, 0, 0, 0], True),
        ([0, 0, 1, 0], False),
        ([0, 0, 2, 2], True),  # the newest run's own session counts on neither side
        ([0, 1, 2, 2], False),
        ([0, 0, 0, 9], True),  # without a value
        ([2, 2, 2, 2], False),
    ],
)
def test_a_past_of_one_session_does_not_show_how_far_sessions_differ(
    sessions: list[int], is_one: bool
) -> None:
    values = np.where(np.array([sessions]) == 9, np.nan, 1.0)
    assert is_one_session(values, np.array([sessions]), np.array([[2]])).tolist() == [is_one]
