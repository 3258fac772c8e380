"""The conclusion of a finished search, and how certain it is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from concluding import LATENCY, SLOWER, THROUGHPUT, N, concluded, found, sha
from simulated_range import Ended, Simulated, SimulatedRange, bisected

from torchperf_ci.bisect.commits import Commit
from torchperf_ci.bisect.conclusion import clearest_probes, conclude, with_commit_details
from torchperf_ci.bisect.culprit_profile import CulpritProfiles
from torchperf_ci.bisect.measurement_setup import BisectLimits
from torchperf_ci.bisect.probes import CommandProbe
from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectQuestion,
    BuildAttempt,
    PlannedPair,
    ProbeFailure,
    SuspectRange,
)
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.config import Rule
from torchperf_ci.culprits.culprit import ProfileChange
from torchperf_ci.stats.effect_estimates import paired_effect


def test_what_may_have_brought_back_a_revert_that_cannot_be_built_is_told_with_it() -> None:
    world = SimulatedRange(N, {LATENCY: Simulated({4: 1.07, 20: 1 / 1.07, 21: 1.07})}, frozenset({20}))
    told = conclude(found(bisected(world, question=replace(world.question(), reverts={20: 4}))), {})
    assert (told.status, told.culprits) == ("inconclusive", ())
    assert {suspect.commit for suspect in told.credible} == {sha(4), sha(21)}
    assert "commit 4, which was reverted" in told.why
    assert "commit 21), and no build can tell which" in told.why


def test_a_culprit_is_told_with_the_effect_that_its_own_pairs_show() -> None:
    told = concluded(SLOWER)
    (culprit,) = told.culprits
    assert (told.status, told.good, told.bad, told.why) == ("found", sha(0), sha(N), "")
    assert (culprit.commit, culprit.set) == (sha(17), (sha(17),))
    assert culprit.posterior > 0.95
    verified = [reading.log_ratios[LATENCY] for reading in told.readings if reading.purpose == "verify"]
    assert culprit.effect == paired_effect(verified)
    (change,) = culprit.series
    assert (change.name, change.effect, list(change.log_ratios)) == (LATENCY, culprit.effect, verified)
    assert told.confirmed[LATENCY].ratio == pytest.approx(1.07, abs=0.01)
    assert told.credible == ()


def test_the_told_interval_holds_what_readings_cannot_resolve() -> None:
    ended = bisected(SimulatedRange(N, SLOWER))
    readings = tuple(replace(reading, resolution={LATENCY: 0.02}) for reading in ended.facts.readings)
    facts = replace(ended.facts, readings=readings)
    coarse = replace(ended, investigation=Investigation(ended.investigation.question, facts))
    for told in (conclude(found(coarse), {}), conclude(found(coarse), {LATENCY: Rule("up", 0.03)})):
        for effect in (told.confirmed[LATENCY], told.culprits[0].effect, told.culprits[0].series[0].effect):
            assert effect.high > effect.low * math.exp(2 * 0.02)


def test_a_culprit_is_told_with_what_was_seen_inside_and_why_not_of_others() -> None:
    ended = found(bisected(SimulatedRange(N, SLOWER)))
    [(step, probe)] = clearest_probes(ended.investigation).items()
    assert (step, probe) == (SuspectRange(16, 17), ended.investigation.question.probes[0])
    seen = ProfileChange(probe, graph_breaks=("print",))
    told = conclude(
        replace(ended, profiles=CulpritProfiles({step: seen}, ("profiles of another one: crashed",))), {}
    )
    assert [culprit.inside for culprit in told.culprits] == [seen]
    assert told.notes == ("profiles of another one: crashed",)


def test_what_it_took_is_added_up() -> None:
    told = concluded(SLOWER)
    assert told.runs == len(told.readings) == told.seconds.measuring
    assert told.seconds.building == 10 * told.builds
    assert {reading.base for reading in told.readings} >= {sha(0), sha(16)}


def test_a_set_has_no_commit_of_its_own() -> None:
    told = concluded(SLOWER, unbuildable=frozenset({16, 17}))
    (culprit,) = told.culprits
    assert culprit.commit is None
    assert culprit.set == (sha(16), sha(17), sha(18))
    assert {one.commit for one in told.skipped} >= {sha(16), sha(17)}
    assert all(one.why == "error: no such file" for one in told.skipped)


def test_a_commit_that_lacks_a_series_is_told_with_it() -> None:
    told = concluded({LATENCY: Simulated({17: 1.07}, absent=frozenset({17})), THROUGHPUT: Simulated()})
    assert told.culprits[0].set == (sha(17), sha(18))
    assert [(one.commit, one.why) for one in told.skipped] == [(sha(17), f"p: it yields no {LATENCY}")]


def test_a_throughput_that_falls_is_told_as_falling() -> None:
    """Readings are positive where head is worse; the reader of a throughput expects less of it."""
    told = concluded({THROUGHPUT: Simulated({17: 1.07})})
    (culprit,) = told.culprits
    assert culprit.effect.ratio == pytest.approx(1 / 1.07, abs=0.01)
    assert culprit.effect.low < culprit.effect.ratio < culprit.effect.high < 1
    assert told.confirmed[THROUGHPUT].ratio < 1
    assert max(culprit.series[0].log_ratios) < 0
    assert all(reading.log_ratios[THROUGHPUT] > 0 for reading in told.readings if reading.purpose == "verify")


@pytest.mark.parametrize(
    ("series", "ratio"),
    [
        ("throughput/memory_bandwidth latency(ms) (inference fp32 eager cpu)", 1.07),
        ("text/latency throughput(samples/s) (inference fp32 eager cpu)", 1 / 1.07),
        ("llama requests per second (inference bf16 eager cuda)", 1 / 1.07),
        ("words", 1 / 1.07),
        ("the command's number", 1.07),
    ],
)
def test_the_direction_is_that_of_the_metric_whatever_the_model_is_called(series, ratio) -> None:
    rules = {"words": Rule("up", 0.03), "requests per second": Rule("up", 0.03)}
    told = concluded({series: Simulated({17: 1.07})}, rules=rules)
    assert told.culprits[0].effect.ratio == pytest.approx(ratio, abs=0.01)


def test_two_culprits_share_what_each_has_done() -> None:
    series = {LATENCY: Simulated({8: 1.06, 22: 1.06}), THROUGHPUT: Simulated({8: 1.06})}
    told = concluded(series)
    assert [culprit.commit for culprit in told.culprits] == [sha(8), sha(22)]
    assert [len(culprit.series) for culprit in told.culprits] == [2, 1]
    assert all(culprit.posterior > 0.95 for culprit in told.culprits)
    assert told.notes == ()


def test_a_proven_culprit_is_sure_whatever_else_got_slower_before_it() -> None:
    """It was told as "<0.1% sure", since by the readings it has been slow since another one."""
    world = SimulatedRange(N, {LATENCY: Simulated({3: 1.2, 20: 1.2})})
    located = [(0, place, "locate") for place in (2, 3, 19, 20)]
    asked = [*[(0, N, "confirm")] * 3, *located, *[(19, 20, "verify")] * 6]
    steps = [PlannedPair("p", *pair, head_first=count % 2 == 1) for count, pair in enumerate(asked)]
    facts = BisectFacts(tuple(map(world.measure, steps)))
    told = conclude(found(Ended(Investigation(world.question(), facts), [], "--max-runs")), {})
    assert [culprit.commit for culprit in told.culprits] == [sha(20)]
    assert told.culprits[0].posterior > 0.95


@pytest.mark.parametrize("place", [16, 17])
def test_a_probe_that_does_not_run_close_to_the_culprit_has_the_same_one(place) -> None:
    series = {LATENCY: Simulated({17: 1.07}), "words": Simulated({17: 1.06}, probe="q")}
    told = concluded(series, fails={"q": frozenset({place})})
    (culprit,) = told.culprits
    assert culprit.commit == sha(17)
    assert [change.name for change in culprit.series] == [LATENCY, "words"]
    assert culprit.series[1].effect.ratio == pytest.approx(1.06, abs=0.01)
    assert culprit.effect == culprit.series[0].effect


def test_a_step_that_holds_two_culprits_stays_beside_them() -> None:
    series = {LATENCY: Simulated({16: 1.06, 17: 1.06}), "words": Simulated({17: 1.06}, probe="q")}
    told = concluded(series, fails={"q": frozenset({15, 16})})
    both, *each = told.culprits
    assert both.set == (sha(15), sha(16), sha(17))
    assert [change.name for change in both.series] == ["words"]
    assert [culprit.commit for culprit in each] == [sha(16), sha(17)]


def test_a_limit_is_told_with_the_suspects_that_are_left() -> None:
    told = concluded(SLOWER, BisectLimits(builds=4))
    assert told.status == "inconclusive"
    assert "--max-builds" in told.why
    assert "continues from here" in told.why
    assert told.culprits == ()
    assert sha(17) in {suspect.commit for suspect in told.credible}
    assert len(told.credible) < N
    ranked = [suspect.posterior for suspect in told.credible]
    assert ranked == sorted(ranked, reverse=True)
    assert 0.95 <= sum(ranked) <= 1
    assert told.credible[0].subject.startswith("commit ")


def test_a_limit_is_told_also_beside_a_culprit_though_it_is_not_known_yet_whether_there_are_more() -> None:
    """Nothing said that the rest had not been measured, of which half of the change is."""
    told = concluded({LATENCY: Simulated({8: 1.06, 22: 1.06}, noise=0.01)}, BisectLimits(pairs=24))
    assert (told.status, [culprit.commit for culprit in told.culprits], told.notes) == ("found", [sha(8)], ())
    assert told.why == "the limit of --max-runs ended it: raise it, and the same command continues from here"


@pytest.mark.parametrize(("change", "what"), [(1.0, "worse by "), (1 / 1.07, "better by +6.")])
def test_what_is_not_slower_is_told_with_what_would_have_shown(change, what) -> None:
    told = concluded({LATENCY: Simulated({17: change})})
    assert told.status == "not-reproduced"
    assert "bad is not slower than good on this machine" in told.why
    assert f"the worst of 1 series got {what}" in told.why
    assert "should have been visible" in told.why
    assert (told.culprits, told.credible) == ((), ())


def test_suspects_that_nothing_tells_apart_are_told_so() -> None:
    ended = bisected(SimulatedRange(N, SLOWER))
    ends = tuple(reading for reading in ended.facts.readings if reading.purpose == "confirm")
    facts = replace(ended.facts, readings=ends)
    told = conclude(
        found(replace(ended, investigation=Investigation(ended.investigation.question, facts))), {}
    )
    assert told.status == "inconclusive"
    assert told.why.startswith("no further measurement is expected to tell the suspects apart")


def test_what_spreads_too_much_is_told_with_what_it_takes() -> None:
    spread = found(bisected(SimulatedRange(N, {LATENCY: Simulated({17: 1.03}, noise=0.2)})))
    told = conclude(spread, {})
    assert told.status == "inconclusive"
    assert "60 pairs of bad and good" in told.why
    assert told.why.endswith("a larger --min-effect")
    of_command = replace(spread, setup=replace(spread.setup, probes=(CommandProbe("python bench.py"),)))
    assert "larger --min-effect. Does the command import the commit's code?" in conclude(of_command, {}).why


def unproven(pairs: int) -> Ended:
    """The search has led to one commit, and fresh pairs of it show now this, now that."""
    ended = bisected(SimulatedRange(N, {LATENCY: Simulated({17: 1.07}, noise=0.0)}))
    located = [reading for reading in ended.facts.readings if reading.purpose != "verify"]
    (fresh, *_) = (reading for reading in ended.facts.readings if reading.purpose == "verify")
    shown = [replace(fresh, log_ratios={LATENCY: (-0.04, 0.07)[count % 2]}) for count in range(pairs)]
    facts = replace(ended.facts, readings=(*located * 10, *shown))
    return replace(ended, investigation=Investigation(ended.investigation.question, facts))


def test_what_could_not_be_proven_says_what_it_would_take() -> None:
    told = conclude(found(unproven(60)), {})
    assert told.status == "inconclusive"
    assert (
        "60 fresh pairs of it and its predecessor do not prove it: that takes a quieter machine" in told.why
    )
    assert "commit 17" in told.why
    assert sha(17) in {suspect.commit for suspect in told.credible}


def test_what_the_luck_of_two_builds_may_explain_takes_more_builds() -> None:
    """As where rebuilds come out identical: no machine is quiet enough for that."""
    world = SimulatedRange(N, {LATENCY: Simulated({17: 1.04}, noise=0.004)})
    told = conclude(found(bisected(world, question=replace(world.question(), luck=0.003))), {})
    assert told.status == "inconclusive"
    assert "do not prove it: that takes several builds of both" in told.why


def test_a_culprit_that_cannot_be_measured_again_is_not_named() -> None:
    ended = unproven(0)
    facts = replace(ended.facts, failures=(ProbeFailure("p", 17, "it cannot be made again"),))
    lost = replace(ended, investigation=Investigation(ended.investigation.question, facts))
    told = conclude(found(lost), {})
    assert (told.status, told.culprits) == ("inconclusive", ())
    assert "could not be measured again" in told.why


def test_a_good_build_that_is_now_as_slow_as_bad_was_is_the_environment() -> None:
    ended = bisected(SimulatedRange(N, {LATENCY: Simulated()}))
    readings = tuple(replace(reading, values={LATENCY: 10.7}) for reading in ended.facts.readings)
    facts = replace(ended.facts, readings=readings)
    now = replace(ended, investigation=Investigation(ended.investigation.question, facts))
    told = conclude(found(now, levels={LATENCY: (10.0, 10.7)}), {})
    assert told.status == "environment"
    assert "is 10.7, was 10 and then 10.7" in told.why


def anew(ended: Ended, of_builds: dict[tuple[int, int], float], purpose: str) -> Ended:
    """The pairs for a purpose read this, by their draws, and the others what they read before."""
    rows = [one for one in ended.facts.readings if one.purpose == purpose]
    others = [one for one in ended.facts.readings if one.purpose != purpose]
    read = [
        replace(one, draws=draws, log_ratios={LATENCY: ratio + (-1) ** number * 0.002})
        for draws, ratio in of_builds.items()
        for number, one in enumerate(rows)
    ]
    question = replace(ended.investigation.question, luck=0.01, rebuilds=True)
    facts = replace(ended.facts, readings=(*others, *read))
    return replace(ended, investigation=Investigation(question, facts))


def test_what_is_gone_once_it_is_built_anew_is_no_commit() -> None:
    ended = bisected(SimulatedRange(N, {LATENCY: Simulated()}))
    same = {(draw, draw): 0.002 * (-1) ** draw for draw in range(1, 8)}
    apart = anew(ended, {(0, 0): 0.05, **same}, "confirm")
    told = conclude(found(apart), {})
    assert told.status == "build"
    assert "the first builds of bad and good differ by +5.1%, but rebuilds of them by " in told.why
    assert told.culprits == ()
    steady = anew(ended, {(0, 0): 0.0, (1, 1): 0.0, (2, 2): 0.0}, "confirm")
    assert conclude(found(steady), {}).status == "not-reproduced"


def test_a_culprit_is_told_with_the_builds_that_proved_it() -> None:
    ended = bisected(SimulatedRange(N, SLOWER))
    several = anew(ended, {(0, 0): 0.07, (1, 1): 0.07, (2, 2): 0.06, (3, 3): 0.07}, "verify")
    told = conclude(found(several), {})
    assert [one.builds for one in told.culprits] == [(3, 3)]  # the first builds led to it
    others = [
        replace(one, probe="q", draws=(4, 4), log_ratios={"q": 0.07}) for one in several.facts.readings[-9:]
    ]
    facts = replace(several.facts, readings=(*several.facts.readings, *others))
    beside = replace(several, investigation=replace(several.investigation, facts=facts))
    assert [one.builds for one in conclude(found(beside), {}).culprits] == [(3, 3)]
    assert told.luck is not None
    assert told.luck.source == "history"  # another one than is expected of any
    any_other = replace(several.investigation.question, luck=BisectQuestion.luck)
    usual = conclude(
        found(replace(several, investigation=replace(several.investigation, question=any_other))), {}
    )
    assert usual.luck is not None
    assert usual.luck.source == "expected"
    builds = (*several.facts.builds, BuildAttempt(N, ok=True, draw=1))
    known = replace(several.investigation, facts=replace(several.investigation.facts, builds=builds))
    learnt = conclude(found(replace(several, investigation=known)), {}).luck
    assert learnt is not None
    assert learnt.source == "rebuilds"
    assert 0 < learnt.spread < 0.02
    assert {one.draws for one in told.readings} >= {(0, 0), (3, 3)}


def test_of_what_is_not_built_nothing_is_told_of_builds() -> None:
    ended = bisected(SimulatedRange(N, SLOWER))
    known = ended.investigation
    imported = replace(ended, investigation=replace(known, question=replace(known.question, luck=0.0)))
    told = conclude(found(imported), {})
    assert (told.luck, [one.builds for one in told.culprits]) == (None, [None])
    texts = tuple(BuildAttempt(place, ok=True, contents=(f"text {place}", "files")) for place in (16, 17))
    known = replace(
        known, facts=replace(known.facts, builds=texts), question=replace(known.question, luck=0.01)
    )
    assert [one.builds for one in conclude(found(replace(ended, investigation=known)), {}).culprits] == [None]


def test_the_notes_of_the_setting_come_first() -> None:
    told = conclude(found(bisected(SimulatedRange(N, SLOWER)), notes=("x is not bisected: why",)), {})
    assert told.notes == ("x is not bisected: why",)


def test_a_culprit_is_told_with_what_its_commit_says() -> None:
    (culprit,) = concluded(SLOWER).culprits
    commit = Commit(sha(17), "Ada", "2026-11-01T12:30:00+01:00", "Check twice (#12)", 12, (sha(16),))
    told = with_commit_details(culprit, {commit.sha: commit}, "https://github.com/octo/perf")
    assert (told.author, told.date, told.subject) == (commit.author, commit.date, commit.subject)
    assert told.pull_request == 12
    assert told.url == f"https://github.com/octo/perf/commit/{sha(17)}"
    assert with_commit_details(culprit, {commit.sha: commit}, "").url is None
    assert with_commit_details(culprit, {}, "https://github.com/octo/perf") == culprit


def test_many_small_commits_are_told_as_what_no_single_one_has_done() -> None:
    creep = dict.fromkeys(range(3, N, 3), 1.005)
    told = concluded({"s": Simulated(creep, noise=0.01)})
    assert told.status == "inconclusive"
    assert "each too small" in told.why
