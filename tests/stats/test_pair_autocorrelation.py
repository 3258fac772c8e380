"""The autocorrelation of pairs, recovered from simulated series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from torchperf_ci.stats.autocorrelation import (
    PairSeries,
    increase_beyond_autocorrelation,
    pair_autocorrelation,
)
from torchperf_ci.stats.comparison import PairReading, judge_pairs
from torchperf_ci.stats.sequential_test import boundaries


def remembering(correlation: float, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Each value is like the one before it; all have a standard deviation of 1%."""
    noise = np.random.default_rng(seed).normal(0, 0.01, shape)
    for place in range(1, shape[1]):
        noise[:, place] += (
            correlation * noise[:, place - 1] - (1 - np.sqrt(1 - correlation**2)) * noise[:, place]
        )
    return noise


def a_row(values: np.ndarray, group: int = 0) -> PairSeries:
    return PairSeries(values, np.arange(float(values.size)), np.full(values.size, group))


def independent(*rows: PairSeries) -> float:
    """The probability that pairs do not remember, which is 80% beforehand."""
    return float(pair_autocorrelation(rows)[0, 0])


@pytest.mark.parametrize(("correlation", "least", "most"), [(0.0, 0.85, 1), (0.6, 0, 0.3), (0.8, 0, 0.02)])
def test_memory_is_found_where_it_is(correlation: float, least: float, most: float) -> None:
    found = np.median([independent(a_row(row)) for row in remembering(correlation, (60, 40))])
    assert least < found < most


def test_a_session_of_many_series_tells_more_than_one() -> None:
    rows = remembering(0.8, (12, 6))
    assert independent(*map(a_row, rows)) < 0.1 < 0.5 < np.mean([independent(a_row(row)) for row in rows])


def test_steps_between_groups_are_no_memory() -> None:
    values = remembering(0.0, (1, 40))[0]
    groups = np.arange(40) // 10
    stepped = PairSeries(values + 0.1 * groups, np.arange(40.0), groups)
    assert independent(a_row(stepped.values)) < 0.01 < 0.6 < independent(stepped)


def test_a_spoiled_pair_is_no_memory() -> None:
    values = remembering(0.0, (1, 30))[0]
    values[[7, 19]] = 0.4, -0.5
    assert independent(a_row(values)) > 0.8


def test_base_against_itself_shows_an_offset_that_a_mean_hides() -> None:
    values = 0.02 + remembering(0.0, (1, 8))[0] / 10
    assert independent(a_row(values, group=-1)) < 0.1 < 0.7 < independent(a_row(values))


def test_pairs_far_apart_prove_more() -> None:
    memory = pair_autocorrelation([a_row(row) for row in remembering(0.8, (4, 20))])
    row = a_row(0.03 + remembering(0.0, (1, 12))[0])
    near, far = (
        increase_beyond_autocorrelation(replace(row, times=each), 0.03, memory)
        for each in (row.times, 10 * row.times)
    )
    assert far > near + 2


def test_nothing_measured_is_what_is_believed_beforehand() -> None:
    assert independent() == pytest.approx(0.8)
    assert independent(a_row(np.zeros(5))) == independent()


def beyond(values: np.ndarray, controls: tuple[int, ...] = ()) -> float:
    """The evidence for a change of 3% or more, where the pairs at ``controls`` are base against itself."""
    groups = np.where(np.isin(np.arange(values.size), controls), -1, 0)
    return increase_beyond_autocorrelation(
        PairSeries(values, np.arange(float(values.size)), groups), 0.03, pair_autocorrelation([])
    )


def test_pairs_that_agree_and_may_all_have_remembered_the_first_prove_less() -> None:
    values = 0.04 + remembering(0.0, (1, 12))[0]
    mixed = values.copy()
    mixed[[3, 7, 11]] -= 0.04
    assert 1 < beyond(values) < beyond(mixed, (3, 7, 11)) - 2


def test_an_offset_that_base_against_itself_has_too_proves_nothing() -> None:
    assert beyond(0.04 + remembering(0.0, (1, 12))[0], (3, 7, 11)) < 2


def test_what_favours_whichever_begins_is_no_change_and_hides_none() -> None:
    """Memory of 3%, 70 of 100 of which is left after a pair; head begins every other one."""
    signs = np.where(np.arange(12) % 2, -1.0, 1.0)
    remembered = 0.03 * remembering(0.7, (1, 12))[0] / 0.01
    groups = np.zeros(12, np.intp)

    def weighed(values: np.ndarray, signs: np.ndarray) -> float:
        row = PairSeries(values, np.arange(12.0), groups, signs)
        return increase_beyond_autocorrelation(row, 0.03, pair_autocorrelation([]))

    assert weighed(signs * remembered, signs) < 0
    assert weighed(0.06 + signs * remembered, signs) > weighed(0.06 + remembered, np.ones(12)) + 2
    changed = 0.06 + remembering(0.0, (1, 12))[0]
    assert weighed(changed + signs * 0.1, signs) == pytest.approx(weighed(changed + signs * 0.05, signs))


