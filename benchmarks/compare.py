"""Measure how often, and how soon, `torchperf compare` finds a real 3% slowdown of torch code, and its false alarms.

    python benchmarks/compare.py [REPEATS]

Each repeat compares two cases: the head of one repeats 3% of its work, that of the other is equal to its base.
``compare`` judges both as ``torchperf compare`` does, including its control pairs. Alternating with it, ``10 medians,
7%`` is the fixed plan of many projects: medians of ten fresh processes per side, and a regression if head's median of
them is 7% above base's.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from report import print_table

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.bench.process import measure
from torchperf_ci.compare.case_verdicts import judge_latency
from torchperf_ci.compare.compared_case import ComparedCase, Comparison, judge_controls
from torchperf_ci.compare.comparison_loop import BudgetAllocation, PairRunner, measure_rounds
from torchperf_ci.console import Progress
from torchperf_ci.series.points import Series

SLOWER = 0.03
MIN_EFFECT = 0.03
BUDGET = 600.0
PROCESSES = 10
THRESHOLD = 1.07
STEPS = 100
SUITE = f"""
import os
import torch
from torchperf_ci.suite import Task, workload

def repeated(times):
    def model(rows, weights):
        for _ in range(times):
            result = torch.relu(rows @ weights)
        return result
    return model

def one(name, times):
    inputs = (torch.randn(128, 128), torch.randn(128, 128))
    return workload(f"planted/{{name}}", "a layer, again and again", modes=("inference",))(
        lambda batch: Task(repeated(times), inputs)
    )

torch.manual_seed(0)
more = {SLOWER} if os.environ.get("SIDE") == "head" else 0
slower = one("slower", round({STEPS} * (1 + more)))
equal = one("equal", {STEPS})
"""
CASES = {name: Case(f"planted/{name}", "inference", "fp32", "eager", 1) for name in ("equal", "slower")}
METHODS = ("compare", "10 medians, 7%")


@dataclass
class Tally:
    """What a method said of a case, and how long it took for it."""

    words: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


def compared(runner: PairRunner) -> tuple[dict[str, str], float]:
    """The verdicts of ``compare``, and the seconds that a case took."""
    start = time.monotonic()
    comparison = Comparison([ComparedCase(case) for case in CASES.values()])
    allocation = BudgetAllocation(comparison, MIN_EFFECT)
    measure_rounds(comparison, runner, BUDGET, allocation, Progress(BUDGET, timed=True))
    [control] = judge_controls(comparison, MIN_EFFECT).values()
    sys.stderr.write(f"{control}\n")
    judged = [
        judge_latency(unnamed, compared, comparison.cases, MIN_EFFECT, "the budget ran out")
        for compared in comparison.cases
    ]
    words = ["void" if control.spoils(verdict.effect) else verdict.verdict for verdict in judged]
    return dict(zip(CASES, words, strict=True)), (time.monotonic() - start) / len(CASES)


def thresholded(runner: PairRunner) -> tuple[dict[str, str], float]:
    """What the fixed plan says; processes of the two sides and of all cases take turns."""
    start = time.monotonic()
    medians = defaultdict(list)
    for _ in range(PROCESSES):
        for name, case in CASES.items():
            for side, settings in runner.sides():
                outcome = measure(case, settings, runner.scratch / side, first=False)
                medians[name, side].append(median(outcome.answers.sample.seconds))
    ratios = {name: median(medians[name, "head"]) / median(medians[name, "base"]) for name in CASES}
    return {name: worded(ratio) for name, ratio in ratios.items()}, (time.monotonic() - start) / len(CASES)


def worded(ratio: float) -> str:
    """A threshold knows no doubt."""
    return "regressed" if ratio > THRESHOLD else "improved" if ratio < 1 / THRESHOLD else "unchanged"


def unnamed(metric: str) -> Series:
    """No name is needed here."""
    return Series("", "", "", "", "", "", "", "", metric)


def two_sides(folder: Path) -> PairRunner:
    """Two Pythons that differ in nothing but a variable, which the suite reads."""
    (folder / "suite.py").write_text(SUITE)
    pythons = {}
    for side in ("base", "head"):
        pythons[side] = folder / f"python-{side}"
        pythons[side].write_text(f'#!/bin/sh\nSIDE={side} exec {sys.executable} "$@"\n')
        pythons[side].chmod(0o755)
    files = (str(folder / "suite.py"),)
    base, head = (Settings(str(pythons[side]), "cpu", files, budget=1.0) for side in ("base", "head"))
    return PairRunner(*on_same_cpus(base, head), folder)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    with tempfile.TemporaryDirectory() as folder:
        runner = two_sides(Path(folder))
        for _ in range(repeats):
            for name, method in zip(METHODS, (compared, thresholded), strict=True):
                words, seconds = method(runner)
                sys.stderr.write(f"{name}, {seconds:.0f} s a case: {words}\n")
                for case, word in words.items():
                    tallies[name, case].words[word] += 1
                    tallies[name, case].seconds.append(seconds)
    columns = ("regressed", "improved", "unchanged", "noisy", "void")
    rows = [
        [
            method,
            f"{SLOWER:.0%} slower" if case == "slower" else "equal",
            *(str(tallies[method, case].words[word]) for word in columns),
            f"{median(tallies[method, case].seconds):.0f}",
        ]
        for method in METHODS
        for case in CASES
    ]
    print_table(f"{repeats} comparisons", ("method", "head is", *columns, "seconds per case"), rows)


if __name__ == "__main__":
    main()
