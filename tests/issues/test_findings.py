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
    GOOD,
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

from torchperf_ci.issues.body import issue_title, reproduction_steps
from torchperf_ci.issues.findings import cause_fingerprint, findings_of
from torchperf_ci.metrics import ANCHORED
from torchperf_ci.verdicts.headline import suspect_machines
from torchperf_ci.verdicts.verdict import BuildVariance, Judgement, Verdict, evidence_of

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Bisection, Culprit
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.series.points import Series

ON_MI300_TOO = a_regression(replace(VIT, arch=MI300), 4.0, 1.04)
OF_CULPRIT = cause_fingerprint("culprit", GUILTY, "worse")


def found(verdicts: list[Verdict], locations: list[Bisection], broken_nights: int = 3) -> list[IssueFinding]:
    return findings_of([Judgement("check", "", "", verdicts)], locations, NIGHT, broken_nights)


def blaming(*culprits: Culprit) -> Bisection:
    """The bisection with other culprits."""
    return replace(LOCATION, culprits=culprits)


def proven(finding: IssueFinding) -> dict[Series, bool]:
    return {row.series: row.proven for row in finding.rows}


def test_a_culprit_is_one_finding_with_all_that_it_explains() -> None:
    culprit, broken = findings_of([JUDGEMENT], [LOCATION], NIGHT, 3)
    assert (culprit.kind, culprit.fingerprint) == ("culprit", OF_CULPRIT)
    assert proven(culprit) == {RESNET: True, BERT: True, THROUGHPUT: True, ON_MI300: False, VIT: False}
    assert culprit.verdicts == REGRESSED
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
        (one,) = found(list(REGRESSED), locations)
        assert proven(one) == {RESNET: True, BERT: True, THROUGHPUT: True, ON_MI300: True, VIT: False}
        assert one.culprit == CULPRIT, "the larger effect tells"


def test_a_series_of_another_repository_is_not_explained_by_the_name_alone() -> None:
    theirs = a_regression(replace(RESNET, repo="octo/other"), 4.0, 1.5, good="7" * 40, bad="8" * 40)
    other, culprit = found([*REGRESSED, theirs], [LOCATION])
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


def test_one_of_several_commits_is_known_by_all_of_them() -> None:
    (one,) = found([], [blaming(replace(CULPRIT, commit=None, set=("a" * 40, GUILTY)))])
    assert one.fingerprint != OF_CULPRIT
    assert OF_CULPRIT in one.suspects


def test_a_set_of_commits_is_that_of_the_one_that_another_machine_proves() -> None:
    several = replace(CULPRIT, commit=None, set=("a" * 40, GUILTY), series=(a_change(ON_MI300, 1.9),))
    other = replace(LOCATION, machine=f"{MI300} (cuda)", culprits=(several,))
    for locations in ([LOCATION, other], [other, LOCATION]):
        (one,) = found(list(REGRESSED), locations)
        assert one.culprit == CULPRIT, "the proven commit tells, though the other effect is larger"
        assert proven(one)[ON_MI300]


def test_two_commits_that_are_proven_are_two_findings_whatever_set_has_both() -> None:
    other, both = replace(CULPRIT, set=("a" * 40,)), replace(CULPRIT, commit=None, set=("a" * 40, GUILTY))
    findings = found([], [blaming(both), LOCATION, blaming(other)])
    assert len(findings) == 2
    assert not any(one.suspects for one in findings)


