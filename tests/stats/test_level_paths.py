"""The sums over all paths, compared with an enumeration of the paths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchperf_ci.stats.build_variance import PRIOR_SIGMA, SIGMAS, Readings, log_density, sigma_prior
from torchperf_ci.stats.level_grid import CHANGE, LevelGrid, jump_probabilities, level_grid
from torchperf_ci.stats.level_paths import NEGLIGIBLE, chance_later_is_slower, weigh_levels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIN_EFFECT = math.log1p(0.03)
STEP = MIN_EFFECT / 2
SMALL = LevelGrid(np.arange(-2, 5) * STEP, STEP, np.arange(-2, 5) >= 1)
BUILDS = 4

Triples = list[tuple[int, int, float]]


def readings(*triples: tuple[int, int, float]) -> Readings:
    base, head, values = zip(*triples, strict=True) if triples else ((), (), ())
    return Readings(np.array(base, np.intp), np.array(head, np.intp), np.array(values, np.float64))


@dataclass(frozen=True)
class Path:
    """Indices of the levels of all builds, and the joint probability with the readings and their scale."""

    levels: tuple[int, ...]
    sigma: float
    weight: float

    @property
    def slow_since(self) -> int:
        """The last build that is not slow."""
        return max(build for build, level in enumerate(self.levels) if not SMALL.slow[level])


def paths(chances: Floats, triples: Triples) -> Iterator[Path]:
    moves = jump_probabilities(SMALL, MIN_EFFECT)
    for others in product(range(SMALL.levels.size), repeat=BUILDS - 1):
        path = (SMALL.origin, *others)
        prior = 1.0
        for chance, old, new in zip(chances, path, path[1:], strict=False):
            prior *= chance * moves[old, new] + (1 - chance) * (old == new)
        if not prior:
            continue
        at = SMALL.levels[list(path)]
        errors = np.array([value - (at[head] - at[base]) for base, head, value in triples])
        for sigma, belief in zip(SIGMAS, sigma_prior(), strict=True):
            fit = log_density(errors, np.array(sigma)).sum()
            yield Path(path, float(sigma), prior * math.exp(belief + fit))


def expected(chances: Floats, triples: Triples) -> dict[str, Floats]:
    """What :func:`weigh_levels` should say, path by path."""
    gaps, none, sigma, last = np.zeros(BUILDS - 1), 0.0, 0.0, BUILDS - 1
    before, after = np.zeros((2, BUILDS, SMALL.levels.size))
    for path in paths(chances, triples):
        sigma += path.weight * path.sigma
        if path.slow_since == last:
            none += path.weight
        else:
            gaps[path.slow_since] += path.weight
        for build, level in enumerate(path.levels):
            (after if build > path.slow_since else before)[build, level] += path.weight
    total = gaps.sum() + none
    return {
        name: np.asarray(value) / total
        for name, value in {
            "gaps": gaps,
            "none": none,
            "before": before,
            "after": after,
            "sigma": sigma,
        }.items()
    }


MIXED = [(0, 3, 0.04), (0, 3, 0.05), (0, 1, 0.001), (1, 2, 0.03), (2, 3, -0.01)]
EXAMPLES = {
    "nothing": [],
    "of the first": [(0, 3, 0.031), (0, 1, 0.002), (0, 2, 0.035)],
    "of neighbours": [(0, 1, -0.01), (1, 2, 0.02), (2, 3, 0.015), (2, 3, 0.03)],
    "mixed": MIXED,
    "far off the grid": [(0, 3, 2.0), (0, 2, -1.0), (1, 2, 0.5)],
}


@pytest.mark.parametrize("triples", EXAMPLES.values(), ids=EXAMPLES)
def test_all_paths_are_weighed_at_once(triples) -> None:
    chances = np.array([0.1, 0.4, 0.02])
    found, known = weigh_levels(chances, readings(*triples), SMALL, MIN_EFFECT), expected(chances, triples)
    for name, value in known.items():
        assert getattr(found, name) == pytest.approx(value, abs=1e-9), name


values = st.floats(-0.1, 0.2)
pairs = st.sampled_from([(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(1e-4, 0.9), min_size=3, max_size=3), st.lists(st.tuples(pairs, values), max_size=6))
def test_any_readings_are_weighed_as_each_path_by_itself(chances, taken) -> None:
    triples = [(*ends, value) for ends, value in taken]
    found = weigh_levels(np.array(chances), readings(*triples), SMALL, MIN_EFFECT)
    known = expected(np.array(chances), triples)
    assert np.append(found.gaps, found.none) == pytest.approx(
        np.append(known["gaps"], known["none"]), abs=1e-9
    )
    assert found.after == pytest.approx(known["after"], abs=1e-9)
    assert found.before == pytest.approx(known["before"], abs=1e-9)


@pytest.mark.parametrize("ends", [(0, 1), (0, 3), (1, 2), (1, 3)])
def test_a_rise_between_any_two_builds(ends) -> None:
    chances, total, higher = np.array([0.1, 0.4, 0.02]), 0.0, 0.0
    for path in paths(chances, MIXED):
        total += path.weight
        higher += path.weight * (path.levels[ends[1]] > path.levels[ends[0]])
    found = chance_later_is_slower(chances, readings(*MIXED), SMALL, MIN_EFFECT, *ends)
    assert found == pytest.approx(higher / total, abs=NEGLIGIBLE * SMALL.levels.size)


@pytest.mark.parametrize("triples", EXAMPLES.values(), ids=EXAMPLES)
def test_what_is_told_of_a_build_is_one_distribution(triples) -> None:
    found = weigh_levels(np.array([0.1, 0.4, 0.02]), readings(*triples), SMALL, MIN_EFFECT)
    assert (found.before + found.after).sum(axis=1) == pytest.approx(1.0)
    assert found.gaps.sum() + found.none == pytest.approx(1.0)
    assert found.after[:, ~SMALL.slow] == pytest.approx(0.0)


def test_builds_that_no_path_fits_well_are_no_more_than_numbers_can_hold_either() -> None:
    triples = [(0, build, 0.01) for build in range(1, 21) for _ in range(10)]
    found = weigh_levels(
        np.full(20, 0.02), readings(*triples), level_grid(np.array([0.01]), MIN_EFFECT), MIN_EFFECT
    )
    assert found.gaps.sum() + found.none == pytest.approx(1.0)
    assert np.isfinite(found.before).all()


@pytest.mark.parametrize("level", [0.01, 0.3])
def test_a_thousand_quiet_readings_are_no_more_than_numbers_can_hold(level) -> None:
    """A level of 0.01 is none that a single change leads to: all that is possible fits badly."""
    triples = [(0, 3, level)] * 500 + [(0, 2, level)] * 500 + [(1, 2, level)] * 300
    found = weigh_levels(
        np.full(3, 0.1), readings(*triples), level_grid(np.array([level]), MIN_EFFECT), MIN_EFFECT
    )
    assert found.gaps.sum() + found.none == pytest.approx(1.0)
    assert np.isfinite(found.after).all()
    assert np.isfinite(
        chance_later_is_slower(np.full(3, 0.1), readings(*triples), found.grid, MIN_EFFECT, 0, 3)
    )


def test_the_priors_are_those_that_are_named() -> None:
    """All other tests take them as they are: Student's t of three degrees, and a scaled inverse χ²."""
    span = level_grid(np.array([-0.8, -0.8, 0.8, 0.8]), MIN_EFFECT)
    moves = jump_probabilities(span, MIN_EFFECT)[span.origin]
    one, ten = (int(np.argmin(np.abs(span.levels - times * CHANGE))) for times in (1, 10))
    assert moves[one] / moves[ten] == pytest.approx(((3 + 100) / (3 + 1)) ** 2, rel=0.1)
    assert SIGMAS[sigma_prior().argmax()] == pytest.approx(PRIOR_SIGMA, rel=0.3)
    assert np.exp(sigma_prior()).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("min_effect", [0.001, 0.01, 0.03, 0.05, 0.1, 0.5])
