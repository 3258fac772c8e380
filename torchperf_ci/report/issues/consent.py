"""Has somebody who may said that it is meant to be so?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.errors import TorchperfError
from torchperf_ci.report.issues.life.lifecycle import KINDS
from torchperf_ci.report.issues.life.matching import series_of
from torchperf_ci.report.issues.refusals import StaleError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.report.issues.board import Board
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.series.series import Series

ACCEPT = "torchperf: accept"
"""A line of its own in a comment, by somebody who may write to the repository."""


def asked(board: Board, issues: Iterable[Ours], series: set[Series]) -> tuple[list[Ours], list[str]]:
    """The issues, with what their comments say; and for which of them these could not be read, with the reason.

    Of those that are closed, only the ones that have some of ``series`` matter.
    """
    heard, failed = [], []
    for issue in issues:
        try:
            heard.append(_heard(board, issue) if _matters(issue, series) else issue)
        except StaleError:  # it is gone, which the plan will find out
            heard.append(issue)
        except TorchperfError as error:
            heard.append(issue)
            failed.append(f"whether #{issue.number} is accepted: {error}")
    return heard, failed


def _matters(issue: Ours, series: set[Series]) -> bool:
    memory = issue.memory
    if memory.kind not in KINDS or memory.accepted or issue.expected or not issue.comments:
        return False
    return issue.is_open or bool(series & series_of(memory.rows))


def _heard(board: Board, issue: Ours) -> Ours:
    names = {said.login for said in board.said(issue) if ACCEPT in map(str.strip, said.body.splitlines())}
    who = next((name for name in sorted(names - {""}) if board.may_write(name)), "")
    return replace(issue, expected=bool(who), expected_by=who)
