"""Publish tonight's findings as issues, each once and whatever fails, and summarize what was done."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.document import Bullets, Document, Link, counted
from torchperf_ci.errors import TorchperfError
from torchperf_ci.issues.body import issue_title
from torchperf_ci.issues.comments import duplicate_comment, text_of_action
from torchperf_ci.issues.lifecycle import plan_actions
from torchperf_ci.issues.memory import MEMORY_MARKER
from torchperf_ci.issues.tracker import TORCHPERF_LABEL, LockedError, StaleError
from torchperf_ci.markdown import to_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchperf_ci.document import Words
    from torchperf_ci.issues.body import IssueContext
    from torchperf_ci.issues.comments import IssueText
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.issues.lifecycle import IssueAction
    from torchperf_ci.issues.matching import IssueRules
    from torchperf_ci.issues.tracker import IssueTracker, TrackedIssue
    from torchperf_ci.verdicts.verdict import Verdict


_ROUNDS = 4
"""How often to look and plan again if issues have changed in the meantime."""


@dataclass
class PublishedIssues:
    """What became of tonight's findings.

    ``updated`` are issues that have new content, ``standing`` the other issues that tonight's findings belong to.
    ``left`` are titles of findings beyond the nightly limit, ``settled`` says which findings people have decided on,
    ``notes`` are remarks for the reader, and ``failed`` lists what could not be published, with reasons.
    """

    opened: list[TrackedIssue] = field(default_factory=list)
    updated: list[TrackedIssue] = field(default_factory=list)
    closed: list[TrackedIssue] = field(default_factory=list)
    reopened: list[TrackedIssue] = field(default_factory=list)
    standing: list[TrackedIssue] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def about(self) -> list[TrackedIssue]:
        """All issues about tonight's findings, by number."""
        found = (*self.opened, *self.updated, *self.reopened, *self.standing)
        return sorted({issue.number: issue for issue in found}.values(), key=lambda issue: issue.number)


@dataclass(frozen=True)
class NightToPublish:
    """Everything to publish. ``context`` returns what the text of an action needs, and may query GitHub for it.

    ``over`` maps the fingerprints of causes without series that are over to a text that says how this is known.
    """

    findings: Sequence[IssueFinding]
    verdicts: Sequence[Verdict]
    rules: IssueRules
    context: Callable[[IssueAction], IssueContext]
    over: Mapping[str, Words] = field(default_factory=dict)


def publish_issues(tracker: IssueTracker, tonight: NightToPublish) -> PublishedIssues:
    """Open, update, close and reopen issues. Failures are part of the result and do not stop other actions.

    Raises :class:`TorchperfError` only if the existing issues cannot be listed, before anything is done.
    """
    done = PublishedIssues()
    for number in tracker.ask.deadline.tries(_ROUNDS):
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
    if tracker.refused_labels:
        names = ", ".join(tracker.refused_labels)
        done.notes.append(f"the token may not create the missing labels: {names}")
    return done


def _publish_once(tracker: IssueTracker, tonight: NightToPublish, done: PublishedIssues) -> list[IssueAction]:
    """List, plan and act; return the actions whose issues have changed since they were listed."""
    # Include done.opened, because GitHub's lists may lag behind.
    listed = {issue.number: issue for issue in (*done.opened, *tracker.ours())}
    in_order = sorted(listed.values(), key=lambda issue: issue.number)
    done.failed = []  # failed actions are planned again
    planned = plan_actions(tonight.findings, tonight.verdicts, in_order, tonight.rules, tonight.over)
    done.standing = list(planned.about)
    done.left = [issue_title(finding) for finding in planned.left_over]
    done.settled = [
        f"{issue_title(finding)}: {_what_people_decided(issue)}" for finding, issue in planned.settled
    ]
    return [action for action in planned.actions if not _try_action(tracker, action, tonight, done)]


def _try_action(
    tracker: IssueTracker, action: IssueAction, tonight: NightToPublish, done: PublishedIssues
) -> bool:
    """Try an action; return True if it is done or has failed, False if its issue has changed in the meantime."""
    try:
        _do_action(tracker, action, tonight, done)
    except StaleError:
        return False
    except TorchperfError as error:
        done.failed.append(f"{_action_name(action)}: {error}")
    return True


