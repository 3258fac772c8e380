"""The files of a made-up night: regressed series with their history, and the bisection of their range."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hostile import all_at_once

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
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import CommitRange, Evidence, Judgement, RangeEnd, Verdict, evidence_of

NIGHT = "2026-11-21"
RUN_URL = "https://github.com/octo/perf/actions/runs/71"
SERVER = "https://github.com"
GOOD, BAD = "900d" * 10, "bad0" * 10
BEFORE, GUILTY = "0ff1ce" * 6 + "0ff1", "1a2b3c4d5e" * 4
H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
DAY = 86_400
LAST_NIGHT = 1_795_219_200
"""Unix seconds of 2026-11-21, 04:00 UTC."""

# ms of 24 nights before and 3 after, as the medians of whole processes scatter on a tuned machine (0.4%)
_SCATTER = (
    *(0.2, -0.5, 0.3, 0.1, -0.2, 0.6, -0.3, -0.1, 0.4, 0.0, -0.4, 0.2),
    *(0.5, -0.2, 0.1, -0.6, 0.3, 0.0, -0.1, 0.2, 0.4, -0.3, 0.1, -0.1),
    *(0.2, -0.3, 0.1),
)
_NEW_NIGHTS = 3


def a_series(model: str = "vision/resnet18", metric: str = "latency(ms)", arch: str = H100) -> Series:
    """One that is measured every night."""
    return Series(
        "octo/perf", "PyTorch nightly", model, "inference", "bf16", "inductor", "cuda", arch, metric
    )


def a_regression(series: Series, old: float, ratio: float, *, good: str = GOOD, bad: str = BAD) -> Verdict:
    """What ``check`` says of a series that has been ``ratio`` times ``old`` for three nights."""
    turn = len(_SCATTER) - _NEW_NIGHTS
    points = [
        {
            "value": round(old * (ratio if index >= turn else 1.0) * (1 + percent / 100), 5),
            "commit": (bad if index >= turn else good) if index in (turn - 1, turn) else f"{index:040x}",
            "timestamp": LAST_NIGHT - DAY * (len(_SCATTER) - 1 - index),
        }
        for index, percent in enumerate(_SCATTER)
    ]
    named = ("commit", "timestamp")
    return Verdict(
        series,
        "regressed",
        "the last 3 runs against the 24 before, false-discovery rate 2e-09",
        Effect(ratio, ratio * 0.994, ratio * 1.006, 0),
        old,
        old * ratio,
        noise=0.004,
        detectable=0.011,
        evidence=evidence_of(
            {
                "history": turn,
                "points": points,
                "last_old": {name: points[turn - 1][name] for name in named},
                "first_new": {name: points[turn][name] for name in named},
            }
        ),
    )


def a_change(series: Series, ratio: float) -> SeriesEffect:
    """What ten pairs of the culprit and its parent say."""
    scatter = (-0.4, 0.1, 0.3, -0.2, 0.0, 0.2, -0.1, 0.4, -0.3, 0.1)
    ratios = tuple(round(ratio - 1 + percent / 100, 4) for percent in scatter)
    return SeriesEffect(str(series), Effect(ratio, ratio - 0.004, ratio + 0.004, len(ratios)), ratios)


RESNET, BERT = a_series(), a_series("language/bert")
THROUGHPUT = a_series(metric="throughput(samples/s)")
ON_MI300 = a_series(arch=MI300)
VIT = a_series("vision/vit")

CULPRIT = Culprit(
    commit=GUILTY,
    set=(GUILTY,),
    posterior=0.9971,
    effect=Effect(1.071, 1.067, 1.075, 10),
    series=(a_change(RESNET, 1.071), a_change(BERT, 1.042), a_change(THROUGHPUT, 1 / 1.071)),
    author="Ada Lovelace",
    date="2026-11-18T12:30:00+01:00",
    subject="[inductor] Check the shapes of every input twice (#123456)",
    pull_request=123456,
    url=f"{SERVER}/octo/perf/commit/{GUILTY}",
    moved=(DependencyChange("triton", "3.5.0", "3.6.0"),),
    inside=ProfileChange(
        probe="vision/resnet18 inference bf16 inductor batch 128",
        moved=(
            OperatorCost("triton_poi_fused_relu", "kernel", None, 0.041, None, 17),
            OperatorCost("aten::item", "operator", None, 0.022, None, 20),
            OperatorCost("triton_poi_fused_convolution_relu", "kernel", 0.512, 0.521, 17, 17),
        ),
        graph_breaks=("call to .item() at torch/_inductor/shapes.py:71",),
        files=("culprits.profiles/old.json.gz", "culprits.profiles/new.json.gz"),
        commands=("nsys profile -o new torchperf run --filter vision/resnet18 --mode inference",),
    ),
)


def a_reading(purpose: str, base: str, head: str, log_ratio: float) -> PairMeasurement:
    """One pair of measurements."""
    ratios = {str(RESNET): log_ratio, str(BERT): round(log_ratio * 0.6, 4)}
    return PairMeasurement(
        "vision/resnet18 inference bf16 inductor batch 128", base, head, purpose, ratios, 21.5
    )


LOCATION = Bisection(
    status="found",
    good=GOOD,
    bad=BAD,
    why="What is left of the slowdown is below 1%.",
    repo="https://github.com/octo/perf",
    machine=f"{H100} (cuda)",
    command=(
        f"torchperf bisect --good {GOOD} --bad {BAD} --python python --workload vision/resnet18 "
        "--build 'pip install -e .'"
    ),
    runs=57,
    builds=7,
    seconds=MachineTime(1223.4, 5490.2),
    confirmed={str(RESNET): Effect(1.073, 1.069, 1.077, 10)},
    culprits=(CULPRIT,),
    skipped=(SkippedCommit("d" * 40, "pip install ended with 1: no module named\nsetuptools"),),
    notes=("one measurement was repeated",),
    readings=(
        a_reading("confirm", GOOD, BAD, 0.0705),
        a_reading("locate", GOOD, BEFORE, 0.0012),
        a_reading("locate", GOOD, GUILTY, 0.0698),
        a_reading("verify", BEFORE, GUILTY, 0.0686),
    ),
)
"""The bisection on the H100."""

INCONCLUSIVE = replace(
    LOCATION,
    status="inconclusive",
    why="It would take about 40 more pairs, or 20 minutes, to tell two commits apart.",
    culprits=(),
    credible=(
        Suspect(GUILTY, 0.61, "[inductor] Check the shapes of every input twice (#123456)"),
        Suspect(BEFORE, 0.38, "Use one stream"),
    ),
)

REGRESSED = (
    a_regression(RESNET, 1.213, 1.071),
    a_regression(BERT, 8.72, 1.041),
    a_regression(THROUGHPUT, 105_523.0, 1 / 1.071),
    a_regression(ON_MI300, 1.402, 1.055),
    a_regression(VIT, 3.05, 1.033),
)
BROKEN = Verdict(
    a_series("speech/conformer", "status"),
    "unchanged",
    "still failing since 2026-11-19 bad0bad0ba: oom: CUDA out of memory. Tried to allocate 2.00 GiB",
    old=0.0,
    new=0.0,
    evidence=Evidence(failing=3),
)
JUDGEMENT = Judgement("check", "clickhouse://octo/benchmark", f"records ({BAD[:10]})", [*REGRESSED, BROKEN])
"""All that ``check`` said of the night."""


def hostile_night(text: str) -> tuple[Judgement, Bisection]:
    """A night in which every text is the same one."""
    series = Series(*[text] * 9)
    change = SeriesEffect(str(series), CULPRIT.effect)
    inside = ProfileChange(text, (OperatorCost(text, "kernel", 1.0, 2.0, 1, 1),), (text,), (text,), (text,))
    named: dict[str, Any] = dict.fromkeys(("commit", "author", "date", "subject", "url"), text or "x")
    culprit = replace(
        CULPRIT,
        **named,
        set=(text or "x",),
        series=(change,),
        moved=(DependencyChange(text, text, text),),
        inside=inside,
    )
    words: dict[str, Any] = dict.fromkeys(
        ("good", "bad", "why", "repo", "machine", "command", "folder", "torch"), text
    )
    location = replace(
        LOCATION,
        **words,
        confirmed={text: CULPRIT.effect},
        culprits=(culprit,),
        credible=(Suspect(text, 0.5, text),),
        skipped=(SkippedCommit(text, text),),
        notes=(text,),
        readings=(PairMeasurement(text, text, text, text, {text: 0.1}),),
    )
    verdicts = [_of(series, verdict, text) for verdict in (REGRESSED[0], BROKEN)]
    return Judgement(text, text, text, verdicts), location


def _of(series: Series, verdict: Verdict, text: str) -> Verdict:
    end = RangeEnd(text, text, 1)
    evidence = replace(verdict.evidence, commits=CommitRange(end, end))
    return replace(verdict, series=series, why=text, evidence=evidence)


def a_large_night(rows: int) -> tuple[Judgement, Bisection]:
    """A night of which everything is too long, and of escapes."""
    judgement, location = hostile_night(all_at_once)
    verdicts = [
        replace(one, series=replace(one.series, model=f"{number}{'@|' * 200}"))
        for number in range(rows)
        for one in judgement.verdicts
    ]
    lists = {field.name: getattr(location, field.name) for field in fields(location)}
    many = {
        name: value * 400 for name, value in lists.items() if isinstance(value, tuple) and name != "culprits"
    }
    return replace(judgement, verdicts=verdicts), replace(location, **many)
