"""The evidence of a verdict: the commits between which it changed, the points of a chart, the spread of builds.

A verdicts file is untrusted input. It is parsed here once, and only values with the form of a commit, a time or a
number are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMIT_HASH = re.compile(r"[0-9a-f]{7,64}")
_REPOSITORIES = (attrgetter("commit"), attrgetter("torch"))
LARGEST_NUMBER = 1e15
"""Larger numbers are ignored, because they cannot be drawn."""
LUCKY = 0.01
"""If luck alone explains a change with more than this probability, luck is not ruled out."""


@dataclass(frozen=True)
class RangeEnd:
    """What was measured: a ``commit`` of the repository whose job ran, and the commit of PyTorch; empty if unknown.

    ``timestamp`` is in Unix seconds, 0 if unknown.
    """

    commit: str = ""
    torch: str = ""
    timestamp: float = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The commit that identifies this end."""
        return self.commit or self.torch


class CommitEnds(NamedTuple):
    """The last commit at the old level and the first at the new."""

    good: str
    bad: str


@dataclass(frozen=True)
class CommitRange:
    """The last point at the old level and the first point at the new level."""

    last_old: RangeEnd = RangeEnd()
    first_new: RangeEnd = RangeEnd()

    @property
    def range(self) -> CommitEnds | None:
        """The first range of :func:`commit_ends_of`; None if there is none."""
        return next(iter(commit_ends_of([self])), None)

    @property
    def own(self) -> CommitEnds | None:
        """The range in the repository whose job measured; None unless two different ends are known."""
        good, bad = self.last_old.commit, self.first_new.commit
        return CommitEnds(good, bad) if good and bad and good != bad else None


@dataclass(frozen=True)
class MeasuredPoint:
    """The value that one run measured, its commit, and its time (Unix seconds, 0 if unknown)."""

    value: float
    commit: str = ""
    timestamp: float = 0


@dataclass(frozen=True)
class BuildLuck:
    """How much builds of the same code differ, and whether that explains a verdict.

    ``tau`` is the standard deviation between builds, with its 95% interval from ``low`` to ``high``. ``chance`` is
    the probability that luck alone makes as large a change as the verdict reports.
    """

    tau: float
    low: float
    high: float
    chance: float

    @property
    def is_enough(self) -> bool:
        """Whether luck alone could explain the change."""
        return self.chance > LUCKY

    def __str__(self) -> str:
        said = "a build's luck could make it" if self.is_enough else "more than a build's luck makes"
        return f"{said} (wheels differ by {self.tau:.1%} by luck, {self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class Evidence:
    """The evidence of a verdict.

    ``commits`` are those between which it changed, ``points`` those of a chart, oldest first. ``failing`` is the
    number of runs in a row that failed, up to this one, ``batch_size`` that of the pairs, and ``luck`` the spread of
    builds. ``others`` are members of the file that only people and other programs use.
    """

    commits: CommitRange = CommitRange()
    points: Sequence[MeasuredPoint] = ()
    failing: int = 0
    batch_size: int | None = None
    luck: BuildLuck | None = None
    others: Mapping[str, object] = field(default_factory=dict)

    @property
    def members(self) -> Mapping[str, object]:
        """The members as in a file, without those that are unknown."""
        known = {
            "batch_size": self.batch_size,
            "failing": self.failing,
            "last_old": _known(self.commits.last_old),
            "first_new": _known(self.commits.first_new),
            "points": self.points,
            "luck": self.luck,
        }
        return {**self.others, **{name: value for name, value in known.items() if value}}


def evidence_of(members: Mapping[str, Any]) -> Evidence:
    """Parse the evidence of a verdict in a file, and ignore invalid values."""
    points = members.get("points")
    size = members.get("batch_size")
    known = {"last_old", "first_new", "points", "failing", "batch_size", "luck"}
    return Evidence(
        CommitRange(_measured_commit(members.get("last_old")), _measured_commit(members.get("first_new"))),
        tuple(
            MeasuredPoint(point["value"], _text(point.get("commit")), _time(point.get("timestamp")))
            for point in (points if isinstance(points, list | tuple) else ())
            if isinstance(point, Mapping) and _is_number(point.get("value"))
        ),
        failing if _is_number(failing := members.get("failing")) and isinstance(failing, int) else 0,
        size if _is_number(size) and isinstance(size, int) and size > 0 else None,
        _build_luck(members.get("luck")),
        {name: value for name, value in members.items() if name not in known},
    )


def measured_commit(commit: object, torch: object, timestamp: object) -> RangeEnd:
    """A range end from untrusted values; those without the form of a commit or a time are ignored."""
    return RangeEnd(_commit(commit), _commit(torch), _time(timestamp))


def commit_ends_of(ranges: Sequence[CommitRange]) -> tuple[CommitEnds, ...]:
    """The commit range that contains all ``ranges``, for the repository whose job measured and then for PyTorch.

    A repository without two different known ends is left out.
    """
    return tuple(dict.fromkeys(_ends_by_repository(ranges)))


def _ends_by_repository(ranges: Sequence[CommitRange]) -> Iterator[CommitEnds]:
    for commit in _REPOSITORIES:
        good = [one.last_old for one in ranges if commit(one.last_old)]
        bad = [one.first_new for one in ranges if commit(one.first_new)]
        if good and bad:
            first = min(good, key=lambda point: point.timestamp or inf)
            last = max(bad, key=lambda point: point.timestamp)
            if commit(first) != commit(last):
                yield CommitEnds(commit(first), commit(last))


def _known(measured: RangeEnd) -> Mapping[str, object]:
    return {name: value for name, value in vars(measured).items() if value}


def _measured_commit(members: Any) -> RangeEnd:
    if not isinstance(members, Mapping):
        return RangeEnd()
    return measured_commit(members.get("commit"), members.get("torch"), members.get("timestamp"))


def _build_luck(members: Any) -> BuildLuck | None:
    """Parse the spread of builds; None unless all its numbers are between 0 and 1."""
    if not isinstance(members, Mapping):
        return None
    numbers = [members.get(name) for name in ("tau", "low", "high", "chance")]
    shares = [number for number in numbers if isinstance(number, float) and 0 <= number <= 1]
    return BuildLuck(*shares) if len(shares) == len(numbers) else None


def _commit(value: object) -> str:
    return value if isinstance(value, str) and _COMMIT_HASH.fullmatch(value) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float:
    return value if _is_number(value) and value > 0 else 0


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST_NUMBER
