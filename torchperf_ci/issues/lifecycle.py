"""Plan what to do with the issues, given tonight's findings and the existing issues. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from torchperf_ci.document import Words, day_of
from torchperf_ci.issues import matching
from torchperf_ci.issues.memory import IssueMemory, IssueRow, one_row_per_series, series_of, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.issues.tracker import TrackedIssue
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.verdict import Verdict


ActionKind = Literal[
    "open", "extend", "locate", "reopen", "recover", "accept", "duplicate", "strand", "remember"
]
"""What to do with an issue.

- ``open``: open a new issue
- ``extend``: add new evidence, or say that some of its series are back
- ``locate``: name the culprit of a regression that had none, or only a set of suspects
- ``reopen``: the change is back
- ``recover``: close it, everything has recovered
- ``accept``: close it, people have accepted the change
- ``duplicate``: close it, another issue reports the same
- ``strand``: say that it cannot be followed, as the machine is another now, or nothing measures it
- ``remember``: update it without notifying anybody
"""


@dataclass(frozen=True)
class IssueAction:
    """One action on ``issue``, or on a new one if that is None; afterwards the issue's memory is ``memory``.

    ``findings`` are tonight's findings that belong to it, the most important first, ``rows`` the new rows and those
    that are back, and ``verdicts`` tonight's verdicts on its series. ``other`` is the issue that it duplicates, else an
    open one that reports one of its series, too. ``resolution`` says how it is known that the cause is gone.
    """

    what: ActionKind
    memory: IssueMemory
    issue: TrackedIssue | None = None
    findings: tuple[IssueFinding, ...] = ()
    rows: tuple[IssueRow, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    other: TrackedIssue | None = None
    resolution: Words = ""


@dataclass(frozen=True)
class IssuePlan:
    """All actions of tonight, new regressions first.

    ``known`` are the issues that tonight's findings belong to, ``postponed`` the findings beyond the nightly limit,
    and ``dismissed`` those that people have decided on, each with the issue in which they did.
    """

    actions: tuple[IssueAction, ...] = ()
    known: tuple[TrackedIssue, ...] = ()
    postponed: tuple[IssueFinding, ...] = ()
    dismissed: tuple[tuple[IssueFinding, TrackedIssue], ...] = ()


def plan_actions(
    findings: Sequence[IssueFinding],
    verdicts: Iterable[Verdict],
    known: Sequence[TrackedIssue],
    rules: matching.IssueRules,
    resolved: Mapping[str, Words] = MappingProxyType({}),
) -> IssuePlan:
    """Plan the actions. Planning the same night again, after all of them were done, yields none.

    ``findings`` are sorted by effect, largest first, ``known`` by number; of several issues about one cause, the
    oldest open one is kept. ``resolved`` maps the fingerprints of causes without series that are gone to a text that
    says how this is known.
    """
    tonight: dict[Series, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        tonight[verdict.series].append(verdict)
    issues = [_as_people_left_it(issue) for issue in known if issue.memory.kind in rules.kinds]
    accepts = [_accept(issue, tonight) for issue in issues if issue.expected and not issue.memory.accepted]
    accepted = {action.issue.number: action.memory for action in accepts if action.issue}
    issues = [replace(issue, memory=accepted.get(issue.number, issue.memory)) for issue in issues]
    matches = _one_culprit_each(
        [match for finding in findings for match in matching.matched(finding, issues, rules)]
    )
    duplicates = list(_duplicates(issues, matches, rules.night))
    gone = {action.issue.number for action in duplicates if action.issue}
    kept = [issue for issue in issues if issue.number not in gone]
    updates = _updates(kept, matches, tonight, rules, resolved)

    new = [match.finding for match in matches if match.word == "new"]
    opened = sum(issue.memory.opened == rules.night for issue in issues)
    room = max(rules.max_per_night - opened, 0)
    opens = [
        IssueAction("open", storable(remember_finding(None, finding, rules.night)), findings=(finding,))
        for finding in new[:room]
    ]
    return IssuePlan(
        (*opens, *accepts, *duplicates, *updates),
        tuple(match.issue for match in matches if match.word == "known" and match.issue),
        tuple(new[room:]),
        tuple((match.finding, match.issue) for match in matches if match.word == "dismissed" and match.issue),
    )


def _as_people_left_it(issue: TrackedIssue) -> TrackedIssue:
    """The issue; no longer accepted if the label was removed and the issue reopened."""
    accepted = issue.memory.accepted and (issue.expected or not issue.is_open)
    return replace(issue, memory=replace(issue.memory, accepted=accepted))


def _one_culprit_each(matches: Sequence[matching.IssueMatch]) -> list[matching.IssueMatch]:
    """The matches, in which an issue becomes that of one more culprit at most.

    The others get issues of their own, and so does what remains without a culprit.
    """
    taking = [
        match
        for match in matches
        if match.issue
        and match.finding.kind == "culprit"
        and not matching.is_about(match.issue, match.finding)
    ]
    taking.sort(key=lambda match: bool(match.finding.suspects))  # proven commits first
    owners = {match.issue: match for match in reversed(taking)}
    late = [match for match in taking if owners[match.issue] is not match]
    located = [issue for issue, match in owners.items() if issue and _locates(match.finding, issue)]
    late += [match for match in matches if match.finding.kind == "unlocated" and match.issue in located]
    return [matching.IssueMatch("new", match.finding) if match in late else match for match in matches]


def _locates(culprit: IssueFinding, issue: TrackedIssue) -> bool:
    """Whether an issue without a culprit, or of a set of suspects, becomes that of the ``culprit``."""
    return issue.memory.kind == "unlocated" or (issue.memory.suspects != () and not culprit.suspects)


def _accept(issue: TrackedIssue, tonight: Mapping[Series, Sequence[Verdict]]) -> IssueAction:
    """Accept the change, as people asked by label: tonight's level, or the last known one, becomes the norm."""
    rows = tuple(_at_its_level(row, tonight.get(row.series, ())) for row in issue.memory.rows)
    memory = replace(issue.memory, rows=rows, recovered=(), closed="", accepted=True)
    return IssueAction("accept", storable(memory), issue)