@pytest.mark.parametrize(
    ("location", "why"),
    [
        (INCONCLUSIVE, INCONCLUSIVE.why),
        (replace(INCONCLUSIVE, why="the limit of pairs ended it"), "The limit of pairs ended it."),
        (
            replace(INCONCLUSIVE, status="environment", why=""),
            "The bisection ended without a culprit: environment.",
        ),
        (replace(INCONCLUSIVE, good="0" * 40), "range between the two commits has not been bisected yet"),
        (
            replace(INCONCLUSIVE, machine=f"{MI300} (cuda)"),
            f"has only been bisected on {MI300} (cuda). {INCONCLUSIVE.why}",
        ),
        (blaming(CULPRIT, replace(CULPRIT, set=("f" * 40,))), "are proven culprits, but for other series"),
        (
            replace(LOCATION, machine=f"{MI300} (cuda)"),
            f"has only been bisected on {MI300} (cuda). One commit in this range is a proven culprit, but for other",
        ),
    ],
)
def test_what_nobody_explains_says_why(location: Bisection, why: str) -> None:
    one = next(one for one in found([a_regression(VIT, 3.0, 1.05)], [location]) if one.kind == "unlocated")
    assert one.fingerprint == cause_fingerprint("unlocated", "octo/perf", "cuda", H100, GOOD, BAD)
    assert why in one.why


def test_where_most_of_a_machine_became_slower_the_machine_is_suspected_too() -> None:
    slow = [a_regression(a_series(f"slow{number}"), 2.0, 1.04) for number in range(4)]
    fast = [
        replace(verdict, series=a_series(f"fast{place}"), verdict="unchanged")
        for place, verdict in enumerate(slow)
    ]
    anchored = [
        replace(verdict, series=replace(verdict.series, metric=ANCHORED), verdict="unchanged")
        for verdict in slow
    ]
    memory = [replace(verdict, series=replace(verdict.series, metric="peak_memory(MiB)")) for verdict in slow]
    suspected = "4 of 7 latencies on NVIDIA H100 80GB HBM3 look worse at once, by +4.0% in the median"
    (one,) = found([*slow, *fast[:3]], [])
    assert suspected in one.why
    assert one.why.endswith("which only pairs can tell.")
    assert len(one.why) < 300, "or the issue shortens it"
    assert [suspected in note for note in suspect_machines([*slow, *fast[:3]]).values()] == [True]
    (bisected,) = found([*slow, *fast[:3]], [INCONCLUSIVE])
    assert suspected not in bisected.why
    assert len(found([*slow, *fast[:3], ON_MI300_TOO], [])) == 2, "of other machines it says nothing"
    for few in ([*slow, *fast], slow[:3], [*slow, *anchored], memory):
        assert not suspect_machines(few)


def test_on_a_suspected_machine_a_latency_that_seems_to_change_a_run_early_or_late_is_no_other_cause() -> (
    None
):
    before, after, away = "0" * 40, "3" * 40, "4" * 40
    slow = [a_regression(a_series(f"slow{number}"), 2.0, 1.04) for number in range(4)]
    ends = [(before, GOOD), (BAD, after), (after, away)]
    near = [
        a_regression(a_series(f"near{place}"), 2.0, 1.05, good=good, bad=bad)
        for place, (good, bad) in enumerate(ends)
    ]
    memory = replace(near[0], series=replace(near[0].series, metric="peak_memory(MiB)"))
    together, far, other = sorted(
        found([*near, *slow, memory], []), key=lambda one: len(one.rows), reverse=True
    )
    assert {row.series for row in together.rows} == {verdict.series for verdict in [*slow, *near[:2]]}
    assert issue_title(together).endswith(f"between {GOOD[:10]} and {BAD[:10]}")
    assert [one.verdicts for one in (far, other)] == [(near[2],), (memory,)]
    assert len(found([*near[:2], slow[0]], [])) == 3, "here no machine is suspected"


@pytest.mark.parametrize("metric", ["graph_breaks", "memory_leak(KiB/iter)", "pass_rate"])
def test_what_has_no_ratio_comes_first_and_then_what_got_worse_by_most(metric: str) -> None:
    of_range = [{"good": str(end) * 40, "bad": str(end + 1) * 40} for end in (1, 3, 5)]
    small, large = a_regression(RESNET, 1.0, 1.05, **of_range[0]), a_regression(BERT, 1.0, 1.5, **of_range[1])
    count = replace(a_regression(replace(VIT, metric=metric), 1.0, 2.0, **of_range[2]), effect=None)
    assert [one.verdicts for one in found([small, count, large], [])] == [(count,), (large,), (small,)]


