"""Two nightlies may open the same issue at the same moment; one of the two stays."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from torchperf_ci.report.issues.life.hidden import MARKER
from torchperf_ci.report.issues.life.ours import LABEL, Ours
from torchperf_ci.report.issues.refusals import LockedError, StaleError
from torchperf_ci.report.issues.texts.comments import duplicate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.report.issues.board import Board

_LOOKS = 5
"""How often somebody looks for an issue that was just opened: GitHub's lists may lag behind."""


def settle(board: Board, mine: Sequence[Ours]) -> dict[int, Ours]:
    """After ``mine`` were opened, look again: of those with the same cause the lowest number stays.

    The others among ``mine`` are closed as its duplicates, without our label and our memory, so that nobody finds them
    again. Gives the issue that stays by the number of each that does not.
    """
    known = _all(board, mine) if mine else []
    found = {}
    for issue in mine:
        other = _lower(issue, known)
        if other:
            found[issue.number] = other
            withdraw(board, issue, other)
    return found


def withdraw(board: Board, issue: Ours, other: Ours) -> None:
    """Close an issue as the duplicate of another one, and do not know it any more."""
    labels = [label for label in issue.labels if label != LABEL]
    with suppress(LockedError, StaleError):  # whoever was faster has said it
        board.close(issue, MARKER.sub("", issue.body).lstrip(), "duplicate", labels)
        board.comment(issue, duplicate(other.number))


def _all(board: Board, mine: Sequence[Ours]) -> list[Ours]:
    wanted = {issue.number for issue in mine}
    known: list[Ours] = []
    for _ in board.ask.deadline.tries(_LOOKS):
        known = board.ours()
        if wanted <= {issue.number for issue in known}:
            break
    return known


def _lower(mine: Ours, known: Sequence[Ours]) -> Ours | None:
    names = set(mine.memory.fingerprints)
    rivals = (
        issue
        for issue in known
        if issue.is_open and issue.number < mine.number and names & set(issue.memory.fingerprints)
    )
    return next(rivals, None)
