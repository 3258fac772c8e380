"""The posterior of the culprit: properties that always hold, and its calibration."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchperf_ci.stats.build_variance import ERROR_DF, SIGMAS, SPOILED, SPOILED_SCALE, Readings, sigma_prior
from torchperf_ci.stats.level_grid import jump_probabilities, level_grid
from torchperf_ci.stats.posterior import EXPECTED_CHANGES, Posterior, chance_of_rise, posterior

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIN_EFFECT = 0.03
N = 16
EQUAL = np.full(N, 1 / N)


def of_good(levels: Mapping[int, float], noise: float = 0.004, times: int = 3, seed: int = 0) -> Readings:
    """Some readings against good of the builds at some positions, whose levels are known."""
    heads = np.repeat(list(levels), times).astype(np.intp)
    values = np.repeat(list(levels.values()), times)
    errors = np.random.default_rng(seed).normal(0, noise, values.size)
    return Readings(np.zeros_like(heads), heads, values + errors, pairs=np.arange(values.size))


def and_also(first: Readings, *more: tuple[int, int, float]) -> Readings:
    columns = zip((first.base, first.head, first.values), zip(*more, strict=True), strict=True)
    base, head, values = (np.append(a, b) for a, b in columns)
    return Readings(base.astype(np.intp), head.astype(np.intp), values)


STEP_AT_9 = {16: 0.05, 4: 0.0, 8: 0.0, 12: 0.05}


def test_the_gap_of_the_step_holds_it_and_suspects_share_a_gap_by_their_weights() -> None:
    weights = EQUAL.copy()
    weights[[8, 10]] = 0.15, 0.01  # positions 9 and 11
    weights /= weights.sum()
    found = posterior(weights, [of_good(STEP_AT_9)], MIN_EFFECT)
    assert list(found.tested) == [0, 4, 8, 12, 16]
    assert found.gaps[2] > 0.99
    inside = found.suspects[8:12]
    assert inside / inside.sum() == pytest.approx(weights[8:12] / weights[8:12].sum())
    assert found.credible(0.5) == [9]


VALUES = st.floats(-0.5, 1.0)
WEIGHTS = st.lists(st.floats(0.01, 1.0), min_size=N, max_size=N)


@st.composite
def some_readings(draw) -> Readings:
    """Of good, and of neighbours among the tested builds."""
    taken = [(0, head, value) for head, value in draw(st.lists(st.tuples(st.integers(1, N), VALUES)))]
    tested = sorted({0, N, *(head for _, head, _ in taken)})
    for value in draw(st.lists(VALUES, max_size=3)):
        place = draw(st.integers(0, len(tested) - 2))
        taken.append((tested[place], tested[place + 1], value))
    base, head, values = zip(*taken, strict=True) if taken else ((), (), ())
    return Readings(np.array(base, np.intp), np.array(head, np.intp), np.array(values, np.float64))


@settings(max_examples=25, deadline=None)
@given(WEIGHTS, some_readings(), some_readings())
def test_probabilities_are_probabilities_whatever_was_read(raw, one, other) -> None:
    weights = np.array(raw) / sum(raw)
    for series in ([one], [other], [one, other]):
        found = posterior(weights, series, MIN_EFFECT)
        assert found.suspects.sum() + found.none == pytest.approx(1.0)
        assert (found.suspects > 0).all()
        assert found.gaps.sum() + found.none == pytest.approx(1.0)
        assert math.isfinite(found.one_cause)


@pytest.mark.parametrize("pairs", [0, 6])
@pytest.mark.parametrize("luck", [0.005, 0.015])
def test_they_are_where_builds_differ_by_more_by_luck_than_a_change_that_matters(
    luck: float, pairs: int
) -> None:
    """The first build may then be as far off as no level that was read."""
    ends = np.zeros(pairs, np.intp), np.full(pairs, N)
    values = np.linspace(-0.01, 0.02, pairs)
    found = posterior(np.full(N, 1 / N), [Readings(*ends, values, luck=luck)], min_effect=0.005)
    assert found.suspects.sum() + found.none == pytest.approx(1.0)


def test_rebuilds_of_good_and_bad_show_whether_their_first_builds_were_lucky() -> None:
    errors = (0.001, -0.001, 0.0)

    def slower(*of_draws: float) -> Readings:
        values = [level + error for level in of_draws for error in errors]
        draws = np.repeat(np.arange(len(of_draws)), len(errors))
        ends = np.zeros(draws.size, np.intp), np.full(draws.size, N)
        return Readings(*ends, np.array(values), np.stack([draws, draws], axis=1), luck=0.01)

    first, gone, again = (
        posterior(EQUAL, [slower(0.03, *anew)], MIN_EFFECT).none for anew in ((), (0.0,) * 3, (0.03,) * 3)
    )
    assert 0.3 < first < 0.7
    assert gone > 0.9
    assert again < 0.1


def test_without_readings_the_weights_are_all_that_is_known() -> None:
    weights = np.arange(1.0, N + 1) / (N * (N + 1) / 2)
    nothing = Readings(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0))
    found = posterior(weights, [nothing], MIN_EFFECT)
    assert found.suspects / found.suspects.sum() == pytest.approx(weights)
    assert found.none > 0.5


def test_a_second_series_of_the_same_cause_sharpens_it() -> None:
    blurred = [of_good({16: 0.04, 8: 0.0, 12: 0.04}, noise=0.03, times=2, seed=seed) for seed in (1, 2)]
    blurred[1] = and_also(blurred[1], (0, 16, 0.04))  # by a probe of its own, and so by other pairs
    alone = [posterior(EQUAL, [one], MIN_EFFECT) for one in blurred]
    both = posterior(EQUAL, blurred, MIN_EFFECT)
    assert 1 - both.gaps[1] < min(1 - one.gaps[1] for one in alone) / 10
    assert both.one_cause > 0
    again = replace(blurred[0], values=blurred[0].values.copy())
    twice = posterior(EQUAL, [blurred[0], again], MIN_EFFECT)
    assert twice.gaps == pytest.approx(alone[0].gaps)


def test_series_of_two_causes_are_likelier_apart() -> None:
    early, late = of_good({16: 0.05, 4: 0.05, 12: 0.05}), of_good({16: 0.05, 4: 0.0, 12: 0.0})
    assert posterior(EQUAL, [early, late], MIN_EFFECT).one_cause < -3
    assert posterior(EQUAL, [early, early], MIN_EFFECT).one_cause == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("factor", [1.3, 2, 10, 1000])
@pytest.mark.parametrize("place", [4, 8, 12, 16])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_spike_does_not_move_the_culprit(factor, place, sign) -> None:
    spoiled = and_also(of_good(STEP_AT_9), (0, place, sign * math.log(factor)))
    found = posterior(EQUAL, [spoiled], MIN_EFFECT)
    assert found.gaps[2] > 0.98


def test_pairs_of_neighbours_count_as_pairs_with_good_do() -> None:
    start = of_good({16: 0.05, 8: 0.025}, noise=0.02, times=2)
    before = posterior(EQUAL, [start], MIN_EFFECT)
    after = posterior(EQUAL, [and_also(start, *[(8, 16, 0.05)] * 6)], MIN_EFFECT)
    assert before.gaps[1] < 0.5
    assert after.gaps[1] > 0.8


def test_pairs_that_another_series_was_tested_in_between_say_nothing_of_its_neighbours() -> None:
    """The first one was tested on both sides of 12 before that was built."""
    across = and_also(of_good({16: 0.05, 8: 0.0}), *[(8, 14, 0.05)] * 6)
    between = of_good({16: 0.05, 8: 0.0, 12: 0.0, 14: 0.05})
    found = posterior(EQUAL, [across, between], MIN_EFFECT)
    assert list(found.tested) == [0, 8, 12, 14, 16]
    assert found.gaps[2] > 0.95


def test_what_was_never_tested_is_one_gap() -> None:
    found = posterior(EQUAL, [of_good({16: 0.05})], MIN_EFFECT)
    assert list(found.tested) == [0, 16]
    assert found.suspects == pytest.approx(np.full(N, found.gaps[0] / N))


def test_a_weight_counts_but_rules_nobody_out() -> None:
    favoured = np.full(N, 1.0)
    favoured[13] = 10.0  # position 14
    favoured /= favoured.sum()
    few = of_good({16: 0.05, 8: 0.0, 12: 0.03}, noise=0.02, times=1)
    assert posterior(favoured, [few], MIN_EFFECT).gaps[2] > posterior(EQUAL, [few], MIN_EFFECT).gaps[2]
    clear = of_good({16: 0.05, 8: 0.0, 12: 0.05})
    assert posterior(favoured, [clear], MIN_EFFECT).gaps[1] > 0.99


def test_what_is_made_good_again_is_not_blamed_and_an_improvement_hides_nothing() -> None:
    reverted = of_good({16: 0.05, 4: 0.1, 8: 0.0, 12: 0.05})
    assert posterior(EQUAL, [reverted], MIN_EFFECT).gaps[2] > 0.95
    hidden = of_good({16: 0.035, 4: -0.035, 8: -0.035, 12: 0.035})
    assert posterior(EQUAL, [hidden], MIN_EFFECT).gaps[2] > 0.95
    faster = of_good({16: -0.05, 8: -0.05})
    assert posterior(EQUAL, [faster], MIN_EFFECT).none > 0.99


def test_the_chance_that_a_part_rises() -> None:
    two = of_good({16: 0.1, 4: 0.0, 8: 0.05, 12: 0.05})
    rises = {
        part: chance_of_rise(EQUAL, two, MIN_EFFECT, part) for part in [(0, 4), (4, 8), (8, 12), (12, 16)]
    }
    assert min(rises[4, 8], rises[12, 16]) > 0.99
    assert max(rises[0, 4], rises[8, 12]) < 0.01
    assert chance_of_rise(EQUAL, two, MIN_EFFECT, (4, 12)) == pytest.approx(1.0, abs=0.01)


def test_the_credible_set_is_the_smallest_that_holds_its_share() -> None:
    suspects = np.array([0.05, 0.6, 0.05, 0.3])
    nothing = np.zeros(0)
    found = Posterior(suspects, 0.0, nothing.astype(np.intp), nothing, [], 0.0)
    assert found.credible(0.6) == [2]
    assert found.credible(0.9) == [2, 4]
    assert found.credible(0.96) == [1, 2, 3, 4]
    assert Posterior(suspects / 2, 0.5, found.tested, nothing, [], 0.0).credible() == [1, 2, 3, 4]


def test_what_the_model_itself_has_made_is_as_likely_as_it_says() -> None:
    """Not only of the likeliest suspects, nor only when there is a culprit: of everything that is ever said."""
    rng = np.random.default_rng(7)
    told = [_told_of_own(rng) for _ in range(400)]
    said, true = (np.concatenate(column) for column in zip(*told, strict=True))
    for low, high in pairwise([0.0, 0.05, 0.3, 0.7, 0.95, 1.0 + 1e-9]):
        inside = (said >= low) & (said < high)
        expected = said[inside].mean()
        deviation = math.sqrt(expected * (1 - expected) / inside.sum())
        assert true[inside].mean() == pytest.approx(expected, abs=3 * deviation + 0.005), (low, high)


def _told_of_own(rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """The probabilities of all hypotheses about a range that is drawn from the prior, and which of them is true."""
    delta = math.log1p(MIN_EFFECT)
    span = level_grid(np.array([-0.2, -0.2, 0.2, 0.2]), delta)
    moves, path = jump_probabilities(span, delta), [span.origin]
    for _ in range(4):
        changes = rng.random() < -math.expm1(-EXPECTED_CHANGES / 4)
        path.append(rng.choice(span.levels.size, p=moves[path[-1]]) if changes else path[-1])
    builds = np.append(rng.choice([1, 2, 3, 4], 5), 4)
    errors = rng.standard_t(ERROR_DF, 6) * rng.choice(SIGMAS, p=np.exp(sigma_prior()))
    spoiled = rng.random(6) < SPOILED
    errors[spoiled] = rng.laplace(0, SPOILED_SCALE, spoiled.sum())
    readings = Readings(np.zeros(6, np.intp), 4 * builds, span.levels[path][builds] + errors)
    found = posterior(EQUAL, [readings], MIN_EFFECT)
    slow = span.slow[path][found.tested // 4]
    return np.append(found.gaps, found.none), np.arange(slow.size) == np.flatnonzero(~slow)[-1]


def test_it_is_right_at_least_as_often_as_it_says_in_ranges_as_they_are() -> None:
    """One culprit of any place and size, sometimes with an improvement, noise that is normal, and spikes."""
    rng = np.random.default_rng(5)
    claims = np.array([_claim(rng) for _ in range(500)])
    said, right = claims[:, 0], claims[:, 1]
    sure, rather = said >= 0.95, (said >= 0.5) & (said < 0.95)
    assert min(sure.sum(), rather.sum()) > 100, "too few claims to mean anything"
    assert right[sure].mean() >= 0.95
    assert right[rather].mean() >= said[rather].mean() - 0.05


def _claim(rng: np.random.Generator) -> tuple[float, bool]:
    """The probability of the likeliest gap, and whether the culprit lies in it."""
    levels = np.zeros(N + 1)
    culprit = int(rng.integers(1, N + 1))
    levels[culprit:] += math.log(rng.choice([1.03, 1.05, 1.07, 1.15]))
    if rng.random() < 0.3:  # and something got a bit faster, somewhere
        levels[int(rng.integers(1, N + 1)) :] -= 0.02
    noise = rng.choice([0.005, 0.015, 0.03])
    heads = np.concatenate([np.full(8, N), np.repeat(rng.choice(np.arange(1, N), 3, replace=False), 2)])
    spikes = rng.choice([-1, 1], heads.size) * np.log(rng.uniform(1.2, 2.0, heads.size))
    values = levels[heads] + rng.normal(0, noise, heads.size) + spikes * (rng.random(heads.size) < 0.05)
    found = posterior(
        EQUAL, [Readings(np.zeros(heads.size, np.intp), heads.astype(np.intp), values)], MIN_EFFECT
    )
    most = int(found.gaps.argmax())
    if levels[-1] < math.log1p(MIN_EFFECT) / 2:
        return float(found.none), True  # whether it is slow at all, is asked before
    return float(found.gaps[most]), bool(found.tested[most] < culprit <= found.tested[most + 1])
