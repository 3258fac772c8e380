from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.autocorrelation import SHARED, autocorrelations, variance_of_mean


def remembering(memory: float, series: int, runs: int) -> np.ndarray:
    random = np.random.default_rng(6)
    values = random.standard_normal((series, runs))
    for run in range(1, runs):
        values[:, run] = memory * values[:, run - 1] + (1 - memory**2) ** 0.5 * values[:, run]
    return values - np.median(values, axis=1, keepdims=True)


@pytest.mark.parametrize("memory", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("runs", [10, 40])
def test_the_memory_of_the_noise_is_found(memory: float, runs: int) -> None:
    found, largest = autocorrelations(remembering(memory, 500, runs), np.full(500, runs), 5)
    assert (largest >= found).all()
    assert found.mean() == pytest.approx(memory, abs=0.25)
    assert found.std() < 0.15, "one series with few runs does not speak for itself"


def test_a_few_that_remember_among_many_that_do_not_are_told_apart() -> None:
    values = np.vstack([remembering(0.8, 50, 40), remembering(0.0, 450, 40)])
    found, _ = autocorrelations(values, np.full(500, 40), 5)
    assert found[:50].mean() > 0.4
    assert found[50:].mean() < 0.15


def test_where_series_differ_a_memory_may_well_be_larger_than_few_runs_tell() -> None:
    different = np.vstack([remembering(0.5, 250, 40), remembering(0.0, 250, 40)])
    found, largest = autocorrelations(different, np.full(500, 40), 5)
    assert (largest[:250] > 0.4).mean() > (found[:250] > 0.4).mean() + 0.2
    found, largest = autocorrelations(remembering(0.0, 500, 40), np.full(500, 40), 5)
    assert np.median(largest - found) < 0.05


def test_spikes_feign_no_memory() -> None:
    values = remembering(0.0, 300, 40)
    values[:, [10, 11]] += 50
    assert autocorrelations(values, np.full(300, 40), 5)[0].mean() < 0.3


def test_missing_and_too_few_runs_have_none() -> None:
    nan = np.nan
    assert autocorrelations(np.array([[nan, nan, 1.0, -1.0]]), np.array([2]), 5)[0].tolist() == [0.0]


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_the_variance_of_a_mean_is_that_of_the_sum_of_all_covariances(runs: int) -> None:
    memory = np.array([0.0, 0.6])
    lags = np.abs(np.subtract.outer(np.arange(runs), np.arange(runs)))
    expected = [(one**lags).sum() / runs**2 for one in memory]
    apart = np.tile(np.arange(runs), (2, 1))
    np.testing.assert_allclose(variance_of_mean(memory, apart), expected)


def test_runs_of_one_session_have_most_of_their_noise_in_common() -> None:
    memory = np.array([0.0, 0.9])
    together = np.array([[1, 1, 2], [1, 1, 1]])
    expected = [(3 + 2 * SHARED) / 9, (3 + 4 * 0.9 + 2 * 0.81) / 9]
    np.testing.assert_allclose(variance_of_mean(memory, together), expected)
