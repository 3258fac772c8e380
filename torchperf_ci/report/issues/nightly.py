"""The life of the one issue about a nightly: open while it does not run, closed as soon as it does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from torchperf_ci.errors import NotDeliveredError
from torchperf_ci.report.issues.causes.fingerprint import fingerprint
from torchperf_ci.report.issues.life.hidden import MARKER, embed
from torchperf_ci.report.issues.life.memory import Memory
from torchperf_ci.report.issues.refusals import LockedError, StaleError
from torchperf_ci.report.issues.settling import settle, withdraw
from torchperf_ci.report.issues.texts import nightly as text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.report.issues.board import Board
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.report.schedule import Schedule, Sighting

What = Literal["opened", "standing", "reopened", "closed", "remembered", "left"]
"""A new issue; an open one, with today's facts; open once more; it runs again; only that is noted; nothing."""
_ROUNDS = 4
"""How often everything is looked at again because somebody changed it meanwhile."""


class Kept(NamedTuple):
    """What was done with the issue, if there is one."""

    what: What
    issue: Ours | None


def decide(sighting: Sighting, issue: Ours | None) -> What:
    """What is to be done with the issue. One that somebody has closed stays so until the nightly has run meanwhile.

    That it has is remembered as a night of recovery, which an open issue has none of.
    """
    if sighting.missing:
        if issue is None:
            return "opened"
        if issue.is_open:
            return "standing"
        return "reopened" if issue.memory.recovered else "left"
    if sighting.state != "ran" or issue is None:
        return "left"
    if issue.is_open:
        return "closed"
    return "left" if issue.memory.recovered else "remembered"


def keep(board: Board, schedule: Schedule, sighting: Sighting, night: str) -> Kept:
    """Have the issue say what was seen on ``night`` (ISO date). Raises :class:`NotDeliveredError` as ``board`` does."""
    for _ in board.ask.deadline.tries(_ROUNDS):
        try:
            return _kept(board, schedule, sighting, night)
        except StaleError as error:
            stale = error
    msg = f"the issue about {schedule.file} cannot be kept: {stale}, again and again; run it again later"
    raise NotDeliveredError(msg)


def written(schedule: Schedule, sighting: Sighting, night: str) -> str:
    """The body of a new issue, with what it remembers."""
    memory = Memory("nightly", (fingerprint("nightly", schedule.file),), (), night, night)
    return _body(memory, schedule, sighting)


def _kept(board: Board, schedule: Schedule, sighting: Sighting, night: str) -> Kept:
    issue = _the_one(board, fingerprint("nightly", schedule.file))
    what = decide(sighting, issue)
    if issue is None:
        return Kept(what, _opened(board, schedule, sighting, night) if what == "opened" else None)
    missing = replace(issue.memory, reported=max(issue.memory.reported, night), recovered=())
    ran = MARKER.sub(lambda _: embed(replace(missing, recovered=(night,))), issue.body)
    match what:
        case "standing":
            body = _body(missing, schedule, sighting)
            if issue.memory.recovered or _shown(body) != _shown(issue.body):
                board.edit(issue, body)
        case "reopened":
            board.reopen(issue, _body(missing, schedule, sighting))
            _comment(board, issue, text.gone_again(sighting))
        case "closed":
            board.close(issue, ran)
            _comment(board, issue, text.back(schedule, sighting))
        case "remembered":
            board.edit(issue, ran)
    return Kept(what, issue)


def _the_one(board: Board, name: str) -> Ours | None:
    """The issue of this nightly: the oldest open one, whose twins go, else the newest closed one."""
    found = [issue for issue in board.ours() if name in issue.memory.fingerprints]
    living = [issue for issue in found if issue.is_open]
    for twin in living[1:]:  # whoever opened it did not get to see that there was one
        withdraw(board, twin, living[0])
    return _first(living) or _first(found[::-1])


def _first(issues: Sequence[Ours]) -> Ours | None:
    return issues[0] if issues else None


def _opened(board: Board, schedule: Schedule, sighting: Sighting, night: str) -> Ours:
    mine = board.open(text.title(schedule), written(schedule, sighting, night))
    return settle(board, [mine]).get(mine.number, mine)


def _body(memory: Memory, schedule: Schedule, sighting: Sighting) -> str:
    return f"{embed(memory)}\n\n{text.body(schedule, sighting)}"


def _shown(body: str) -> str:
    """What people see of a body: which night it was looked at last is no news."""
    return MARKER.sub("", body).strip()


def _comment(board: Board, issue: Ours, words: str) -> None:
    with suppress(LockedError):  # the issue's state tells the same
        board.comment(issue, words)
