"""Where a level turned: at the last point of the old one and the first of the new, as the evidence of a verdict tells.

The evidence may come from anywhere: only what has the form of a commit, or of a time, is taken from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.verdicts.verdict import Verdict

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_REPOSITORIES = (attrgetter("commit"), attrgetter("torch"))


@dataclass(frozen=True)
class Point:
    """What was measured: a ``commit`` of the repository whose job did, with one of PyTorch; empty where nobody says.

    ``timestamp`` are Unix seconds, 0 where nobody says.
    """

    commit: str = ""
    torch: str = ""
    timestamp: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The commit that tells it from others."""
        return self.commit or self.torch


class Range(NamedTuple):
    """The last commit at the old level and the first at the new."""

    good: str
    bad: str


@dataclass(frozen=True)
class Turn:
    """Between which points something changed."""

    last_old: Point
    first_new: Point

    @property
    def range(self) -> Range | None:
        """The first of :func:`ranges`; None where no repository has any."""
        return next(iter(ranges([self])), None)

    @property
    def own(self) -> Range | None:
        """That of the repository whose job measured; None where nobody knows two different ends."""
        good, bad = self.last_old.commit, self.first_new.commit
        return Range(good, bad) if good and bad and good != bad else None


def turn_of(verdict: Verdict) -> Turn:
    """What the evidence of a verdict says."""
    return Turn(_point(verdict.evidence.get("last_old")), _point(verdict.evidence.get("first_new")))


def ranges(turns: Sequence[Turn]) -> tuple[Range, ...]:
    """Between which commits all of it happened: of the repository whose job measured, and then of PyTorch.

    A repository of which no two different ends are known has none.
    """
    return tuple(dict.fromkeys(_ranges(turns)))


def _ranges(turns: Sequence[Turn]) -> Iterator[Range]:
    for commit in _REPOSITORIES:
        good = [turn.last_old for turn in turns if commit(turn.last_old)]
        bad = [turn.first_new for turn in turns if commit(turn.first_new)]
        if good and bad:
            first = min(good, key=lambda point: point.timestamp or inf)
            last = max(bad, key=lambda point: point.timestamp)
            if commit(first) != commit(last):
                yield Range(commit(first), commit(last))


def _point(evidence: Any) -> Point:
    if not isinstance(evidence, Mapping):
        return Point()
    return Point(
        _commit(evidence.get("commit")), _commit(evidence.get("torch")), _time(evidence.get("timestamp"))
    )


def _commit(value: Any) -> str:
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else ""


def _time(value: Any) -> float:
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf
    return float(value) if is_time else 0.0
