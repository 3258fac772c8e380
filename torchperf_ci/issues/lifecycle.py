"""From tonight's findings and the issues that there are to what is to be done with them. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from torchperf_ci.issues.findings import newest_level
from torchperf_ci.issues.matching import (
    has_levels,
    is_back,
    is_over,
    is_there,
    match_finding,
    passes_again,
    series_of,
)
from torchperf_ci.issues.memory import embed, recall, remember_finding
from torchperf_ci.series.points import restating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.issues.findings import IssueFinding, IssueRow
    from torchperf_ci.issues.matching import IssueMatch, IssueRules
    from torchperf_ci.issues.memory import IssueMemory, TrackedIssue
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
    over: str = ""


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


def open_issue(finding: IssueFinding, rules: IssueRules) -> IssueAction:
    """A new issue."""
    return IssueAction("open", _storable(remember_finding(None, finding, rules.night)), findings=(finding,))


def update_issue(
    issue: TrackedIssue,
    findings: Sequence[IssueFinding],
    told: Mapping[Series, Sequence[Verdict]],
    rules: IssueRules,
    over: Mapping[str, str],
) -> IssueAction | None:
    """What tonight means for an issue that nobody has accepted; ``findings`` are those that belong to it."""
    before = issue.memory
    if rules.night < max((before.reported, *before.recovered)) or (is_over(issue, rules) and not findings):
        return None  # a night that is told again after later ones says nothing new
    found = tuple(sorted(findings, key=lambda one: one.kind != "culprit"))
    memory = _with_recovery(_with_findings(before, found, rules.night), told, rules.night)
    why_over = next((over[name] for name in memory.fingerprints if name in over), "")
    if why_over:
        memory = replace(memory, recovered=tuple(dict.fromkeys((*memory.recovered, rules.night))))
    rows = tuple(row for row in memory.rows if row.series not in series_of(before.rows))
    verdicts = tuple(one for row in memory.rows for one in told.get(row.series, ()))
    what = _action_kind(issue, memory, rows, rules)
    if what == "remember" and memory == before:
        return None
    return IssueAction(what, memory, issue, found, rows, verdicts, over=why_over)


def accept_issue(issue: TrackedIssue, told: Mapping[Series, Sequence[Verdict]]) -> IssueAction:
    """Somebody who may has said that it is meant to be so: the level of tonight, or the last one known, is."""
    rows = tuple(_at_its_level(row, told.get(row.series, ())) for row in issue.memory.rows)
    memory = replace(issue.memory, rows=rows, recovered=(), accepted=True)
    return IssueAction("accept", _storable(memory), issue)


def duplicate_of(issue: TrackedIssue, other: TrackedIssue) -> IssueAction:
    """The same as another issue, which stays."""
    return IssueAction("duplicate", issue.memory, issue, other=other)


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


def _with_recovery(memory: IssueMemory, told: Mapping[Series, Sequence[Verdict]], night: str) -> IssueMemory:
    """With tonight among the nights on which all that was measured was back, or without any."""
    judge = (lambda _, verdicts: passes_again(verdicts)) if memory.kind == "broken" else is_back
    back = {row.series: judge(row, told.get(row.series, ())) for row in memory.rows}
    measured = [one for one in back.values() if one is not None]
    if not measured:
        return memory
    rows = tuple(_with_night(row, back[row.series], night) for row in memory.rows)
    nights = tuple(dict.fromkeys((*memory.recovered, night))) if all(measured) else ()
    return replace(memory, rows=rows, recovered=nights)


def _with_night(row: IssueRow, back: bool | None, night: str) -> IssueRow:
    """The last night on which a row was seen regressed is no night at all where it was back since."""
    return row if back is None else replace(row, night="" if back else night)


def _all_back(memory: IssueMemory) -> bool:
    """Whether each row was back when it was last measured; one without levels counts where none has any.

    An earlier version has judged throughputs beside their latencies: no verdict says any more that they are back.
    """
    again = restating(row.series for row in memory.rows)
    rows = [row for row in memory.rows if row.series not in again]
    telling = [row for row in rows if has_levels(row)] or rows
    return all(not row.night for row in (rows if memory.kind == "broken" else telling))


def _at_its_level(row: IssueRow, verdicts: Sequence[Verdict]) -> IssueRow:
    levels = (newest_level(one) for one in verdicts if is_there(row, one))
    return replace(row, new=next((level for level in levels if level is not None), row.new))


def plan_actions(
    findings: Sequence[IssueFinding],
    verdicts: Iterable[Verdict],
    known: Sequence[TrackedIssue],
    rules: IssueRules,
    over: Mapping[str, str] = MappingProxyType({}),
) -> IssuePlan:
    """What to do. The same night again, after all of it was done, is nothing to do.

    ``findings`` come with the largest effect first, ``known`` by number: of those that tell of the same cause the
    oldest open one is kept. ``over`` says, by fingerprint, of causes without series how it is known that they are over.
    """
    told = _by_series(verdicts)
    alive = [issue for issue in known if issue.memory.kind in rules.kinds]
    accepts = [accept_issue(issue, told) for issue in alive if issue.expected and not issue.memory.accepted]
    alive = _with_new_memories(alive, accepts)
    homes = [match_finding(finding, alive, rules) for finding in findings]
    explained = list(_explained(alive, homes, rules.night))
    updates = _updates(_issues_without(alive, explained), homes, told, rules, over)

    new = [one.finding for one in homes if one.word == "new"]
    room = max(rules.max_per_night - _opened_on(rules.night, alive), 0)
    opens = [open_issue(finding, rules) for finding in new[:room]]
    return IssuePlan(
        (*opens, *accepts, *explained, *updates),
        tuple(one.issue for one in homes if one.word == "known" and one.issue),
        tuple(new[room:]),
        tuple((one.finding, one.issue) for one in homes if one.word == "settled" and one.issue),
    )


def _by_series(verdicts: Iterable[Verdict]) -> Mapping[Series, Sequence[Verdict]]:
    found: dict[Series, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        found[verdict.series].append(verdict)
    return dict(found)


def _updates(
    issues: Iterable[TrackedIssue],
    homes: Iterable[IssueMatch],
    told: Mapping[Series, Sequence[Verdict]],
    rules: IssueRules,
    over: Mapping[str, str],
) -> list[IssueAction]:
    theirs: dict[int, list[IssueFinding]] = defaultdict(list)
    for one in homes:
        if one.issue and one.word in ("known", "relapsed"):
            theirs[one.issue.number].append(one.finding)
    living = [issue for issue in issues if not issue.memory.accepted]
    actions = [update_issue(issue, theirs[issue.number], told, rules, over) for issue in living]
    return _apart([action for action in actions if action], living)


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


def _explained(
    issues: Iterable[TrackedIssue], homes: Sequence[IssueMatch], night: str
) -> Iterator[IssueAction]:
    """Open issues without a culprit, all of whose series are explained by one that is told in another issue.

    Those that have told something tonight wait for the next night: the same night again must find nothing to do.
    """
    living = {one.issue.number for one in homes if one.issue}
    culprits = [one for one in homes if one.word == "known" and one.finding.kind == "culprit"]
    for issue in issues:
        bare = issue.is_open and issue.memory.kind == "unlocated" and issue.memory.reported < night
        if bare and issue.number not in living:
            mine = series_of(issue.memory.rows)
            one = next((one for one in culprits if mine <= series_of(one.finding.rows)), None)
            if one and one.issue:
                yield duplicate_of(issue, one.issue)


def _with_new_memories(issues: Iterable[TrackedIssue], actions: Iterable[IssueAction]) -> list[TrackedIssue]:
    """The issues as they will be."""
    memories = {action.issue.number: action.memory for action in actions if action.issue}
    return [replace(issue, memory=memories.get(issue.number, issue.memory)) for issue in issues]


def _issues_without(issues: Iterable[TrackedIssue], actions: Iterable[IssueAction]) -> list[TrackedIssue]:
    gone = {action.issue.number for action in actions if action.issue}
    return [issue for issue in issues if issue.number not in gone]


def _opened_on(night: str, known: Iterable[TrackedIssue]) -> int:
    return sum(issue.memory.opened == night for issue in known)
