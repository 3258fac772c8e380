"""The size of a change between unpaired groups."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from torchperf_ci.stats.shift import shift_effect


def test_the_ratio_is_the_median_of_all_differences() -> None:
    effect = shift_effect(np.log([1.0, 2.0, 4.0]), np.log([8.0, 2.0]))
    assert effect.ratio == pytest.approx(np.sqrt(2 * 2))  # of the ratios 0.5, 1, 2, 2, 4, 8


def test_the_interval_is_the_tabulated_one() -> None:
    # Critical value of the Mann-Whitney statistic for 5 and 5 values at 95%: 2 (any table), so the third from each end.
    old, new = np.arange(5) / 100, np.arange(5) / 70 + 1
    differences = np.sort(np.subtract.outer(new, old), axis=None)
    effect = shift_effect(old, new)
    assert (effect.low, effect.high) == pytest.approx((np.exp(differences[2]), np.exp(differences[-3])))


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
