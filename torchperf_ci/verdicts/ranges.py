"""Between which commits something got worse, as the evidence of a verdict tells.

The evidence may come from anywhere: only what has the form of a commit is taken from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Verdict

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


class Range(NamedTuple):
    """The last commit at the old level and the first at the new."""

    good: str
    bad: str


def range_of(verdict: Verdict) -> Range | None:
    """Of the repository whose job measured, else of PyTorch; None where neither has two different ends."""
    for repository in ("commit", "torch"):
        good, bad = (_commit(verdict, end, repository) for end in ("last_old", "first_new"))
        if good and bad and good != bad:
            return Range(good, bad)
    return None


def _commit(verdict: Verdict, end: str, repository: str) -> str:
    point = verdict.evidence.get(end)
    commit = point.get(repository) if isinstance(point, Mapping) else None
    return commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else ""
