"""Which issue a finding belongs to, and whether a series is back where it was. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, Literal

from torchperf_ci.issues.memory import NAMED_KINDS
from torchperf_ci.issues.verdict_history import newest_level
from torchperf_ci.metrics import MIN_EFFECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.issues.memory import IssueKind, IssueRow
    from torchperf_ci.issues.tracker import TrackedIssue
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.verdict import Verdict


@dataclass(frozen=True)
class IssueRules:
    """``night`` is tonight's ISO date, the numbers are as in ``torchperf.yml``; issues of other ``kinds`` stay."""

    night: str
    recovered_nights: int = 3
    max_per_night: int = 5
    kinds: tuple[IssueKind, ...] = ("culprit", "unlocated", "broken")


QUARTER = 0.25
"""The share of a change that may be left where it is called back."""
HALF = 0.5
"""The share of a change from which on it is there, or there again."""
NOISES = 2.0
"""Standard deviations between runs that a level may lie off."""
MIN_LOG_EFFECT = log(1 + MIN_EFFECT)
"""The smallest change beyond an accepted level that is news: ln of the default policy's 3%."""
_SILENT = ("not-comparable", "missing", "not-affected")
"""Verdicts that say nothing about a level."""


def has_levels(row: IssueRow) -> bool:
    """Whether a row says from where to where it went."""
    return row.old is not None and row.new is not None and row.old != row.new


def share_left(row: IssueRow, now: float) -> float | None:
    """How much of the row's change is there at the level ``now``: 0 at the old level, 1 at the regressed one.

    Measured in logarithms, and along a line where a level is 0 or less, as counts may be. None where the row has no two
    levels.
    """
    if row.old is None or row.new is None or row.old == row.new:
        return None
    if min(row.old, row.new, now) > 0:
        return log(now / row.old) / log(row.new / row.old)
    return (now - row.old) / (row.new - row.old)


def is_back(row: IssueRow, verdicts: Iterable[Verdict]) -> bool | None:
    """Whether the change is gone, by all of tonight's verdicts of the series; None where they say nothing about that.

    Gone is what leaves at most a quarter of the change, or at most what noise explains, and always less than half.
    """
    return _all_known(_slow_is_back(row, verdict) for verdict in verdicts)


def passes_again(verdicts: Iterable[Verdict]) -> bool | None:
    """Whether a case that failed passes again, by all of tonight's verdicts; None where they do not say."""
    return _all_known(map(_verdict_passes, verdicts))


def is_there(row: IssueRow, verdict: Verdict) -> bool:
    """Whether tonight's regression is that of the row again: at least half of the way to its regressed level."""
    if not verdict.is_red:
        return False
    now = newest_level(verdict)
    share = share_left(row, now) if now is not None else None
    if share is not None:
        return share >= HALF
    if row.effect is None or verdict.effect is None or min(row.effect.ratio, verdict.effect.ratio) <= 0:
        return True
    whole = log(row.effect.ratio)
    return whole == 0 or log(verdict.effect.ratio) / whole >= HALF


def is_beyond(row: IssueRow, verdict: Verdict) -> bool:
    """Whether tonight's regression goes further than the row's new level, which somebody lives with.

    Further by more than half of that change or 3%, whichever is less, and by more than noise explains.
    """
    now = newest_level(verdict)
    share = share_left(row, now) if now is not None else None
    if share is None or not verdict.is_red:
        return False
    size = _size(row)
    least = max(min(HALF, MIN_LOG_EFFECT / size), NOISES * _noise(row, verdict)) if size else HALF
    return share - 1 > least


def _slow_is_back(row: IssueRow, verdict: Verdict) -> bool | None:
    if verdict.is_red:
        return False
    now = newest_level(verdict)
    if verdict.verdict in _SILENT or now is None:
        return None
    share = share_left(row, now)
    if share is None:  # only a step back can be told
        return True if verdict.verdict == "improved" else None
    return share < HALF and share <= max(QUARTER, NOISES * _noise(row, verdict))