def test_a_machine_is_suspected_for_all_of_its_benchmarks() -> None:
    """A second finding of the same machine and range would be the same to all later nights."""
    slow = [a_regression(a_series(f"slow{number}"), 2.0, 1.04) for number in range(4)]
    other = a_regression(replace(VIT, benchmark="other"), 3.0, 1.05)
    for verdicts in ([*slow, other], [other, *slow]):
        (one,) = found(verdicts, [])
        assert len(one.rows) == 5
        assert "4 of 4 latencies on NVIDIA H100 80GB HBM3 look worse at once" in one.why


def test_what_luck_of_builds_could_make_says_so_where_it_could_make_all_of_it() -> None:
    luck = BuildVariance(0.01, 0.005, 0.02, chance=0.03)
    lucky, unlucky = (
        replace(regression, evidence=replace(regression.evidence, luck=one))
        for regression, one in zip(REGRESSED, (luck, replace(luck, chance=0.001)), strict=False)
    )
    (one,) = found([lucky], [])
    assert one.why.endswith(" Build luck could explain it (wheels differ by 1.0% by luck, 0.5% to 2.0%).")
    (both,) = found([lucky, unlucky], [])
    assert "luck" not in both.why


@pytest.mark.parametrize(
    ("locations", "expected"),
    [([], [[H100, MI300]]), ([INCONCLUSIVE], [[H100], [MI300]])],
    ids=["not bisected", "bisected on one of them"],
)
def test_two_machines_have_one_finding_for_a_range_that_nobody_has_bisected(
    locations: list[Bisection], expected: list[list[str]]
) -> None:
    findings = found([a_regression(VIT, 3.0, 1.05), ON_MI300_TOO], locations)
    assert [[row.series.arch for row in one.rows] for one in findings] == expected


def test_unexplained_series_of_one_kind_of_device_and_range_are_one_finding() -> None:
    other = a_regression(a_series("other"), 1.0, 1.2, good="1" * 40, bad="2" * 40)
    findings = found([*REGRESSED, other], [])
    assert [sorted(row.series.model for row in one.rows) for one in findings] == [
        ["other"],
        ["language/bert", "vision/resnet18", "vision/resnet18", "vision/vit"],
        ["vision/resnet18"],
    ]
    assert len({one.fingerprint for one in findings}) == 3


@pytest.mark.parametrize("benchmarks", [{}, {"commit": "7" * 40}])
def test_a_range_is_told_by_pytorch_where_that_of_the_benchmarks_did_not_move(
    benchmarks: dict[str, str],
) -> None:
    ends = {"last_old": {"torch": GOOD, **benchmarks}, "first_new": {"torch": BAD, **benchmarks}}
    verdict = replace(a_regression(VIT, 3.0, 1.05), evidence=evidence_of(ends))
    (one,) = found([verdict], [LOCATION])
    assert one.kind == "culprit"
    (alone,) = found([verdict], [])
    assert alone.fingerprint == cause_fingerprint("unlocated", "octo/perf", "cuda", H100, GOOD, BAD)
    assert issue_title(alone).endswith(f"between {GOOD[:10]} and {BAD[:10]}")
    assert reproduction_steps(alone).lines == [], "PyTorch is not built from a clone of the benchmarks"


def test_runs_of_the_same_commits_are_told_apart_and_send_nobody_to_bisect() -> None:
    verdicts = [
        replace(
            a_regression(VIT, 3.0, 1.05),
            evidence=evidence_of({"last_old": {"commit": one}, "first_new": {"commit": one}}),
        )
        for one in (GOOD, BAD)
    ]
    verdicts[1] = replace(verdicts[1], series=RESNET)
    findings = found(verdicts, [])
    assert len({one.fingerprint for one in findings}) == 2
    for one in findings:
        assert one.why.startswith("Both levels are of the same commit, so something else has changed")
        assert "between" not in issue_title(one)
        assert reproduction_steps(one).lines == []


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
