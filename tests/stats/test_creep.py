from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.creep import creep

RUNS = np.arange(120)
LEAST = np.log([1.03])


def noise(sigma: float = 0.01, seed: int = 0):
    return sigma * np.random.default_rng(seed).normal(size=(1, RUNS.size))


def test_a_tenth_of_a_percent_a_night_adds_up_to_what_matters() -> None:
    (change,) = creep(noise() + 0.001 * RUNS, LEAST)
    assert change == pytest.approx(0.06, abs=0.01)
    (change,) = creep(noise() - 0.001 * RUNS, LEAST)
    assert change == pytest.approx(-0.06, abs=0.01)


@pytest.mark.parametrize(
    "moved",
    [0.0 * RUNS, 0.0002 * RUNS, 0.06 * (RUNS >= 90)],
    ids=["nothing", "too little", "a step"],
)
def test_nothing_else_is_a_creep(moved) -> None:
    assert creep(noise() + moved, LEAST).tolist() == [0.0]


def test_noise_and_short_pasts_are_none() -> None:
    values = np.vstack([noise(0.05, seed) for seed in range(500)])
    assert not creep(values, np.repeat(LEAST, 500)).any()
    short = noise() + 0.001 * RUNS
    short[:, :60] = np.nan
    assert creep(short, LEAST).tolist() == creep(short[:, 60:], LEAST).tolist() == [0.0]


def test_noise_that_remembers_is_seldom_one() -> None:
    noises = 0.016 * np.random.default_rng(1).normal(size=(100, 2000))
    for run in range(1, 100):
        noises[run] += 0.6 * noises[run - 1]
    assert (creep(noises.T, np.repeat(LEAST, 2000)) != 0).mean() < 0.007
