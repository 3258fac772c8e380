from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.build_variance import LARGE_TAU, USUAL_TAU, TauEstimate, estimate_tau, most_luck

SERIES, RUNS = 20, 90


def history(
    tau: float, sigma: float, *, again: float = 0.3, steps: float = 0.02
) -> tuple[np.ndarray, np.ndarray]:
    """Runs of wheels, of which a share is measured again, with a level that changes now and then."""
    random = np.random.default_rng(20261201)
    builds = np.cumsum(random.random(RUNS) >= again)
    offsets = tau * random.normal(size=(SERIES, RUNS + 1))
    levels = np.cumsum(
        (random.random((SERIES, RUNS)) < steps) * random.normal(0, 0.1, (SERIES, RUNS)), axis=1
    )
    noise = sigma * random.standard_t(5, size=(SERIES, RUNS)) / np.sqrt(5 / 3)
    return levels + offsets[:, builds] + noise, np.broadcast_to(builds, (SERIES, RUNS))


def median(found: list[TauEstimate]) -> float:
    return float(np.median([luck.tau for luck in found]))


@pytest.mark.parametrize("tau", [0.003, 0.01])
def test_what_wheels_differ_by_is_found_beside_the_noise_whatever_steps_there_are(tau: float) -> None:
    found = estimate_tau(*history(tau, sigma=0.003))
    assert median(found) == pytest.approx(tau, rel=0.3)
    assert np.mean([luck.quantile(0.025) < tau < luck.quantile(0.975) for luck in found]) >= 0.9


def test_without_luck_little_is_left_of_it() -> None:
    found = estimate_tau(*history(0.0, sigma=0.003))
    assert median(found) < 0.0015
    assert max(luck.quantile(0.975) for luck in found) < 0.006


def test_one_run_a_wheel_says_nothing_but_how_large_luck_may_be() -> None:
    for tau in (0.0, 0.01):
        assert median(estimate_tau(*history(tau, sigma=0.03, again=0.0))) == pytest.approx(USUAL_TAU, rel=0.1)
    quiet = estimate_tau(*history(0.0, sigma=0.001, again=0.0))
    assert max(luck.quantile(0.975) for luck in quiet) < 0.0025


def test_a_past_that_is_empty_or_of_unknown_builds_leaves_what_is_usual() -> None:
    values, builds = history(0.01, sigma=0.003)
    for found in (estimate_tau(values, np.full_like(builds, -1)), estimate_tau(values[:, :0], builds[:, :0])):
        assert median(found) == pytest.approx(USUAL_TAU, rel=0.02)
        assert found[0].quantile(0.975) == pytest.approx(0.0175, rel=0.05)
    assert estimate_tau(values[:0], builds[:0]) == []


def test_missing_runs_leave_no_gap() -> None:
    values, builds = history(0.01, sigma=0.003)
    missing = np.arange(RUNS) % 3 > 0
    gaps = estimate_tau(np.where(missing, np.nan, values), builds)
    compact = estimate_tau(values[:, ~missing], builds[:, ~missing])
    assert [luck.tau for luck in gaps] == pytest.approx([luck.tau for luck in compact])


def test_what_all_series_of_a_run_share_is_told_once() -> None:
    values, builds = history(0.01, sigma=0.003)
    shared = estimate_tau(np.tile(values[:1], (SERIES, 1)), builds)[0]
    assert shared.shares == pytest.approx(estimate_tau(values[:1], builds[:1])[0].shares, abs=1e-3)


def test_series_tell_about_each_other_where_wheels_were_measured_again() -> None:
    for again, narrower in ((0.3, True), (0.0, False)):
        values, builds = history(0.0, sigma=0.004, again=again)
        alone, beside = estimate_tau(values[:1], builds[:1])[0], estimate_tau(values, builds)[0]
        assert (beside.tau < 0.7 * alone.tau) == narrower


def test_the_chance_that_luck_makes_a_change_falls_with_its_size_and_the_number_of_builds() -> None:
    luck = estimate_tau(*history(0.01, sigma=0.003))[0]
    assert luck.chance(0.0, (1, 1)) == pytest.approx(0.5)
    assert luck.chance(0.014, (1, 1)) == luck.chance(-0.014, (1, 1)) == pytest.approx(0.16, abs=0.03)
    assert luck.chance(0.014, (40, 1)) < luck.chance(0.014, (1, 1))
    assert luck.chance(0.014, (40, 5)) < 0.01
    assert luck.chance(0.06, (1, 1)) < 0.01


@pytest.mark.parametrize("alpha", [0.01, 0.001])
def test_two_builds_seldom_differ_by_more_than_the_most_luck(alpha: float) -> None:
    offsets = np.random.default_rng(1).normal(0, LARGE_TAU, (2, 1_000_000))
    assert (offsets[1] - offsets[0] > most_luck(alpha)).mean() == pytest.approx(alpha, rel=0.1)
