"""Match findings to issues, and decide whether a series has recovered. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import inf, log
from typing import TYPE_CHECKING, Literal

from torchperf_ci.document import day_of
from torchperf_ci.issues.findings import IssueFinding, cause_fingerprint
from torchperf_ci.issues.memory import NAMED_KINDS, IssueKind, IssueMemory, IssueRow, series_of, storable
from torchperf_ci.metrics import ANCHORED, LATENCY, MIN_EFFECT
from torchperf_ci.series.points import Series, restating

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.issues.tracker import TrackedIssue
    from torchperf_ci.verdicts.verdict import Verdict


@dataclass(frozen=True)
class IssueRules:
    """``night`` is tonight's ISO date, the numbers come from ``torchperf.yml``; only issues of ``kinds`` may change."""

    night: str
    recovered_nights: int = 3
    max_per_night: int = 5
    kinds: tuple[IssueKind, ...] = ("culprit", "unlocated", "broken")


QUARTER = 0.25
"""The largest share of a change that may remain for a series to count as recovered."""
HALF = 0.5
"""The smallest share of a change for which it counts as still there, or there again."""
NOISES = 2.0
"""The number of standard deviations between runs by which a level may be off."""
MIN_LOG_EFFECT = log(1 + MIN_EFFECT)
"""The smallest change beyond an accepted level that is reported: ln of 1 plus the default policy's 3%."""
_SILENT = ("not-comparable", "missing", "not-affected")
"""Verdicts that say nothing about a level."""


def what_is_back(memory: IssueMemory, findings: Iterable[IssueFinding]) -> IssueMemory:
    """The memory of a change that was over: tonight tells its numbers, and it may have another culprit than before."""
    tonight = {row.series for finding in findings for row in finding.rows if row.has_levels}
    rows = tuple(row for row in memory.rows if row.series not in tonight)
    return replace(memory, kind="unlocated" if memory.kind == "culprit" else memory.kind, rows=rows)


def rows_that_count(memory: IssueMemory) -> list[IssueRow]:
    """The rows that must recover for the issue to close; those without levels only if no row has levels.

    Throughputs that restate a latency are ignored: an earlier version judged both, and now no verdict can say that
    such a row has recovered.
    """
    again = restating(row.series for row in memory.rows)
    rows = [row for row in memory.rows if row.series not in again]
    with_levels = [row for row in rows if row.has_levels]
    return rows if memory.kind == "broken" else with_levels or rows


_DAYS_OUT_OF_SIGHT = 35
"""Days without a verdict until a series counts as no longer measured: a monthly benchmark has one in between."""


def rows_out_of_sight(memory: IssueMemory, judged: Container[Series], night: str) -> list[IssueRow]:
    """The rows that keep the issue open although no night has ``judged`` them for long.

    One that had recovered is among them only if nothing else is judged, so that no night counts.
    """
    since = (date.fromisoformat(night) - timedelta(_DAYS_OUT_OF_SIGHT)).isoformat()
    rows = rows_that_count(memory)
    last = "" if any(row.series in judged for row in rows) else memory.last_night
    return [row for row in rows if row.series not in judged and "" < (row.night or last) <= since]


def has_recovered(row: IssueRow, verdicts: Iterable[Verdict], kind: IssueKind) -> bool | None:
    """Whether the series has recovered, by all of tonight's verdicts on it; None if they do not say.

    A case that failed has if it passes. Another series has if at most a quarter of the change remains, or no more than
    noise explains, and always less than half.
    """
    answers = (_has_recovered(row, verdict, kind) for verdict in verdicts)
    known = [answer for answer in answers if answer is not None]
    return all(known) if known else None


def follow(row: IssueRow, tonight: Mapping[Series, Sequence[Verdict]]) -> tuple[IssueRow, Sequence[Verdict]]:
    """The row, and tonight's verdicts on it.

    A throughput of whose case only the latency is judged now follows that, without levels.
    """
    latency = replace(row.series, metric=LATENCY)
    if latency in tonight and row.series not in tonight and restating((row.series, latency)):
        return replace(row, old=None, new=None), tonight[latency]
    return row, tonight.get(row.series, ())


def is_same_regression(row: IssueRow, verdict: Verdict) -> bool:
    """Whether tonight's regression or candidate is the row's: at least half of the way to its regressed level."""
    if not (verdict.is_red or verdict.candidate):
        return False
    share = row.share_left(verdict.newest_level)
    if share is not None:
        return share >= HALF
    if row.effect is None or verdict.effect is None or min(row.effect.ratio, verdict.effect.ratio) <= 0:
        return True
    whole = log(row.effect.ratio)
    return whole == 0 or log(verdict.effect.ratio) / whole >= HALF


