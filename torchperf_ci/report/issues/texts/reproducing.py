"""Command lines that show again what an issue tells: to paste, as they stand."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.report.issues.causes.blaming import LATENCY
from torchperf_ci.report.issues.texts.words import largest
from torchperf_ci.series.comparability import ANCHORED
from torchperf_ci.verdicts.again import command
from torchperf_ci.verdicts.rows import short
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Culprit, Location
    from torchperf_ci.report.issues.causes.finding import Finding

_LENGTH = 2000
_SHA = re.compile(r"[0-9a-f]{7,64}")
_SHARED = ("--repo", "--build", "--python", "--suite", "--device", "--batch-size", "--threads")
"""What a comparison needs as the bisection did."""


def reproducing(finding: Finding) -> str:
    """The command that shows it on somebody's own machine; empty where none is known."""
    match finding.kind:
        case "culprit":
            return _of_culprit(finding)
        case "unlocated":
            return _of_range(finding)
        case "broken" if finding.rows:
            return command("run", "", finding.rows[0].series)
    return ""


def code(text: str) -> str:
    """A line as indented code: shown to the letter, and one line of that cannot end it."""
    return f"    {short(one_line(text), _LENGTH)}"


def _of_culprit(finding: Finding) -> str:
    culprit, location = finding.culprit, finding.location
    if not culprit or not location:
        return ""
    shared = _shared(location.command)
    base, head = _before(culprit, location), culprit.set[-1]
    if shared is None or not finding.rows or not (_SHA.fullmatch(base) and _SHA.fullmatch(head)):
        return location.command
    proven = [row for row in finding.rows if row.proven] or finding.rows
    sides = shlex.join(["--base", base, "--head", head, *shared])
    return command("compare", sides, largest(proven)[0].series)


def _before(culprit: Culprit, location: Location) -> str:
    """What the culprit was measured against."""
    measured = (
        one.base for one in location.readings if one.purpose == "verify" and one.head == culprit.set[-1]
    )
    return next(measured, location.good)


def _of_range(finding: Finding) -> str:
    if finding.location and finding.location.command:
        return finding.location.command
    ends = turn_of(finding.verdicts[0]).range if finding.verdicts else None
    if ends is None:
        return ""
    series = largest(finding.rows)[0].series
    given = {
        "good": ends.good,
        "bad": ends.bad,
        "workload": series.model,
        "metric": "" if series.metric in (LATENCY, ANCHORED) else series.metric,
        "mode": series.mode,
        "dtype": series.dtype,
        "backend": series.backend,
    }
    flags = [part for name, value in given.items() if value for part in (f"--{name}", value)]
    return shlex.join(["torchperf", "bisect", *flags])


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
