"""Have the issues say what tonight found: each once, whatever fails."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.errors import TorchperfError
from torchperf_ci.report.issues.life.hidden import MARKER
from torchperf_ci.report.issues.life.lifecycle import plan
from torchperf_ci.report.issues.life.ours import LABEL
from torchperf_ci.report.issues.refusals import LockedError, StaleError
from torchperf_ci.report.issues.texts.comments import duplicate
from torchperf_ci.report.issues.texts.text import text_of
from torchperf_ci.report.issues.texts.title import title

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchperf_ci.report.issues.board import Board
    from torchperf_ci.report.issues.causes.finding import Finding
    from torchperf_ci.report.issues.life.action import Action
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.report.issues.life.rules import Rules
    from torchperf_ci.report.issues.texts.context import Context
    from torchperf_ci.report.issues.texts.text import Text
    from torchperf_ci.verdicts.verdict import Verdict

_ROUNDS = 4
"""How often all is looked at again because something changed meanwhile."""


@dataclass
class Published:
    """What became of tonight's findings.

    ``updated`` are issues that have told something new, ``standing`` the others that tonight's findings belong to.
    ``left`` are the titles of what found no room, ``settled`` says of which findings people have decided, ``notes``
    what a reader must know beside, and ``failed`` what could not be told, with the reason.
    """

    opened: list[Ours] = field(default_factory=list)
    updated: list[Ours] = field(default_factory=list)
    closed: list[Ours] = field(default_factory=list)
    reopened: list[Ours] = field(default_factory=list)
    standing: list[Ours] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def about(self) -> list[Ours]:
        """All issues that tonight's findings are told in, by number."""
        found = (*self.opened, *self.updated, *self.reopened, *self.standing)
        return sorted({issue.number: issue for issue in found}.values(), key=lambda issue: issue.number)


@dataclass(frozen=True)
class Tonight:
    """What there is to publish. ``context`` gives what the text of an action needs, and may ask GitHub for it.

    ``over`` says, by fingerprint, of causes without series how it is known that they are over.
    """

    findings: Sequence[Finding]
    verdicts: Sequence[Verdict]
    rules: Rules
    context: Callable[[Action], Context]
    over: Mapping[str, str] = field(default_factory=dict)


def publish(board: Board, tonight: Tonight) -> Published:
    """Open, update, close and reopen. What fails is in the answer, and hinders nothing else.

    Raises :class:`TorchperfError` only where the issues that there are cannot be listed: nothing was done then.
    """
    done = Published()
    for number in board.ask.deadline.tries(_ROUNDS):
        try:
            stale = _once(board, tonight, done)
        except TorchperfError as error:
            if number == 1:
                raise
            done.failed.append(f"what has changed meanwhile: {error}")
            break
        if not stale:
            break
    else:
        done.failed += [f"{_name(action)}: it changed again and again meanwhile" for action in stale]
    if board.refused_labels:
        names = ", ".join(board.refused_labels)
        done.notes.append(f"the token may not make the labels that are missing: {names}")
    return done


def _once(board: Board, tonight: Tonight, done: Published) -> list[Action]:
    """Look, plan and do; the actions whose issues have changed between the first and the last."""
    listed = {issue.number: issue for issue in (*done.opened, *board.ours())}  # lists may lag behind
    in_order = sorted(listed.values(), key=lambda issue: issue.number)
    done.failed = []  # what failed before is planned again
    planned = plan(tonight.findings, tonight.verdicts, in_order, tonight.rules, tonight.over)
    done.standing = list(planned.about)
    done.left = [title(finding) for finding in planned.left_over]
    done.settled = [f"{title(finding)}: {_decided(issue)}" for finding, issue in planned.settled]
    return [action for action in planned.actions if not _done(board, action, tonight, done)]


def _done(board: Board, action: Action, tonight: Tonight, done: Published) -> bool:
    """Whether an action is done with, be it done or failed; not where its issue has changed meanwhile."""
    try:
        _do(board, action, tonight, done)
    except StaleError:
        return False
    except TorchperfError as error:
        done.failed.append(f"{_name(action)}: {error}")
    return True


def _do(board: Board, action: Action, tonight: Tonight, done: Published) -> None:
    issue, other = action.issue, action.other
    if issue and other:
        _close_as_duplicate(board, issue, other)
        done.closed.append(issue)
        return
    text = text_of(action, tonight.context(action))
    if issue is None:
        done.opened.append(board.open(text.title, text.body))
        return
    _write(board, action, issue, text)
    told = {"recover": done.closed, "accept": done.closed, "reopen": done.reopened}
    if action.what != "remember":
        told.get(action.what, done.updated).append(issue)
    if text.comment:
        try:
            board.comment(issue, text.comment)
        except LockedError:
            done.notes.append(f"#{issue.number} is locked: it is edited, and nothing is said under it")


def _write(board: Board, action: Action, issue: Ours, text: Text) -> None:
    match action.what:
        case "recover":
            board.close(issue, text.body)
        case "accept":
            board.close(issue, text.body, "not_planned")
        case "reopen":
            board.reopen(issue, text.body)
        case _ if (text.title or issue.title, text.body.strip()) != (issue.title, issue.body.strip()):
            board.edit(issue, text.body, title=text.title or None)


def _close_as_duplicate(board: Board, issue: Ours, other: Ours) -> None:
    """Without our label and our memory, so that it is not found again."""
    labels = [label for label in issue.labels if label != LABEL]
    with suppress(LockedError, StaleError):  # people may change it meanwhile
        board.close(issue, MARKER.sub("", issue.body).lstrip(), "duplicate", labels)
        board.comment(issue, duplicate(other.number))


def _decided(issue: Ours) -> str:
    word = "was accepted" if issue.memory.accepted else "was closed by hand, and stays so"
    return f"#{issue.number} {word}"


def _name(action: Action) -> str:
    if action.issue:
        return one_line(f"#{action.issue.number} {action.issue.title}")
    return title(action.findings[0])
