"""Publish tonight's findings as issues, with the texts and comments they take, and summarize what was done."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.culprits.culprit_document import culprit_links
from torchperf_ci.culprits.culprit_text import byline, culprit_name
from torchperf_ci.document import Bold, Bullets, Code, Commands, Document, Link, Paragraph, short
from torchperf_ci.errors import NotDeliveredError, TorchperfError
from torchperf_ci.issues.body import BODY_LIMIT, IssueContext, issue_body, issue_title, renewed_body
from torchperf_ci.issues.lifecycle import ActionKind, IssueAction, plan_actions
from torchperf_ci.issues.matching import IssueRules, is_same_regression, rows_out_of_sight
from torchperf_ci.issues.memory import NAMED_KINDS, IssueMemory, IssueRow, series_of
from torchperf_ci.issues.table import largest_first, recovery_table, series_table, what_got_worse
from torchperf_ci.issues.tracker import IssueTracker, LockedError, StaleError, TrackedIssue
from torchperf_ci.markdown import to_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchperf_ci.culprits.culprit import Culprit
    from torchperf_ci.document import Block, Piece, Words
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.verdict import CommitEnds, Verdict


@dataclass(frozen=True)
class IssueText:
    """``title`` is empty if the issue keeps its title, ``comment`` if nobody needs to be notified."""

    body: str
    title: str = ""
    comment: str = ""


_UPDATED = "The description above has been updated."


def text_of_action(action: IssueAction, context: IssueContext) -> IssueText:
    """The text to write for an action."""
    comment = _comment_of(action, context)
    can_strand = action.what in ("extend", "locate", "strand")
    if can_strand and action.issue and action.memory.stranded > action.issue.memory.stranded:
        stranded = stranded_comment(action.memory, action.verdicts, context)
        comment = f"{comment}\n{stranded}" if comment else stranded
    finding = action.findings[0] if action.findings else None
    before = action.issue.body if action.issue else ""
    known = action.issue.memory.kind if action.issue else ""
    is_other = action.what == "reopen" and (known in ("unlocated", "broken") or (finding and finding.culprit))
    is_new = action.what in ("open", "locate") or is_other
    if finding and (is_new or finding.document):
        body = issue_body(finding, action.memory, context, before)
        return IssueText(body, issue_title(finding) if is_new else "", comment)
    return IssueText(renewed_body(before, action.memory), comment=comment)


def _comment_of(action: IssueAction, context: IssueContext) -> str:
    match action.what:
        case "locate":
            return located_comment(action.findings[0], context)
        case "extend":
            known = series_of(action.issue.memory.rows) if action.issue else set()
            back = [row for row in action.rows if row.series in known]
            return new_evidence_comment(action.rows, context, _range_now(action, back))
        case "recover" if action.resolution:
            return _comment([Paragraph(action.resolution)])
        case "recover":
            return recovered_comment(action.memory, _levels_now(action), action.other)
        case "reopen":
            finding = action.findings[0] if action.findings else None
            since = _range_now(action, action.memory.rows)
            return relapsed_comment(action.memory, _levels_now(action), finding, context, since)
        case "accept":
            return accepted_comment(action.memory, context)
        case "duplicate" if action.other:
            return f"Same as #{action.other.number}, which stays open.\n"
        case _:
            return ""


def _levels_now(action: IssueAction) -> dict[Series, float]:
    """Tonight's level of each series that was measured."""
    levels = ((verdict.series, verdict.newest_level) for verdict in action.verdicts)
    return {series: level for series, level in levels if level is not None}


def _range_now(action: IssueAction, rows: Iterable[IssueRow]) -> CommitEnds | None:
    """The range of tonight's first verdict by which one of the rows is back."""
    known = {row.series: row for row in rows}
    there = (it for it in action.verdicts if it.series in known and is_same_regression(known[it.series], it))
    return next((verdict.evidence.commits.range for verdict in there), None)


def new_evidence_comment(
    rows: Sequence[IssueRow], context: IssueContext, ends: CommitEnds | None = None
) -> str:
    """Report that more series show the same change, or that some of them do so again, since the range ``ends``."""
    back = f", after a recovery; this time it began between {ends.good} and {ends.bad}" if ends else ""
    seen = f"{'Seen again' if ends else 'Also seen'} on the night of {context.night}{back}: "
    worse = Paragraph((seen, Bold(what_got_worse(rows))))
    return _comment([worse, series_table(largest_first(rows), _MAX_ROWS)])


