"""What an action says: the comment under an issue, which everybody who follows it is notified of, and its new text."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.culprits.culprit_document import commit_links
from torchperf_ci.culprits.culprit_text import byline, culprit_name
from torchperf_ci.issues.body import issue_body, issue_title, renewed_body
from torchperf_ci.issues.findings import newest_level
from torchperf_ci.issues.table import largest_first, plain_short, recovery_table, series_table, what_got_worse
from torchperf_ci.verdicts.reproduction import code_block

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.culprits.culprit import Culprit
    from torchperf_ci.issues.body import IssueContext
    from torchperf_ci.issues.findings import IssueFinding, IssueRow
    from torchperf_ci.issues.lifecycle import IssueAction
    from torchperf_ci.issues.memory import IssueMemory
    from torchperf_ci.series.points import Series


_COMMENT_ROWS = 20
"""Rows of a table in a comment; the issue has all of them."""


def new_evidence_comment(rows: Sequence[IssueRow], context: IssueContext) -> str:
    """More series show the same."""
    said = f"Also seen in the night of {context.night}: **{plain_short(what_got_worse(rows))}**"
    return f"{said}\n\n{series_table(largest_first(rows), _COMMENT_ROWS)}\n"


def located_comment(finding: IssueFinding, context: IssueContext) -> str:
    """The commit is known now."""
    who = _culprit_in_words(finding.culprit, context) if finding.culprit else "see above"
    return f"The commit is found: {who}. The text above is rewritten with what is known now.\n"


def recovered_comment(memory: IssueMemory, now: Mapping[Series, float], context: IssueContext) -> str:
    """Everything was back for some nights, which the memory has; ``now`` are the levels of tonight."""
    nights = f"{len(memory.recovered)} nights in a row" if len(memory.recovered) > 1 else "the last night"
    what = "It passed again" if memory.kind == "broken" else "Back where it was"
    said = f"{what} for {nights}, up to {context.night}, so this is closed. Should it come back, this is opened again."
    return "\n\n".join([said, *_recovery_evidence(memory, now)]) + "\n"


def relapsed_comment(
    memory: IssueMemory, now: Mapping[Series, float], finding: IssueFinding | None, context: IssueContext
) -> str:
    """It is there again; ``finding`` is tonight's, which may name another culprit."""
    if finding and finding.text:
        return f"Again: {finding.why}. The text above is renewed.\n"
    culprit = finding.culprit if finding else None
    who = f" This time because of {_culprit_in_words(culprit, context)}." if culprit else ""
    why = f"\n\n{code_block([one_line(finding.why)])}" if finding and memory.kind == "broken" else ""
    said = f"It {'fails again' if memory.kind == 'broken' else 'is back'} since the night of {context.night}.{who}{why}"
    return "\n\n".join([said, *_recovery_evidence(memory, now)]) + "\n"


def accepted_comment(memory: IssueMemory, context: IssueContext) -> str:
    """Somebody has given it the label that says that it is meant."""
    names = sorted({row.series.model for row in memory.rows})
    reason = f"Accepted: {what_got_worse(memory.rows)}"
    line = shlex.join(["torchperf", "baseline", "update", "--reason", reason, "RECORDS"])
    more = f" ({len(names)} benchmarks)" if len(names) > 1 else ""
    return (
        f"Accepted as meant in the night of {context.night}, so this is closed{more}: the new levels are taken for "
        "granted, and only what is worse than they are is told again. Who keeps a committed baseline renews it:\n\n"
        f"{code_block([line])}\n"
    )


def duplicate_comment(number: int) -> str:
    """Another issue is of the same."""
    return f"The same as #{int(number)}, which stays.\n"


def _culprit_in_words(culprit: Culprit, context: IssueContext) -> str:
    return f"**{plain_short(culprit_name(culprit))}** {plain_short(byline(culprit))}{commit_links(culprit, context.server)}"


def _recovery_evidence(memory: IssueMemory, now: Mapping[Series, float]) -> list[str]:
    return [] if memory.kind == "broken" else [recovery_table(largest_first(memory.rows), now, _COMMENT_ROWS)]


@dataclass(frozen=True)
class IssueText:
    """``title`` is empty where the issue keeps its own, ``comment`` where nobody needs to be notified."""

    body: str
    title: str = ""
    comment: str = ""


def text_of_action(action: IssueAction, context: IssueContext) -> IssueText:
    """What to write."""
    if action.what in ("open", "locate"):
        (finding, *_) = action.findings
        said = located_comment(finding, context) if action.what == "locate" else ""
        return IssueText(issue_body(finding, action.memory, context), issue_title(finding), said)
    written = next(
        (issue_body(finding, action.memory, context) for finding in action.findings if finding.text), None
    )
    text = action.issue.body if action.issue else ""
    return IssueText(written or renewed_body(text, action.memory), comment=_comment_of(action, context))


def _comment_of(action: IssueAction, context: IssueContext) -> str:
    match action.what:
        case "extend":
            return new_evidence_comment(action.rows, context)
        case "recover":
            now = _levels_now(action)
            return f"{action.over}\n" if action.over else recovered_comment(action.memory, now, context)
        case "reopen":
            finding = action.findings[0] if action.findings else None
            return relapsed_comment(action.memory, _levels_now(action), finding, context)
        case "accept":
            return accepted_comment(action.memory, context)
        case _:
            return ""


def _levels_now(action: IssueAction) -> dict[Series, float]:
    """Tonight's levels."""
    levels = ((one.series, newest_level(one)) for one in action.verdicts)
    return {series: level for series, level in levels if level is not None}
