"""Findings that no culprit explains: why not, and which of them have one cause."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from made_night import (
    BAD,
    CULPRIT,
    GOOD,
    H100,
    INCONCLUSIVE,
    LOCATION,
    MI300,
    NIGHT,
    REGRESSED,
    RESNET,
    VIT,
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

ON_MI300_TOO = a_regression(replace(VIT, arch=MI300), 4.0, 1.04)


def found(verdicts: list[Verdict], locations: list[Bisection], broken_nights: int = 3) -> list[IssueFinding]:
    return findings_of([Judgement("check", "", "", verdicts)], locations, NIGHT, broken_nights)


def blaming(*culprits: Culprit) -> Bisection:
    """The bisection with other culprits."""
    return replace(LOCATION, culprits=culprits)


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
    culprits = location.culprits if H100 in location.machine else ()
    known = [commit for culprit in culprits for commit in culprit.set]
    assert one.fingerprint == cause_fingerprint("unlocated", "octo/perf", "cuda", H100, GOOD, BAD, *known)
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
    suspected = "4 of 7 cases on NVIDIA H100 80GB HBM3 look slower at once, by +4.0% in the median"
    (one,) = found([*slow, *fast[:3]], [])
    assert suspected in one.why
    assert one.why.endswith("which only pairs can tell.")
    assert len(one.why) < 300, "or the issue shortens it"
    assert [suspected in note for note in suspect_machines([*slow, *fast[:3]]).values()] == [True]
    (bisected,) = found([*slow, *fast[:3]], [INCONCLUSIVE])
    assert suspected not in bisected.why
    assert len(found([*slow, *fast[:3], ON_MI300_TOO], [])) == 2, "of other machines it says nothing"
    rates = [
        replace(verdict, series=replace(verdict.series, metric="tps"), effect=verdict.effect.inverse())
        for verdict in slow
        if verdict.effect
    ]
    (of_other_tools,) = suspect_machines(rates).values()
    assert of_other_tools.startswith(suspected.replace("4 of 7", "4 of 4"))
    of_one_case = [
        replace(slow[0], series=replace(slow[0].series, metric=metric))
        for metric in ("tps", "mean_ttft_ms", "mean_itl_ms", "speedup")
    ]
    for few in ([*slow, *fast], slow[:3], [*slow, *anchored], memory, of_one_case):
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


def test_a_machine_is_suspected_for_all_of_its_benchmarks() -> None:
    """A second finding of the same machine and range would be the same to all later nights."""
    slow = [a_regression(a_series(f"slow{number}"), 2.0, 1.04) for number in range(4)]
    other = a_regression(replace(VIT, benchmark="other"), 3.0, 1.05)
    for verdicts in ([*slow, other], [other, *slow]):
        (one,) = found(verdicts, [])
        assert len(one.rows) == 5
        assert "4 of 4 cases on NVIDIA H100 80GB HBM3 look slower at once" in one.why


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
    _, one = found([verdict], [LOCATION])
    assert one.bisection == LOCATION
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
