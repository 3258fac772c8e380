"""Which issue a finding belongs to. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from torchperf_ci.report.issues.causes.finding import NAMED_KINDS
from torchperf_ci.report.issues.life.recovery import is_beyond, is_there

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.report.issues.causes.finding import Finding, Row
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.report.issues.life.rules import Rules
    from torchperf_ci.series.series import Series

Word = Literal["new", "known", "relapsed", "settled"]
"""No issue yet; an open one; a closed one that is open again; one of which people have decided."""


@dataclass(frozen=True)
class Home:
    """Where a finding belongs; ``finding`` is as much of it as does."""

    word: Word
    finding: Finding
    issue: Ours | None = None


def home(finding: Finding, issues: Sequence[Ours], rules: Rules) -> Home:
    """The issue of a finding, if one has it: by its fingerprint, else by its series, open ones first.

    A proven culprit has an issue of its own, which may be that of a regression that was not located before. What
    somebody has accepted, or closed with their own hands, is left to them up to the level that they saw.
    """
    same = [issue for issue in issues if finding.fingerprint in issue.memory.fingerprints]
    is_named = finding.kind in NAMED_KINDS
    issues = same if is_named else [issue for issue in issues if issue.memory.kind not in NAMED_KINDS]
    opened = [issue for issue in same if _is_live(issue)]
    opened += _holders(finding, [issue for issue in issues if _is_live(issue)])
    held = {series for issue in opened for series in series_of(issue.memory.rows)}
    closed = [issue for issue in reversed(issues) if not _is_live(issue)]
    over = [issue for issue in closed if _was_over(issue, rules)]
    for issue in (issue for issue in closed if issue not in over):
        rest = _unsettled(finding, issue, held)
        if not rest:
            return Home("settled", finding, issue)
        finding = replace(finding, rows=rest)
    if opened:
        return Home("known", _less_held_elsewhere(finding, opened[0], issues), opened[0])
    for issue in over:
        if _relapsed(finding, issue):
            return Home("relapsed", finding, issue)
        if issue in same and not finding.verdicts:  # an old bisection, and nothing is slow tonight
            return Home("settled", finding, issue)
    return Home("new", finding)


def is_over(issue: Ours, rules: Rules) -> bool:
    """Whether it is closed, and everything was back for as many nights as it takes; else somebody has closed it."""
    memory = issue.memory
    return not (issue.is_open or memory.accepted) and len(memory.recovered) >= rules.recovered_nights


def _was_over(issue: Ours, rules: Rules) -> bool:
    """:func:`is_over` before tonight, so that tonight is told again as it was told first."""
    nights = tuple(night for night in issue.memory.recovered if night < rules.night)
    return is_over(replace(issue, memory=replace(issue.memory, recovered=nights)), rules)


def _is_live(issue: Ours) -> bool:
    return issue.is_open and not issue.memory.accepted


def series_of(rows: Iterable[Row]) -> set[Series]:
    """The series of rows."""
    return {row.series for row in rows}


def _holders(finding: Finding, issues: Iterable[Ours]) -> list[Ours]:
    """Open issues that have series of the finding already, the one with the most of them first."""
    kinds = ("unlocated",) if finding.kind == "culprit" else ("unlocated", "culprit")
    mine = series_of(finding.rows)
    shared = {
        issue.number: (len(mine & series_of(issue.memory.rows)), issue)
        for issue in issues
        if issue.memory.kind in kinds
    }
    ranked = sorted(
        (pair for pair in shared.values() if pair[0]), key=lambda pair: (-pair[0], pair[1].number)
    )
    return [issue for _, issue in ranked]


def _less_held_elsewhere(finding: Finding, mine: Ours, issues: Iterable[Ours]) -> Finding:
    """A finding that is not proven, without the rows that other open issues have."""
    if finding.kind != "unlocated":
        return finding
    others = [issue.memory.rows for issue in issues if _is_live(issue) and issue is not mine]
    held = {series for rows in others for series in series_of(rows)} - series_of(mine.memory.rows)
    return replace(finding, rows=tuple(row for row in finding.rows if row.series not in held))


def _unsettled(finding: Finding, issue: Ours, held: set[Series]) -> tuple[Row, ...]:
    """The rows of the finding that are none of the issue's, or go further than it, or are ``held`` by another one."""
    same = finding.fingerprint in issue.memory.fingerprints
    if finding.kind in NAMED_KINDS:
        return ()
    known = {row.series: row for row in issue.memory.rows}
    worse = {
        verdict.series
        for verdict in finding.verdicts
        if verdict.series in known and is_beyond(known[verdict.series], verdict)
    }
    settled = {row.series for row in finding.rows if same or row.series in known} - worse - held
    return tuple(row for row in finding.rows if row.series not in settled)


def _relapsed(finding: Finding, issue: Ours) -> bool:
    if finding.kind in NAMED_KINDS:
        return True
    known = {row.series: row for row in issue.memory.rows}
    return any(
        verdict.series in known and is_there(known[verdict.series], verdict) for verdict in finding.verdicts
    )
