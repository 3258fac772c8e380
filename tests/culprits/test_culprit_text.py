from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.culprits.culprit import (
    Bisection,
    KnownBuildVariance,
    MachineTime,
    OperatorCost,
    ProfileChange,
    Suspect,
)
from torchperf_ci.culprits.culprit_document import bisection_headline
from torchperf_ci.culprits.culprit_text import (
    build_variance,
    byline,
    cost,
    culprit_name,
    details,
    effects_table,
    evidence_tables,
    probability,
    profile_table,
    question,
    result_tables,
    short_sha,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.culprits.culprit import BisectionStatus, Culprit
    from torchperf_ci.document import Table, Words


def by_title(tables: Sequence[Table]) -> dict[str, Sequence[Sequence[Words]]]:
    return {table.title: table.rows for table in tables}


def test_one_culprit_is_named_with_what_it_did(bisection: Bisection) -> None:
    assert bisection_headline(bisection) == (
        "1 culprit found: 1a2b3c4d5e Check the shapes twice (#123): "
        "+7.1% (+6.5…+7.8) vision/resnet18 latency(ms) (inference fp32 eager cpu)"
    )
    (culprit,) = bisection.culprits
    turned = replace(bisection, culprits=(replace(culprit, series=culprit.series[::-1]),))
    assert len(culprit.series) > 1
    assert bisection_headline(turned) == bisection_headline(bisection)


def test_several_culprits_are_counted(bisection: Bisection, culprit: Culprit, one_of: Culprit) -> None:
    several = replace(bisection, culprits=(culprit, one_of))
    assert bisection_headline(several) == (
        "2 culprits found: 1a2b3c4d5e +7.1% (+6.5…+7.8), cccccccccc +20.0% (+18.0…+22.0)"
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("not-reproduced", "not reproduced"),
        ("environment", "the environment changed, not the code"),
        ("build", "build luck, not a commit"),
        ("inconclusive", "inconclusive"),
    ],
)
def test_what_was_not_found_is_said_with_its_reason(status: BisectionStatus, said: str) -> None:
    assert bisection_headline(Bisection(status, "a", "b")) == said
    assert bisection_headline(Bisection(status, "a", "b", why="It is so.")) == f"{said}: It is so."


@pytest.mark.parametrize(
    ("commit", "shown"),
    [
        ("1a2b3c4d5e" * 4, "1a2b3c4d5e"),
        ("2.14.0.dev20261102+cpu", "2.14.0.dev20261102+cpu"),
        ("v2.12.0", "v2.12.0"),
    ],
)
def test_a_sha_is_shortened_and_a_version_is_not(commit: str, shown: str) -> None:
    assert short_sha(commit) == shown


def test_a_culprit_is_told_with_author_day_pull_request_and_how_sure(culprit: Culprit) -> None:
    assert culprit_name(culprit) == "1a2b3c4d5e Check the shapes twice (#123)"
    assert byline(culprit) == "by Ada Lovelace, 2026-11-01, pull request 123, 99.7% sure"
    assert details(culprit) == [
        "Dependencies that changed with it: triton 3.5.0 → 3.6.0, nvidia-nccl – → 2.28"
    ]


@pytest.mark.parametrize(
    ("builds", "said"),
    [
        ((3, 4), "Proven on 4 builds of it and 3 of its predecessor"),
        ((2, 1), "Proven on 1 build of it and 2 of its predecessor"),
        (
            (1, 1),
            "Proven for these two builds only: neither was rebuilt, so part of it may be build luck",
        ),
    ],
)
def test_a_culprit_is_told_with_the_builds_that_it_rests_on(
    culprit: Culprit, builds: tuple[int, int], said: str
) -> None:
    assert details(replace(culprit, builds=builds))[0] == said


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ("rebuilds", "measured here"),
        ("expected", "expected, not measured"),
        ("history", "known from history"),
    ],
)
def test_what_builds_differ_by_is_told_with_its_source(bisection: Bisection, source: str, known: str) -> None:
    said = f"Builds of the same code differ by 0.94% (standard deviation, {known})"
    assert build_variance(replace(bisection, luck=KnownBuildVariance(0.0094, source))) == said
    assert build_variance(bisection) == ""