def is_same_change(row: IssueRow, other: IssueRow) -> bool:
    """Whether two rows of a series tell of one step, rather than of two, the second upon the first."""
    new, old, back = row.share_left(other.new), row.share_left(other.old), other.share_left(row.new)
    if new is None or old is None or back is None:
        return row.has_levels == other.has_levels
    return min(new, back) >= HALF > old and len({row.machine, other.machine} - {""}) < 2


def has_returned(row: IssueRow, verdict: Verdict, nights: int) -> bool:
    """Whether the newest runs of a candidate, at least ``nights``, are at least half of the way to the row's level.

    History proves nothing by a level that came and went before, but this level had an issue.
    """
    newest = [row.share_left(point.value) for point in verdict.evidence.points[-nights:]]
    is_known = verdict.candidate and is_comparable(row, verdict) and len(newest) == nights
    return is_known and all(share is not None and share >= HALF for share in newest)


def _exceeds(row: IssueRow, verdict: Verdict) -> bool:
    """Whether a verdict exceeds the row's new level by more than noise, and by 3%, or half of the change if less."""
    share, size = row.share_left(verdict.newest_level), row.levels_apart
    least = max(min(HALF, MIN_LOG_EFFECT / size), NOISES * _noise(row, verdict)) if size else HALF
    return share is not None and share - 1 > least


def further_series(finding: IssueFinding, issue: TrackedIssue) -> set[Series]:
    """The series that were at the issue's regressed level and have regressed again, for another cause.

    On a machine with other levels, those that have got worse since they were last seen regressed. A latency follows its
    ratio to an anchor.
    """
    further = {
        row.series
        for row, verdict in _judged_rows(issue, finding)
        if (
            (row.share_left(verdict.old) or 0.0) >= HALF and _exceeds(row, verdict)
            if is_comparable(row, verdict)
            else _was_old_since(max(row.night, issue.memory.opened), verdict)
        )
    }
    return further | {replace(series, metric=LATENCY) for series in further if series.metric == ANCHORED}


def _judged_rows(issue: TrackedIssue, finding: IssueFinding) -> list[tuple[IssueRow, Verdict]]:
    """The rows of the issue that the finding has verdicts on, each with its verdict."""
    known = {row.series: row for row in issue.memory.rows}
    return [(known[verdict.series], verdict) for verdict in finding.verdicts if verdict.series in known]


def _was_old_since(night: str, verdict: Verdict) -> bool:
    """Whether the series was at its old level on that night or later."""
    return day_of(verdict.evidence.commits.last_old.timestamp) >= night


def _has_recovered(row: IssueRow, verdict: Verdict, kind: IssueKind) -> bool | None:
    if verdict.verdict in _SILENT or not is_comparable(row, verdict):
        return None
    if verdict.is_red:
        return False
    if kind == "broken":
        return None if verdict.new is None else verdict.new >= 1
    share = row.share_left(verdict.newest_level)
    if share is None:  # without levels, only an improvement shows a recovery
        return True if verdict.verdict == "improved" else None
    # The levels may be those of several culprits: what is left is compared with the effect that is proven of this one.
    scale = max((row.levels_apart or 0.0) / row.size, 1.0) if row.proven and row.size else 1.0
    return share * scale < HALF and share <= max(QUARTER / scale, NOISES * _noise(row, verdict))


def is_comparable(row: IssueRow, verdict: Verdict) -> bool:
    """Whether both are of the same machine, as far as is known."""
    return len({row.machine, verdict.evidence.machine} - {""}) < 2


def _noise(row: IssueRow, verdict: Verdict) -> float:
    """The standard deviation between runs, relative to the row's change."""
    size = row.levels_apart
    return (verdict.noise or 0.0) / size if size else 0.0


MatchWord = Literal["new", "known", "relapsed", "dismissed"]
"""How a finding relates to the existing issues.

- ``new``: there is no issue yet
- ``known``: it belongs to an open issue
- ``relapsed``: it belongs to an issue that was closed after a recovery
- ``dismissed``: people have decided on it, by accepting or closing the issue
"""


@dataclass(frozen=True)
class IssueMatch:
    """The issue that a finding belongs to; ``finding`` is reduced to the rows that belong there."""

    word: MatchWord
    finding: IssueFinding
    issue: TrackedIssue | None = None


