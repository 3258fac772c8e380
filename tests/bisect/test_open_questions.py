"""What the culprits leave unexplained, and what could not be measured."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from concluding import LATENCY, SLOWER, THROUGHPUT, N, concluded, found, sha
from simulated_range import Ended, Simulated, SimulatedRange, bisected

from torchperf_ci.bisect.conclusion import conclude
from torchperf_ci.bisect.measurement_setup import BisectLimits
from torchperf_ci.bisect.reasoning.evidence import BuildAttempt, ProbeFailure
from torchperf_ci.bisect.reasoning.investigation import Investigation


def test_a_limit_beside_a_culprit_is_a_note() -> None:
    series = {LATENCY: Simulated({8: 1.06, 22: 1.06})}
    whole = bisected(SimulatedRange(N, series))
    proven = next(
        count
        for count in range(len(whole.facts.readings))
        if any(one.culprits for one in _after(whole, count).investigation.series)
        and _after(whole, count).investigation.searches
    )
    told = conclude(found(replace(_after(whole, proven), ended_by="--max-runs")), {})
    assert told.status == "found"
    assert len(told.culprits) == 1
    assert told.notes == (
        "the culprits do not explain all of the change: the limit of --max-runs ended the search",
    )


def _after(ended: Ended, readings: int) -> Ended:
    facts = replace(ended.facts, readings=ended.facts.readings[:readings])
    return replace(ended, investigation=Investigation(ended.investigation.question, facts))


def test_a_probe_that_does_not_run_on_bad_is_told() -> None:
    series = {LATENCY: Simulated({17: 1.07}), "other": Simulated({17: 1.07}, probe="q")}
    told = concluded(series, fails={"q": frozenset({N})})
    assert told.status == "found"
    assert told.notes == ("q does not run on the bad commit: crashed",)
    alone = concluded({LATENCY: SLOWER[LATENCY]}, fails={"p": frozenset({N})})
    assert alone.status == "inconclusive"
    assert "choose ends on which one does" in alone.why


def test_a_probe_that_does_not_run_on_good_is_told_and_leaves_the_others_alone() -> None:
    series = {**SLOWER, "other": Simulated({25: 1.06}, probe="q")}
    told = concluded(series, fails={"q": frozenset({0})})
    assert [culprit.commit for culprit in told.culprits] == [sha(17)]
    assert told.notes == ("q does not run on the good commit: crashed",)


def test_that_a_series_was_not_measured_at_the_culprit_that_it_is_counted_for_is_told() -> None:
    """Its own change may be that of a commit before, on which its probe does not run either."""
    series = {**SLOWER, "other": Simulated({15: 1.09}, probe="q")}
    told = concluded(series, fails={"q": frozenset(range(12, 21))})
    (culprit,) = told.culprits
    assert culprit.set == (sha(17),)
    assert {change.name for change in culprit.series} == {LATENCY, "other"}
    (note,) = told.notes
    assert re.match(
        r"other got slower between .* commit 11 and .* commit 21, and could be measured no ", note
    )
    assert note.endswith("because of 0000000000 commit 17, too, is likely but not proven")


def test_a_failure_without_a_word_is_told_as_well() -> None:
    ended = bisected(SimulatedRange(N, SLOWER, fails={"p": frozenset({N})}))
    facts = replace(ended.facts, failures=tuple(replace(one, why="") for one in ended.facts.failures))
    silent = replace(ended, investigation=Investigation(ended.investigation.question, facts))
    assert conclude(found(silent), {}).notes == ("p does not run on the bad commit: it does not say why",)


def test_series_that_are_not_slower_are_named_beside_those_that_are() -> None:
    told = concluded({**SLOWER, THROUGHPUT: Simulated()})
    assert told.notes == (f"not slower on this machine: {THROUGHPUT}",)


@pytest.mark.parametrize("change", [1.07, 1.0], ids=["found", "not_reproduced"])
def test_a_series_of_which_there_is_no_pair_or_none_that_tells_is_named(change: float) -> None:
    """Whether or not there is a culprit of another one: the answer looked as if it held for all of them."""
    lost = {"never": Simulated(absent=frozenset({N})), "noisy": Simulated({17: 1.03}, noise=0.3)}
    told = concluded({LATENCY: Simulated({17: change}), **lost})
    assert told.notes[:2] == (
        "not known whether slower, because no pair of bad and good yields it: never",
        "not known whether slower, because its pairs are too few or vary too much: noisy",
    )


def test_a_series_that_a_limit_left_open_beside_a_culprit_is_named() -> None:
    series = {**SLOWER, "open": Simulated(noise=0.05)}
    told = concluded(series, limits=BisectLimits(pairs=concluded(SLOWER).runs))
    assert told.status == "found"
    assert told.notes == ("not known whether slower, because the limit of --max-runs ended the search: open",)


def test_a_series_that_has_a_culprit_is_known_whatever_later_pairs_of_the_ends_show() -> None:
    ended = bisected(SimulatedRange(N, {**SLOWER, "other": Simulated()}))
    first = next(one for one in ended.facts.readings if one.purpose == "confirm")
    later = [replace(first, log_ratios={LATENCY: value}) for value in (-0.5, 0.5) * 30]
    facts = replace(ended.facts, readings=(*ended.facts.readings, *later))
    told = conclude(
        found(replace(ended, investigation=Investigation(ended.investigation.question, facts))), {}
    )
    assert [culprit.commit for culprit in told.culprits] == [sha(17)]
    assert not any("not known" in note for note in told.notes)


def test_what_was_not_measured_to_the_end_is_no_part_of_what_is_not_slower() -> None:
    ended = bisected(SimulatedRange(N, {LATENCY: Simulated(), "other": Simulated({17: 1.3}, probe="q")}))
    first = next(one for one in ended.facts.readings if one.probe == "q")
    readings = (*(one for one in ended.facts.readings if one.probe == "p"), first)
    facts = replace(ended.facts, readings=readings, failures=(ProbeFailure("q", N, "crashed"),))
    told = conclude(
        found(replace(ended, investigation=Investigation(ended.investigation.question, facts))), {}
    )
    assert told.status == "not-reproduced"
    assert "the worst of 1 series got" in told.why
    assert told.notes[-1].endswith("its pairs are too few or vary too much: other")


def test_builds_that_come_out_the_same_are_told_once() -> None:
    ended = bisected(SimulatedRange(N, SLOWER))
    known = ended.investigation
    anew = [BuildAttempt(N, ok=True, draw=draw, repeated=True) for draw in (1, 2, 3)]
    facts = replace(known.facts, builds=(*known.facts.builds, *anew))
    told = conclude(found(replace(ended, investigation=replace(known, facts=facts))), {})
    [note] = told.notes
    assert "gave the same builds, byte for byte" in note
