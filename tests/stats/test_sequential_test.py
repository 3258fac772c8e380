"""The test's promises, by simulation with fixed seeds; the figures are those of docs/how-two-builds-are-compared.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from torchperf_ci.stats.build_variance import TAU_COUNT, taus
from torchperf_ci.stats.sequential_test import (
    ALPHA,
    BLOCK_MULTIPLES,
    BLOCK_WEIGHTS,
    MIN_PAIRS,
    PRIOR_DF,
    PRIOR_SIGMA,
    PairEvidence,
    boundaries,
    decide,
    evidence,
    weigh_blocks,
)

MIN_EFFECT = 0.03
DELTA = math.log1p(MIN_EFFECT)
REPEATS, LONGEST = 1000, 40

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """The share of each word, and how many pairs were taken on average."""

    increase: float
    decrease: float
    none: float
    pairs: float


def judged(rows: Rows, cases: int = 1) -> Outcome:
    """Take pair after pair, as ``compare`` does, until something is decided or the row ends.

    Most rows need few pairs; those that these leave open are weighed again.
    """
    [ends] = _ends_for_each(rows[:, :16], cases)
    [later] = _ends_for_each(rows[np.array([word == "open" for word, _ in ends])], cases)
    return _outcome([*(end for end in ends if end[0] != "open"), *later])


def judged_for_each(rows: Rows, *cases: int) -> list[Outcome]:
    """The same for several numbers of cases that share alpha."""
    return [_outcome(ends) for ends in _ends_for_each(rows, *cases)]


def _ends_for_each(rows: Rows, *cases: int) -> list[list[tuple[str, int]]]:
    blocks = [(block, evidence(block, DELTA)) for block in np.array_split(rows, rows.shape[0] // 5 + 1)]
    return [[end for found in blocks for end in _ends(*found, each)] for each in cases]


def _outcome(ends: list[tuple[str, int]]) -> Outcome:
    words = [word for word, _ in ends]
    shares = (words.count(word) / len(words) for word in ("increase", "decrease", "none"))
    return Outcome(*shares, float(np.mean([pairs for _, pairs in ends])))


def _ends(rows: Rows, found: PairEvidence, cases: int) -> list[tuple[str, int]]:
    confirm, refute = boundaries(cases)
    stops = np.maximum(found.increase, found.decrease) >= confirm
    stops |= np.maximum(found.least_increase, found.least_decrease) <= refute
    stops[:, : MIN_PAIRS - 1] = False  # nothing can be decided there, nor between the boundaries
    return [_end(row, np.flatnonzero(stop) + 1, cases) for row, stop in zip(rows, stops, strict=True)]


def _end(row: Rows, stops: NDArray[np.int64], cases: int) -> tuple[str, int]:
    for taken in stops:
        word = decide(row[:taken], MIN_EFFECT, cases=cases).word
        if word != "open":
            return word, int(taken)
    return "open", row.size


def normal(sd: float, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(REPEATS, LONGEST)) * sd


def student(sd: float) -> Rows:
    """Student's t with 3 degrees of freedom, which has a standard deviation of √3."""
    return np.random.default_rng(1).standard_t(3, (REPEATS, LONGEST)) * sd / math.sqrt(3)


def drifting(sd: float, correlation: float) -> Rows:
    """Each pair is like the one before it."""
    noise = normal(sd, seed=2)
    for pair in range(1, LONGEST):
        noise[:, pair] = correlation * noise[:, pair - 1] + math.sqrt(1 - correlation**2) * noise[:, pair]
    return noise


def spoiled(sd: float, share: float) -> Rows:
    """Now and then another program takes the machine from one side."""
    rng = np.random.default_rng(3)
    return normal(sd) + np.where(
        rng.random((REPEATS, LONGEST)) < share, rng.normal(size=(REPEATS, LONGEST)) * 0.3, 0
    )


def two_modes(log: float) -> Rows:
    """Each pair is a little off one of two middles, by chance."""
    rng = np.random.default_rng(4)
    return rng.choice([-log, log], (REPEATS, LONGEST)) + normal(0.003)


NOISES = {
    "normal 1.2%": normal(0.012),
    "t3 1.2%": student(0.012),
    "normal 3%": normal(0.03),
    "t3 3%": student(0.03),
    "drift 1.2%": drifting(0.012, 0.5),
    "spoiled 5%": spoiled(0.012, 0.05),
}


