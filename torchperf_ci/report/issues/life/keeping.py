"""One night in the life of one issue. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.report.issues.causes.points import level_of
from torchperf_ci.report.issues.life.action import Action
from torchperf_ci.report.issues.life.hidden import embed, recall
from torchperf_ci.report.issues.life.matching import is_over, series_of
from torchperf_ci.report.issues.life.memory import merged
from torchperf_ci.report.issues.life.recovery import has_levels, is_back, is_there, passes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.report.issues.causes.finding import Finding, Row
    from torchperf_ci.report.issues.life.action import What
    from torchperf_ci.report.issues.life.memory import Memory
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.report.issues.life.rules import Rules
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Verdict


def opened(finding: Finding, rules: Rules) -> Action:
    """A new issue."""
    return Action("open", _storable(merged(None, finding, rules.night)), findings=(finding,))


def kept(
    issue: Ours,
    findings: Sequence[Finding],
    told: Mapping[Series, Sequence[Verdict]],
    rules: Rules,
    over: Mapping[str, str],
) -> Action | None:
    """What tonight means for an issue that nobody has accepted; ``findings`` are those that belong to it."""
    before = issue.memory
    if rules.night < max((before.reported, *before.recovered)) or (is_over(issue, rules) and not findings):
        return None  # a night that is told again after later ones says nothing new
    found = tuple(sorted(findings, key=lambda one: one.kind != "culprit"))
    memory = _counted(_with(before, found, rules.night), told, rules.night)
    why_over = next((over[name] for name in memory.fingerprints if name in over), "")
    if why_over:
        memory = replace(memory, recovered=tuple(dict.fromkeys((*memory.recovered, rules.night))))
    rows = tuple(row for row in memory.rows if row.series not in series_of(before.rows))
    verdicts = tuple(one for row in memory.rows for one in told.get(row.series, ()))
    what = _what(issue, memory, rows, rules)
    if what == "remember" and memory == before:
        return None
    return Action(what, memory, issue, found, rows, verdicts, over=why_over)


def accepted(issue: Ours, told: Mapping[Series, Sequence[Verdict]]) -> Action:
    """Somebody who may has said that it is meant to be so: the level of tonight, or the last one known, is."""
    rows = tuple(_at_its_level(row, told.get(row.series, ())) for row in issue.memory.rows)
    memory = replace(issue.memory, rows=rows, recovered=(), accepted=True)
    return Action("accept", _storable(memory), issue)


def duplicate_of(issue: Ours, other: Ours) -> Action:
    """The same as another issue, which stays."""
    return Action("duplicate", issue.memory, issue, other=other)


def _what(issue: Ours, memory: Memory, rows: Sequence[Row], rules: Rules) -> What:
    if not issue.is_open:
        return "reopen" if is_over(issue, rules) else "remember"
    if _all_back(memory) and len(memory.recovered) >= rules.recovered_nights:
        return "recover"
    if issue.memory.kind == "unlocated" and memory.kind == "culprit":
        return "locate"
    return "extend" if rows else "remember"


def _with(memory: Memory, findings: Sequence[Finding], night: str) -> Memory:
    """With what tonight adds; what is proven stays so, and as much as an issue can hold is remembered."""
    known = memory
    for finding in findings:
        kind = "culprit" if "culprit" in (known.kind, finding.kind) else finding.kind
        known = replace(merged(known, finding, night), kind=kind, recovered=())
    return _storable(known)


def _storable(memory: Memory) -> Memory:
    """As it will be read again: what an issue has no room for would be news every night."""
    return recall(embed(memory)) or memory


def _counted(memory: Memory, told: Mapping[Series, Sequence[Verdict]], night: str) -> Memory:
    """With tonight among the nights on which all that was measured was back, or without any."""
    judge = (lambda _, verdicts: passes(verdicts)) if memory.kind == "broken" else is_back
    back = {row.series: judge(row, told.get(row.series, ())) for row in memory.rows}
    measured = [one for one in back.values() if one is not None]
    if not measured:
        return memory
    rows = tuple(_seen(row, back[row.series], night) for row in memory.rows)
    nights = tuple(dict.fromkeys((*memory.recovered, night))) if all(measured) else ()
    return replace(memory, rows=rows, recovered=nights)


def _seen(row: Row, back: bool | None, night: str) -> Row:
    """The last night on which a row was seen regressed is no night at all where it was back since."""
    return row if back is None else replace(row, night="" if back else night)


def _all_back(memory: Memory) -> bool:
    """Whether each row was back when it was last measured; one without levels counts where none has any."""
    telling = [row for row in memory.rows if has_levels(row)] or memory.rows
    return all(not row.night for row in (memory.rows if memory.kind == "broken" else telling))


def _at_its_level(row: Row, verdicts: Sequence[Verdict]) -> Row:
    levels = (level_of(one) for one in verdicts if is_there(row, one))
    return replace(row, new=next((level for level in levels if level is not None), row.new))
