"""The commands with which people reproduce an issue on their own machine."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.culprits.culprit_document import repeat_commands
from torchperf_ci.issues.table import largest_first
from torchperf_ci.metrics import LATENCY, bisected_as
from torchperf_ci.verdicts.reproduction import (
    PYTHON_OPTION,
    compare_lines,
    in_fresh_clone,
    run_lines,
    series_options,
)

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Bisection, Culprit
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.verdict import RepeatOptions


@dataclass(frozen=True)
class ReproductionSteps:
    """Shell commands, empty if unknown, and the version of PyTorch they need, empty if none."""

    lines: list[str]
    torch: str = ""


def reproduction_steps(finding: IssueFinding) -> ReproductionSteps:
    """The commands for a finding.

    They compare a culprit with the commit before it, bisect a range without a culprit, or run a broken benchmark
    once.
    """
    bisection, again = finding.bisection, finding.again
    if finding.culprit and bisection:
        return ReproductionSteps(_culprit_lines(finding, finding.culprit, bisection), bisection.torch)
    if bisection and bisection.command:
        return ReproductionSteps(repeat_commands(bisection), bisection.torch)
    if again is None or not finding.rows:
        return ReproductionSteps([])
    series = largest_first(finding.rows)[0].series
    if finding.kind == "broken":
        return ReproductionSteps(run_lines(again, series), again.torch)
    return ReproductionSteps(_range_lines(finding, again, series), again.torch)


_SHA = re.compile(r"[0-9a-f]{7,64}")


def _culprit_lines(finding: IssueFinding, culprit: Culprit, bisection: Bisection) -> list[str]:
    """Compare the culprit with the commit it was measured against; if that is impossible, repeat the bisection."""
    if not bisection.command:
        return []
    head = culprit.set[-1]
    measured = (one.base for one in bisection.readings if one.purpose == "verify" and one.head == head)
    base = next(measured, bisection.good)
    shared = _shared_options(bisection.command)
    if shared is None or not finding.rows or not (_SHA.fullmatch(base) and _SHA.fullmatch(head)):
        return repeat_commands(bisection)
    proven = [row for row in finding.rows if row.proven] or finding.rows
    options = (*PYTHON_OPTION, *shared, *series_options(largest_first(proven)[0].series))
    command = shlex.join(["torchperf", "compare", "--base", base, "--head", head, *options])
    return in_fresh_clone(bisection.folder, (base, head), command)


def _range_lines(finding: IssueFinding, again: RepeatOptions, series: Series) -> list[str]:
    """Bisect between the two commits, or compare the two sides if the verdicts come from ``compare``."""
    if again.base and again.head:
        return compare_lines(again, again.base, again.head, series)
    ends = finding.verdicts[0].evidence.commits.own if finding.verdicts else None
    if ends is None:
        return []
    metric = [] if bisected_as(series.metric) == LATENCY else ["--metric", series.metric]
    case = ["--workload" if word == "--filter" else word for word in series_options(series)]
    sides = ("--good", ends.good, "--bad", ends.bad)
    command = shlex.join(["torchperf", "bisect", *sides, *PYTHON_OPTION, *again.options, *metric, *case])
    return in_fresh_clone(again.folder, ends, command)


_SHARED_OPTIONS = ("--repo", "--build", "--config", "--suite", "--device", "--batch-size", "--threads")
"""Options that a comparison must share with the bisection."""


def _shared_options(command: str) -> list[str] | None:
    """The options of a bisection that a comparison also takes; None if the bisection measured a user's command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    flag, shared = "", []
    for word in words:
        if word.startswith("--"):
            flag = word.partition("=")[0]
        if flag == "--command":
            return None
        if flag in _SHARED_OPTIONS:
            shared.append(word)
    return shared
