"""A judgement with a verdict of every kind, and a job that reports it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Evidence, Judgement, RepeatOptions, SuiteMean, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchperf_ci.verdicts.verdict import VerdictWord

HOSTILE = (
    "::error::pwned ##[error]pwned a|b\n::error::pwned ::error::pwned "
    "@octocat #1 <img src=x> [x](javascript:x) `$(x)` \x1b[31m https://evil.example"
)


OLD, NEW = "a" * 40, "b" * 40


def a_verdict(word: VerdictWord = "unchanged", model: str = "vision/resnet18", **given: Any) -> Verdict:
    """One of a series on a GPU; whatever is not given says nothing."""
    metric = given.pop("metric", "latency(ms)")
    series = Series("octo/perf", "nightly", model, "inference", "bf16", "eager", "cuda", "H100", metric)
    return Verdict(series, word, given.pop("why", "because"), **given)


@pytest.fixture
def verdict() -> Callable[..., Verdict]:
    """Make a verdict: ``verdict("regressed", "model", effect=…)``."""
    return a_verdict


@pytest.fixture
def judgement() -> Judgement:
    """One of every word, and all that a file may hold."""
    evidence = Evidence(others={"n": 40, "p": 1e-9, "log_ratios": [0.03, 0.031]})
    slower = a_verdict("regressed", effect=Effect(1.031, 1.024, 1.039, 12), old=1.2134, new=1.2511)
    return Judgement(
        "compare",
        "torch 2.12.0",
        "torch 2.13.0",
        [
            *(a_verdict(model=f"model{number}", effect=Effect(1.0, 0.99, 1.01, 9)) for number in range(61)),
            a_verdict("noisy", "speech", effect=Effect(1.01, 0.0, inf, 4), noise=0.1, detectable=0.2),
            a_verdict("noisy", "maybe", candidate=True),
            a_verdict("not-comparable", "moved"),
            a_verdict("missing", "gone"),
            a_verdict("new", "born"),
            a_verdict("fixed", "mended", metric="status", old=0.0, new=1.0),
            a_verdict("improved", "faster", effect=Effect(0.5, 0.45, 0.55, 12), old=2.0, new=1.0),
            a_verdict("broken", "bert", metric="status", old=1.0, new=0.0, why="oom: out of memory"),
            a_verdict("regressed", "bart", metric="graph_breaks", old=0.0, new=2.0),
            replace(slower, noise=0.012, detectable=0.021, evidence=evidence),
        ],
        [SuiteMean("latency(ms)", Effect(1.002, 1.001, 1.003, 0), 64)],
        ["2 records were refused"],
        RepeatOptions(OLD, NEW, ("--suite", "bench/a suite.py"), "sub", "2.13.0+cpu"),
    )


@pytest.fixture
def hostile(judgement: Judgement) -> Judgement:
    """Every text an attack."""
    series = Series(*[HOSTILE] * 9)
    return replace(
        judgement,
        base=HOSTILE,
        head=HOSTILE,
        command=HOSTILE,
        verdicts=[replace(verdict, series=series, why=HOSTILE) for verdict in judgement.verdicts],
        suites=[replace(judgement.suites[0], metric=HOSTILE)],
        notes=[HOSTILE],
        reproduction=RepeatOptions(OLD, NEW, (HOSTILE, "; reboot"), HOSTILE, HOSTILE),
    )


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of GitHub Actions, whose files ``output`` and ``summary`` are in this folder."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name, variable in (("output", "GITHUB_OUTPUT"), ("summary", "GITHUB_STEP_SUMMARY")):
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path
