from __future__ import annotations

import math

import numpy as np
import pytest

from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.effect_estimates import paired_effect


def test_the_estimate_is_the_median_of_the_walsh_averages() -> None:
    effect = paired_effect([math.log(1.0), math.log(1.1), math.log(1.4)])
    walsh = sorted(
        math.log(a * b) / 2 for a, b in [(1, 1), (1, 1.1), (1.1, 1.1), (1, 1.4), (1.1, 1.4), (1.4, 1.4)]
    )
    assert effect.ratio == pytest.approx(math.exp((walsh[2] + walsh[3]) / 2))


def test_six_equal_signs_are_the_fewest_that_bound_a_95_percent_interval() -> None:
    assert paired_effect([0.01, 0.02, 0.03, 0.04, 0.05]).low == 0.0
    effect = paired_effect([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    assert (effect.low, effect.high) == (pytest.approx(math.exp(0.01)), pytest.approx(math.exp(0.06)))


def test_the_interval_is_the_published_one_for_ten_pairs() -> None:
    """Ten pairs at 95%: the 9th smallest and 9th largest Walsh average (Hollander & Wolfe, table A.4)."""
    x = np.array([0.3, -0.1, 0.7, 0.2, 0.5, 0.9, -0.4, 0.6, 0.8, 0.05])
    walsh = np.sort([(a + b) / 2 for i, a in enumerate(x) for b in x[i:]])
    effect = paired_effect(x)
    assert effect.low == pytest.approx(math.exp(walsh[8]))
    assert effect.high == pytest.approx(math.exp(walsh[-9]))


def test_95_percent_intervals_cover_the_truth_at_least_95_percent_of_the_time() -> None:
    rng = np.random.default_rng(0)
    trials = [paired_effect(rng.standard_t(3, 10) * 0.02 + 0.05) for _ in range(2000)]
    covered = sum(effect.low <= math.exp(0.05) <= effect.high for effect in trials) / len(trials)
    assert 0.945 <= covered <= 0.97


def test_one_spoiled_pair_moves_the_estimate_little() -> None:
    clean = [0.01, 0.012, 0.009, 0.011, 0.01, 0.008, 0.013, 0.01]
    assert paired_effect([*clean, 2.0]).ratio == pytest.approx(paired_effect(clean).ratio, abs=0.002)


def test_what_is_too_large_for_a_number_is_limited() -> None:
    effect = paired_effect([1000.0] * 6)
    assert 1e300 < effect.low == effect.ratio == effect.high < math.inf


@pytest.mark.parametrize("bad", [[], [math.nan], [math.inf, 0.0], [[0.1], [0.2]]])
def test_what_is_not_a_row_of_finite_numbers_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite log-ratios"):
        paired_effect(bad)


@pytest.mark.parametrize(("ratio", "size"), [(1.0, 0.0), (2.0, math.log(2)), (0.5, math.log(2))])
def test_the_size_of_a_change_is_the_same_in_both_directions(ratio: float, size: float) -> None:
    assert Effect(ratio).size == pytest.approx(size)


@pytest.mark.parametrize("ratio", [0.0, math.inf, math.nan])
def test_a_change_without_a_logarithm_is_the_largest(ratio: float) -> None:
    assert Effect(ratio).size == math.inf
