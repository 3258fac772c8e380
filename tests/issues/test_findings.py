from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hostile import texts
from hypothesis import given, settings
from hypothesis import strategies as st
from made_night import (
    BAD,
    BERT,
    BROKEN,
    CULPRIT,
    DAY,
    GUILTY,
    H100,
    INCONCLUSIVE,
    JUDGEMENT,
    LOCATION,
    MI300,
    NIGHT,
    ON_MI300,
    REGRESSED,
    RESNET,
    THROUGHPUT,
    VIT,
    a_change,
    a_regression,
    a_series,
)

from torchperf_ci.issues.findings import cause_fingerprint, findings_of
from torchperf_ci.issues.table import what_got_worse
from torchperf_ci.metrics import ANCHORED
from torchperf_ci.verdicts.verdict import Judgement, Verdict, evidence_of

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Bisection, Culprit, SeriesEffect
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.series.points import Series

OF_CULPRIT = cause_fingerprint("culprit", GUILTY, "worse")


def found(verdicts: list[Verdict], locations: list[Bisection], broken_nights: int = 3) -> list[IssueFinding]:
    return findings_of([Judgement("check", "", "", verdicts)], locations, NIGHT, broken_nights)


def blaming(*culprits: Culprit) -> Bisection:
    """The bisection with other culprits."""
    return replace(LOCATION, culprits=culprits)


def proven(finding: IssueFinding) -> dict[Series, bool]:
    return {row.series: row.proven for row in finding.rows}


def test_a_culprit_is_one_finding_with_all_that_it_explains() -> None:
    culprit, rest, broken = findings_of([JUDGEMENT], [LOCATION], NIGHT, 3)
    assert (culprit.kind, culprit.fingerprint) == ("culprit", OF_CULPRIT)
    assert proven(culprit) == {RESNET: True, BERT: True, THROUGHPUT: True, ON_MI300: False}
    assert (*culprit.verdicts, *rest.verdicts) == REGRESSED
    row = next(row for row in culprit.rows if row.series == BERT)
    assert (row.old, row.new, row.night) == (8.72, pytest.approx(9.07752), NIGHT)
    assert row.effect == a_change(BERT, 1.042).effect, "that of the pairs, not of history"
    assert (broken.kind, broken.why) == ("broken", BROKEN.why)


def test_a_candidate_counts_where_pairs_prove_it_and_nowhere_else() -> None:
    verdicts = [replace(one, verdict="noisy", candidate=True) for one in REGRESSED]
    (one,) = found(verdicts, [LOCATION])
    assert proven(one) == {RESNET: True, BERT: True, THROUGHPUT: True}
    assert (one.rows[0].old, one.rows[0].new) != (None, None)
    assert found(verdicts, []) == []


def test_the_same_culprit_on_two_machines_is_one_finding() -> None:
    effect = replace(CULPRIT, series=(a_change(ON_MI300, 1.056),), effect=a_change(ON_MI300, 1.056).effect)
    other = replace(LOCATION, machine=f"{MI300} (cuda)", culprits=(effect,))
    for locations in ([LOCATION, other], [other, LOCATION]):
        one, rest = found(list(REGRESSED), locations)
        assert proven(one) == {RESNET: True, BERT: True, THROUGHPUT: True, ON_MI300: True}
        assert proven(rest) == {VIT: False}
        assert one.culprit == CULPRIT, "the larger effect tells"


def test_a_machine_with_a_bisection_of_its_own_needs_proof_of_its_own() -> None:
    """Also of the commit that it has proven for other series."""
    there = a_regression(replace(BERT, arch=MI300), 9.1, 1.04)
    culprit = replace(CULPRIT, series=(a_change(ON_MI300, 1.056),))
    on_mi300 = replace(LOCATION, machine=f"{MI300} (cuda)", culprits=(culprit,))
    one, rest = found([*REGRESSED[:-1], there], [LOCATION, on_mi300])
    assert proven(one) == {RESNET: True, BERT: True, THROUGHPUT: True, ON_MI300: True}
    assert (rest.kind, proven(rest)) == ("unlocated", {there.series: False})


def test_a_series_of_another_repository_is_not_explained_by_the_name_alone() -> None:
    theirs = a_regression(replace(RESNET, repo="octo/other"), 4.0, 1.5, good="7" * 40, bad="8" * 40)
    other, culprit, _ = found([*REGRESSED, theirs], [LOCATION])
    assert (other.kind, [row.series for row in other.rows]) == ("unlocated", [theirs.series])
    assert theirs.series not in {row.series for row in culprit.rows}


