"""A difference that an autocorrelated machine may have caused is no proof."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectReading, PlannedPair, SuspectRange
from torchperf_ci.bisect.reasoning.proof import (
    MAX_PAIRS,
    PAIRS_PER_CONTROL,
    KnownLuck,
    alpha_shares,
    is_beyond_memory,
    unless_memory,
    verified,
    with_control,
)

if TYPE_CHECKING:
    from collections.abc import Callable

STEP, VERIFY = SuspectRange(4, 5), PlannedPair("time", 4, 5, "verify", (1, 2))


def facts(
    change: float, offset: Callable[[int], float], pairs: int = 12, *, turns: bool = False
) -> BisectFacts:
    """A session of pairs that find a step, and of others that prove it, as they would be taken; 1% of noise.

    Where they take turns, the offset favours the same build whichever begins.
    """
    noise, readings = np.random.default_rng(3), list[BisectReading]()

    def read(base: int, head: int, purpose: str, slower: float) -> None:
        value = slower + offset(len(readings)) + noise.normal(0, 0.01)
        head_first = turns and len(readings) % 2 == 1
        readings.append(BisectReading("time", base, head, {"time": value}, purpose, head_first=head_first))

    for place in range(20):
        read(0, 9 if place < 6 else 4 + place % 2, "confirm" if place < 6 else "locate", change)
    while sum(reading.purpose == "verify" for reading in readings) < pairs:
        step = with_control(BisectFacts(tuple(readings)), VERIFY)
        read(step.base, step.head, step.purpose, change if step.purpose == "verify" else 0.0)
    return BisectFacts(tuple(readings))


def test_base_against_itself_takes_its_turn_among_the_pairs_of_a_proof() -> None:
    taken = [reading for reading in facts(0.03, lambda _: 0.0).readings if reading.purpose != "locate"][6:]
    turns = [reading.purpose for reading in taken]
    assert turns == [*(*["verify"] * PAIRS_PER_CONTROL, "control") * 3, *["verify"] * PAIRS_PER_CONTROL]
    assert {(reading.base, reading.head) for reading in taken if reading.purpose == "control"} == {(4, 4)}


def test_a_control_is_of_one_draw_and_only_among_a_proof() -> None:
    readings = facts(0.03, lambda _: 0.0).readings
    proven = BisectFacts((*readings[:-1], replace(readings[-1], draws=(3, 4))))
    assert with_control(proven, VERIFY) == PlannedPair("time", 4, 4, "control", (3, 3))
    other = replace(VERIFY, purpose="locate")
    assert with_control(proven, other) == other


def test_controls_of_another_step_take_no_turn_of_its_own() -> None:
    elsewhere = BisectReading("time", 7, 7, {"time": 0.0}, "control")
    between = BisectFacts((*facts(0.03, lambda _: 0.0, PAIRS_PER_CONTROL).readings, elsewhere))
    assert with_control(between, VERIFY) == PlannedPair("time", 4, 4, "control")


@pytest.mark.parametrize("turns", [False, True])
def test_a_change_is_proven_beside_a_steady_machine(turns) -> None:
    assert is_beyond_memory(facts(0.04, lambda _: 0.0, turns=turns), "time", STEP, 0.03)


@pytest.mark.parametrize("turns", [False, True])
def test_a_mode_of_the_machine_is_no_change(turns) -> None:
    """It lasts through the whole proof, and base against itself shows it."""
    moody = facts(0.0, lambda place: 0.03 * (place >= 20), turns=turns)
    assert not is_beyond_memory(moody, "time", STEP, 0.03)


def test_pairs_that_located_a_step_are_no_proof_of_it() -> None:
    """They were taken because the step looked slow."""
    found = facts(0.06, lambda _: 0.0, pairs=3).readings
    located = (replace(one, base=4, head=5) if one.purpose == "locate" else one for one in found)
    assert not is_beyond_memory(BisectFacts(tuple(located)), "time", STEP, 0.03)


@pytest.mark.parametrize(("pairs", "word"), [(12, "open"), (MAX_PAIRS, "unknown")])
def test_what_the_machine_may_have_made_wants_more_pairs_until_it_has_had_them_all(pairs, word) -> None:
    moody = facts(0.0, lambda place: 0.03 * (place >= 20), pairs)
    fresh = [reading.log_ratios["time"] for reading in moody.readings if reading.purpose == "verify"]
    proof = replace(verified({(0, 0): fresh}, 0.03, KnownLuck(0.0, False, (1.0,))), word="slower")
    assert unless_memory(proof, moody, "time", STEP, 0.03).word == word
    assert unless_memory(replace(proof, word="not slower"), moody, "time", STEP, 0.03).word == "not slower"


def test_the_chance_of_a_false_name_is_spent_by_series_and_by_step() -> None:
    def read(base: int, head: int, purpose: str = "verify", **values: float) -> BisectReading:
        return BisectReading("time", base, head, values, purpose)

    one = BisectFacts((read(0, 9, "confirm", a=0.1), read(4, 5, a=0.1), read(4, 5, a=0.1), read(7, 8, a=0.2)))
    assert [alpha_shares(one, SuspectRange(4, 5)), alpha_shares(one, SuspectRange(7, 8))] == [2, 6]
    repeated = BisectFacts(
        tuple(replace(r, log_ratios={**r.log_ratios, "b": r.log_ratios["a"]}) for r in one.readings)
    )
    assert alpha_shares(repeated, SuspectRange(4, 5)) == 2
    other = BisectFacts(tuple(replace(r, log_ratios={**r.log_ratios, "b": 0.0}) for r in one.readings))
    assert alpha_shares(other, SuspectRange(4, 5)) == 4
