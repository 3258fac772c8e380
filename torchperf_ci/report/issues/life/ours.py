"""An issue of ours, as it was when somebody looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.report.issues.life.hidden import recall

if TYPE_CHECKING:
    from github.Issue import Issue

    from torchperf_ci.report.issues.life.memory import Memory

LABEL = "torchperf"
"""What all issues of ours have; without it none is found again."""
EXPECTED = "torchperf: expected"
"""The label that says of an issue that it is meant to be so."""


@dataclass(frozen=True)
class Ours:
    """An issue that we wrote: its label, its author and its hidden memory say so, whatever its title has become.

    ``expected`` says that it has the label by which people say that it is meant to be so.
    """

    number: int
    url: str
    title: str
    body: str
    memory: Memory
    is_open: bool = True
    labels: tuple[str, ...] = ()
    expected: bool = False


def read(issue: Issue, login: str) -> Ours | None:
    """An issue of GitHub's if it is ours, where ``login`` is who we are. Asks nothing: lists hold all of this."""
    labels = tuple(label.name for label in issue.labels)
    if LABEL not in labels or not issue.user or issue.user.login != login:
        return None
    body = issue.body or ""
    memory = recall(body)
    if memory is None or issue.html_url.endswith(f"/pull/{issue.number}"):
        return None
    return Ours(
        issue.number,
        issue.html_url,
        issue.title,
        body,
        memory,
        is_open=issue.state == "open",
        labels=labels,
        expected=EXPECTED in labels,
    )