def matched(finding: IssueFinding, issues: Sequence[TrackedIssue], rules: IssueRules) -> Iterator[IssueMatch]:
    """The match of a finding, and those of its series that no proof puts to the culprit that the issue names."""
    match = match_finding(finding, issues, rules)
    rest = _rows_without_proof(match)
    mine = tuple(row for row in match.finding.rows if row not in rest)
    if mine or not rest:
        yield replace(match, finding=replace(match.finding, rows=mine))
    if rest:
        verdicts = tuple(it for it in finding.verdicts if it.series in series_of(rest))
        name = cause_fingerprint("unlocated", finding.fingerprint)
        yield from matched(replace(finding, fingerprint=name, rows=rest, verdicts=verdicts), issues, rules)


def _rows_without_proof(match: IssueMatch) -> tuple[IssueRow, ...]:
    """The rows that would only be added to an issue that names a culprit, unless it had them and had no room for them.

    It forgets the smallest. A machine that shows only what the culprit is proven for adds to its issue.
    """
    issue, finding = match.issue, match.finding
    if not issue or (match.word, finding.kind, issue.memory.kind) != ("known", "unlocated", "culprit"):
        return ()
    known = issue.memory.rows
    rest = tuple(row for row in finding.rows if row.series not in series_of(known))
    is_elsewhere = len(rest) == len(finding.rows) and not is_about(issue, finding)
    both = replace(issue.memory, rows=(*known, *rest))
    is_full = len(storable(both).rows) < len(both.rows)
    largest = 2 * min((row.size for row in known), default=inf) if is_full else -inf
    return () if is_elsewhere else tuple(row for row in rest if row.size > largest)


def match_finding(finding: IssueFinding, issues: Sequence[TrackedIssue], rules: IssueRules) -> IssueMatch:
    """Match a finding to its issue, by its fingerprint, else by its series, preferring open issues.

    A proven culprit has its own issue, which may be that of a regression whose commit was not known before, or of a set
    of commits that contains it. Regressions that people have accepted, or whose issue they have closed by hand, are
    left to them up to the level they saw.
    """
    same = [issue for issue in issues if is_about(issue, finding)]
    is_named = finding.kind in NAMED_KINDS
    issues = same if is_named else [issue for issue in issues if issue.memory.kind not in NAMED_KINDS]
    opened = [issue for issue in same if _is_live(issue)]
    opened += [issue for issue in issues if _is_live(issue) and finding.names & {*issue.memory.suspects}]
    opened += _sharing_series(finding, [issue for issue in issues if _is_live(issue)])
    earlier = [issue for issue in issues if _is_live(issue) and issue.memory.opened < rules.night]
    opened += [issue for issue in earlier if _is_known_elsewhere(finding, issue)]
    covered = {series for issue in opened for series in series_of(issue.memory.rows)}
    closed = [issue for issue in reversed(issues) if not _is_live(issue)]
    recovered = {
        issue.number: issue
        for issue in closed
        if is_closed_as_recovered(issue, rules)
        if _was_closed_as_recovered(issue, rules) or _relapsed(finding, issue)
    }
    for issue in (issue for issue in closed if issue.number not in recovered):
        rest = _rows_not_dismissed(finding, issue, covered)
        if not rest and (finding.rows or issue in same):
            return IssueMatch("dismissed", finding, issue)
        finding = replace(finding, rows=rest)
    if opened:
        return IssueMatch("known", _without_rows_of_other_issues(finding, opened[0], issues), opened[0])
    for issue in recovered.values():
        if _relapsed(finding, issue):
            return IssueMatch("relapsed", finding, issue)
        if issue in same and not finding.verdicts:  # an old bisection, and nothing has regressed tonight
            return IssueMatch("dismissed", finding, issue)
    return IssueMatch("new", finding)


def is_about(issue: TrackedIssue, finding: IssueFinding) -> bool:
    """Whether the issue has the finding's cause, or names a commit of its set."""
    return not finding.names.isdisjoint(issue.memory.fingerprints)


def is_closed_as_recovered(issue: TrackedIssue, rules: IssueRules) -> bool:
    """Whether the issue was closed as recovered, or by a person and has recovered since, for enough nights."""
    is_recovered = issue.memory.closed != "" or have_all_recovered(issue.memory, rules)
    return is_recovered and not (issue.is_open or issue.memory.accepted)


def have_all_recovered(memory: IssueMemory, rules: IssueRules) -> bool:
    """Whether enough nights in a row count, and each row that counts had recovered when it was last measured."""
    is_long = len(memory.recovered) >= rules.recovered_nights
    return is_long and all(not row.night for row in rows_that_count(memory))


