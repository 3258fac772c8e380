from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from torchperf_ci.stats.gate import LEVELS, Judged, Repetitions, judge
from torchperf_ci.stats.past import MIN_HISTORY

NIGHTS = 46
SERIES = 2000
MIN_EFFECT = math.log(1.03)


def quiet(cv: float = 0.01, series: int = SERIES, nights: int = NIGHTS) -> np.ndarray:
    """Log values of series in which nothing changes, with a tail as heavy as that of benchmarks."""
    return cv / 2**0.5 * np.random.default_rng(7).standard_t(4, (series, nights))


def judged(values: np.ndarray, **facts: Any) -> Judged:
    return judge(values, np.full(len(values), MIN_EFFECT), **facts)


@pytest.mark.parametrize("cv", [0.005, 0.02, 0.08])
@pytest.mark.parametrize("nights", [8, 15, NIGHTS])
def test_where_nothing_changes_few_are_candidates_and_none_is_proven(cv: float, nights: int) -> None:
    found = judged(quiet(cv, nights=nights))
    for side in (found.up, found.down):
        assert side.candidate.mean() < 0.04
        assert not side.proven.any()


@pytest.mark.parametrize(("runs", "share"), [(1, 0.5), (2, 0.99), (3, 0.995)])
def test_a_step_of_four_sigma_is_soon_a_candidate(runs: int, share: float) -> None:
    values = quiet()
    values[:200, -runs:] += 0.04
    found = judged(values)
    assert found.up.candidate[:200].mean() >= share
    assert not found.down.candidate[:200].any()


@pytest.mark.parametrize("quiet_nights", [12, 30])
def test_after_a_regression_that_was_reverted_the_next_one_is_soon_a_candidate(quiet_nights: int) -> None:
    values = quiet()
    values[:200, -quiet_nights - 7 : -quiet_nights - 2] += 0.2
    values[:200, -2:] += 0.06
    assert judged(values).up.candidate[:200].mean() >= 0.99


@pytest.mark.parametrize("nights", range(2, 11))
def test_the_effect_is_that_of_the_runs_since_the_change(nights: int) -> None:
    """Whichever window shows it: a window that begins earlier has runs of the old level in it."""
    values = quiet()[:500]
    values[:, -nights:] += math.log(1.08)
    found = judged(values)
    seen = found.up.candidate
    assert seen.mean() > 0.8
    assert np.median(found.since[seen]) == nights
    assert (found.runs <= found.since)[seen].all()
    assert ((found.low < math.log(1.08)) & (math.log(1.08) < found.high))[seen].mean() > 0.92


def test_a_single_run_is_never_proof_however_far_it_is_off() -> None:
    values = quiet()
    values[0, -1] += math.log(1000)
    found = judged(values)
    assert found.up.candidate[0]
    assert not found.up.proven.any()


@pytest.mark.parametrize("slow", [1, 2, 4])
def test_a_change_that_is_over_is_not_told_any_more(slow: int) -> None:
    values = quiet(0.005)
    values[0, -1 - slow : -1] += math.log(1.5)
    values[1, -1 - slow : -1] -= math.log(1.5)
    found = judged(values)
    for side in (found.up, found.down):
        assert not side.candidate[:2].any()
        assert not side.proven[:2].any()
    assert found.runs[:2].tolist() == [1, 1]


def test_three_runs_that_agree_are_proof() -> None:
    values = quiet(0.005)
    values[:3, -3:] += math.log(1.10)
    values[3, -3:] -= math.log(1.10)
    found = judged(values)
    assert np.flatnonzero(found.up.proven).tolist() == [0, 1, 2]
    assert np.flatnonzero(found.down.proven).tolist() == [3]
    assert np.exp(found.change[:3]) == pytest.approx(1.10, abs=0.01)
    assert ((found.low[:3] < math.log(1.10)) & (found.high[:3] > math.log(1.10))).all()
    assert found.runs[:3].min() >= 2
    assert not found.up.nearly.any()


