"""A commit, as far as a bisection needs to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Commit:
    """One commit. ``author`` is as ``.mailmap`` has it, ``date`` when it was committed (ISO 8601 with its zone).

    ``reverted`` is the SHA or the subject of a commit that it takes back, if it says so.
    """

    sha: str
    author: str
    date: str
    subject: str
    pull_request: int | None
    parents: tuple[str, ...]
    reverted: str = ""