def _was_closed_as_recovered(issue: TrackedIssue, rules: IssueRules) -> bool:
    """:func:`is_closed_as_recovered` as it was before tonight, so that repeating a night gives the same result."""
    nights = tuple(night for night in issue.memory.recovered if night < rules.night)
    closed = issue.memory.closed if issue.memory.closed < rules.night else ""
    memory = replace(issue.memory, recovered=nights, closed=closed)
    return is_closed_as_recovered(replace(issue, memory=memory), rules)


def _is_live(issue: TrackedIssue) -> bool:
    return issue.is_open and not issue.memory.accepted


def _sharing_series(finding: IssueFinding, issues: Sequence[TrackedIssue]) -> list[TrackedIssue]:
    """Those of the open ``issues`` that already have some of the finding's series, the one with the most first."""
    kinds = ("unlocated",) if finding.kind == "culprit" else ("unlocated", "culprit")
    mine = series_of(finding.rows)
    shared = {
        issue.number: len(mine & series_of(issue.memory.rows) - further_series(finding, issue))
        for issue in issues
        if issue.memory.kind in kinds and not _began_later(finding, issue)
    }
    sharing = [issue for issue in issues if shared.get(issue.number)]
    return sorted(sharing, key=lambda issue: (-shared[issue.number], issue.number))


def _began_later(finding: IssueFinding, issue: TrackedIssue) -> bool:
    """Whether a series that an issue with a culprit does not have was at its old level after the issue was opened."""
    others = (it for it in finding.verdicts if it.series not in series_of(issue.memory.rows))
    return issue.memory.kind == "culprit" and any(_was_old_since(issue.memory.opened, it) for it in others)


def _is_known_elsewhere(finding: IssueFinding, issue: TrackedIssue) -> bool:
    """Whether the finding is the issue's on another machine: any of its cases if no commit is named, else proven ones.

    False if that machine has a bisection of its own, or was at its old level after the issue was opened.
    """
    is_later = any(_was_old_since(issue.memory.opened, verdict) for verdict in finding.verdicts)
    here, is_named = series_of(finding.rows), issue.memory.kind == "culprit"
    known = {row.series for row in issue.memory.rows if row.proven or not is_named}
    if finding.kind != "unlocated" or finding.bisection or is_later or here & known:
        return False
    cases, known_cases = ({replace(series, arch="") for series in some} for some in (here, known))
    return cases <= known_cases if is_named else not cases.isdisjoint(known_cases)


def _without_rows_of_other_issues(
    finding: IssueFinding, mine: TrackedIssue, issues: Iterable[TrackedIssue]
) -> IssueFinding:
    """An unlocated finding without the rows that other open issues have; other findings are unchanged."""
    if finding.kind != "unlocated":
        return finding
    others = [issue.memory.rows for issue in issues if _is_live(issue) and issue is not mine]
    covered = {series for rows in others for series in series_of(rows)} - series_of(mine.memory.rows)
    return replace(finding, rows=tuple(row for row in finding.rows if row.series not in covered))


def _rows_not_dismissed(
    finding: IssueFinding, issue: TrackedIssue, covered: set[Series]
) -> tuple[IssueRow, ...]:
    """The rows of the finding that the issue does not dismiss.

    These go beyond it, or are ``covered`` by another issue, or have regressed to a level at which its change is undone,
    so that they had been better than ever before; on a machine with other levels, those that have got worse since they
    were last seen regressed, if it has another cause. They are also those that are not in it, if it has another cause
    or if any of the others remains: then the cause is not all that people have decided on.
    """
    same = is_about(issue, finding)
    if finding.kind in NAMED_KINDS:
        return ()
    known = series_of(issue.memory.rows)
    worse = {
        row.series
        for row, verdict in _judged_rows(issue, finding)
        if (
            (verdict.is_red and _exceeds(row, verdict)) or (not same and _is_undone(row, verdict.new))
            if is_comparable(row, verdict)
            else not same and _was_old_since(max(row.night, issue.memory.opened), verdict)
        )
    }
    kept = (worse | covered) & series_of(finding.rows)
    cause = same and not kept
    dismissed = {row.series for row in finding.rows if cause or row.series in known} - kept
    return tuple(row for row in finding.rows if row.series not in dismissed)


def _is_undone(row: IssueRow, level: float | None) -> bool:
    share = row.share_left(level)
    return share is not None and share <= QUARTER


def _relapsed(finding: IssueFinding, issue: TrackedIssue) -> bool:
    """Whether a series of the issue is back, and people have not accepted that in another issue."""
    if finding.kind in NAMED_KINDS:
        return True
    mine = series_of(finding.rows)
    judged = _judged_rows(issue, finding)
    return any(row.series in mine and is_same_regression(row, verdict) for row, verdict in judged)