def test_a_change_of_half_the_least_effect_counts_wherever_it_starts(min_effect) -> None:
    """It is a whole number of steps, which rounding must not turn into less."""
    found = level_grid(np.array([-min_effect, 2 * min_effect]), min_effect)
    steps = np.arange(found.levels.size)
    away = np.abs(steps - steps[:, np.newaxis])
    moves = jump_probabilities(found, min_effect)
    assert ((moves > 0) == (away >= 3)).all()
    assert (found.slow == (steps - found.origin >= 3)).all()
    assert moves.sum(axis=1) == pytest.approx(1.0)


def test_the_grid_spans_what_was_read_but_not_for_one_reading_alone() -> None:
    values = np.array([0.0, 0.5, 0.7, 0.7, -0.4, -0.4])
    span = level_grid(values, MIN_EFFECT)
    assert span.levels[0] == pytest.approx(-0.4, abs=span.step)
    assert span.levels[-1] == pytest.approx(0.7, abs=span.step)
    spoiled = level_grid(np.append(values, [7.0, -7.0]), MIN_EFFECT)
    assert spoiled.levels == pytest.approx(span.levels)
    assert spoiled.levels[spoiled.origin] == 0.0


def test_the_scale_of_the_errors_is_learnt() -> None:
    rng = np.random.default_rng(1)
    learnt = []
    for sigma in (0.004, 0.015, 0.05):
        triples = [(0, 3, error) for error in rng.normal(0, sigma, 80)]
        found = weigh_levels(np.full(3, 0.1), readings(*triples), SMALL, MIN_EFFECT)
        learnt.append(found.sigma / sigma)
    assert all(
        0.6 < ratio < 1.2 for ratio in learnt
    )  # the scale of Student's t is below its standard deviation