def test_what_one_run_has_made_proof_is_nearly_proven_until_the_next_confirms_it() -> None:
    values = quiet(0.005)
    values[:2, -2:] += math.log(1.10)
    found = judged(values)
    assert np.flatnonzero(found.up.nearly).tolist() == [0, 1]
    assert found.up.candidate[:2].all()
    assert not found.up.proven.any()
    confirmed = judged(np.hstack([values, values[:, -1:]])).up
    assert np.flatnonzero(confirmed.proven).tolist() == [0, 1]
    assert not confirmed.nearly.any()


def test_a_change_that_does_not_matter_is_no_candidate_however_certain_it_is() -> None:
    values = quiet(0.001)
    values[0, -5:] += math.log(1.01)
    assert not judged(values).up.candidate.any()


def test_a_change_that_is_surely_smaller_than_what_matters_is_no_candidate() -> None:
    values = quiet(0.001)
    values[:2, -5:] += np.log([[1.018], [1.029]])
    found = judged(values)
    assert found.up.proven[:2].tolist() == [False, True]
    assert not found.up.candidate[0]


def test_the_past_is_the_current_level_and_not_what_was_before_it() -> None:
    values = quiet(0.005)
    values[0, :20] += 0.30  # it has become faster since
    values[0, -3:] += 0.10
    found = judged(values)
    assert found.up.proven[0]
    assert math.exp(found.change[0]) == pytest.approx(math.exp(0.10), abs=0.01)
    assert found.history[0] < 30


def test_the_interval_holds_what_is_true_in_about_95_of_100() -> None:
    found = judged(quiet())
    assert ((found.low < 0) & (found.high > 0)).mean() == pytest.approx(0.945, abs=0.025)


def test_what_is_called_detectable_is_found_four_times_in_five() -> None:
    for cv in (0.006, 0.02, 0.06):
        values = quiet(cv)
        within = judged(values).detectable
        values[:400, -2:] += within[:400, None]
        assert judged(values).up.candidate[:400].mean() == pytest.approx(0.83, abs=0.09)


@pytest.mark.parametrize("nights", range(3, 9))
def test_what_is_called_detectable_does_not_grow_by_the_change_itself(nights: int) -> None:
    values = quiet(nights=15 + nights, series=200)
    before = judged(values).detectable[:20]
    values[:20, -nights:] += math.log(1.6)
    assert np.median(judged(values).detectable[:20]) < 1.6 * np.median(before)


def test_what_is_called_detectable_is_little_more_than_it_takes_where_spikes_are_common() -> None:
    random = np.random.default_rng(3)
    values = 0.01 * random.standard_normal((SERIES, NIGHTS))
    values += (random.random(values.shape) < 0.03) * random.uniform(0.05, 0.3, values.shape)
    assert np.median(judged(values).detectable) < 0.05


def test_the_fewest_past_runs_are_enough_to_be_judged_and_prove_nothing() -> None:
    values = quiet(nights=MIN_HISTORY + 1, series=100)
    values[0, -1] += math.log(3)
    found = judged(values)
    assert (found.up.rate == 1).all()
    assert found.up.candidate[0]
    assert not found.up.proven.any()


def test_what_became_better_excuses_nothing_that_is_worse() -> None:
    """Under one family of all rises, each night some false ones go along with hundreds of true improvements."""
    false = 0
    worse = np.repeat([1, -1], 300)
    for seed in range(30):
        values = 0.02 * np.random.default_rng(seed).standard_normal((600, NIGHTS))
        values[300:, -3:] += math.log(1.3)
        found = judged(values, worse=worse)
        assert found.up.proven[300:].mean() > 0.9
        false += found.up.proven[:300].sum()
    assert false == 0


def test_a_machine_of_two_speeds_is_not_told_time_and_again() -> None:
    """Steady, but 5% slower for three nights in a row in every tenth night."""
    random = np.random.default_rng(9)
    values = 0.005 * random.standard_normal((1000, NIGHTS))
    for first in range(NIGHTS):
        values[:, first : first + 3] += np.log(1.05) * (random.random((1000, 1)) < 1 / 30)
    slow_now = values[:, -2:].min(axis=1) > 0.03
    found = judged(values)
    assert slow_now.sum() > 50
    assert found.up.candidate[slow_now].mean() > 0.5
    assert found.up.proven[slow_now].mean() < 0.1


