"""Complete searches where builds of the same code differ by luck."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from simulated_range import Simulated, SimulatedRange, bisected

from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectQuestion,
    BisectReading,
    Purpose,
    SuspectRange,
)
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.reasoning.proof import MAX_PAIRS
from torchperf_ci.bisect.reasoning.series_evidence import PAIRS_PER_BLOCK, SeriesEvidence

N = 70
UNLUCKY = (3, 13, 26, 37)
"""Seeds of ranges in which nothing is slower, and in which a search that knows no luck of builds proves a culprit."""


def a_range(changes: dict[int, float], luck: float, seed: int, **more) -> SimulatedRange:
    return SimulatedRange(N, {"s": Simulated(changes, 0.01)}, luck=luck, seed=seed, **more)


@pytest.mark.parametrize("seed", UNLUCKY)
def test_luck_of_builds_is_no_commit(seed) -> None:
    ended = bisected(a_range({}, 0.015, seed, rebuilds=True))
    assert not ended.culprits
    assert (ended.investigation.explained_by_luck is not None) == (seed in (3, 13)), (
        "what goes away when it is built anew"
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_culprit_is_proven_by_builds_that_its_search_has_not_seen(seed) -> None:
    ended = bisected(a_range({37: 1.07}, 0.01, seed, rebuilds=True))
    assert ended.culprits == {"s": [SuspectRange(36, 37)]}
    proving = {one.draws for one in ended.facts.readings if one.purpose == "verify"}
    assert len(proving) >= 2
    others = {
        end
        for one in ended.facts.readings
        if one.purpose in ("confirm", "locate")
        for end in zip((one.base, one.head), one.draws, strict=True)
    }
    fresh = {end for draws in proving for end in zip((36, 37), draws, strict=True)}
    assert not others & fresh
    assert {(build.position, build.draw) for build in ended.facts.builds} == others | fresh, (
        "none for controls"
    )


def test_where_nothing_can_be_built_anew_only_what_luck_does_not_make_is_proven() -> None:
    small, large = (bisected(a_range({37: 1 + effect}, 0.004, 0)) for effect in (0.035, 0.15))
    assert not small.culprits
    assert large.culprits == {"s": [SuspectRange(36, 37)]}
    (evidence,) = large.investigation.regressed
    assert evidence.tried[SuspectRange(36, 37)].of_these_builds


def test_imported_sources_have_no_builds_whose_luck_would_have_to_be_drawn() -> None:
    world = a_range({37: 1.07}, 0.0, 0)
    question = replace(world.question(), rebuilds=True)
    ended = bisected(world, question=question)
    assert ended.culprits == {"s": [SuspectRange(36, 37)]}
    assert {one.draws for one in ended.facts.readings} == {(0, 0)}


def test_builds_that_differ_by_more_than_pairs_are_drawn_for_as_long_as_pairs_are_taken() -> None:
    world = a_range({}, 0.015, 0, rebuilds=True)
    middles = [(-1) ** draw * 0.03 + 0.015 for draw in range(13)]
    read = [
        BisectReading("p", 0, N, {"s": middle + error}, "confirm", 1.0, draws=(draw, draw))
        for draw, middle in enumerate(middles)
        for error in (-0.002, 0.0, 0.002)
    ]
    (evidence,) = Investigation(world.question(), BisectFacts(tuple(read))).series
    assert evidence.confirmation.word == "open"
    assert evidence.pair(evidence.whole, "confirm").draws == (13, 13)


@pytest.mark.parametrize(("n", "seed"), [(N, 0), (N, 1), (1, 0)])
def test_however_much_slower_the_first_build_of_bad_is_by_luck_its_rebuilds_decide(n, seed) -> None:
    world = SimulatedRange(n, {"s": Simulated({}, 0.01)}, luck=0.005, seed=seed, unlucky=0.18, rebuilds=True)
    ended = bisected(world)
    luck = ended.investigation.explained_by_luck
    assert luck is not None
    assert not ended.investigation.regressed
    first, anew = luck.first_and_anew
    assert (np.median(first), np.median(anew)) == (pytest.approx(0.18, abs=0.02), pytest.approx(0, abs=0.02))
    assert len(ended.facts.readings) < MAX_PAIRS


def test_a_proof_expects_as_much_luck_as_the_other_pairs_show() -> None:
    """And not as its own do: few builds may agree by luck."""

    def pairs(base: int, head: int, purpose: Purpose, middles: list[float]) -> list[BisectReading]:
        return [
            BisectReading("p", base, head, {"s": middle + error}, purpose, 1.0, draws=(draw, draw))
            for draw, middle in enumerate(middles, start=1)
            for error in (-0.002, 0.0, 0.002)
        ]

    question, fresh = a_range({}, 0.015, 0, rebuilds=True).question(), pairs(36, 37, "verify", [0.05, 0.05])

    def increase(luck: float) -> float:
        others = pairs(0, N, "confirm", [0.05 + luck, 0.05 - luck] * 4)
        (evidence,) = Investigation(question, BisectFacts((*others, *fresh))).series
        return evidence.verify(SuspectRange(36, 37)).increase

    assert increase(0.0) > increase(0.03)


@pytest.mark.parametrize(("first", "whole", "is_luck"), [(0.18, "unknown", True), (0.0, "not slower", False)])
def test_a_first_build_that_leaves_it_open_whether_bad_is_slower_is_luck(first, whole, is_luck) -> None:
    middles = [first, *np.random.default_rng(0).normal(0.008, 0.01, 19)]
    read = [
        BisectReading("p", 0, N, {"s": middle + error}, "confirm", 1.0, draws=(draw, draw))
        for draw, middle in enumerate(middles)
        for error in (-0.002, 0.0, 0.002)
    ]
    question = a_range({}, 0.015, 0, rebuilds=True).question()
    (evidence,) = Investigation(question, BisectFacts(tuple(read))).series
    assert evidence.confirm(evidence.whole).word == whole
    assert (evidence.confirmation.word, evidence.confirmation.is_luck) == ("not slower", is_luck)


@pytest.mark.parametrize("position", [1, N])
def test_a_culprit_at_an_end_of_the_range_is_no_luck(position) -> None:
    ended = bisected(a_range({position: 1.07}, 0.01, 0, rebuilds=True))
    assert ended.culprits == {"s": [SuspectRange(position - 1, position)]}
    assert ended.investigation.explained_by_luck is None


def test_rebuilds_that_come_out_identical_are_not_measured_and_others_are_made() -> None:
    ended = bisected(a_range({37: 1.07}, 0.01, 0, rebuilds=True, repeats=(2, 4)))
    assert ended.culprits == {"s": [SuspectRange(36, 37)]}
    draws = {draw for one in ended.facts.readings for draw in one.draws}
    assert draws >= {0, 1, 3, 5}
    assert not draws & {2, 4}


def test_rebuilds_that_all_come_out_identical_end_after_three() -> None:
    ended = bisected(a_range({37: 1.15}, 0.001, 0, rebuilds=True, repeats=range(1, 100)))
    assert ended.culprits == {"s": [SuspectRange(36, 37)]}
    assert len([build for build in ended.facts.builds if build.draw]) == 3
    assert {one.draws for one in ended.facts.readings} == {(0, 0)}


@pytest.mark.parametrize(
    ("luck", "others", "word"), [(0.003, 0, "slower"), (0.003, 19, "open"), (0.0, 19, "slower")]
)
def test_the_evidence_of_builds_is_divided_among_the_series(luck, others, word) -> None:
    """Three builds of a commit that is 5% slower are enough for one series, but not for one of twenty."""
    random = np.random.default_rng(1)

    def read(head: int, purpose: Purpose, draw: int, value: float, head_first: bool = False) -> BisectReading:
        values = {"s": value, **{f"o{number}": float(random.normal(0, 0.004)) for number in range(others)}}
        draws = (draw, draw) if luck else (0, 0)
        return BisectReading("p", 4, head, values, purpose, 1.0, draws=draws, head_first=head_first)

    read_by_draw = [
        [
            *(read(5, "verify", draw, middle + (k - 1) * 0.004, bool((draw + k) % 2)) for k in range(3)),
            read(4, "control", draw, 0.001 * (-1) ** draw),
        ]
        for draw, middle in ((1, 0.045), (2, 0.055), (3, 0.045))
    ]
    facts = BisectFacts(tuple(chain.from_iterable(read_by_draw)))
    question = BisectQuestion(np.full(9, 1 / 9), ["p"], 0.03, luck=luck, rebuilds=luck > 0)
    assert SeriesEvidence(question, facts, "s", "p").verify(SuspectRange(4, 5)).word == word


@pytest.mark.parametrize("purpose", ["confirm", "verify"])
def test_builds_are_measured_again_if_a_pair_of_them_did_not_yield_the_series(purpose) -> None:
    """Other builds would take an hour, and may be no better."""
    question, draws = a_range({}, 0.01, 0, rebuilds=True).question(), (1, 1)
    lost = BisectReading("p", 0, N, {}, purpose, draws=draws)
    for count in (1, 2, 3):
        facts = BisectFacts((lost,) * count)
        planned = SeriesEvidence(question, facts, "s", "p").pair(SuspectRange(0, N), purpose)
        assert (planned.draws == draws) == (count < PAIRS_PER_BLOCK)