def _at_its_level(row: IssueRow, verdicts: Sequence[Verdict]) -> IssueRow:
    levels = (verdict.newest_level for verdict in verdicts if matching.is_same_regression(row, verdict))
    return replace(row, new=next((level for level in levels if level is not None), row.new))


def _duplicates(
    issues: Iterable[TrackedIssue], matches: Sequence[matching.IssueMatch], night: str
) -> Iterator[IssueAction]:
    """Actions that close issues of which another one tells everything.

    Issues that were updated tonight, and others that were opened tonight, wait for the next night, so that repeating a
    night finds nothing to do.
    """
    matched = {match.issue.number for match in matches if match.issue}
    live = [issue for issue in issues if issue.is_open and not issue.memory.accepted]
    earlier = [issue for issue in live if issue.memory.opened < night]
    for issue in live:
        is_quiet = issue.memory.reported < night and issue.number not in matched
        others = (it for it in earlier if is_quiet and _tells_all(it, issue, matches))
        if other := next(others, None):
            yield IssueAction("duplicate", issue.memory, issue, other=other)


def _tells_all(other: TrackedIssue, issue: TrackedIssue, matches: Iterable[matching.IssueMatch]) -> bool:
    """Whether the ``other`` issue is an older one of the same cause, which a list of GitHub's may have missed.

    Or names a proven culprit of everything that has none here.
    """
    is_same = not {*issue.memory.fingerprints}.isdisjoint(other.memory.fingerprints)
    if other.number >= issue.number if is_same else issue.memory.kind != "unlocated":
        return False
    mine = [match.finding for match in matches if match.issue is other and match.finding.kind == "culprit"]
    proven = [row for finding in mine for row in finding.rows]
    rows, tonight = one_row_per_series((*other.memory.rows, *proven)), series_of(proven)
    told = {row.series: row for row in rows if is_same or row.proven or row.series in tonight}
    return (is_same or issue.memory.rows != ()) and all(
        row.series in told and matching.is_same_change(row, told[row.series]) for row in issue.memory.rows
    )


def _updates(
    issues: Iterable[TrackedIssue],
    matches: Sequence[matching.IssueMatch],
    tonight: Mapping[Series, Sequence[Verdict]],
    rules: matching.IssueRules,
    resolved: Mapping[str, Words],
) -> list[IssueAction]:
    findings: dict[int, list[IssueFinding]] = defaultdict(list)
    for match in matches:
        if match.issue and match.word in ("known", "relapsed"):
            findings[match.issue.number].append(match.finding)
    kept = [_without_rows_of_others(issue, matches) for issue in issues if not issue.memory.accepted]
    busy = {
        issue.number
        for issue in issues
        if findings[issue.number] or not matching.is_closed_as_recovered(issue, rules)
    }
    covered = {row.series for issue in issues if issue.number in busy for row in issue.memory.rows}
    covered.update(*(series_of(match.finding.rows) for match in matches if match.word != "dismissed"))
    for issue in reversed(kept):  # of issues about the same series, only the newest returns
        rows = [row for row in issue.memory.rows if row.series not in covered]
        seen = [(row, verdict) for row in rows for verdict in tonight.get(row.series, ())]
        if any(matching.has_returned(row, verdict, rules.recovered_nights) for row, verdict in seen):
            busy.add(issue.number)
            covered |= series_of(issue.memory.rows)
    actions = [
        replace(action, other=_also_about(issue, kept))
        for issue in kept
        if issue.number in busy
        if (action := _update(issue, findings[issue.number], tonight, rules, resolved))
    ]
    memories = [issue.memory for issue in kept if issue.is_open]
    taken = {name for memory in memories for name in (*memory.fingerprints, *memory.suspects)}
    taken.update(*(match.finding.names for match in matches if match.word == "new"))
    return list(_without_taken_fingerprints(actions, taken))