@pytest.mark.parametrize("noise", NOISES)
def test_equal_builds_are_called_different_no_more_often_than_promised(noise: str) -> None:
    outcome = judged(NOISES[noise])
    assert max(outcome.increase, outcome.decrease) <= ALPHA
    assert outcome.none >= 0.98


def test_the_promise_is_for_all_cases_together() -> None:
    assert judged(NOISES["normal 3%"], cases=100).increase == 0


@pytest.mark.parametrize("rows", [two_modes(0.03), two_modes(0.06), normal(0.06), normal(0.1)])
def test_pairs_that_spread_far_or_have_two_modes_are_believed_hardly_more_often(rows: Rows) -> None:
    """Slower and faster together, which is promised for 2% and 0.2%; a thousand comparisons tell that roughly."""
    alone, of_twelve = judged_for_each(rows, 1, 12)
    assert alone.increase + alone.decrease <= 0.03
    assert of_twelve.increase + of_twelve.decrease <= 0.005


@pytest.mark.parametrize(("cases", "fewest"), [(1, 9), (12, 13), (100, 16)])
def test_the_more_cases_the_more_pairs_have_to_agree(cases: int, fewest: int) -> None:
    assert decide([0.06] * (fewest - 1), MIN_EFFECT, cases=cases).word == "open"
    assert decide([0.06] * fewest, MIN_EFFECT, cases=cases).word == "increase"
    assert decide([-0.06] * fewest, MIN_EFFECT, cases=cases).word == "decrease"


@pytest.mark.parametrize(
    ("noise", "change", "power", "most_pairs"),
    [
        ("normal 1.2%", 0.03, 0.99, 13.5),
        ("t3 1.2%", 0.03, 0.99, 13.5),
        ("drift 1.2%", 0.03, 0.98, 14),
        ("spoiled 5%", 0.03, 0.99, 17),
        ("normal 3%", 0.03, 0.93, 22.5),
        ("normal 1.2%", 0.05, 1.0, 13.5),
        ("normal 3%", 0.05, 0.99, 15),
        ("t3 3%", 0.05, 0.99, 14.5),
    ],
)
def test_a_change_that_matters_is_found(noise: str, change: float, power: float, most_pairs: float) -> None:
    outcome = judged(NOISES[noise][:400] + math.log1p(change), cases=12)
    assert outcome.increase >= power
    assert outcome.pairs <= most_pairs


@pytest.mark.parametrize("change", [0.2, 1.0, 9.0])
def test_a_change_far_beyond_the_smallest_is_clear_with_few_pairs(change: float) -> None:
    outcome = judged(NOISES["normal 1.2%"][:200] + math.log1p(change), cases=100)
    assert outcome.increase == 1
    assert outcome.pairs < MIN_PAIRS + 1


def test_a_change_too_small_to_matter_is_none() -> None:
    outcome = judged(NOISES["normal 1.2%"] + math.log1p(0.005))
    assert outcome.none >= 0.99


def test_nothing_is_decided_before_an_interval_can_be_had() -> None:
    for value in (1.0, 0.0):
        assert decide([value] * (MIN_PAIRS - 1), MIN_EFFECT).word == "open"
    assert decide([1.0] * MIN_PAIRS, MIN_EFFECT).word == "increase"
    assert decide([-1.0] * MIN_PAIRS, MIN_EFFECT).word == "decrease"
    assert decide([0.0] * MIN_PAIRS, MIN_EFFECT).word == "none"


def test_a_likely_change_is_not_confirmed_while_its_interval_holds_one() -> None:
    row = [0.06, 0.06, 0.06, 0.06, 0.06, 0.06, -0.06]
    found = decide(row, MIN_EFFECT)
    assert found.increase > boundaries(1)[0]
    assert found.effect.low <= 1
    assert found.word == "open"


def test_evidence_is_counted_pair_by_pair() -> None:
    row = normal(0.012)[:3]
    whole, part = evidence(row, DELTA), evidence(row[:, :7], DELTA)
    assert np.allclose(whole.increase[:, :7], part.increase)
    assert np.allclose(whole.least_decrease[:, :7], part.least_decrease)
    assert np.allclose(
        part.least_decrease[:, -1:], evidence(row[:, :7], DELTA, after_all=True).least_decrease
    )


def test_evidence_is_the_same_in_both_directions() -> None:
    row = normal(0.012)[:3] + 0.02
    there, back = evidence(row, DELTA), evidence(-row, DELTA)
    assert np.allclose(there.increase, back.decrease)
    assert np.allclose(there.least_increase, back.least_decrease)


