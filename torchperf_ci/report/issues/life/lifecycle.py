"""From tonight's findings and what is known to what is to be done with issues. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from torchperf_ci.report.issues.life.action import Action, Plan
from torchperf_ci.report.issues.life.keeping import accepted, duplicate_of, kept, opened
from torchperf_ci.report.issues.life.matching import home, series_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.report.issues.causes.finding import Finding
    from torchperf_ci.report.issues.life.matching import Home
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.report.issues.life.rules import Rules
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Verdict


def plan(
    findings: Sequence[Finding],
    verdicts: Iterable[Verdict],
    known: Sequence[Ours],
    rules: Rules,
    over: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """What to do. The same night again, after all of it was done, is nothing to do.

    ``findings`` come with the largest effect first, ``known`` by number: of those that tell of the same cause the
    oldest open one is kept. ``over`` says, by fingerprint, of causes without series how it is known that they are over.
    """
    told = _by_series(verdicts)
    alive = [issue for issue in known if issue.memory.kind in rules.kinds]
    accepts = [accepted(issue, told) for issue in alive if issue.expected and not issue.memory.accepted]
    alive = _after(alive, accepts)
    homes = [home(finding, alive, rules) for finding in findings]
    explained = list(_explained(alive, homes, rules.night))
    updates = _updates(_without(alive, explained), homes, told, rules, over)

    new = [one.finding for one in homes if one.word == "new"]
    room = max(rules.max_per_night - _opened_on(rules.night, alive), 0)
    opens = [opened(finding, rules) for finding in new[:room]]
    return Plan(
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
    issues: Iterable[Ours],
    homes: Iterable[Home],
    told: Mapping[Series, Sequence[Verdict]],
    rules: Rules,
    over: Mapping[str, str],
) -> list[Action]:
    theirs: dict[int, list[Finding]] = defaultdict(list)
    for one in homes:
        if one.issue and one.word in ("known", "relapsed"):
            theirs[one.issue.number].append(one.finding)
    living = [issue for issue in issues if not issue.memory.accepted]
    actions = [kept(issue, theirs[issue.number], told, rules, over) for issue in living]
    return _apart([action for action in actions if action], living)


def _apart(actions: Iterable[Action], issues: Iterable[Ours]) -> list[Action]:
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


def _explained(issues: Iterable[Ours], homes: Sequence[Home], night: str) -> Iterator[Action]:
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


def _after(issues: Iterable[Ours], actions: Iterable[Action]) -> list[Ours]:
    """The issues as they will be."""
    memories = {action.issue.number: action.memory for action in actions if action.issue}
    return [replace(issue, memory=memories.get(issue.number, issue.memory)) for issue in issues]


def _without(issues: Iterable[Ours], actions: Iterable[Action]) -> list[Ours]:
    gone = {action.issue.number for action in actions if action.issue}
    return [issue for issue in issues if issue.number not in gone]


def _opened_on(night: str, known: Iterable[Ours]) -> int:
    return sum(issue.memory.opened == night for issue in known)