def _also_about(issue: TrackedIssue, issues: Iterable[TrackedIssue]) -> TrackedIssue | None:
    """An open issue that reports a series of this one, too."""
    mine = series_of(issue.memory.rows)
    others = (it for it in issues if it.is_open and it is not issue)
    return next((it for it in others if mine & series_of(row for row in it.memory.rows if row.night)), None)


def _without_rows_of_others(issue: TrackedIssue, matches: Iterable[matching.IssueMatch]) -> TrackedIssue:
    """The issue; if it gets its culprit tonight, without the rows that only other findings have."""
    mine = [match.finding for match in matches if match.issue is issue and match.finding.kind == "culprit"]
    own = {row.series for finding in mine for row in finding.rows}
    if not own or not any(_locates(finding, issue) for finding in mine):
        return issue
    others = {row.series for match in matches for row in match.finding.rows} - own
    rows = tuple(row for row in issue.memory.rows if row.series not in others)
    return replace(issue, memory=replace(issue.memory, rows=rows))


def _without_taken_fingerprints(actions: Iterable[IssueAction], taken: set[str]) -> Iterator[IssueAction]:
    """Remove from reopened issues the fingerprints that other open issues have taken over in the meantime."""
    for action in actions:
        names, own = action.memory.fingerprints, {finding.fingerprint for finding in action.findings}
        if action.what == "reopen":
            names = tuple(name for name in names if name in own or name not in taken)
            taken |= set(names)
        yield replace(action, memory=replace(action.memory, fingerprints=names))


def _update(
    issue: TrackedIssue,
    findings: Sequence[IssueFinding],
    tonight: Mapping[Series, Sequence[Verdict]],
    rules: matching.IssueRules,
    resolved: Mapping[str, Words],
) -> IssueAction | None:
    """What tonight means for an issue that was not accepted; ``findings`` are those that belong to it."""
    before = issue.memory
    if rules.night < before.last_night:
        return None  # an earlier night, repeated after later ones, adds nothing
    in_order = tuple(sorted(findings, key=lambda it: (it.kind != "culprit", bool(it.suspects))))
    known = (
        matching.what_is_back(before, in_order) if matching.is_closed_as_recovered(issue, rules) else before
    )
    memory = _with_recovery(_with_findings(known, in_order, rules.night), tonight, rules.night)
    resolution = next((resolved[name] for name in memory.fingerprints if name in resolved), "")
    if resolution:
        memory = replace(memory, recovered=tuple(dict.fromkeys((*memory.recovered, rules.night))))
    told = series_of(before.rows)
    if any(not series_of(finding.rows) <= series_of(memory.rows) for finding in in_order):
        told |= series_of(memory.rows)  # too many to be remembered: which of them are the largest is no news
    told -= _back_again(in_order, before)
    rows = tuple(row for row in memory.rows if row.series not in told)
    verdicts = tuple(verdict for row in memory.rows for verdict in tonight.get(row.series, ()))
    what = _action_kind(issue, memory, rows, rules)
    if what == "locate":  # what has recovered by now was never proven to be the culprit's
        memory = replace(memory, rows=tuple(row for row in memory.rows if row.night or row.proven))
    is_over = what != "reopen" and (memory.recovered or not issue.is_open)
    ends = what == "recover" or matching.is_closed_as_recovered(replace(issue, memory=memory), rules)
    closed = before.closed or (rules.night if ends else "")
    memory = replace(memory, closed=closed if is_over else "")
    # Of a closed issue, only its recovery matters: editing all of them every night would use up GitHub's rate limit.
    is_news = memory != before if issue.is_open else memory.recovered != before.recovered
    if what == "remember" and not is_news:
        return None
    return IssueAction(what, memory, issue, in_order, rows, verdicts, resolution=resolution)


def _back_again(findings: Iterable[IssueFinding], before: IssueMemory) -> set[Series]:
    """The series that had recovered when last measured, or were at their old level after the last report."""
    verdicts = [verdict for finding in findings for verdict in finding.verdicts]
    late = {it.series for it in verdicts if day_of(it.evidence.commits.last_old.timestamp) > before.reported}
    over = series_of(row for row in before.rows if not row.night)
    return late | (over & {it.series for it in verdicts if it.is_red})


