"""From tonight's findings and the issues that there are to what is to be done with them. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from torchperf_ci.issues.matching import (
    has_levels,
    is_back,
    is_over,
    is_there,
    match_finding,
    passes_again,
    series_of,
)
from torchperf_ci.issues.memory import IssueMemory, embed, recall
from torchperf_ci.issues.verdict_history import newest_level
from torchperf_ci.series.points import restating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.document import Words
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.issues.matching import IssueMatch, IssueRules
    from torchperf_ci.issues.memory import IssueRow
    from torchperf_ci.issues.tracker import TrackedIssue
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.verdict import Verdict


ActionKind = Literal["open", "extend", "locate", "reopen", "recover", "accept", "duplicate", "remember"]
"""A new issue; new evidence; a culprit for one that had none; a relapse; all is back; it is meant to be so; the same as
another issue; nothing that people need to be told."""


@dataclass(frozen=True)
class IssueAction:
    """What is to be done with ``issue``, or with a new one, which then remembers ``memory``.

    ``findings`` are tonight's that belong to it, the most telling first, ``rows`` those that it did not have before,
    and ``verdicts`` tonight's of its series. ``other`` is the issue that says the same, ``over`` how it is known that
    what the issue is about is over.
    """

    what: ActionKind
    memory: IssueMemory
    issue: TrackedIssue | None = None
    findings: tuple[IssueFinding, ...] = ()
    rows: tuple[IssueRow, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    other: TrackedIssue | None = None
    over: Words = ""


@dataclass(frozen=True)
class IssuePlan:
    """All that is to be done tonight, new regressions first.

    ``about`` are the issues that tonight's findings belong to, ``left_over`` the findings that there is no room for,
    and ``settled`` those of which people have decided, each with the issue in which they did.
    """

    actions: tuple[IssueAction, ...] = ()
    about: tuple[TrackedIssue, ...] = ()
    left_over: tuple[IssueFinding, ...] = ()
    settled: tuple[tuple[IssueFinding, TrackedIssue], ...] = ()


def plan_actions(
    findings: Sequence[IssueFinding],
    verdicts: Iterable[Verdict],
    known: Sequence[TrackedIssue],
    rules: IssueRules,
    over: Mapping[str, Words] = MappingProxyType({}),
) -> IssuePlan:
    """What to do. The same night again, after all of it was done, is nothing to do.

    ``findings`` come with the largest effect first, ``known`` by number: of those that tell of the same cause the
    oldest open one is kept. ``over`` says, by fingerprint, of causes without series how it is known that they are over.
    """
    tonight = _by_series(verdicts)
    issues = [issue for issue in known if issue.memory.kind in rules.kinds]
    accepts = [_accept(issue, tonight) for issue in issues if issue.expected and not issue.memory.accepted]
    issues = _with_new_memories(issues, accepts)
    matches = [match_finding(finding, issues, rules) for finding in findings]
    duplicates = list(_duplicates(issues, matches, rules.night))
    updates = _updates(_issues_without(issues, duplicates), matches, tonight, rules, over)

    new = [match.finding for match in matches if match.word == "new"]
    room = max(rules.max_per_night - _opened_on(rules.night, issues), 0)
    opens = [_open(finding, rules) for finding in new[:room]]
    return IssuePlan(
        (*opens, *accepts, *duplicates, *updates),
        tuple(match.issue for match in matches if match.word == "known" and match.issue),
        tuple(new[room:]),
        tuple((match.finding, match.issue) for match in matches if match.word == "settled" and match.issue),
    )


def _by_series(verdicts: Iterable[Verdict]) -> Mapping[Series, Sequence[Verdict]]:
    by_series: dict[Series, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_series[verdict.series].append(verdict)
    return dict(by_series)


def _with_new_memories(issues: Iterable[TrackedIssue], actions: Iterable[IssueAction]) -> list[TrackedIssue]:
    """The issues as they will be."""
    memories = {action.issue.number: action.memory for action in actions if action.issue}
    return [replace(issue, memory=memories.get(issue.number, issue.memory)) for issue in issues]


def _issues_without(issues: Iterable[TrackedIssue], actions: Iterable[IssueAction]) -> list[TrackedIssue]:
    gone = {action.issue.number for action in actions if action.issue}
    return [issue for issue in issues if issue.number not in gone]


def _opened_on(night: str, issues: Iterable[TrackedIssue]) -> int:
    return sum(issue.memory.opened == night for issue in issues)


def _open(finding: IssueFinding, rules: IssueRules) -> IssueAction:
    """A new issue."""
    return IssueAction("open", _storable(remember_finding(None, finding, rules.night)), findings=(finding,))


def _accept(issue: TrackedIssue, tonight: Mapping[Series, Sequence[Verdict]]) -> IssueAction:
    """Somebody who may has said that it is meant to be so: the level of tonight, or the last one known, is."""
    rows = tuple(_at_its_level(row, tonight.get(row.series, ())) for row in issue.memory.rows)
    memory = replace(issue.memory, rows=rows, recovered=(), accepted=True)
    return IssueAction("accept", _storable(memory), issue)


def _at_its_level(row: IssueRow, verdicts: Sequence[Verdict]) -> IssueRow:
    levels = (newest_level(verdict) for verdict in verdicts if is_there(row, verdict))
    return replace(row, new=next((level for level in levels if level is not None), row.new))


def _duplicates(
    issues: Iterable[TrackedIssue], matches: Sequence[IssueMatch], night: str
) -> Iterator[IssueAction]:
    """Open issues without a culprit, all of whose series are explained by one that is told in another issue.

    Those that have told something tonight wait for the next night: the same night again must find nothing to do.
    """
    matched = {match.issue.number for match in matches if match.issue}
    culprits = [match for match in matches if match.word == "known" and match.finding.kind == "culprit"]
    for issue in issues:
        unlocated = issue.is_open and issue.memory.kind == "unlocated" and issue.memory.reported < night
        if unlocated and issue.number not in matched:
            series = series_of(issue.memory.rows)
            match = next((match for match in culprits if series <= series_of(match.finding.rows)), None)
            if match and match.issue:
                yield IssueAction("duplicate", issue.memory, issue, other=match.issue)


def _updates(
    issues: Iterable[TrackedIssue],
    matches: Iterable[IssueMatch],
    tonight: Mapping[Series, Sequence[Verdict]],
    rules: IssueRules,
    over: Mapping[str, Words],
) -> list[IssueAction]:
    findings: dict[int, list[IssueFinding]] = defaultdict(list)
    for match in matches:
        if match.issue and match.word in ("known", "relapsed"):
            findings[match.issue.number].append(match.finding)
    kept = [issue for issue in issues if not issue.memory.accepted]
    actions = [_update(issue, findings[issue.number], tonight, rules, over) for issue in kept]
    return _apart([action for action in actions if action], kept)


def _apart(actions: Iterable[IssueAction], issues: Iterable[TrackedIssue]) -> list[IssueAction]:
    """An issue that is opened again leaves those of its causes behind that others have taken over meanwhile."""
    taken = {name for issue in issues if issue.is_open for name in issue.memory.fingerprints}
    apart = []
    for action in actions:
        names, own = action.memory.fingerprints, {finding.fingerprint for finding in action.findings}
        if action.what == "reopen":
            names = tuple(name for name in names if name in own or name not in taken)
            taken |= set(names)
        apart.append(replace(action, memory=replace(action.memory, fingerprints=names)))
    return apart


def _update(
    issue: TrackedIssue,
    findings: Sequence[IssueFinding],
    tonight: Mapping[Series, Sequence[Verdict]],
    rules: IssueRules,
    over: Mapping[str, Words],
) -> IssueAction | None:
    """What tonight means for an issue that nobody has accepted; ``findings`` are those that belong to it."""
    before = issue.memory
    if rules.night < max((before.reported, *before.recovered)) or (is_over(issue, rules) and not findings):
        return None  # a night that is told again after later ones says nothing new
    in_order = tuple(sorted(findings, key=lambda finding: finding.kind != "culprit"))
    memory = _with_recovery(_with_findings(before, in_order, rules.night), tonight, rules.night)
    why_over = next((over[name] for name in memory.fingerprints if name in over), "")
    if why_over:
        memory = replace(memory, recovered=tuple(dict.fromkeys((*memory.recovered, rules.night))))
    rows = tuple(row for row in memory.rows if row.series not in series_of(before.rows))
    verdicts = tuple(verdict for row in memory.rows for verdict in tonight.get(row.series, ()))
    what = _action_kind(issue, memory, rows, rules)
    if what == "remember" and memory == before:
        return None
    return IssueAction(what, memory, issue, in_order, rows, verdicts, over=why_over)


def _action_kind(
    issue: TrackedIssue, memory: IssueMemory, rows: Sequence[IssueRow], rules: IssueRules
) -> ActionKind:
    if not issue.is_open:
        return "reopen" if is_over(issue, rules) else "remember"
    if _all_back(memory) and len(memory.recovered) >= rules.recovered_nights:
        return "recover"
    if issue.memory.kind == "unlocated" and memory.kind == "culprit":
        return "locate"
    return "extend" if rows else "remember"


def _all_back(memory: IssueMemory) -> bool:
    """Whether each row was back when it was last measured; one without levels counts where none has any.

    An earlier version has judged throughputs beside their latencies: no verdict says any more that they are back.
    """
    again = restating(row.series for row in memory.rows)
    rows = [row for row in memory.rows if row.series not in again]
    with_levels = [row for row in rows if has_levels(row)] or rows
    return all(not row.night for row in (rows if memory.kind == "broken" else with_levels))


def _with_recovery(
    memory: IssueMemory, tonight: Mapping[Series, Sequence[Verdict]], night: str
) -> IssueMemory:
    """With tonight among the nights on which all that was measured was back, or without any."""
    judge = (lambda _, verdicts: passes_again(verdicts)) if memory.kind == "broken" else is_back
    back = {row.series: judge(row, tonight.get(row.series, ())) for row in memory.rows}
    measured = [is_it for is_it in back.values() if is_it is not None]
    if not measured:
        return memory
    rows = tuple(_with_night(row, back[row.series], night) for row in memory.rows)
    nights = tuple(dict.fromkeys((*memory.recovered, night))) if all(measured) else ()
    return replace(memory, rows=rows, recovered=nights)


def _with_night(row: IssueRow, back: bool | None, night: str) -> IssueRow:
    """The last night on which a row was seen regressed is no night at all where it was back since."""
    return row if back is None else replace(row, night="" if back else night)


def _with_findings(memory: IssueMemory, findings: Sequence[IssueFinding], night: str) -> IssueMemory:
    """With what tonight adds; what is proven stays so, and as much as an issue can hold is remembered."""
    known = memory
    for finding in findings:
        kind = "culprit" if "culprit" in (known.kind, finding.kind) else finding.kind
        known = replace(remember_finding(known, finding, night), kind=kind, recovered=())
    return _storable(known)


def _storable(memory: IssueMemory) -> IssueMemory:
    """As it will be read again: what an issue has no room for would be news every night."""
    return recall(embed(memory)) or memory


def remember_finding(memory: IssueMemory | None, finding: IssueFinding, night: str) -> IssueMemory:
    """What is remembered of a finding beside what was known; ``None`` where nothing was, and the issue is new.

    A row that is known keeps its numbers, which are the evidence of its first night, until pairs have proven them.
    """
    if memory is None:
        return IssueMemory(finding.kind, (finding.fingerprint,), _last_of_each(finding.rows), night, night)
    return replace(
        memory,
        kind=finding.kind,
        fingerprints=tuple(dict.fromkeys((*memory.fingerprints, finding.fingerprint))),
        rows=_last_of_each((*memory.rows, *finding.rows)),
        reported=max(memory.reported, night),
    )


def _last_of_each(rows: Sequence[IssueRow]) -> tuple[IssueRow, ...]:
    known: dict[Series, IssueRow] = {}
    for row in rows:
        before = known.get(row.series)
        kept = row if before is None or row.proven else before
        known[row.series] = replace(kept, night=max(row.night, before.night if before else ""))
    return tuple(known.values())
