"""The new body of an issue for each action, and the comment that notifies its followers."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.culprits.culprit_document import culprit_links
from torchperf_ci.culprits.culprit_text import byline, culprit_name
from torchperf_ci.document import Bold, Commands, Document, Paragraph
from torchperf_ci.issues.body import BODY_LIMIT, issue_body, issue_title, renewed_body
from torchperf_ci.issues.table import largest_first, recovery_table, series_table, what_got_worse
from torchperf_ci.issues.verdict_history import newest_level
from torchperf_ci.markdown import to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.culprits.culprit import Culprit
    from torchperf_ci.document import Block, Piece
    from torchperf_ci.issues.body import IssueContext
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.issues.lifecycle import IssueAction
    from torchperf_ci.issues.memory import IssueMemory, IssueRow
    from torchperf_ci.series.points import Series


@dataclass(frozen=True)
class IssueText:
    """``title`` is empty if the issue keeps its title, ``comment`` if nobody needs to be notified."""

    body: str
    title: str = ""
    comment: str = ""


def text_of_action(action: IssueAction, context: IssueContext) -> IssueText:
    """The text to write for an action."""
    if action.what in ("open", "locate"):
        (finding, *_) = action.findings
        comment = located_comment(finding, context) if action.what == "locate" else ""
        return IssueText(issue_body(finding, action.memory, context), issue_title(finding), comment)
    written = next((finding for finding in action.findings if finding.document), None)
    if written:
        body = issue_body(written, action.memory, context)
    else:
        body = renewed_body(action.issue.body if action.issue else "", action.memory)
    return IssueText(body, comment=_comment_of(action, context))


def _comment_of(action: IssueAction, context: IssueContext) -> str:
    match action.what:
        case "extend":
            return new_evidence_comment(action.rows, context)
        case "recover" if action.over:
            return _comment([Paragraph(action.over)])
        case "recover":
            return recovered_comment(action.memory, _levels_now(action), context)
        case "reopen":
            finding = action.findings[0] if action.findings else None
            return relapsed_comment(action.memory, _levels_now(action), finding, context)
        case "accept":
            return accepted_comment(action.memory, context)
        case _:
            return ""


def _levels_now(action: IssueAction) -> dict[Series, float]:
    """Tonight's level of each series that was measured."""
    levels = ((verdict.series, newest_level(verdict)) for verdict in action.verdicts)
    return {series: level for series, level in levels if level is not None}


def new_evidence_comment(rows: Sequence[IssueRow], context: IssueContext) -> str:
    """Report that more series show the same change."""
    seen = Paragraph((f"Also seen on the night of {context.night}: ", Bold(what_got_worse(rows))))
    return _comment([seen, series_table(largest_first(rows), _MOST_ROWS)])


def located_comment(finding: IssueFinding, context: IssueContext) -> str:
    """Report that the responsible commit is now known."""
    who = _culprit_words(finding.culprit, context) if finding.culprit else ("see above",)
    renewed = ". The description above has been updated."
    return _comment([Paragraph(("Commit found: ", *who, renewed))])


def recovered_comment(memory: IssueMemory, now: Mapping[Series, float], context: IssueContext) -> str:
    """Report that everything has recovered, for the nights in the memory; ``now`` are tonight's levels."""
    nights = f"{len(memory.recovered)} nights in a row" if len(memory.recovered) > 1 else "the last night"
    what = "It passed again" if memory.kind == "broken" else "Back at its old level"
    closed = "so this issue is closed. It will be reopened if that changes."
    text = f"{what} for {nights}, up to {context.night}, {closed}"
    return _comment([Paragraph(text), *_levels_table(memory, now)])


def relapsed_comment(
    memory: IssueMemory, now: Mapping[Series, float], finding: IssueFinding | None, context: IssueContext
) -> str:
    """Report that the change is back; ``finding`` is tonight's, which may name another culprit."""
    if finding and finding.document:
        return _comment([Paragraph(f"Again: {finding.why}. The description above has been updated.")])
    what = "It has been failing again" if memory.kind == "broken" else "It has been back"
    culprit = finding.culprit if finding else None
    who = (" This time because of ", *_culprit_words(culprit, context), ".") if culprit else ()
    error = [one_line(finding.why)] if finding and memory.kind == "broken" else []
    since = Paragraph((f"{what} since the night of {context.night}.", *who))
    return _comment([since, Commands(error), *_levels_table(memory, now)])


def accepted_comment(memory: IssueMemory, context: IssueContext) -> str:
    """Confirm that the change was accepted by label."""
    models = {row.series.model for row in memory.rows}
    benchmarks = f" ({len(models)} benchmarks)" if len(models) > 1 else ""
    reason = f"Accepted: {what_got_worse(memory.rows)}"
    text = (
        f"Accepted as intended on the night of {context.night}, so this issue is closed{benchmarks}. The new levels "
        "are now the reference, and only worse numbers will be reported. If you keep a committed baseline, update it:"
    )
    command = shlex.join(["torchperf", "baseline", "update", "--reason", reason, "RECORDS"])
    return _comment([Paragraph(text), Commands([command])])


def duplicate_comment(number: int) -> str:
    """Text of the comment on an issue that duplicates another one."""
    return f"Same as #{number}, which stays open.\n"


_MOST_ROWS = 20
"""Maximum rows of a table in a comment; the issue has all of them."""


def _comment(blocks: Iterable[Block]) -> str:
    return to_markdown(Document("", list(blocks)), BODY_LIMIT)


def _culprit_words(culprit: Culprit, context: IssueContext) -> tuple[Piece, ...]:
    return (Bold(culprit_name(culprit)), f" {byline(culprit)}", *culprit_links(culprit, context.server))


def _levels_table(memory: IssueMemory, now: Mapping[Series, float]) -> Sequence[Block]:
    if memory.kind == "broken":
        return ()
    return (recovery_table(largest_first(memory.rows), now, _MOST_ROWS),)
