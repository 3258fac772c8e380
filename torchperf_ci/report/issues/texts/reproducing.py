"""Command lines that show again what an issue tells: to paste, as they stand, into a fresh clone."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.culprits.markdown import again as search_again
from torchperf_ci.metrics import LATENCY, bisected_as
from torchperf_ci.report.issues.texts.words import largest
from torchperf_ci.verdicts.again import PYTHON, chosen_by, compare_lines, lines, run_lines, where
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Culprit, Location
    from torchperf_ci.report.issues.causes.finding import Finding
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Again

_SHA = re.compile(r"[0-9a-f]{7,64}")
_SHARED = ("--repo", "--build", "--config", "--suite", "--device", "--batch-size", "--threads")
"""What a comparison needs as the bisection did."""


class Reproduction(NamedTuple):
    """Lines for a shell, none where none are known, and what has to be there for them to run."""

    lines: list[str]
    where: str = ""


def reproducing(finding: Finding) -> Reproduction:
    """What shows it on somebody's own machine."""
    if finding.kind == "culprit" and finding.culprit and finding.location:
        return _of_culprit(finding, finding.culprit, finding.location)
    if finding.location and finding.location.command:
        return Reproduction(search_again(finding.location), where(finding.location.torch))
    if finding.again is None or not finding.rows:
        return Reproduction([])
    series = largest(finding.rows)[0].series
    if finding.kind == "broken":
        return Reproduction(run_lines(finding.again, series), where(finding.again.torch))
    return _of_range(finding, finding.again, series)


def _of_culprit(finding: Finding, culprit: Culprit, location: Location) -> Reproduction:
    shared = _shared(location.command)
    base, head = _before(culprit, location), culprit.set[-1]
    if not location.command:
        return Reproduction([])
    if shared is None or not finding.rows or not (_SHA.fullmatch(base) and _SHA.fullmatch(head)):
        return Reproduction(search_again(location), where(location.torch))
    proven = [row for row in finding.rows if row.proven] or finding.rows
    options = (*PYTHON, *shared, *chosen_by(largest(proven)[0].series))
    command = shlex.join(["torchperf", "compare", "--base", base, "--head", head, *options])
    return Reproduction(lines(location.folder, (base, head), command), where(location.torch))


def _before(culprit: Culprit, location: Location) -> str:
    """What the culprit was measured against."""
    measured = (
        one.base for one in location.readings if one.purpose == "verify" and one.head == culprit.set[-1]
    )
    return next(measured, location.good)


def _of_range(finding: Finding, again: Again, series: Series) -> Reproduction:
    """A bisection between the two commits; a comparison where they are those of one."""
    if again.base and again.head:
        return Reproduction(compare_lines(again, again.base, again.head, series), where(again.torch))
    ends = turn_of(finding.verdicts[0]).own if finding.verdicts else None
    if ends is None:
        return Reproduction([])
    metric = [] if bisected_as(series.metric) == LATENCY else ["--metric", series.metric]
    chosen = ["--workload" if word == "--filter" else word for word in chosen_by(series)]
    sides = ("--good", ends.good, "--bad", ends.bad)
    command = shlex.join(["torchperf", "bisect", *sides, *PYTHON, *again.options, *metric, *chosen])
    return Reproduction(lines(again.folder, ends, command), where(again.torch))


def _shared(line: str) -> list[str] | None:
    """The options of a bisection that a comparison takes, too; None where it measured a command of its own."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    flag, found = "", []
    for word in words:
        if word.startswith("--"):
            flag = word.partition("=")[0]
        if flag == "--command":
            return None
        if flag in _SHARED:
            found.append(word)
    return found