def _do_action(
    tracker: IssueTracker, action: IssueAction, tonight: NightToPublish, done: PublishedIssues
) -> None:
    issue, other = action.issue, action.other
    if issue and other:
        _close_as_duplicate(tracker, issue, other)
        done.closed.append(issue)
        return
    text = text_of_action(action, tonight.context(action))
    if issue is None:
        done.opened.append(tracker.open(text.title, text.body))
        return
    _write(tracker, action, issue, text)
    lists = {"recover": done.closed, "accept": done.closed, "reopen": done.reopened}
    if action.what != "remember":
        lists.get(action.what, done.updated).append(issue)
    if text.comment:
        try:
            tracker.comment(issue, text.comment)
        except LockedError:
            done.notes.append(f"#{issue.number} is locked: it was edited, but not commented on")


def _write(tracker: IssueTracker, action: IssueAction, issue: TrackedIssue, text: IssueText) -> None:
    match action.what:
        case "recover":
            tracker.close(issue, text.body)
        case "accept":
            tracker.close(issue, text.body, "not_planned")
        case "reopen":
            tracker.reopen(issue, text.body)
        case _ if (text.title or issue.title, text.body.strip()) != (issue.title, issue.body.strip()):
            tracker.edit(issue, text.body, title=text.title or None)


def _close_as_duplicate(tracker: IssueTracker, issue: TrackedIssue, other: TrackedIssue) -> None:
    """Close an issue and remove our label and memory, so that it is not found again."""
    labels = [label for label in issue.labels if label != TORCHPERF_LABEL]
    with suppress(LockedError, StaleError):  # people may change it in the meantime
        tracker.close(issue, MEMORY_MARKER.sub("", issue.body).lstrip(), "duplicate", labels)
        tracker.comment(issue, duplicate_comment(other.number))


def _what_people_decided(issue: TrackedIssue) -> str:
    word = "was accepted" if issue.memory.accepted else "was closed by hand and stays closed"
    return f"#{issue.number} {word}"


def _action_name(action: IssueAction) -> str:
    if action.issue:
        return one_line(f"#{action.issue.number} {action.issue.title}")
    return issue_title(action.findings[0])


@dataclass(frozen=True)
class PublishedSummary:
    """A headline for the log, the job summary, and the outputs of the step."""

    headline: str
    markdown: str
    outputs: Mapping[str, str]


def summarize_published(done: PublishedIssues) -> PublishedSummary:
    """Summarize what was done and what was not."""
    lists: Mapping[str, Sequence[TrackedIssue]] = {
        "opened": done.opened,
        "reopened": done.reopened,
        "updated": done.updated,
        "closed": done.closed,
    }
    counts = [f"{len(issues)} {word}" for word, issues in lists.items() if issues]
    if done.left:
        counts.append(f"{len(done.left)} postponed")
    if done.failed:
        counts.append(f"{counted(len(done.failed), 'finding')} not published")
    headline = f"issues: {', '.join(counts) or 'nothing new'}"
    told = {issue.number for issues in lists.values() for issue in issues}
    lines: list[Words] = [
        *((f"{word} ", _issue_link(issue)) for word, issues in lists.items() for issue in issues),
        *(("known ", _issue_link(issue)) for issue in done.about if issue.number not in told),
        *(f"postponed to another night: {title}" for title in done.left),
        *(*done.settled, *done.notes),
        *(f"❌ not published: {failure}" for failure in done.failed),
    ]
    document = Document(f"{headline[:1].upper()}{headline[1:]}", [Bullets(lines)])
    outputs = {
        "issues": "\n".join(issue.url for issue in done.about),
        "opened": str(len(done.opened)),
        "closed": str(len(done.closed)),
    }
    return PublishedSummary(headline, to_markdown(document), outputs)


def _issue_link(issue: TrackedIssue) -> Link:
    return Link(f"#{issue.number} {issue.title}", issue.url)
