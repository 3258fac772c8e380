from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_points import series

from torchperf_ci.plan.bisections import (
    LEAST,
    LONGEST,
    Regression,
    budget_shares,
    regressions,
    size_of_change,
)
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import CommitEnds, CommitRange, Evidence, RangeEnd, Verdict

A, B, C = (letter * 40 for letter in "abc")


def regressed(
    ratio: float = 1.05, *, good: str = A, bad: str = B, metric: str = "latency(ms)", **changes: Any
) -> Verdict:
    """A proven one; ``word`` makes another of it, the rest changes its series."""
    word = changes.pop("word", "regressed")
    return Verdict(
        series(metric, **changes),
        word,
        "because",
        effect=Effect(ratio, ratio - 0.01, ratio + 0.01, 0),
        evidence=Evidence(CommitRange(RangeEnd(good), RangeEnd(bad))),
    )


def runner_of(found: Any) -> str:
    return {"H100": "h100", "Xeon": "spr"}.get(found.arch, "")


def test_what_regressed_together_is_bisected_together() -> None:
    small, large = regressed(1.05), regressed(1.4, model="bert")
    found, left_out = regressions([small, large], runner_of)
    assert found == [Regression("h100", CommitEnds(A, B), (small, large))]
    assert found[0].largest == large
    assert not left_out


def test_other_runners_and_other_ranges_stay_apart_the_largest_change_first() -> None:
    verdicts = [
        regressed(1.05),
        regressed(1.30, arch="Xeon"),
        regressed(0.80, metric="throughput(samples/s)", bad=C),
        regressed(1.10, good=B, bad=C),
    ]
    found, _ = regressions(verdicts, runner_of)
    assert [(one.runner, *one.range) for one in found] == [
        ("spr", A, B),
        ("h100", A, C),
        ("h100", B, C),
        ("h100", A, B),
    ]


@pytest.mark.parametrize("word", ["noisy", "broken", "improved", "unchanged", "missing", "new"])
def test_only_what_got_worse_is_bisected(word: str) -> None:
    assert regressions([regressed(word=word)], runner_of) == ([], [])


def test_candidates_follow_what_is_proven_however_large_they_are() -> None:
    doubtful = replace(regressed(1.9, word="noisy", bad=C), candidate=True)
    beside = replace(regressed(1.8, word="noisy", model="bert"), candidate=True)
    other_metric = replace(regressed(word="noisy", metric="warm_compile_time(s)"), candidate=True)
    proven = regressed(1.02)
    found, left_out = regressions([doubtful, beside, other_metric, proven], runner_of)
    assert found == [
        Regression("h100", CommitEnds(A, B), (beside, proven)),
        Regression("h100", CommitEnds(A, C), (doubtful,)),
    ]
    assert [one.largest for one in found] == [proven, doubtful]
    assert not left_out


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (regressed(metric="warm_compile_time(s)"), "bisect it with --command"),
        (regressed(bad=A), "names no two commits"),
        (regressed(arch="M2"), "no job of torchperf.yml has measured on this machine"),
    ],
)
def test_what_cannot_be_bisected_is_left_out_with_the_reason(verdict: Verdict, why: str) -> None:
    other = regressed()
    found, [(left_out, told)] = regressions([verdict, other], runner_of)
    assert [one.verdicts for one in found] == [(other,)]
    assert left_out == verdict
    assert why in told


@pytest.mark.parametrize(
    ("count", "budget", "fitting", "deadline"),
    [
        (0, 18_000, 0, 0),
        (1, 18_000, 1, 18_000),
        (2, 18_000, 2, 9_000),
        (10, 18_000, 10, 1800),
        (11, 18_000, 10, 1800),
        (3, 5_399, 2, 2_700),
        (3, 600, 1, 600),
        (1, 0.5, 1, 1),
        (2, 86_400, 2, LONGEST),
        (300, 1e9, 256, LONGEST),
    ],
)
def test_the_budget_is_shared_equally_by_as_many_as_it_is_enough_for(
    count: int, budget: float, fitting: int, deadline: int
) -> None:
    assert budget_shares(count, budget) == (fitting, deadline)


@given(st.integers(1, 400), st.floats(1, 1e7))
def test_no_share_is_useless_and_all_of_them_fit(count: int, budget: float) -> None:
    fitting, deadline = budget_shares(count, budget)
    assert deadline * fitting <= budget + fitting  # whole seconds
    assert deadline >= min(LEAST, budget)
    assert fitting == min(count, 256) or budget / (fitting + 1) < LEAST


def test_a_count_without_an_effect_has_a_size_too() -> None:
    breaks = [Verdict(series("graph_breaks"), "regressed", "", old=0, new=new) for new in (1, 3)]
    assert size_of_change(breaks[1]) > size_of_change(breaks[0]) > 0


@pytest.mark.parametrize(("old", "new"), [(0, None), (None, 1), (inf, 1), (1, inf)])
def test_a_change_from_or_to_what_is_no_number_has_none(old: float | None, new: float | None) -> None:
    assert size_of_change(Verdict(series("graph_breaks"), "regressed", "", old=old, new=new)) == 0
