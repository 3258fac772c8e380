"""The choice of the next reading, compared with the information of simulated readings, and in obvious cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from torchperf_ci.stats.build_variance import ERROR_DF, Readings
from torchperf_ci.stats.posterior import HOPE, Posterior, Price, chances_to_build, most_informative, posterior

MIN_EFFECT = 0.03
N = 32
EQUAL = np.full(N, 1 / N)


def confirmed(weights=EQUAL, effect: float = 0.07, noise: float = 0.005, more=()) -> Posterior:
    """The end is known to be slow, from eight pairs; and readings of good against other builds."""
    errors = np.random.default_rng(0).normal(0, noise, 8 + len(more))
    heads = np.array([weights.size] * 8 + [head for head, _ in more], np.intp)
    values = np.array([effect] * 8 + [value for _, value in more]) + errors
    return posterior(weights, [Readings(np.zeros(heads.size, np.intp), heads, values)], MIN_EFFECT)


def price(reading: float = 1.0, build: float = 0.0, built=(0, N), chance: float = 1.0) -> Price:
    builds, chances = np.full(N + 1, build), np.full(N + 1, chance)
    builds[list(built)], chances[list(built)] = 0.0, 1.0
    return Price(reading, builds, chances)


def test_the_middle_is_asked_first() -> None:
    choice = most_informative(confirmed(), 0, price())
    assert choice
    assert choice.position == N // 2
    assert choice.rate == pytest.approx(1.0, abs=0.1)  # nearly one bit a reading, at little noise


def test_the_middle_is_that_of_the_weights() -> None:
    weights = np.append(np.full(16, 1 / 128), np.full(16, 7 / 128))  # a quarter of it lies in the first half
    choice = most_informative(confirmed(weights), 0, price())
    assert choice
    assert abs(choice.position - (16 + 16 * 2 / 7 + 16 / 7)) <= 2


@pytest.mark.parametrize(("middle", "position"), [(0.07, 8), (0.0, 24)])
def test_a_part_that_is_ruled_out_is_left_alone(middle: float, position: int) -> None:
    choice = most_informative(confirmed(more=[(16, middle)] * 3), 0, price(built=(0, 16, N)))
    assert choice
    assert choice.position == position
    assert choice.rate == pytest.approx(1.0, abs=0.1)


def test_a_build_that_costs_much_makes_another_reading_attractive() -> None:
    """Something was read at 16 once, and not clearly."""
    found = confirmed(noise=0.02, more=[(16, 0.04)])
    cheap = most_informative(found, 0, price(build=0.0, built=(0, 16, N)))
    dear = most_informative(found, 0, price(build=1000.0, built=(0, 16, N)))
    assert cheap
    assert dear
    assert dear.position == 16 != cheap.position


def test_an_answer_that_is_nearly_known_does_not_hide_one_that_costs_a_build() -> None:
    """To read a finished build again is so much cheaper that it tells more for its price, but next to nothing."""
    found = confirmed(more=[(16, 0.07), (8, 0.07)] * 3)
    dear = price(build=1e9, built=(0, 8, 16, N))
    choice = most_informative(found, 0, dear)
    assert choice
    assert choice.position < 8


def test_a_chance_that_a_build_fails_lowers_what_it_is_worth() -> None:
    sure, unsure = (most_informative(confirmed(), 0, price(build=10.0, chance=c)) for c in (1.0, 0.25))
    assert sure
    assert unsure
    assert unsure.rate < sure.rate / 3


@pytest.mark.parametrize(
    "found",
    [confirmed(np.array([1.0]), more=[(1, 0.07)] * 30), confirmed(effect=-0.2, more=[(N, -0.2)] * 30)],
    ids=["one suspect", "nothing is slow"],
)
def test_nothing_to_tell_is_no_choice(found) -> None:
    assert most_informative(found, 0, price()) is None


def test_what_cannot_be_had_is_not_chosen() -> None:
    chance = np.zeros(N + 1)
    chance[[0, 5, N]] = 1.0
    choice = most_informative(confirmed(), 0, Price(1.0, np.zeros(N + 1), chance))
    assert choice
    assert choice.position == 5


@pytest.mark.parametrize(("noise", "effect"), [(0.005, 0.07), (0.02, 0.05), (0.04, 0.05)])
def test_the_bits_are_those_that_readings_tell_on_average(noise, effect) -> None:
    """The mutual information of one reading of the middle and of the side that the culprit lies on, by simulation."""
    found = confirmed(noise=noise, effect=effect)
    one, rng = found.series[0], np.random.default_rng(3)
    only = np.zeros(N + 1)
    only[N // 2] = 1.0
    choice = most_informative(found, 0, Price(1.0, np.zeros(N + 1), only))
    assert choice
    sides = [one.before[0] / one.before[0].sum(), one.after[-1] / one.after[-1].sum()]
    later = found.suspects[: N // 2].sum()
    slow = rng.random(20_000) < later
    levels = np.where(slow, *(rng.choice(one.grid.levels, 20_000, p=side) for side in reversed(sides)))
    values = levels + rng.standard_t(ERROR_DF, levels.size) * one.sigma
    likelihoods = [
        (side * _density((values[:, np.newaxis] - one.grid.levels) / one.sigma)).sum(axis=1) for side in sides
    ]
    mixed = (1 - later) * likelihoods[0] + later * likelihoods[1]
    told = np.log2(np.where(slow, likelihoods[1], likelihoods[0]) / mixed).mean()
    assert choice.rate == pytest.approx(
        told, abs=0.03
    )  # where a build costs nothing, the first reading pays best


def _density(scaled):
    norm = math.gamma((ERROR_DF + 1) / 2) / (math.sqrt(ERROR_DF * math.pi) * math.gamma(ERROR_DF / 2))
    return norm * (1 + scaled**2 / ERROR_DF) ** (-(ERROR_DF + 1) / 2)


def test_next_to_a_failed_build_the_chance_is_a_half_and_what_is_missing_halves_with_each_step() -> None:
    chance = chances_to_build(10, [0, 10], [5])
    assert chance[5] == 0.0
    assert chance[[4, 6]] == pytest.approx(0.5)
    assert chance[[3, 7]] == pytest.approx(0.75)
    assert chance[[0, 10]] == pytest.approx(1.0)


def test_a_row_of_failures_is_left_in_steps_as_wide_as_itself() -> None:
    chance = chances_to_build(40, [0, 40], [18, 19, 20, 21])
    assert chance[[25, 14]] == pytest.approx(0.5)
    assert chance[[29, 10]] == pytest.approx(0.75)
    assert (np.diff(chance[21:40]) > 0).all()


def test_between_failures_it_is_a_toss_and_less_the_more_there_are() -> None:
    chance = chances_to_build(40, [0, 40], [5, 9])
    assert chance[[6, 7, 8]] == pytest.approx(0.5)
    assert chance[[5, 9]] == pytest.approx(0.0)
    assert chances_to_build(40, [0, 40], [5, 7, 9])[[6, 8]] == pytest.approx(0.25)
    assert chances_to_build(40, [0, 40], range(5, 35, 2))[6:33:2] == pytest.approx(HOPE)


def test_what_could_be_built_ends_the_influence_of_a_failure() -> None:
    chance = chances_to_build(20, [0, 8, 20], [5])
    assert chance[7] == pytest.approx(0.75)
    assert chance[8:] == pytest.approx(1.0)


def test_without_failures_everything_can_be_built() -> None:
    assert chances_to_build(6, [], []) == pytest.approx(1.0)
    assert chances_to_build(6, [0, 6], []) == pytest.approx(1.0)
