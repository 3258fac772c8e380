"""What a verdict rests on: between which commits it changed, the points of a chart, what builds differ by.

A file of verdicts may come from anywhere. It is read here, once, and only what has the form of a commit, of a time, of
a number is taken from it.
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
"""What is larger cannot be drawn."""
LUCKY = 0.01
"""What luck makes more often than that is not ruled out."""


@dataclass(frozen=True)
class RangeEnd:
    """What was measured: a ``commit`` of the repository whose job did, with one of PyTorch; empty where nobody says.

    ``timestamp`` are Unix seconds, 0 where nobody says.
    """

    commit: str = ""
    torch: str = ""
    timestamp: float = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The commit that tells it from others."""
        return self.commit or self.torch


class CommitEnds(NamedTuple):
    """The last commit at the old level and the first at the new."""

    good: str
    bad: str


@dataclass(frozen=True)
class CommitRange:
    """Between which points something changed."""

    last_old: RangeEnd = RangeEnd()
    first_new: RangeEnd = RangeEnd()

    @property
    def range(self) -> CommitEnds | None:
        """The first of :func:`commit_ends_of`; None where no repository has any."""
        return next(iter(commit_ends_of([self])), None)

    @property
    def own(self) -> CommitEnds | None:
        """That of the repository whose job measured; None where nobody knows two different ends."""
        good, bad = self.last_old.commit, self.first_new.commit
        return CommitEnds(good, bad) if good and bad and good != bad else None


@dataclass(frozen=True)
class MeasuredPoint:
    """What one run measured, at which commit, and when (Unix seconds, 0 where nobody says)."""

    value: float
    commit: str = ""
    timestamp: float = 0


@dataclass(frozen=True)
class BuildLuck:
    """``tau``, the standard deviation of builds of one code, between ``low`` and ``high`` (95%), and the ``chance``
    that luck alone makes as much as the verdict tells of."""

    tau: float
    low: float
    high: float
    chance: float

    @property
    def is_enough(self) -> bool:
        """Whether luck could make it."""
        return self.chance > LUCKY

    def __str__(self) -> str:
        said = "a build's luck could make it" if self.is_enough else "more than a build's luck makes"
        return f"{said} (wheels differ by {self.tau:.1%} by luck, {self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class Evidence:
    """Between which ``commits`` it changed; the ``points`` of a chart, oldest first; how many runs in a row are
    ``failing``, up to this one; the ``batch_size`` of the pairs; and the ``luck`` of builds.

    ``others`` are the members of the file that nothing but people and other programs ask for.
    """

    commits: CommitRange = CommitRange()
    points: Sequence[MeasuredPoint] = ()
    failing: int = 0
    batch_size: int | None = None
    luck: BuildLuck | None = None
    others: Mapping[str, object] = field(default_factory=dict)

    @property
    def members(self) -> Mapping[str, object]:
        """As in a file, without what nobody knows."""
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
    """The evidence that an object of a file holds."""
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
    """Without what has not the form of a commit, or of a time."""
    return RangeEnd(_commit(commit), _commit(torch), _time(timestamp))


def commit_ends_of(ranges: Sequence[CommitRange]) -> tuple[CommitEnds, ...]:
    """Between which commits all of it happened: of the repository whose job measured, and then of PyTorch.

    A repository of which no two different ends are known has none.
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
    """None where one of its numbers is no share."""
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