def proven_rises(values: np.ndarray) -> list[int]:
    return np.flatnonzero(judged(values).up.proven).tolist()


def test_what_the_past_has_seen_and_left_again_is_no_proof_however_long_ago() -> None:
    values = quiet(0.005, series=40, nights=300)
    values[:6, -3:] += 0.10
    for row, first in enumerate((50, 150, 250)):
        values[row, first : first + 3] += 0.10
    values[3, 100:110] += 0.10
    values[4, :60] += 0.10  # the level of the beginning, and an improvement that is taken back
    found = judged(values)
    assert np.flatnonzero(found.up.proven).tolist() == [4, 5]
    assert found.up.candidate[:6].all()
    assert found.up.seen[:6].tolist() == [[3, 247], [3, 147], [3, 47], [10, 190], [0, 0], [0, 0]]


def test_what_has_come_and_gone_at_another_level_is_no_proof_at_this_one() -> None:
    values = quiet(0.005, series=40, nights=300)
    values[0, 100:104] += 0.10
    values[0, 200:] -= 0.40
    values[0, -3:] += 0.10
    assert proven_rises(values) == []


def test_what_stays_twice_as_long_as_all_that_came_and_went_is_proof() -> None:
    values = quiet(0.005, series=40, nights=300)
    values[:, 100:102] += 0.10
    for runs, row in ((3, 0), (6, 1), (8, 2)):
        values[row, -runs:] += 0.10
    assert proven_rises(values) == [1, 2]


def test_a_level_of_a_few_nights_that_is_over_is_no_change_back() -> None:
    values = quiet(0.005, series=40, nights=120)
    values[0, -14:-3] -= 0.10
    values[1, -40:-3] -= 0.10
    found = judged(values)
    assert np.flatnonzero(found.up.proven).tolist() == [1]
    assert found.up.seen[:2].tolist() == [[9, 0], [0, 0]]  # two of its eleven runs are in the window of five


def test_eight_runs_are_proof_where_five_are_not() -> None:
    values = quiet(0.02)
    values[:100, -8:] += 0.045
    late = judged(values).up.proven[:100].mean()
    values[:100, -8:-5] -= 0.045
    assert late > judged(values).up.proven[:100].mean() + 0.15


def in_sessions(runs: int, seed: int, past: int) -> tuple[np.ndarray, np.ndarray]:
    """Values whose newest runs are of one session, which has half of the variance, as each of the past has; and the
    sessions."""
    random = np.random.default_rng(seed)
    sessions = np.append(np.arange(NIGHTS - runs) % past, [NIGHTS] * runs)
    occasions = 0.014 * random.standard_normal((200, NIGHTS + 1))
    values = occasions[:, sessions] + 0.014 * random.standard_normal((200, NIGHTS))
    return values, np.tile(sessions, (200, 1))


@pytest.mark.parametrize("past", [1, NIGHTS], ids=["one", "many"])
def test_runs_of_one_session_are_not_as_good_as_as_many_nights(past: int) -> None:
    false = apart = 0
    for seed in range(20):
        values, sessions = in_sessions(5, seed, past)
        false += judged(values, sessions=sessions).up.proven.sum()
        apart += judged(values).up.proven.sum()
    assert apart > 3
    assert false == 0


def test_a_large_change_is_proof_in_one_session_too() -> None:
    values, sessions = in_sessions(3, 1, NIGHTS)
    values[0, -3:] += math.log(1.4)
    assert judged(values, sessions=sessions).up.proven[0]


def test_too_little_past_is_not_judged() -> None:
    found = judged(quiet(nights=MIN_HISTORY))
    assert np.isnan(found.up.rate).all()
    assert not found.up.candidate.any()
    assert judged(quiet(nights=1)).history.tolist() == [0] * SERIES


def test_a_missing_newest_run_is_not_judged_and_missing_ones_before_leave_no_gap() -> None:
    values = quiet(0.005, series=50)
    values[0, -1] = np.nan
    values[1, [3, 10, -3]] = np.nan
    values[1, [-2, -1]] += math.log(1.10)
    found = judged(values)
    assert np.isnan(found.up.rate).tolist() == [True, *[False] * 49]
    assert not found.up.candidate[0]
    assert not found.down.candidate[0]
    assert found.up.candidate[1]