def test_one_pair_is_weighed_as_by_hand() -> None:
    """With one pair on δ and an infinitely sure σ, the evidence is the ratio of two of Student's densities."""
    found = evidence(np.array([[DELTA]]), DELTA)
    sigmas = np.geomspace(1e-4, 1.0, 4000)
    prior = sigmas**-4.0 * np.exp(-2 * (PRIOR_SIGMA / sigmas) ** 2)

    def density(mean: float) -> float:
        z = (DELTA - mean) / sigmas
        return float(np.sum(prior * (1 + z**2 / 4) ** -2.5 / sigmas))

    assert found.least_increase[0, 0] == pytest.approx(math.log(density(DELTA) / density(0.0)), abs=0.01)


@pytest.mark.parametrize("cases", [1, 12])
@pytest.mark.parametrize("pairs", [6, 10, 20])
@pytest.mark.parametrize("sd", [0.012, 0.03])
def test_what_could_have_been_seen_is_seen_more_often_than_not(sd: float, pairs: int, cases: int) -> None:
    rows = normal(sd)[:300, :pairs]
    changes = [math.log1p(decide(row, MIN_EFFECT, cases=cases).detectable) for row in rows]
    found = evidence(rows + np.array(changes)[:, np.newaxis], DELTA).increase[:, -1]
    assert 0.4 <= np.mean(found >= boundaries(cases)[0]) <= 0.95


def test_few_pairs_that_are_alike_by_luck_do_not_make_it_small() -> None:
    for pairs in range(1, MIN_PAIRS + 1):
        assert decide([0.0] * pairs, MIN_EFFECT).detectable > MIN_EFFECT * 0.9
    assert decide([0.01, -0.01] * 5, MIN_EFFECT).noise == pytest.approx(0.0148, abs=1e-4)


@pytest.mark.parametrize("min_effect", [0.005, 0.03])
@pytest.mark.parametrize("ratio", [2.0, 1000.0])
def test_a_large_change_is_evident_from_the_fewest_pairs_however_small_one_matters(
    min_effect: float, ratio: float
) -> None:
    pairs = math.log(ratio) + np.array([0.01, -0.012, 0.004, -0.006, 0.0, 0.008])
    assert decide(pairs, min_effect, cases=100).word == "increase"
    assert decide(-pairs, min_effect, cases=100).word == "decrease"


def test_cases_share_alpha() -> None:
    confirm, refute = boundaries(10)
    assert confirm == pytest.approx(math.log(0.95 / 0.001))
    assert refute == pytest.approx(math.log(0.05 / 0.999))


def test_pairs_that_have_nothing_in_common_are_decided_about_all_the_same() -> None:
    """One of them in which head had to wait: what could have been detected is no number."""
    decision = decide([0.0, 8.0], MIN_EFFECT, cases=20)
    assert decision.word == "open"
    assert 1e300 < decision.detectable < math.inf


@pytest.mark.parametrize("luck", [0.003, 0.015, 0.04])
def test_blocks_are_weighed_as_by_hand_however_far_builds_differ_by_luck(luck: float) -> None:
    blocks, belief = ((0.03, 0.05, 0.04), (0.01, 0.0)), np.full(TAU_COUNT, 1 / TAU_COUNT)
    sizes = np.concatenate([[0.0], DELTA * BLOCK_MULTIPLES, -DELTA * BLOCK_MULTIPLES])
    offsets = np.linspace(-6, 6, 801)
    chances = np.exp(-(offsets**2) / 2) / np.exp(-(offsets**2) / 2).sum()
    means = sizes[:, np.newaxis, np.newaxis] + math.sqrt(2) * taus(luck)[:, np.newaxis] * offsets
    likelihoods = np.zeros((sizes.size, TAU_COUNT))
    for sigma in np.geomspace(1e-3, 0.3, 17):
        each = [
            (np.prod([(1 + ((x - means) / sigma) ** 2 / 4) ** -2.5 / sigma for x in block], axis=0) @ chances)
            for block in blocks
        ]
        likelihoods += np.prod(each, axis=0) * sigma**-PRIOR_DF * math.exp(-2 * (PRIOR_SIGMA / sigma) ** 2)
    none, *changes = likelihoods @ belief
    up = math.log(np.dot(changes[: BLOCK_MULTIPLES.size], BLOCK_WEIGHTS) / none)
    assert weigh_blocks(blocks, DELTA, luck, tuple(belief)).increase == pytest.approx(up, abs=0.01)