def located_comment(finding: IssueFinding, context: IssueContext) -> str:
    """Report that the responsible commit is now known, or the few of which it is one."""
    who = _culprit_words(finding.culprit, context) if finding.culprit else ("see above",)
    what = "Narrowed down to " if finding.suspects else "Commit found: "
    return _comment([Paragraph((what, *who, f". {_UPDATED}"))])


def recovered_comment(
    memory: IssueMemory, now: Mapping[Series, float], other: TrackedIssue | None = None
) -> str:
    """Report that everything has recovered, for the nights in the memory; ``now`` are tonight's levels.

    If an ``other`` issue is about the same series, levels do not tell which of the changes was undone.
    """
    *earlier, last = memory.recovered
    when = f"last {len(earlier) + 1} nights that measured it, up to" if earlier else "night of"
    what = "It passed again" if memory.kind == "broken" else "Recovered"
    text = f"{what} on the {when} {last}, so this issue is closed. It will be reopened if that changes."
    which = " is about the same numbers: check which of the two changes was undone."
    too = (" ", Link(f"#{other.number}", other.url), which) if other else ()
    return _comment([Paragraph((text, *too)), *_levels_table(memory, now)])


def relapsed_comment(
    memory: IssueMemory,
    now: Mapping[Series, float],
    finding: IssueFinding | None,
    context: IssueContext,
    ends: CommitEnds | None = None,
) -> str:
    """Report that the change is back, with tonight's culprit, if ``finding`` has one, else with its range."""
    if finding and finding.document:
        return _comment([Paragraph(f"Again: {finding.why}. {_UPDATED}")])
    what = "It fails again, as seen on" if memory.kind == "broken" else "It is back, as seen on"
    culprit = finding.culprit if finding else None
    who: tuple[Piece, ...] = (f" This time it began between {ends.good} and {ends.bad}.",) if ends else ()
    if culprit:
        who = (" This time because of ", *_culprit_words(culprit, context), f". {_UPDATED}")
    error = [one_line(finding.why)] if finding and memory.kind == "broken" else []
    since = Paragraph((f"{what} the night of {context.night}.", *who))
    return _comment([since, Commands(error), *_levels_table(memory, now)])


def accepted_comment(memory: IssueMemory, context: IssueContext) -> str:
    """Confirm that the change was accepted by label."""
    if memory.kind in NAMED_KINDS:  # they have no level
        never = "it will not be reported again, unless you remove the label and reopen this issue."
        return _comment(
            [Paragraph(f"Accepted on the night of {context.night}, so this issue is closed; {never}")]
        )
    models = {row.series.model for row in memory.rows}
    benchmarks = f" ({len(models)} benchmarks)" if len(models) > 1 else ""
    reason = f"Accepted: {what_got_worse(memory.rows)}"
    text = (
        f"Accepted as intended on the night of {context.night}, so this issue is closed{benchmarks}. The new levels "
        "are now the reference, and only worse numbers will be reported. If you keep a committed baseline, update it:"
    )
    command = shlex.join(["torchperf", "baseline", "update", "--reason", reason, "RECORDS"])
    return _comment([Paragraph(text), Commands([command])])


def stranded_comment(memory: IssueMemory, verdicts: Sequence[Verdict], context: IssueContext) -> str:
    """Report that no night can show a recovery, because nothing measures a series, or another machine does.

    ``verdicts`` say in what the machine differs.
    """
    if unseen := rows_out_of_sight(memory, {verdict.series for verdict in verdicts}, context.night):
        return _out_of_sight_comment(unseen, max(row.night for row in unseen) or memory.last_night)
    moved = (verdict.why for verdict in verdicts if verdict.verdict == "not-comparable")
    why = next(moved, "for a week, only on other machines of its kind")
    now = f"Measured under other conditions on the night of {context.night} ({short(why, 300)})."
    open_ = " As long as these last, no night shows whether this change is still there, so this issue stays open. "
    shows = " of a commit before the change with a new one shows it; close this issue once it is gone."
    return _comment([Paragraph((now, open_, Code("torchperf compare"), shows))])