def test_one_of_several_commits_is_told_as_one_of_several(one_of: Culprit) -> None:
    assert culprit_name(one_of) == "one of 3 commits, aaaaaaaaaa to cccccccccc"
    assert byline(one_of) == "98.0% sure"
    [line] = details(one_of)
    assert line == (
        "Only the last of them could be measured, so it is one of aaaaaaaaaa, bbbbbbbbbb, cccccccccc"
    )


@pytest.mark.parametrize(
    ("posterior", "words"),
    [
        (1.0, ">99.9%"),
        (0.99951, ">99.9%"),
        (0.999, "99.9%"),
        (0.5, "50.0%"),
        (0.0004, "<0.1%"),
        (0.0, "<0.1%"),
    ],
)
def test_nothing_is_certain_or_impossible(posterior: float, words: str) -> None:
    assert probability(posterior) == words


def test_what_was_asked_and_spent(bisection: Bisection) -> None:
    assert question(bisection) == (
        "Between 900d900d90 and bad0bad0ba of https://github.com/octo/perf on AMD EPYC 7763, 2 cores"
    )
    assert cost(bisection) == "57 runs, 7 builds; 12 min of measuring, 90 s of building"
    assert question(Bisection("inconclusive", "a", "b")) == "Between a and b"
    assert cost(replace(bisection, runs=1, builds=1, seconds=MachineTime())) == "1 run, 1 build"


def test_each_series_has_its_own_change(culprit: Culprit, one_of: Culprit) -> None:
    assert [row[:2] for row in effects_table(culprit).rows] == [
        ("+7.1% (+6.5…+7.8)", "12"),
        ("−6.6% (−7.0…−6.0)", "12"),
    ]
    assert effects_table(one_of).rows == [("+20.0% (+18.0…+22.0)", "10", "")]


def test_the_likeliest_suspect_comes_first(bisection: Bisection) -> None:
    suspects = tuple(
        Suspect(letter, posterior) for letter, posterior in zip("abc", (0.2, 0.5, 0.3), strict=True)
    )
    rows = by_title(result_tables(replace(bisection, credible=suspects)))["Remaining suspects"]
    assert rows == [("b", "50.0%", ""), ("c", "30.0%", ""), ("a", "20.0%", "")]


def test_what_was_confirmed_is_folded_only_where_a_culprit_says_more(bisection: Bisection) -> None:
    assert "Bad against good" not in by_title(result_tables(bisection))
    assert "Bad against good" in by_title(evidence_tables(bisection))
    nobody = replace(bisection, status="not-reproduced", culprits=())
    assert "Bad against good" in by_title(result_tables(nobody))
    assert "Bad against good" not in by_title(evidence_tables(nobody))


def test_a_measurement_says_between_what_and_which_way(bisection: Bisection) -> None:
    *how, ratios = by_title(evidence_tables(bisection))["Measurements: 3"][1]
    assert how == ["locate", "900d900d90", "1a2b3c4d5e", "12", "vision/resnet18"]
    assert ratios == (
        "vision/resnet18 latency(ms) (inference fp32 eager cpu) +0.0688, "
        "vision/resnet18 throughput(samples/s) (inference fp32 eager cpu) +0.0700"
    )


def test_nothing_empty_is_shown() -> None:
    nothing = Bisection("inconclusive", "a", "b")
    assert result_tables(nothing) == evidence_tables(nothing) == []


def test_almost_a_second_per_step_has_no_exponent(culprit: Culprit) -> None:
    inside = ProfileChange("resnet18", (OperatorCost("backward", "phase", 99.0, 999.6),))
    (row,) = profile_table(replace(culprit, inside=inside)).rows
    assert row[:2] == ("+901", "99 → 1,000")


@pytest.mark.parametrize(
    ("machine", "device", "arch", "may_be"),
    [
        ("H100 (cuda)", "cuda", "H100", True),
        ("H100 (cuda)", "cuda", "", True),
        ("H100 (cuda)", "cuda", "A100", False),
        ("H100 (cuda)", "cpu", "H100", False),
        ("", "cuda", "H100", True),
    ],
)
def test_the_machine_of_a_bisection_is_that_of_a_series_unless_it_says_another(
    machine: str, device: str, arch: str, may_be: bool
) -> None:
    assert Bisection("found", "a", "b", machine=machine).ran_on(device, arch) == may_be