def test_a_constant_series_is_judged_like_a_very_steady_one() -> None:
    values = np.zeros((30, NIGHTS))
    values[0, -2:] = math.log(1.05)
    values[1, -2:] = math.log(1.001)
    found = judged(values)
    assert np.flatnonzero(found.up.candidate).tolist() == [0]
    assert found.sigma[5] == pytest.approx(0.001)


def test_what_a_machine_did_to_all_its_series_hides_and_feigns_nothing() -> None:
    values = quiet(0.005)
    offsets = np.random.default_rng(8).normal(0, 0.02, NIGHTS)
    offsets[-2:] = -0.03
    jobs, groups = np.tile(np.arange(NIGHTS), (SERIES, 1)), np.zeros(SERIES, dtype=np.int64)
    values[:100, -2:] += 0.03
    blind, seeing = judged(values + offsets), judged(values + offsets, jobs=jobs, groups=groups)
    assert blind.up.candidate[:100].mean() < 0.5
    assert seeing.up.candidate[:100].mean() > 0.95
    assert seeing.up.candidate[100:].mean() < 0.03
    assert seeing.offset[-1] == pytest.approx(-0.03, abs=0.005)


@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_noise_that_remembers_the_night_before_is_no_proof(memory: float) -> None:
    random = np.random.default_rng(9)
    values = random.standard_normal((SERIES, NIGHTS))
    for night in range(1, NIGHTS):
        values[:, night] = memory * values[:, night - 1] + (1 - memory**2) ** 0.5 * values[:, night]
    found = judged(0.03 * values)
    assert found.up.candidate.mean() < 0.045
    assert not found.up.proven.any()
    assert not found.down.proven.any()


def test_the_sides_are_mirror_images() -> None:
    values = quiet()
    values[:100, -2:] += 0.03
    up, down = judged(values), judged(-values)
    for field in dataclasses.fields(up.up):
        np.testing.assert_allclose(getattr(up.up, field.name), getattr(down.down, field.name))
    np.testing.assert_allclose(up.low, -down.high)


def test_windows_share_a_level_of_about_four_percent() -> None:
    """A change of LEVELS changes how many candidates there are in a night, which documentation and benchmarks tell."""
    values = quiet(0.03, series=20_000)
    assert judged(values).up.candidate.mean() == pytest.approx(0.037, abs=0.006)
    assert sorted(LEVELS) == [1, 2, 3, 5, 8]


def repetitions(newest: np.ndarray, spread: float = 0.01) -> Repetitions:
    """Three processes a run, of which the median is the run's value."""
    return Repetitions(newest - spread, newest + spread)


def test_one_run_is_proof_where_all_its_processes_agree_on_what_was_never_seen() -> None:
    values = quiet(series=40)
    values[0, -1] += math.log(2)
    values[1, -1] -= math.log(2)
    found = judged(values, repetitions=repetitions(values[:, -1]))
    assert np.flatnonzero(found.up.proven).tolist() == [0]
    assert np.flatnonzero(found.down.proven).tolist() == [1]
    assert found.runs[:2].tolist() == [1, 1]
    assert not judged(values).up.proven.any()


@pytest.mark.parametrize(
    "doubt", ["one process", "whole machine", "seen before", "short past", "half or less", "spikes elsewhere"]
)
def test_one_run_is_no_proof_where_there_is_any_other_explanation(doubt: str) -> None:
    values = quiet(series=40)
    values[0, -1] += math.log(2)
    given = repetitions(values[:, -1])
    if doubt == "one process":
        given.lowest[0] -= math.log(2)
    if doubt == "whole machine":
        values[:20, -1] += math.log(2)
        given = repetitions(values[:, -1])
    if doubt == "seen before":
        values[:, 7] += math.log(2)
    if doubt == "short past":
        values = values[:, -10:]
    if doubt == "spikes elsewhere":
        values[3, 7] += math.log(1.5)
    if doubt == "half or less":
        values[0, -1] -= math.log(2 / 1.45)
        given = repetitions(values[:, -1])
    found = judged(values, repetitions=given)
    assert found.up.candidate[0]
    assert not found.up.proven.any()
