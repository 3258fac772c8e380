"""A suspect whose revert is in the range."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_range import Simulated, SimulatedRange, bisected

from torchperf_ci.bisect.reasoning.evidence import SuspectRange

N = 30
FIRST, REVERT, AGAIN = 8, 16, 24
RETURNED = {FIRST: 1.07, REVERT: 1 / 1.07, AGAIN: 1.07}
SILENT, TOLD = {REVERT: FIRST}, {REVERT: FIRST, AGAIN: REVERT}
CULPRIT_LEADS = 40.0
"""How much more suspect the first one is than any other, so that it is located first."""


def ended(changes, reverts, seed: int, unbuildable=frozenset(), flaky=frozenset()):
    world = SimulatedRange(N, {"s": Simulated(changes, noise=0.02)}, unbuildable, flaky, seed=seed)
    question = world.question()
    weights = question.weights.copy()
    weights[FIRST - 1] *= CULPRIT_LEADS
    return bisected(world, question=replace(question, weights=weights / weights.sum(), reverts=reverts))


@pytest.mark.parametrize("reverts", [SILENT, TOLD], ids=["silent", "told"])
@pytest.mark.parametrize(
    "unbuildable", [frozenset(), frozenset({REVERT, REVERT + 1})], ids=["builds", "neighbour"]
)
def test_what_has_returned_is_named_and_not_what_was_taken_back(reverts, unbuildable) -> None:
    for seed in range(15):
        assert ended(RETURNED, reverts, seed, unbuildable).culprits == {"s": [SuspectRange(AGAIN - 1, AGAIN)]}


def test_a_revert_that_changes_nothing_takes_nothing_back() -> None:
    for seed in range(5):
        found = ended({FIRST: 1.07}, SILENT, seed)
        assert found.culprits == {"s": [SuspectRange(FIRST - 1, FIRST)]}
        assert any(reading.head == REVERT for reading in found.facts.readings)


@pytest.mark.parametrize("told", [False, True], ids=["silent", "told"])
@pytest.mark.parametrize(("revert", "again"), [(16, 17), (16, 19), (N - 1, N)], ids=["next", "later", "bad"])
def test_nobody_is_named_where_no_build_tells_a_revert_from_its_return(revert, again, told) -> None:
    """The revert cannot be built, nor what follows until the change is back."""
    changes = {FIRST: 1.07, revert: 1 / 1.07, again: 1.07}
    reverts = {revert: FIRST, again: revert} if told else {revert: FIRST}
    for seed in range(3):
        found = ended(changes, reverts, seed, frozenset(range(revert, again)))
        assert not found.culprits
        (search,) = found.investigation.searches
        suspects = search.suspects()
        assert {*suspects} == {FIRST, *([again] if told else range(revert + 1, again + 1))}
        assert sum(suspects.values()) == pytest.approx(1, abs=0.06)
        assert suspects[FIRST] == pytest.approx(0.5, abs=0.05)


def test_a_revert_that_fails_to_build_by_chance_is_tried_once_more_and_tells() -> None:
    changes = {FIRST: 1.07, REVERT: 1 / 1.07, REVERT + 1: 1.07}
    for seed in range(3):
        found = ended(changes, SILENT, seed, flaky=frozenset({REVERT}))
        assert found.culprits == {"s": [SuspectRange(REVERT, REVERT + 1)]}


@pytest.mark.parametrize("seed", range(2))
def test_a_build_after_the_revert_that_is_slow_by_luck_does_not_blame_what_was_taken_back(seed) -> None:
    world = SimulatedRange(N, {"s": Simulated(RETURNED, noise=0.01)}, seed=seed, luck=0.01, rebuilds=True)
    world.offsets[REVERT, 0] = 0.06
    weights = world.question().weights.copy()
    weights[FIRST - 1] *= CULPRIT_LEADS
    question = replace(world.question(weights / weights.sum()), reverts=SILENT)
    assert bisected(world, question=question).culprits == {"s": [SuspectRange(AGAIN - 1, AGAIN)]}


@pytest.mark.parametrize("seed", range(4))
def test_after_a_revert_the_search_goes_on_behind_it_even_if_builds_by_chance_hide_that_it_works(
    seed,
) -> None:
    changes = {FIRST: 1.04, REVERT: 1 / 1.04, N: 1.04}
    world = SimulatedRange(N, {"s": Simulated(changes, noise=0.01)}, seed=seed, luck=0.01, rebuilds=True)
    world.offsets.update({(place, 0): 0.04 for place in range(REVERT, REVERT + 3)})
    weights = world.question().weights.copy()
    weights[FIRST - 1] *= CULPRIT_LEADS
    question = replace(world.question(weights / weights.sum()), reverts=SILENT)
    assert bisected(world, question=question).culprits == {"s": [SuspectRange(N - 1, N)]}
