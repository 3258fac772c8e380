"""Change points: the rate of false ones, which changes are found, and the results for unusual series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from torchperf_ci.stats.segmentation import MIN_EFFECT, change_points
from torchperf_ci.stats.split_evidence import FEWEST, REACH

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Noise = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]

NOISES: dict[str, Noise] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t3": lambda rng, shape: rng.standard_t(3, size=shape),
    "spikes": lambda rng, shape: (
        rng.normal(size=shape) + 10 * (rng.random(shape) < 0.1) * rng.exponential(size=shape)
    ),
    "two modes": lambda rng, shape: rng.normal(size=shape) * 0.2 + 5 * (rng.random(shape) < 0.3),
    "coarse": lambda rng, shape: np.round(rng.normal(size=shape)),
}


def step(n: int, at: int, size: float, sigma: float = 0.01, seed: int = 0) -> NDArray[np.float64]:
    """One row of normal noise whose level changes by ``size`` at ``at``."""
    return np.random.default_rng(seed).normal(scale=sigma, size=(1, n)) + size * (np.arange(n) >= at)


def found(values: NDArray[np.float64]) -> list[int]:
    return change_points(np.atleast_2d(values))[0].tolist()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("n", "series"), [(10, 3000), (20, 3000), (60, 2000), (250, 400)])
def test_where_nothing_changed_hardly_a_series_has_a_change(noise: str, n: int, series: int) -> None:
    values = NOISES[noise](np.random.default_rng(n), (series, n))
    alarms = sum(row.size > 0 for row in change_points(values, min_effect=1e-9))
    # At a rate of 1% more than this would come by chance once in a thousand times.
    assert alarms <= 0.01 * series + 3 * np.sqrt(0.01 * series)


def test_noise_that_remembers_makes_few_more() -> None:
    noise = np.random.default_rng(45).normal(size=(65, 1500))
    for run in range(1, len(noise)):
        noise[run] += 0.4 * noise[run - 1]
    alarms = change_points(0.015 * noise[20:].T)
    assert np.mean([row.size > 0 for row in alarms]) < 0.045


@pytest.mark.parametrize(
    ("size", "sigma", "share"),
    [(0.03, 0.01, 0.95), (0.05, 0.02, 0.95), (0.10, 0.03, 0.97), (-0.05, 0.02, 0.95)],
)
def test_most_steps_are_found_and_where_they_are(size: float, sigma: float, share: float) -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_t(3, size=(200, 60)) / np.sqrt(3) * sigma
    values[:, 35:] += size
    near = [row.size == 1 and abs(row[0] - 35) <= 2 for row in change_points(values)]
    assert np.mean(near) >= share


def test_each_level_of_a_staircase_is_found() -> None:
    values = step(120, 30, 0.05) + 0.06 * (np.arange(120) >= 70) - 0.1 * (np.arange(120) >= 100)
    assert found(values) == [30, 70, 100]


def test_a_level_that_came_and_went_is_two_changes() -> None:
    assert found(step(300, 150, 0.1) - 0.1 * (np.arange(300) >= 161)) == [150, 161]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_spikes_are_no_level(width: int) -> None:
    values = step(100, 100, 0)
    for start in (10, 47, 80):
        values[0, start : start + width] += 0.8
    assert found(values) == []


@pytest.mark.parametrize("width", [1, 2])
def test_outliers_at_the_end_are_no_level(width: int) -> None:
    values = step(60, 60, 0)
    values[0, -width:] += 2.0
    assert found(values) == []


def test_spikes_do_not_hide_a_change() -> None:
    values = step(100, 60, 0.05)
    values[0, [12, 40, 61, 62, 90]] += 0.9
    assert found(values) == [60]


@pytest.mark.parametrize("after", range(1, 13))
def test_a_new_level_is_found_from_five_runs_on(after: int) -> None:
    values = step(60, 60 - after, 0.2)
    assert found(values) == ([60 - after] if after >= FEWEST else [])


def test_no_level_has_fewer_runs_than_the_minimum() -> None:
    rng = np.random.default_rng(8)
    values = np.cumsum(rng.standard_t(2, size=(300, 80)) * (rng.random((300, 80)) < 0.2), axis=1)
    lengths = [np.diff([0, *row, 80]).min() for row in change_points(values) if row.size]
    assert len(lengths) > 200
    assert min(lengths) >= FEWEST


@pytest.mark.parametrize("n", range(2 * FEWEST))
def test_a_short_series_has_no_change(n: int) -> None:
    assert found(np.repeat([[0.0, 1.0]], [n // 2, n - n // 2], axis=1)) == []


@pytest.mark.parametrize("n", range(2 * FEWEST, 2 * FEWEST + 8))
def test_two_clearly_separate_halves_are_two_levels_from_ten_runs_on(n: int) -> None:
    assert found(step(n, n // 2, 0.5)) == [n // 2]


def test_a_constant_series_has_no_change() -> None:
    assert found(np.full((1, 100), 3.7)) == []


def test_a_constant_series_that_steps_has_one() -> None:
    assert found(np.log(np.repeat([[344.0, 359.0, 364.0]], [24, 74, 52], axis=1))) == [24, 98]


def test_values_on_a_coarse_grid_step_too() -> None:
    rng = np.random.default_rng(2)
    milliseconds = np.round(rng.normal(20, 0.6, size=(1, 80))) + 3 * (np.arange(80) >= 45)
    assert found(np.log(milliseconds)) == [45]


@pytest.mark.parametrize(("size", "expected"), [(MIN_EFFECT * 0.7, []), (MIN_EFFECT * 1.5, [50])])
def test_a_clear_change_below_the_least_effect_is_none(size: float, expected: list[int]) -> None:
    assert found(step(100, 50, size, sigma=0.001)) == expected


def test_slow_drift_below_the_least_effect_is_no_change() -> None:
    assert found(step(200, 200, 0, sigma=0.002) + np.linspace(0, 0.03, 200)) == []


def test_more_noise_later_is_no_change_of_level() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(400, 60)) * np.where(np.arange(60) < 30, 0.01, 0.04)
    assert sum(row.size > 0 for row in change_points(values)) <= 8


def test_missing_runs_leave_no_gap_and_indices_are_of_columns() -> None:
    values = step(100, 60, 0.05)
    holes = np.full((1, 110), np.nan)
    columns = np.delete(np.arange(110), [0, 1, 2, 30, 31, 64, 65, 66, 90, 109])
    holes[0, columns] = values
    holes[0, 31] = -np.inf
    assert found(holes) == [columns[60]]


def test_rows_do_not_influence_each_other() -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(size=(50, 70)) * 0.01 + 0.06 * (np.arange(70) >= rng.integers(10, 60, size=(50, 1)))
    values[rng.random(values.shape) < 0.1] = np.nan
    together = change_points(values)
    assert sum(row.size for row in together) >= 45
    for row, alone in zip(together, values, strict=True):
        assert row.tolist() == found(alone)


def test_old_history_does_not_move_a_change() -> None:
    values = step(2 * REACH + 300, 330, 0.05)
    assert found(values) == [330]
    assert found(values[:, 250:]) == [80]


def test_no_series_and_no_runs() -> None:
    assert change_points(np.empty((0, 60))) == []
    assert found(np.empty((1, 0))) == []
    assert found(np.full((1, 60), np.nan)) == []


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, (3, 40), elements=st.floats(-1e3, 1e3) | st.sampled_from([np.nan, np.inf, -np.inf]))
)
def test_whatever_the_values_indices_are_in_order_and_apart(values: NDArray[np.float64]) -> None:
    for row, columns in zip(values, change_points(values), strict=True):
        known = np.flatnonzero(np.isfinite(row))
        places = np.searchsorted(known, columns)
        assert np.isin(columns, known).all()
        assert (np.diff([0, *places, known.size]) >= FEWEST).all() or not columns.size
