"""Builds take turns in beginning a pair, so that an order effect favors neither."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_range import Simulated, SimulatedRange, bisected

from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectReading,
    PlannedPair,
    SuspectRange,
    with_order,
)
from torchperf_ci.bisect.reasoning.proof import is_beyond_memory

STEP = SuspectRange(4, 5)


def begun(*readings: tuple[int, int, str, bool]) -> BisectFacts:
    """Pairs by base, head and purpose, and whether head began."""
    return BisectFacts(
        tuple(
            BisectReading("p", base, head, {"s": 0.0}, purpose, head_first=first)
            for base, head, purpose, first in readings
        )
    )


@pytest.mark.parametrize(
    ("step", "head_first"),
    [
        ((0, 9, "locate"), False),
        ((0, 5, "locate"), True),
        ((4, 5, "verify"), True),
        ((0, 7, "locate"), True),
        ((4, 4, "control"), False),
    ],
    ids=["the same as before", "the same, earlier", "another purpose", "new builds", "a control"],
)
def test_two_builds_begin_in_turn(step, head_first) -> None:
    facts = begun(
        (0, 5, "locate", False), (4, 5, "verify", False), (0, 9, "locate", True), (4, 4, "control", False)
    )
    facts = replace(facts, readings=(*facts.readings, replace(facts.readings[0], base=3, head=5)))
    assert with_order(facts, PlannedPair("p", *step)).head_first == head_first


def test_base_begins_the_first_pair_of_a_probe() -> None:
    assert not with_order(BisectFacts(), PlannedPair("p", 0, 9, "confirm")).head_first
    assert not with_order(begun((0, 9, "confirm", False)), PlannedPair("other", 0, 9, "confirm")).head_first


@pytest.mark.parametrize("seed", [0, 2])
def test_a_machine_that_drifts_leads_nowhere(seed) -> None:
    """It favours whichever begins by another 7% after a hundred pairs.

    Where base always begins, an innocent commit is named, or none.
    """
    ended = bisected(SimulatedRange(70, {"s": Simulated({37: 1.04}, 0.015)}, drift=0.0007, seed=seed))
    assert ended.culprits == {"s": [SuspectRange(36, 37)]}


def session(change: float, favour: float) -> BisectFacts:
    """Pairs of a proof and their controls, on a machine that favours whichever begins; 1% of noise."""
    noise, readings = np.random.default_rng(3), list[BisectReading]()
    for place in range(16):
        control, head_first = place % 4 == 3, place % 4 == 1
        value = (0.0 if control else change) + (-favour if head_first else favour) + noise.normal(0, 0.01)
        kind = (4, 4, "control") if control else (4, 5, "verify")
        readings.append(BisectReading("p", *kind[:2], {"s": value}, kind[2], head_first=head_first))
    return BisectFacts(tuple(readings))


@pytest.mark.parametrize("favour", [0.0, 0.04, 0.08])
def test_a_change_is_proven_beside_what_favours_the_first(favour) -> None:
    assert is_beyond_memory(session(0.04, favour), "s", STEP, 0.03)
    assert not is_beyond_memory(session(0.0, favour), "s", STEP, 0.03)
