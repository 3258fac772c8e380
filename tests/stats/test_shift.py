"""The size of a change between unpaired groups."""

from __future__ import annotations

import math
from itertools import combinations
from math import inf
from statistics import NormalDist

import numpy as np
import pytest

from torchperf_ci.stats.effect_estimates import _rank, _ways, shift_effect


def test_the_ratio_is_the_median_of_all_differences() -> None:
    effect = shift_effect(np.log([1.0, 2.0, 4.0]), np.log([8.0, 2.0]))
    assert effect.ratio == pytest.approx(np.sqrt(2 * 2))  # of the ratios 0.5, 1, 2, 2, 4, 8


def test_the_interval_is_the_tabulated_one() -> None:
    # Critical value of the Mann-Whitney statistic for 5 and 5 values at 95%: 2 (any table), so the third from each end.
    old, new = np.arange(5) / 100, np.arange(5) / 70 + 1
    differences = np.sort(np.subtract.outer(new, old), axis=None)
    effect = shift_effect(old, new)
    assert (effect.low, effect.high) == pytest.approx((np.exp(differences[2]), np.exp(differences[-3])))


def test_the_fewest_values_are_those_of_the_exact_distribution() -> None:
    """All of 5 beyond all of 5 happens to one order of 252: 99.2%; of 4 and 4 to one of 70: 97.1%."""
    five, four = np.arange(5) / 100, np.arange(4) / 100
    effect = shift_effect(five, five + 1, 0.99)
    assert (effect.low, effect.high) == pytest.approx((np.exp(0.96), np.exp(1.04)))
    assert shift_effect(five, np.arange(6) / 100 + 1, 0.99).low > 1
    assert shift_effect(four, four + 1, 0.99).low == 0
    assert shift_effect(four, four + 1).low > 1


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 2), (4, 4)])
def test_orders_are_counted_as_by_hand(m: int, n: int) -> None:
    counted = np.zeros(m * n + 1)
    for places in combinations(range(m + n), m):
        counted[sum(places) - m * (m - 1) // 2] += 1
    assert _ways(m, n).tolist() == counted.tolist()


@pytest.mark.parametrize(("m", "n"), [(20, 20), (8, 50), (13, 30)])
def test_where_the_exact_distribution_ends_the_approximation_is_as_good(m: int, n: int) -> None:
    z = NormalDist().inv_cdf(0.975)
    assert _ways(m, n).sum() == math.comb(m + n, m)
    approximate = math.floor(m * n / 2 - z * math.sqrt(m * n * (m + n + 1) / 12))
    assert abs(_rank(m, n, 0.95) - approximate) <= 2


def test_what_is_too_large_for_a_number_is_limited() -> None:
    old, new = np.log([1e-300] * 6), np.log([1e300] * 6)
    up, down = shift_effect(old, new), shift_effect(new, old)
    assert 1e300 < up.low <= up.ratio <= up.high < inf
    assert 0 < down.low <= down.ratio <= down.high < 1e-300


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    effects = [
        shift_effect(rng.standard_t(3, size=20) * 0.02, 0.05 + rng.standard_t(3, size=15) * 0.02)
        for _ in range(1000)
    ]
    assert 0.93 <= np.mean([effect.low <= np.exp(0.05) <= effect.high for effect in effects]) <= 0.97


def test_too_few_values_say_nothing_of_certainty() -> None:
    effect = shift_effect(np.array([0.0, 0.1]), np.array([0.2, 0.3]))
    assert (effect.low, effect.high) == (0.0, inf)
