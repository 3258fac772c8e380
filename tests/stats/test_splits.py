"""The evidence for two levels, compared with the hand computation in the documentation and with the plain formula."""

from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.effect_estimates import shift_effect
from torchperf_ci.stats.local_evidence import MAX_AROUND, OtherNoise, RankedWindows
from torchperf_ci.stats.segmentation import change_points
from torchperf_ci.stats.split_evidence import FEWEST, NormalScores, normal_scores, stretches, threshold

BEFORE = np.log([20.1, 19.8, 20.0, 20.3, 19.9, 20.2])
AFTER = np.log([21.4, 21.0, 21.2, 24.0, 20.9, 21.1])


def evidence(left: np.ndarray, right: np.ndarray, others: np.ndarray | tuple[()] = ()) -> float:
    """Of one window, whose own noise is left out of that of its series."""
    values, row = np.concatenate([left, right])[None], np.zeros(1, dtype=np.intp)
    noise = np.concatenate([left - np.median(left), right - np.median(right), others])
    order = noise.argsort()
    scores = NormalScores(np.array([noise.size]))
    ranked = RankedWindows(values, np.array([left.size]), np.array([values.size]), scores, row)
    around = OtherNoise([noise[order]]).around(ranked.values, row, order.argsort()[None, : values.size])
    return float(ranked.evidence(*around)[0])


def test_the_example_of_the_documentation() -> None:
    scores, squares = normal_scores(np.append(BEFORE, AFTER)[None])
    assert scores[0, :6].round(2).tolist() == [-0.54, -1.64, -0.79, -0.10, -1.11, -0.31]
    assert (scores[0, :6].sum().round(2), squares.sum().round(2)) == (-4.49, 9.87)
    assert evidence(BEFORE, AFTER) == pytest.approx(13.7, abs=0.05)
    assert threshold(12) == 12
    assert change_points(np.append(BEFORE, AFTER)[None])[0].tolist() == [6]
    effect = shift_effect(BEFORE, AFTER)
    assert (effect.ratio, effect.low, effect.high) == pytest.approx((1.055, 1.040, 1.182), abs=5e-4)


@pytest.mark.parametrize(("n", "expected"), [(10, 10), (60, 19.8), (250, 23.9), (1000, 27.9)])
def test_the_thresholds_of_the_documentation(n: int, expected: float) -> None:
    assert threshold(n) == pytest.approx(expected, abs=0.05)


def test_equal_values_share_what_they_would_have_by_chance() -> None:
    values = np.array([3.0, 1.0, 3.0, 2.0, 3.0])
    ordered, _ = normal_scores(np.arange(5.0)[None])
    scores, squares = normal_scores(values[None])
    shared = ordered[0, 2:].mean()
    assert scores[0] == pytest.approx([shared, ordered[0, 0], shared, ordered[0, 1], shared])
    assert squares.sum() == pytest.approx((ordered**2).sum())


@pytest.mark.parametrize("n", [10, 13, 33, 60])
def test_the_longest_stretch_has_the_evidence_of_the_plain_formula(n: int) -> None:
    values = np.random.default_rng(n).normal(size=(4, n)).round(1)
    seen = stretches(values)
    for row, one in enumerate(values):
        plain = [evidence(one[:k], one[k:]) for k in range(FEWEST, n - FEWEST + 1)]
        assert seen.evidence[-1, row] == pytest.approx(max(plain))
        assert plain[seen.place(0, n, row) - FEWEST] == pytest.approx(max(plain))


def test_rows_that_end_together_have_the_stretches_that_each_has_alone() -> None:
    rng = np.random.default_rng(4)
    rows = [rng.normal(size=n).round(1) for n in (60, 61, 75, 75, 130)]
    together = np.array([np.append(np.full(130 - row.size, np.nan), row) for row in rows])
    seen = stretches(together)
    for number, row in enumerate(rows):
        alone, before = stretches(row[None]), 130 - row.size
        inside = seen.starts >= before
        assert (seen.starts[inside] - before).tolist() == alone.starts.tolist()
        assert seen.evidence[inside, number].tolist() == alone.evidence[:, 0].tolist()
        assert not seen.evidence[~inside, number].any()
        assert seen.place(before, 130, number) == before + alone.place(0, row.size, 0)


def test_stretches_reach_the_newest_point_and_stay_inside() -> None:
    splits = stretches(np.random.default_rng(2).normal(size=(1, 101)))
    assert set(splits.ends - splits.starts) == {10, 14, 20, 28, 40, 60}
    for length in set(splits.ends - splits.starts):
        assert splits.ends[splits.ends - splits.starts == length].max() == 101
    assert splits.starts.min() == 0
    for start, end in zip(splits.starts, splits.ends, strict=True):
        assert FEWEST <= splits.place(start, end, 0) - start <= end - start - FEWEST


def test_too_few_points_on_a_side_are_no_evidence() -> None:
    assert evidence(np.zeros(FEWEST - 1), np.ones(20)) == 0


def test_other_noise_shares_the_ranks_and_counts_as_if_it_were_in_the_stretch() -> None:
    rng = np.random.default_rng(7)
    left, right, others = rng.normal(size=(3, 12))
    scores, squares = normal_scores(np.concatenate([left, right, others])[None])
    between = 6 * (scores[0, :12].mean() - scores[0, 12:24].mean()) ** 2
    within = squares.sum() - 12 * (scores[0, :12].mean() ** 2 + scores[0, 12:24].mean() ** 2)
    assert others.size < MAX_AROUND
    assert evidence(left, right, np.sort(others)) == pytest.approx(36 * np.log1p(between / within))


def test_a_short_level_beyond_all_noise_is_clearer_than_its_own_runs_tell() -> None:
    rng = np.random.default_rng(3)
    old, new = rng.normal(size=10), 8 + rng.normal(size=12)
    others = np.sort(rng.normal(size=300))
    assert evidence(old, new) < threshold(800) < evidence(old - 4, new - 4, others)


def test_two_modes_that_all_noise_has_are_less_clear_than_by_themselves() -> None:
    rng = np.random.default_rng(3)
    old, new = rng.normal(size=10), 8 + rng.normal(size=12)
    others = np.sort(rng.normal(size=300) + 8 * (rng.random(300) < 0.5))
    assert evidence(old, new, others) < evidence(old, new)