def test_memory_is_seen_behind_the_order_of_pairs() -> None:
    signs = np.where(np.arange(20) % 2, -1.0, 1.0)
    rows = [
        PairSeries(signs * row.values, row.times, row.groups, signs)
        for row in map(a_row, remembering(0.8, (4, 20)))
    ]
    assert independent(*rows) < 0.1 < 0.5 < independent(*(replace(row, signs=np.ones(20)) for row in rows))


def test_no_change_is_told_from_a_change() -> None:
    assert beyond(remembering(0.0, (1, 12))[0]) < -2


def test_a_change_beyond_the_largest_considered_is_no_less_proven() -> None:
    """The pairs, with one in three of base against itself, of a commit that is 14 times as slow on a busy machine."""
    values = np.array([2.61, 2.39, 2.21, 0.23, 2.50, 2.85, 2.90, 0.07, 2.83, 2.87, 2.60, -0.21])
    assert beyond(values, (3, 7, 11)) > boundaries(2)[0]


@pytest.mark.parametrize(("sign", "word"), [(1, "increase"), (-1, "decrease")])
def test_what_proves_a_change_is_no_proof_in_a_session_whose_other_cases_remember(
    sign: int, word: str
) -> None:
    """Also where head begins every other pair, and what is remembered favours whichever begins."""
    order = np.where(np.arange(12) % 2, -1.0, 1.0)
    pairs = [PairReading(sign * value) for value in 0.06 + remembering(0.0, (1, 12))[0]]

    def judged_beside(others: np.ndarray, signs: np.ndarray) -> str:
        readings = [
            [PairReading(value, head_first=bool(turn < 0)) for value, turn in zip(row, signs, strict=True)]
            for row in signs * others
        ]
        return judge_pairs(pairs, readings, 0.03, cases=7).word

    assert judged_beside(remembering(0.0, (6, 12), seed=10), np.ones(12)) == word
    assert judged_beside(remembering(0.9, (6, 12), seed=10), np.ones(12)) == "open"
    assert judged_beside(remembering(0.9, (6, 12), seed=10), order) == "open"


@pytest.mark.parametrize(
    ("pairs", "cases", "word"),
    [(0.005, 1, "increase"), (0.004, 1, "open"), (0.05, 5, "increase"), (0.05, 6, "open")],
)
def test_few_pairs_beyond_all_controls_prove_a_change_of_some_times_their_spread(
    pairs: float, cases: int, word: str
) -> None:
    """And the more cases, the more pairs it takes, however far beyond: processes may have two modes."""
    spread = np.array([-3, -1, 1, 3]) / 3000
    row = [PairReading(value) for value in pairs + spread]
    row += [PairReading(value, control=True) for value in (-0.0007, 0.0007)]
    assert judge_pairs(row, [], 0.005, cases=cases).word == word


@pytest.mark.parametrize(
    ("row", "last", "word"),
    [
        ([0.0, 0.0], True, "open"),
        ([-0.003, 0.0, 0.003], False, "none"),
        ([-0.006, 0.0, 0.006], True, "open"),
        ([-0.025, 0.025] * 3, False, "open"),
        ([-0.025, 0.025] * 3, True, "none"),
    ],
)
def test_only_the_last_look_at_enough_pairs_does_with_a_narrower_interval(
    row: list[float], last: bool, word: str
) -> None:
    assert judge_pairs([PairReading(value) for value in row], [], 0.03, cases=1, last=last).word == word


def test_few_pairs_have_the_interval_of_student() -> None:
    """The table's quantile of 97.5% is 4.303 at two degrees of freedom."""
    effect = judge_pairs([PairReading(value) for value in (0.1, 0.2, 0.3)], [], 0.03, cases=1).effect
    assert np.log(effect.ratio) == pytest.approx(0.2)
    half = np.log([effect.ratio / effect.low, effect.high / effect.ratio])
    assert half == pytest.approx([4.303 * 0.1 / np.sqrt(3)] * 2, rel=0.05)
    alone = judge_pairs([PairReading(0.1)], [], 0.03, cases=1).effect
    assert (alone.low, alone.high) == (0.0, np.inf)