def _action_kind(
    issue: TrackedIssue, memory: IssueMemory, rows: Sequence[IssueRow], rules: matching.IssueRules
) -> ActionKind:
    if not issue.is_open:
        return "reopen" if matching.is_closed_as_recovered(issue, rules) else "remember"
    was_reopened = issue.memory.closed and memory.recovered  # by somebody, though the change is gone
    if matching.have_all_recovered(memory, rules) and not was_reopened:
        return "recover"
    if (issue.memory.kind == "unlocated" and memory.kind == "culprit") or (
        issue.memory.suspects and not memory.suspects
    ):
        return "locate"
    if rows:
        return "extend"
    return "strand" if memory.stranded and not issue.memory.stranded else "remember"


def _with_recovery(
    memory: IssueMemory, tonight: Mapping[Series, Sequence[Verdict]], night: str
) -> IssueMemory:
    """The memory with tonight added to the nights of recovery, or with these cleared if a series had not recovered."""
    recovered = {
        row.series: matching.has_recovered(*matching.follow(row, tonight), memory.kind) for row in memory.rows
    }
    measured = {series: answer for series, answer in recovered.items() if answer is not None}
    # What has recovered keeps no issue open, unless nothing is measured that makes a night count.
    open_rows = [row for row in matching.rows_that_count(memory) if row.night or not measured]
    silent = [row for row in open_rows if row.series not in measured]
    is_moved = any(_is_stranded(row, tonight.get(row.series, ()), memory, night) for row in silent)
    if is_moved or matching.rows_out_of_sight(memory, tonight, night):
        memory = replace(memory, stranded=memory.stranded or night)
    elif measured:
        memory = replace(memory, stranded="")
    if not measured:
        return memory
    seen = {series: "" if is_over else night for series, is_over in measured.items()}
    rows = tuple(replace(row, night=seen.get(row.series, row.night)) for row in memory.rows)
    nights = tuple(dict.fromkeys((*memory.recovered, night))) if all(measured.values()) else ()
    return replace(memory, rows=rows, recovered=nights)


_DAYS_AWAY = 7
"""Days for which only other machines of a kind measure a series until its own counts as gone."""


def _is_stranded(row: IssueRow, verdicts: Iterable[Verdict], memory: IssueMemory, night: str) -> bool:
    """Whether the machine of the row's levels is another now, or has been away for long, where others measure, too."""
    week_ago = (date.fromisoformat(night) - timedelta(_DAYS_AWAY)).isoformat()
    is_long = (row.night or memory.last_night) <= week_ago
    return any(
        verdict.verdict == "not-comparable" or (is_long and not matching.is_comparable(row, verdict))
        for verdict in verdicts
    )


def _with_findings(memory: IssueMemory, findings: Sequence[IssueFinding], night: str) -> IssueMemory:
    """The memory with tonight's findings added, as far as it fits; a proven culprit stays proven."""
    known = memory
    for finding in findings:
        known = replace(remember_finding(known, finding, night), recovered=())
    return storable(known)


_MAX_SUSPECTS = 200
"""Their fingerprints take 4 kB of the memory. A later commit of a larger set gets its own issue."""


def remember_finding(memory: IssueMemory | None, finding: IssueFinding, night: str) -> IssueMemory:
    """The memory with a finding added; ``None`` is the memory of a new issue.

    A known row keeps its numbers, the evidence from its first night, until pairs have proven new ones. A set that has
    one of the issue's commits adds no name, so that it leaves once another of them is proven. Suspected are the commits
    of the first set, or of that with which the regression is back.
    """
    if memory is None:
        rows = one_row_per_series(finding.rows)
        suspects = finding.suspects[:_MAX_SUSPECTS]
        return IssueMemory(finding.kind, (finding.fingerprint,), rows, night, night, suspects=suspects)
    is_part = finding.suspects and finding.names & {*memory.fingerprints, *memory.suspects}
    names = () if is_part else (finding.fingerprint,)
    known, new = memory.suspects, finding.suspects[:_MAX_SUSPECTS]
    suspects = (new or known) if memory.recovered else (known or new)
    is_proven = any(subject.kind == "culprit" and not subject.suspects for subject in (memory, finding))
    return replace(
        memory,
        kind="culprit" if memory.kind == "culprit" else finding.kind,
        fingerprints=tuple(dict.fromkeys((*memory.fingerprints, *names))),
        rows=one_row_per_series((*memory.rows, *finding.rows)),
        reported=max(memory.reported, night),
        suspects=() if is_proven else suspects,
    )