def test_another_machine_with_a_bisection_of_its_own_is_not_explained_by_the_name_alone() -> None:
    elsewhere = a_regression(ON_MI300, 1.4, 1.05, good="1" * 40, bad="2" * 40)
    own = replace(INCONCLUSIVE, machine=f"{MI300} (cuda)", good="1" * 40, bad="2" * 40)
    culprit, unlocated = found([a_regression(RESNET, 1.2, 1.07), elsewhere], [LOCATION, own])
    assert RESNET in proven(culprit)
    assert list(proven(unlocated)) == [ON_MI300]
    assert unlocated.why == own.why


@pytest.mark.parametrize(("days", "findings"), [(-1, 1), (0, 2), (1, 2)])
def test_a_commit_is_not_blamed_where_it_was_as_fast_as_before(days: int, findings: int) -> None:
    here, there = (
        a_regression(RESNET, 1.2, 1.07),
        a_regression(ON_MI300, 1.4, 1.05, good="1" * 40, bad="2" * 40),
    )
    end = here.evidence.commits.first_new.timestamp
    commits = replace(
        there.evidence.commits,
        last_old=replace(there.evidence.commits.last_old, timestamp=end + days * DAY),
    )
    there = replace(there, evidence=replace(there.evidence, commits=commits))
    culprit, *others = found([here, there], [LOCATION])
    assert (ON_MI300 in proven(culprit)) == (not others)
    assert len([culprit, *others]) == findings


def test_of_two_culprits_that_name_no_series_neither_is_blamed() -> None:
    both = [replace(CULPRIT, commit=one, set=(one,), series=()) for one in ("1" * 40, "2" * 40)]
    blamed = [one for one in found([*REGRESSED], [blaming(*both)]) if one.culprit]
    assert [one.rows for one in blamed] == [()] * len(blamed) != []


@pytest.mark.parametrize(("named", "is_its"), [(CULPRIT.series, False), ((), True)])
def test_the_only_culprit_of_a_range_is_not_blamed_for_a_series_without_proof(
    named: tuple[SeriesEffect, ...], is_its: bool
) -> None:
    """Files of other tools may not say of which series it is the culprit."""
    culprit, *others = found(list(REGRESSED), [blaming(replace(CULPRIT, series=named))])
    assert (VIT in proven(culprit)) == is_its
    assert [proven(one) for one in others if VIT in proven(one)] == [{VIT: False}] * (not is_its)


def test_a_ratio_to_an_anchor_is_explained_by_the_latency() -> None:
    anchored = replace(RESNET, metric=ANCHORED)
    (one,) = found(
        [a_regression(anchored, 1.0, 1.07)],
        [blaming(replace(CULPRIT, series=CULPRIT.series[:1]))],
    )
    assert proven(one) == {anchored: True}


def test_a_culprit_of_which_tonight_says_nothing_keeps_its_names() -> None:
    (one,) = found([], [LOCATION])
    series = next(iter(proven(one)))
    assert (
        series.model,
        series.metric,
        series.mode,
        series.dtype,
        series.backend,
        series.device,
        series.arch,
    ) == (*("vision/resnet18", "latency(ms)", "inference", "bf16", "inductor", "cuda", H100),)


def test_a_name_that_says_nothing_is_a_model() -> None:
    (one,) = found(
        [],
        [
            replace(
                LOCATION, culprits=(replace(CULPRIT, series=(replace(CULPRIT.series[0], name="seconds"),)),)
            )
        ],
    )
    (series,) = proven(one)
    assert (series.model, series.metric) == ("seconds", "")


def test_a_count_is_told_as_history_has_it() -> None:
    """Pairs compare counts plus 1: of two graph breaks and three they tell a third more."""
    breaks = a_series(metric="graph_breaks")
    verdict = replace(a_regression(breaks, 2.0, 1.5), effect=None)
    (one,) = found([verdict], [blaming(replace(CULPRIT, series=(a_change(breaks, 4 / 3),)))])
    assert proven(one) == {breaks: True}
    assert what_got_worse(one.rows) == "vision/resnet18 graph_breaks 2 → 3 on H100"


def test_one_of_several_commits_is_known_by_all_of_them() -> None:
    (one,) = found([], [blaming(replace(CULPRIT, commit=None, set=("a" * 40, GUILTY)))])
    assert one.fingerprint != OF_CULPRIT
    assert OF_CULPRIT in one.suspects


def test_a_set_of_commits_is_that_of_the_one_that_another_machine_proves() -> None:
    several = replace(CULPRIT, commit=None, set=("a" * 40, GUILTY), series=(a_change(ON_MI300, 1.9),))
    other = replace(LOCATION, machine=f"{MI300} (cuda)", culprits=(several,))
    for locations in ([LOCATION, other], [other, LOCATION]):
        one, _ = found(list(REGRESSED), locations)
        assert one.culprit == CULPRIT, "the proven commit tells, though the other effect is larger"
        assert proven(one)[ON_MI300]


