from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.build_variance import (
    PRIOR_SIGMA,
    SIGMAS,
    SPOILED,
    SPOILED_SCALE,
    log_density,
    log_likelihood,
    sigma_prior,
)


@pytest.mark.parametrize("sigma", [SIGMAS[0], 0.015, SIGMAS[-1]])
def test_it_is_a_density(sigma) -> None:
    errors = np.concatenate([-np.geomspace(1e-7, 50, 20_000)[::-1], np.geomspace(1e-7, 50, 20_000)])
    density = np.exp(log_density(errors, sigma))
    between = (density[1:] + density[:-1]) / 2
    assert (between * np.diff(errors)).sum() == pytest.approx(1.0, abs=1e-4)
    assert density == pytest.approx(density[::-1])


def test_a_reading_may_be_anything_now_and_then() -> None:
    """Far away, the scale of the usual errors says nothing any more."""
    far = np.exp(log_density(np.array(0.7), SIGMAS[:3]))
    assert far == pytest.approx(SPOILED * np.exp(-0.7 / SPOILED_SCALE) / (2 * SPOILED_SCALE), rel=1e-3)


def test_readings_are_independent() -> None:
    levels, values = np.array([0.0, 0.05]), np.array([0.01, 0.06, -0.2])
    found = log_likelihood(values, levels)
    assert found.shape == (SIGMAS.size, 2)
    expected = sum(log_density(np.array(value - 0.05), SIGMAS) for value in values)
    assert found[:, 1] == pytest.approx(expected)
    assert log_likelihood(np.zeros(0), levels) == pytest.approx(0.0)


def test_beforehand_the_scale_is_believed_to_be_about_the_usual_one() -> None:
    shares = np.exp(sigma_prior())
    assert shares.sum() == pytest.approx(1.0)
    assert PRIOR_SIGMA / 1.7 < SIGMAS[shares.argmax()] < PRIOR_SIGMA * 1.7
