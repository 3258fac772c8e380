"""Proofs from pairs of two commits, with and without build luck."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning import proof
from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectQuestion, BisectReading
from torchperf_ci.bisect.reasoning.proof import (
    MAX_PAIRS,
    MIN_TO_CONFIRM,
    MIN_TO_VERIFY,
    KnownLuck,
    Proof,
    may_be_proven_yet,
)
from torchperf_ci.bisect.reasoning.series_evidence import SeriesEvidence
from torchperf_ci.stats.build_variance import tau_prior
from torchperf_ci.stats.sequential_test import BEYOND_MODES, MIN_PAIRS

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_EFFECT = 0.03
NONE = KnownLuck(0.0, False, (1.0,))
FIRST = (0, 0)


def some(rebuilds: bool = True) -> KnownLuck:
    return KnownLuck(0.003, rebuilds, tuple(np.exp(tau_prior(0.003))))


def confirmed(values: list[float], cases: int = 1, luck: KnownLuck = NONE) -> Proof:
    return proof.confirmed({FIRST: values} if values else {}, MIN_EFFECT, cases, luck)


def verified(values: list[float], luck: KnownLuck = NONE) -> Proof:
    return proof.verified({FIRST: values} if values else {}, MIN_EFFECT, luck)


def pairs(count: int, effect: float = 0.07, noise: float = 0.004, seed: int = 0) -> list[float]:
    return list(np.random.default_rng(seed).normal(effect, noise, count))


Blocks = dict[tuple[int, int], list[float]]


def blocks(count: int, effect: float, luck: float, seed: int, noise: float = 0.01) -> Blocks:
    """Three pairs of each of some draws."""
    random = np.random.default_rng(seed)
    middles = effect + random.normal(0, luck * math.sqrt(2), count)
    return {(k, k): list(random.normal(middle, noise, 3)) for k, middle in enumerate(middles, start=1)}


def test_a_suspicion_takes_few_pairs_and_a_name_more() -> None:
    assert confirmed(pairs(MIN_TO_CONFIRM - 1, 0.15)).word == "open"
    assert confirmed(pairs(MIN_TO_CONFIRM, 0.15)).word == "slower"
    assert confirmed(pairs(MIN_TO_CONFIRM + 1)).word == "slower"
    assert verified(pairs(MIN_TO_VERIFY - 1, 0.2)).word == "open"
    assert verified(pairs(MIN_TO_VERIFY, 0.2)).word == "slower"


def test_below_what_machines_jump_by_a_name_takes_more() -> None:
    assert verified(pairs(MIN_TO_VERIFY)).word == "open"
    assert verified(pairs(9)).word == "slower"
    assert math.exp(BEYOND_MODES) > 1.07


def test_a_suspicion_is_worth_a_search_from_half_of_the_change_that_matters() -> None:
    assert confirmed(pairs(30, 0.018)).word == "slower"
    assert confirmed(pairs(30, 0.012)).word == "not slower"


@pytest.mark.parametrize("effect", [0.0, -0.07])
def test_no_change_and_a_gain_are_no_culprits(effect) -> None:
    assert confirmed(pairs(10, effect)).word == "not slower"
    assert verified(pairs(9, effect)).word == "not slower", "no more pairs for an innocent"


def test_the_more_cases_the_more_it_takes() -> None:
    unsure = pairs(9, 0.045, 0.02)
    assert confirmed(unsure).word == "slower"
    assert confirmed(unsure, 1000).word == "open"


@pytest.mark.parametrize(("others", "word"), [(0, "slower"), (19, "open")])
def test_the_more_series_a_probe_has_the_more_it_takes_to_search_for_one_of_them(others, word) -> None:
    quiet = {f"quiet {number}": number * 1e-5 for number in range(others)}
    pairs = (BisectReading("p", 0, 9, {"time": 0.06, **quiet}, "confirm"),) * 4
    question = BisectQuestion(np.full(9, 1 / 9), ["p"], MIN_EFFECT, luck=0.0)
    assert SeriesEvidence(question, BisectFacts(pairs), "time", "p").confirmation.word == word


def test_what_is_not_clear_in_the_end_is_unknown() -> None:
    noisy = pairs(MAX_PAIRS, 0.03, 0.3)
    assert confirmed(noisy[:-1]).word == "open"
    assert confirmed(noisy).word == verified(noisy).word == "unknown"
    assert verified(noisy, some()).word == "unknown"


def test_before_the_first_pair_everything_is_open() -> None:
    for luck in (NONE, some()):
        for found in (confirmed([], 1, luck), verified([], luck)):
            assert (found.word, found.log_ratios, found.decision) == ("open", (), None)


def test_no_number_of_pairs_of_two_builds_proves_what_luck_may_have_made() -> None:
    many = pairs(MAX_PAIRS - 1, 0.03)
    assert verified(many).word == "slower"
    assert verified(many, some()).word == "open", "other builds are to be made"
    found = verified(many, some(rebuilds=False))
    assert (found.word, found.of_these_builds) == ("unknown", True)
    for much in (0.085, 0.1, 0.15):
        assert verified(pairs(12, much), some(rebuilds=False)).word == "slower", "luck does not make as much"


def test_equal_code_is_hardly_ever_blamed_however_its_builds_differ() -> None:
    """Nine pairs of two builds that differ by 1.5% each would blame it in a quarter of cases."""
    words = [
        proof.verified(blocks(count, 0.0, 0.015, seed), MIN_EFFECT, some()).word
        for seed in range(40)
        for count in (3, 5)
    ]
    assert words.count("slower") <= 1


def test_what_the_code_does_is_proven_and_its_interval_holds_it() -> None:
    found = [proof.verified(blocks(5, 0.05, 0.01, seed), MIN_EFFECT, some()) for seed in range(25)]
    slower = [one.decision.effect for one in found if one.word == "slower" and one.decision]
    assert len(slower) >= 22
    assert np.mean([effect.low <= math.exp(0.05) <= effect.high for effect in slower]) >= 0.9


def test_a_name_rests_on_three_builds_however_clear_two_are() -> None:
    clear = {(k, k): pairs(6, 0.3, seed=k) for k in (1, 2)}
    assert proof.verified(clear, MIN_EFFECT, some()).word == "open"
    assert proof.verified(clear | {(3, 3): pairs(3, 0.3, seed=3)}, MIN_EFFECT, some()).word == "slower"


def test_what_rebuilding_makes_go_away_is_luck() -> None:
    first = pairs(9, 0.035)
    gone = {FIRST: first} | {(k, k): pairs(3, 0.0, seed=k) for k in range(1, 6)}
    found = proof.confirmed(gone, MIN_EFFECT, 1, some())
    assert (found.word, found.is_luck) == ("not slower", True)
    assert found.decision.effect.ratio < found.of_pairs.effect.ratio - 0.005, (
        "each build counts, not each pair"
    )
    never = {(k, k): pairs(3, 0.0, seed=k) for k in range(6)}
    found = proof.confirmed(never, MIN_EFFECT, 1, some())
    assert (found.word, found.is_luck) == ("not slower", False)


def test_that_bad_is_not_slower_takes_six_pairs_however_much_faster_it_is() -> None:
    faster = pairs(MIN_PAIRS, -0.3)
    assert confirmed(faster[:-1], 1, some()).word == "open"
    assert confirmed(faster, 1, some()).word == "not slower"


def test_a_refuted_step_is_worth_more_pairs_until_it_is_refuted_for_good() -> None:
    narrowly, clearly = verified([0.02, -0.004] * 4), verified(pairs(30, 0.0))
    unclear = [0.06, -0.02] * MAX_PAIRS
    assert (narrowly.word, clearly.word) == ("not slower", "not slower")
    assert may_be_proven_yet(narrowly)
    assert not may_be_proven_yet(clearly)
    assert may_be_proven_yet(verified(unclear[:-1]))
    assert not may_be_proven_yet(verified(unclear)), "not for ever"
    assert not may_be_proven_yet(verified([0.02, -0.004] * 4, some(rebuilds=False))), (
        "its luck cannot be drawn anew"
    )


def test_that_bad_is_not_slower_takes_more_than_to_refute_a_step() -> None:
    """What was refuted can be tried again; after "not slower" nothing is looked for."""
    words = {
        (proof.confirmed(read, MIN_EFFECT, 1, some()).word, proof.verified(read, MIN_EFFECT, some()).word)
        for read in (blocks(3, effect, 0.0, seed=0) for effect in np.linspace(-0.02, 0.02, 81))
    }
    assert ("open", "not slower") in words
    assert ("not slower", "open") not in words


@pytest.mark.parametrize("test", [confirmed, verified])
def test_what_one_unit_of_the_last_digit_may_explain_is_unknown(test: Callable[[list[float]], Proof]) -> None:
    """Whole seconds: 12 in every run of base and 13 of head, which may be 12.9 and 13.0."""
    seconds, unit = [math.log(13 / 12)] * 9, 1 / 12
    assert test(seconds).word == "slower"
    found = proof.unless_coarse(test(seconds), unit, MIN_EFFECT)
    assert (found.word, found.coarse) == ("unknown", unit)
    assert found.decision.effect.low < 1 < found.decision.effect.high
    assert not may_be_proven_yet(found)
    assert proof.unless_coarse(test([math.log(24 / 12)] * 9), unit, MIN_EFFECT).word == "slower"


@pytest.mark.parametrize(("unit", "word"), [(1 / 12, "unknown"), (0.001, "not slower")])
def test_readings_that_are_equal_for_want_of_digits_are_no_proof_of_no_change(unit: float, word: str) -> None:
    same = verified([0.0] * 9)
    assert same.word == "not slower"
    found = proof.unless_coarse(same, unit, MIN_EFFECT)
    assert found.word == word
    assert math.log(found.decision.effect.high) >= unit


def test_without_a_resolution_a_proof_stays_as_it_is() -> None:
    before = verified(pairs(9))
    assert proof.unless_coarse(before, 0.0, MIN_EFFECT) is before
