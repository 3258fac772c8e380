from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from torchperf_ci.stats.noise import FLOOR, compacted, level_and_sigma, row_median

if TYPE_CHECKING:
    from torchperf_ci.stats import Floats


def robust_sigma(log_values: Floats) -> Floats:
    return level_and_sigma(log_values)[1]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(1)


def test_it_is_the_standard_deviation_of_normal_values(random: np.random.Generator) -> None:
    sigma = robust_sigma(random.normal(0, 0.02, (2000, 40)))
    assert np.median(sigma) == pytest.approx(0.02, rel=0.05)


def test_a_step_and_a_spike_hardly_move_it(random: np.random.Generator) -> None:
    quiet = random.normal(0, 0.02, (500, 40))
    spoiled = quiet.copy()
    spoiled[:, 38:] += 0.2
    spoiled[:, 7] += 3.0
    assert np.median(robust_sigma(spoiled) / robust_sigma(quiet)) < 1.3
    assert np.median(spoiled.std(axis=1) / quiet.std(axis=1)) > 10


def test_a_level_that_wanders_slowly_counts(random: np.random.Generator) -> None:
    wandering = np.cumsum(random.normal(0, 0.01, (500, 40)), axis=1)
    assert np.median(robust_sigma(wandering)) > 1.5 * 0.01


def test_a_constant_series_has_the_floor_and_a_coarse_one_more() -> None:
    coarse = np.log([29.0, 29, 29, 29, 30, 29, 29, 29, 29, 29])
    sigma = robust_sigma(np.array([np.zeros(10), coarse]))
    assert sigma[0] == FLOOR
    assert 0.003 < sigma[1] < 0.02


def test_missing_values_leave_no_gap_and_too_few_say_nothing() -> None:
    nan = np.nan
    values = np.array([[1.0, nan, 3.0, nan], [nan, nan, nan, 2.0], [nan] * 4])
    np.testing.assert_array_equal(compacted(values), [[nan, nan, 1.0, 3.0], [nan, nan, nan, 2.0], [nan] * 4])
    np.testing.assert_allclose(row_median(values), [2.0, 2.0, nan])
    assert np.isfinite(robust_sigma(values)).tolist() == [True, False, False]
    assert np.isnan(robust_sigma(np.empty((2, 0)))).all()