def _out_of_sight_comment(rows: Sequence[IssueRow], last: str) -> str:
    first, *others = largest_first(rows)
    more = f" and {len(others):,} more" if others else ""
    name = short(
        " ".join(filter(None, (str(first.series), first.series.repo and f"of {first.series.repo}"))), 300
    )
    since = f"Not measured since the night of {last}: "
    text = (
        ". No night shows whether it has recovered, so this issue stays open. If nothing measures it any more, or "
        "only under another name, such as that of a renamed repository, close this issue by hand."
    )
    return _comment([Paragraph((since, Code(name), more, text))])


_MAX_ROWS = 20
"""Maximum rows of a table in a comment; the issue has all of them."""


def _comment(blocks: Iterable[Block]) -> str:
    return to_markdown(Document("", list(blocks)), BODY_LIMIT)


def _culprit_words(culprit: Culprit, context: IssueContext) -> tuple[Piece, ...]:
    return (Bold(culprit_name(culprit)), f" {byline(culprit)}", *culprit_links(culprit, context.server))


def _levels_table(memory: IssueMemory, now: Mapping[Series, float]) -> Sequence[Block]:
    table = recovery_table(largest_first(memory.rows), now, _MAX_ROWS)
    return () if memory.kind == "broken" else (table,)


_ROUNDS = 4
"""How often to look and plan again if issues have changed in the meantime."""


@dataclass
class PublishedIssues:
    """What became of tonight's findings.

    ``updated`` are issues that have new content, ``known`` the other issues that tonight's findings belong to.
    ``postponed`` are titles of findings beyond the nightly limit, ``dismissed`` says which ones people have decided on,
    ``notes`` are remarks for the reader, ``failed`` lists what could not be published, ``unsaid`` the lost comments.
    """

    opened: list[TrackedIssue] = field(default_factory=list)
    updated: list[TrackedIssue] = field(default_factory=list)
    closed: list[TrackedIssue] = field(default_factory=list)
    reopened: list[TrackedIssue] = field(default_factory=list)
    known: list[TrackedIssue] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    dismissed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)

    @property
    def about(self) -> list[TrackedIssue]:
        """All issues about tonight's findings, by number."""
        issues = (*self.opened, *self.updated, *self.reopened, *self.known)
        return sorted({issue.number: issue for issue in issues}.values(), key=lambda issue: issue.number)

    def check_published(self) -> None:
        """Raise :class:`NotDeliveredError` if something could not be published."""
        if failed := (*self.failed, *self.unsaid):
            raise NotDeliveredError(f"not published: {'; '.join(failed)}")


@dataclass(frozen=True)
class NightToPublish:
    """Everything to publish. ``context`` returns what the text of an action needs, and may query GitHub for it.

    ``resolved`` maps the fingerprints of causes without series that are gone to a text that says how this is known.
    """

    findings: Sequence[IssueFinding]
    verdicts: Sequence[Verdict]
    rules: IssueRules
    context: Callable[[IssueAction], IssueContext]
    resolved: Mapping[str, Words] = field(default_factory=dict)


def publish_issues(tracker: IssueTracker, tonight: NightToPublish) -> PublishedIssues:
    """Open, update, close and reopen issues. Failures are part of the result and do not stop other actions.

    Raises :class:`TorchperfError` only if the existing issues cannot be listed, before anything is done.
    """
    done = PublishedIssues()
    for number in tracker.client.deadline.tries(_ROUNDS):
        try:
            stale = _publish_once(tracker, tonight, done)
        except TorchperfError as error:
            if number == 1:
                raise
            done.failed.append(f"what changed in the meantime: {error}")
            break
        if not stale:
            break
    else:
        done.failed += [f"{_action_name(action)}: it kept changing in the meantime" for action in stale]
    if done.opened and tracker.refused_labels:
        names = ", ".join(f"{name} ({error})" for name, error in tracker.refused_labels.items())
        done.notes.append(f"these labels are missing and cannot be created: {names}")
    return done


