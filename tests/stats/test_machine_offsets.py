from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.newest_runs import MIN_JOBS, MIN_SERIES, machine_offsets

NIGHTS = 30


def world(
    series: int = 200, spread: float = 0.01
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Residuals of two machines, each with an offset of its own every night, and what those offsets were."""
    random = np.random.default_rng(4)
    groups = np.repeat([0, 1], series // 2)
    offsets = random.normal(0, spread, (2, NIGHTS))
    sigma = np.exp(random.uniform(np.log(0.005), np.log(0.1), series))
    residuals = offsets[groups] + sigma[:, None] * random.standard_normal((series, NIGHTS))
    jobs = groups[:, None] * NIGHTS + np.arange(NIGHTS)
    return residuals, sigma, jobs, groups, offsets[groups]


def test_what_a_machine_did_to_all_of_a_job_is_found() -> None:
    residuals, sigma, jobs, groups, offsets = world()
    found = machine_offsets(residuals, sigma, jobs, groups)
    assert np.abs(found - offsets).mean() < 0.25 * np.abs(offsets).mean()
    assert np.ptp(found, axis=0).max() > 0, "each group has its own"


def test_a_job_far_outside_of_what_was_ordinary_keeps_the_rest() -> None:
    residuals, sigma, jobs, groups, _ = world()
    residuals[:, -1] += 0.3
    found = machine_offsets(residuals, sigma, jobs, groups)
    assert found[:, -1].max() < 0.06


def test_a_change_of_a_few_series_is_not_taken_for_the_machine() -> None:
    residuals, sigma, jobs, groups, _ = world()
    changed = residuals.copy()
    changed[:10, -1] += 0.1
    difference = machine_offsets(changed, sigma, jobs, groups) - machine_offsets(
        residuals, sigma, jobs, groups
    )
    assert np.abs(difference).max() < 0.005


@pytest.mark.parametrize(
    "blind",
    [
        lambda r, s, j, g: (r, s, np.full_like(j, -1), g),
        lambda r, s, j, g: (
            r[: MIN_SERIES - 1],
            s[: MIN_SERIES - 1],
            j[: MIN_SERIES - 1],
            g[: MIN_SERIES - 1],
        ),
        lambda r, s, j, g: (r[:, : MIN_JOBS - 1], s, j[:, : MIN_JOBS - 1], g),
        lambda r, s, j, g: (np.full_like(r, np.nan), s, j, g),
    ],
    ids=["unknown jobs", "few series", "few jobs", "no values"],
)
def test_where_it_cannot_be_told_nothing_is_taken_off(blind) -> None:
    residuals, sigma, jobs, groups, _ = world()
    assert not machine_offsets(*blind(residuals, sigma, jobs, groups)).any()
