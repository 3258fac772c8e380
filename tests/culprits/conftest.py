"""Bisections of every kind, and a job that reports them."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.culprits.culprit import (
    Bisection,
    Culprit,
    DependencyChange,
    MachineTime,
    OperatorCost,
    PairMeasurement,
    ProfileChange,
    SeriesEffect,
    SkippedCommit,
    Suspect,
)
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = (
    "a|b\n::error::pwned @octocat #1 GH-2 <img src=x> </details> [x](javascript:x) `$(x)` \x1b[31m "
    "www.evil.example https://evil.example ```` - x"
)
LATENCY = "vision/resnet18 latency(ms) (inference fp32 eager cpu)"
THROUGHPUT = "vision/resnet18 throughput(samples/s) (inference fp32 eager cpu)"
SLOWER = Effect(1.071, 1.065, 1.078, 12)
GOOD, BAD = "900d" * 10, "bad0" * 10
GUILTY = "1a2b3c4d5e" * 4


def reading(purpose: str = "verify", head: str = GUILTY) -> PairMeasurement:
    return PairMeasurement("vision/resnet18", GOOD, head, purpose, {LATENCY: 0.0688, THROUGHPUT: 0.07}, 11.5)


@pytest.fixture
def culprit() -> Culprit:
    """One commit, with all that can be said of it."""
    return Culprit(
        commit=GUILTY,
        set=(GUILTY,),
        posterior=0.9971,
        effect=SLOWER,
        series=(
            SeriesEffect(LATENCY, SLOWER, (0.068, 0.069, 0.071)),
            SeriesEffect(THROUGHPUT, Effect(exp(-0.0688), 0.93, 0.94, 12), (-0.068, -0.069, -0.071)),
        ),
        author="Ada Lovelace",
        date="2026-11-01T12:30:00+01:00",
        subject="Check the shapes twice (#123)",
        pull_request=123,
        url=f"https://github.com/octo/perf/commit/{GUILTY}",
        moved=(DependencyChange("triton", "3.5.0", "3.6.0"), DependencyChange("nvidia-nccl", "", "2.28")),
    )


@pytest.fixture
def inside() -> ProfileChange:
    """What profiles showed: a copy more in each block, and an operator that takes longer."""
    folder = "culprits.profiles/1a2b3c4d5e"
    return ProfileChange(
        "vision/resnet18 inference fp32 eager batch 16",
        (
            OperatorCost("aten::copy_", "operator", 0.0629, 0.2013, 53, 66),
            OperatorCost("aten::clone", "operator", None, 0.0152, None, 13),
            OperatorCost("backward", "phase", 1204.5, 1000.0, 1, 1),
            OperatorCost("cudaStreamSynchronize", "operator", 0.0, 0.0, 1, 1.5),
        ),
        ("print: it writes",),
        (f"{folder}/operators.tsv", f"{folder}/new.trace.json.gz"),
        (f"column -t {folder}/operators.tsv", "# open in https://ui.perfetto.dev"),
    )


@pytest.fixture
def one_of(culprit: Culprit) -> Culprit:
    """Three commits, of which two cannot be built."""
    commits = tuple(letter * 40 for letter in "abc")
    return Culprit(None, commits, 0.98, Effect(1.2, 1.18, 1.22, 10))


@pytest.fixture
def bisection(culprit: Culprit) -> Bisection:
    """A commit that was found, and all that a file may hold."""
    return Bisection(
        status="found",
        good=GOOD,
        bad=BAD,
        why="What is left of the slowdown is below 1%.",
        repo="https://github.com/octo/perf",
        machine="AMD EPYC 7763, 2 cores",
        command="torchperf bisect --good 900d --bad bad0 --command './measure  \"*.py\" @all'",
        folder="perf",
        torch="2.13.0+cu130",
        runs=57,
        builds=7,
        seconds=MachineTime(723.4, 90.2),
        confirmed={LATENCY: Effect(1.073, 1.061, 1.085, 10)},
        culprits=(culprit,),
        credible=(Suspect(GUILTY, 0.9971, "Check the shapes twice (#123)"), Suspect(BAD, 0.0002)),
        skipped=(SkippedCommit("d" * 40, "pip install ended with 1: no module named\nsetuptools"),),
        notes=("one measurement was repeated",),
        readings=(reading("confirm", BAD), reading("locate"), reading()),
    )


@pytest.fixture
def hostile(bisection: Bisection) -> Bisection:
    """Every text an attack."""
    effects = {HOSTILE: SLOWER}
    culprit = replace(
        bisection.culprits[0],
        **dict.fromkeys(("commit", "author", "date", "subject", "url"), HOSTILE),
        set=(HOSTILE, HOSTILE),
        series=(SeriesEffect(HOSTILE, SLOWER),),
        moved=(DependencyChange(*[HOSTILE] * 3),),
        inside=ProfileChange(HOSTILE, (OperatorCost(HOSTILE, "kernel", 1, 2, 3, 4),), *[(HOSTILE,)] * 3),
    )
    return replace(
        bisection,
        **dict.fromkeys(("good", "bad", "why", "repo", "machine", "command", "folder", "torch"), HOSTILE),
        confirmed=effects,
        culprits=(culprit, replace(culprit, commit=None)),
        credible=(Suspect(HOSTILE, 0.5, HOSTILE),),
        skipped=(SkippedCommit(HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
        readings=(PairMeasurement(*[HOSTILE] * 4, {HOSTILE: 0.1}),),
    )


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of GitHub Actions, whose files ``output`` and ``summary`` are in this folder."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_SERVER_URL", raising=False)
    for name, variable in (("output", "GITHUB_OUTPUT"), ("summary", "GITHUB_STEP_SUMMARY")):
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path