def _publish_once(tracker: IssueTracker, tonight: NightToPublish, done: PublishedIssues) -> list[IssueAction]:
    """List, plan and act; return the actions whose issues have changed since they were listed."""
    # Include done.opened, because GitHub's lists may lag behind.
    known, notes = tracker.list_issues()
    listed = {issue.number: issue for issue in (*done.opened, *known)}
    in_order = sorted(listed.values(), key=lambda issue: issue.number)
    done.notes = [*dict.fromkeys((*done.notes, *notes))]
    done.failed = []  # failed actions are planned again
    planned = plan_actions(tonight.findings, tonight.verdicts, in_order, tonight.rules, tonight.resolved)
    done.known = list(planned.known)
    done.postponed = [issue_title(finding) for finding in planned.postponed]
    done.dismissed = [
        f"{issue_title(finding)}: {_why_dismissed(issue)}" for finding, issue in planned.dismissed
    ]
    stale = []
    for action in planned.actions:
        try:
            _do_action(tracker, action, tonight, done)
        except StaleError:
            stale.append(action)
        except TorchperfError as error:
            done.failed.append(f"{_action_name(action)}: {error}")
    return stale


def _do_action(
    tracker: IssueTracker, action: IssueAction, tonight: NightToPublish, done: PublishedIssues
) -> None:
    issue, text = action.issue, text_of_action(action, tonight.context(action))
    if issue is None:
        done.opened.append(tracker.open(text.title, text.body))
        return
    if action.what == "duplicate":
        tracker.close_as_duplicate(issue)
    else:
        _write(tracker, action, issue, text)
    closed = dict.fromkeys(("recover", "accept", "duplicate"), done.closed)
    lists = {**closed, "reopen": done.reopened}
    if action.what != "remember":
        lists.get(action.what, done.updated).append(issue)
    try:
        if text.comment:
            tracker.comment(issue, text.comment)
    except LockedError:
        done.notes.append(f"#{issue.number} is locked: it was edited, but not commented on")
    except TorchperfError as error:  # never tried again, as the issue is edited already
        done.unsaid.append(f"the comment on #{issue.number}: {error}")


_STATES: Mapping[ActionKind, Mapping[str, str]] = {
    "recover": {"state": "closed", "state_reason": "completed"},
    "accept": {"state": "closed", "state_reason": "not_planned"},
    "reopen": {"state": "open", "state_reason": "reopened"},
}
"""The new state of an issue after an action, in GitHub's words."""


def _write(tracker: IssueTracker, action: IssueAction, issue: TrackedIssue, text: IssueText) -> None:
    state = _STATES.get(action.what, {})
    title = {"title": text.title} if text.title not in ("", issue.title) else {}
    if state or title or text.body.strip() != issue.body.strip():
        tracker.change(issue, body=text.body, **title, **state)


def _why_dismissed(issue: TrackedIssue) -> str:
    closed = "closed as recovered" if issue.memory.closed else "closed"
    return f"#{issue.number} was {'accepted' if issue.memory.accepted else f'{closed} and stays closed'}"


def _action_name(action: IssueAction) -> str:
    issue = action.issue
    return one_line(f"#{issue.number} {issue.title}") if issue else issue_title(action.findings[0])


def published_document(done: PublishedIssues) -> Document:
    """Tell what was done and what was not, with counts in the title."""
    words = ("opened", "reopened", "updated", "closed")
    lists: Mapping[str, Sequence[TrackedIssue]] = {word: getattr(done, word) for word in words}
    counts = [f"{len(issues)} {word}" for word, issues in lists.items() if issues]
    if done.postponed:
        counts.append(f"{len(done.postponed)} postponed")
    if failed := (*done.failed, *done.unsaid):
        counts.append(f"{len(failed)} not published")
    listed = {issue.number for issues in lists.values() for issue in issues}
    lines: list[Words] = [
        *((f"{word} ", _issue_link(issue)) for word, issues in lists.items() for issue in issues),
        *(("known ", _issue_link(issue)) for issue in done.about if issue.number not in listed),
        *(f"postponed to another night: {title}" for title in done.postponed),
        *(*done.dismissed, *done.notes),
        *(f"❌ not published: {failure}" for failure in failed),
    ]
    return Document(f"Issues: {', '.join(counts) or 'nothing new'}", [Bullets(lines)])


def _issue_link(issue: TrackedIssue) -> Link:
    return Link(f"#{issue.number} {issue.title}", issue.url)
