from __future__ import annotations

import math

import numpy as np
import pytest

from torchperf_ci.stats.effect_estimates import geometric_mean


def test_one_case_has_students_interval() -> None:
    """Five values with mean 0 and variance 1: t(4) at 97.5% is 2.776."""
    row = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) / math.sqrt(2.5) / 100
    effect = geometric_mean([row])
    assert effect.ratio == pytest.approx(1)
    assert math.log(effect.high) == pytest.approx(2.776 * 0.01 / math.sqrt(5), rel=0.01)
    assert math.log(effect.low) == pytest.approx(-math.log(effect.high))
    assert effect.pairs == 5


def test_cases_weigh_the_same_however_many_pairs_they_have() -> None:
    effect = geometric_mean([[0.1, 0.1], [-0.1] * 50])
    assert effect.ratio == pytest.approx(1)


def test_equal_cases_have_the_degrees_of_freedom_of_all_together() -> None:
    """Welch and Satterthwaite: four equal variances from three pairs each make 4·2 degrees of freedom, t = 2.306."""
    effect = geometric_mean([[-0.01, 0.0, 0.01]] * 4)
    assert math.log(effect.high) == pytest.approx(2.306 * 0.01 / math.sqrt(12), rel=0.01)


def test_one_noisy_case_has_its_own_degrees_of_freedom_only() -> None:
    """t(2) is 4.303, of which the approximation makes 4.4."""
    effect = geometric_mean([[-0.1, 0.0, 0.1], [-1e-6, 0.0, 1e-6]])
    assert math.log(effect.high) == pytest.approx(4.303 * 0.1 / math.sqrt(3) / 2, rel=0.05)


def test_pairs_that_are_all_equal_leave_nothing_open() -> None:
    effect = geometric_mean([[0.02, 0.02], [0.04, 0.04]])
    assert (effect.low, effect.high) == (effect.ratio, effect.ratio)


def test_what_is_too_large_for_a_number_is_limited() -> None:
    effect = geometric_mean([[700.0, 705.0]])
    assert 1e300 < effect.ratio <= effect.high < math.inf


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        rows = [rng.normal(0.01, sd, 6) for sd in (0.005, 0.01, 0.03)]
        effect = geometric_mean(rows)
        covered += effect.low <= math.exp(0.01) <= effect.high
    assert 0.94 <= covered / 1000 <= 0.975


@pytest.mark.parametrize("rows", [[], [[0.1]], [[0.1, 0.2], [0.1]]])
def test_a_single_pair_is_no_sample(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="two or more pairs"):
        geometric_mean(rows)