def _verdict_passes(verdict: Verdict) -> bool | None:
    if verdict.is_red:
        return False
    if verdict.verdict in _SILENT or verdict.new is None:
        return None
    return verdict.new >= 1


def _all_known(answers: Iterable[bool | None]) -> bool | None:
    known = [answer for answer in answers if answer is not None]
    return all(known) if known else None


def _noise(row: IssueRow, verdict: Verdict) -> float:
    """The standard deviation between runs as a share of the row's change."""
    size = _size(row)
    return (verdict.noise or 0.0) / size if size else 0.0


def _size(row: IssueRow) -> float | None:
    """|ln(new/old)|; None where there are no such logarithms."""
    if row.old is None or row.new is None or min(row.old, row.new) <= 0 or row.old == row.new:
        return None
    return abs(log(row.new / row.old))


MatchWord = Literal["new", "known", "relapsed", "settled"]
"""No issue yet; an open one; a closed one that is open again; one of which people have decided."""


@dataclass(frozen=True)
class IssueMatch:
    """Where a finding belongs; ``finding`` is as much of it as does."""

    word: MatchWord
    finding: IssueFinding
    issue: TrackedIssue | None = None


def match_finding(finding: IssueFinding, issues: Sequence[TrackedIssue], rules: IssueRules) -> IssueMatch:
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
            return IssueMatch("settled", finding, issue)
        finding = replace(finding, rows=rest)
    if opened:
        return IssueMatch("known", _less_held_elsewhere(finding, opened[0], issues), opened[0])
    for issue in over:
        if _relapsed(finding, issue):
            return IssueMatch("relapsed", finding, issue)
        if issue in same and not finding.verdicts:  # an old bisection, and nothing is slow tonight
            return IssueMatch("settled", finding, issue)
    return IssueMatch("new", finding)


def is_over(issue: TrackedIssue, rules: IssueRules) -> bool:
    """Whether it is closed, and everything was back for as many nights as it takes; else somebody has closed it."""
    memory = issue.memory
    return not (issue.is_open or memory.accepted) and len(memory.recovered) >= rules.recovered_nights


def _was_over(issue: TrackedIssue, rules: IssueRules) -> bool:
    """:func:`is_over` before tonight, so that tonight is told again as it was told first."""
    nights = tuple(night for night in issue.memory.recovered if night < rules.night)
    return is_over(replace(issue, memory=replace(issue.memory, recovered=nights)), rules)


def _is_live(issue: TrackedIssue) -> bool:
    return issue.is_open and not issue.memory.accepted


def series_of(rows: Iterable[IssueRow]) -> set[Series]:
    """The series of rows."""
    return {row.series for row in rows}


def _holders(finding: IssueFinding, issues: Iterable[TrackedIssue]) -> list[TrackedIssue]:
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


def _less_held_elsewhere(
    finding: IssueFinding, mine: TrackedIssue, issues: Iterable[TrackedIssue]
) -> IssueFinding:
    """A finding that is not proven, without the rows that other open issues have."""
    if finding.kind != "unlocated":
        return finding
    others = [issue.memory.rows for issue in issues if _is_live(issue) and issue is not mine]
    held = {series for rows in others for series in series_of(rows)} - series_of(mine.memory.rows)
    return replace(finding, rows=tuple(row for row in finding.rows if row.series not in held))


def _unsettled(finding: IssueFinding, issue: TrackedIssue, held: set[Series]) -> tuple[IssueRow, ...]:
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


def _relapsed(finding: IssueFinding, issue: TrackedIssue) -> bool:
    if finding.kind in NAMED_KINDS:
        return True
    known = {row.series: row for row in issue.memory.rows}
    return any(
        verdict.series in known and is_there(known[verdict.series], verdict) for verdict in finding.verdicts
    )