def test_two_commits_that_are_proven_are_two_findings_whatever_set_has_both() -> None:
    other, both = replace(CULPRIT, set=("a" * 40,)), replace(CULPRIT, commit=None, set=("a" * 40, GUILTY))
    findings = found([], [blaming(both), LOCATION, blaming(other)])
    assert len(findings) == 2
    assert not any(one.suspects for one in findings)


@pytest.mark.parametrize("metric", ["graph_breaks", "memory_leak(KiB/iter)", "pass_rate"])
def test_what_has_no_ratio_comes_first_and_then_what_got_worse_by_most(metric: str) -> None:
    of_range = [{"good": str(end) * 40, "bad": str(end + 1) * 40} for end in (1, 3, 5)]
    small, large = a_regression(RESNET, 1.0, 1.05, **of_range[0]), a_regression(BERT, 1.0, 1.5, **of_range[1])
    count = replace(a_regression(replace(VIT, metric=metric), 1.0, 2.0, **of_range[2]), effect=None)
    assert [one.verdicts for one in found([small, count, large], [])] == [(count,), (large,), (small,)]


def test_only_proof_counts() -> None:
    candidate = replace(a_regression(VIT, 3.0, 1.05), verdict="noisy", candidate=True)
    assert found([candidate, replace(candidate, verdict="unchanged", candidate=False)], []) == []


@pytest.mark.parametrize(
    ("failing", "counts"), [(2, False), (3, True), (30, True), (True, False), ("3", False), (None, False)]
)
def test_a_benchmark_is_broken_after_so_many_runs(failing: Any, counts: bool) -> None:
    assert bool(found([replace(BROKEN, evidence=evidence_of({"failing": failing}))], [])) == counts


def test_a_model_that_fails_everywhere_is_one_finding_and_comes_last() -> None:
    other = replace(
        BROKEN,
        series=replace(BROKEN.series, arch=MI300),
        evidence=evidence_of({"failing": 9}),
        why="oom: more",
    )
    *_, broken = found([BROKEN, other, *REGRESSED], [])
    assert broken.fingerprint == cause_fingerprint(
        "broken", "octo/perf", "PyTorch nightly", "speech/conformer"
    )
    assert len(broken.rows) == 2
    assert broken.why == "oom: more", "of the longest failure"


def test_the_largest_effect_is_first() -> None:
    verdicts = [
        a_regression(a_series(f"m{n}"), 1.0, ratio, bad=f"{n}" * 40)
        for n, ratio in enumerate((1.05, 0.5, 1.3))
    ]
    assert [one.rows[0].series.model for one in found(verdicts, [])] == ["m1", "m2", "m0"]


def test_two_files_that_judge_the_same_series_count_once() -> None:
    (one,) = findings_of([JUDGEMENT, JUDGEMENT], [], NIGHT, 9)[:1]
    assert len(one.rows) == len(set(one.rows))


def test_what_one_machine_proves_is_proven_though_another_of_its_kind_only_doubts() -> None:
    proof = a_regression(VIT, 3.0, 1.05)
    doubt = replace(proof, verdict="noisy", candidate=True)
    for files in ([doubt, proof], [proof, doubt]):
        (one,) = findings_of([Judgement(verdicts=[verdict]) for verdict in files], [], NIGHT, 9)
        assert one.verdicts == (proof,)


evidence = st.fixed_dictionaries(
    {},
    optional={
        "luck": st.one_of(texts, st.dictionaries(texts, texts), st.just({"tau": [], "chance": "1"})),
        "failing": st.one_of(st.none(), texts, st.floats(), st.integers()),
        "last_old": st.one_of(
            st.none(), texts, st.dictionaries(texts, texts), st.just({"commit": 3, "torch": []})
        ),
        "first_new": st.one_of(st.none(), st.lists(st.integers()), st.just({"commit": BAD})),
        "points": st.one_of(texts, st.lists(st.one_of(texts, st.floats(), st.dictionaries(texts, texts)))),
    },
)


@settings(deadline=None)
@given(evidence, texts)
def test_no_evidence_makes_it_fail(strange: dict[str, Any], name: str) -> None:
    verdicts = [replace(one, evidence=evidence_of(strange)) for one in (*REGRESSED, BROKEN)]
    renamed = replace(
        LOCATION, good=name, machine=name, culprits=(replace(CULPRIT, series=(a_change(RESNET, 1.1),)),)
    )
    findings = found(verdicts, [renamed])
    assert {verdict.series for verdict in REGRESSED} <= {row.series for one in findings for row in one.rows}
