"""What a bisection has learnt so far, one event at a time.

Builds are told apart by their position in the range: 0 is the good commit, i the i-th suspect, and the last one the bad
commit. Of one commit several may be made, its **draws**, which differ in nothing but what luck decides: 0 is the first.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Purpose = Literal["confirm", "locate", "verify", "control"]
"""What a pair is for; a ``control`` is of one and the same build twice, so that whatever it reads is not the code."""

MOST_BY_CHANCE = 2
"""Builds that fail side by side by chance."""


@dataclass(frozen=True)
class Reading:
    """One pair of fresh processes of two builds: ln(head/base) of each series, positive where head is worse.

    ``seconds`` is what the pair took. ``values`` are what base measured of the series, in the unit of each, where that
    can be told.
    """

    probe: str
    base: int
    head: int
    log_ratios: Mapping[str, float]
    purpose: Purpose
    seconds: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)
    draws: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Build:
    """One attempt to make a commit's environment, and why it failed, if it did.

    It is ``repeated`` where it came out byte for byte as another draw of the commit: nothing was left to luck.
    """

    position: int
    ok: bool
    seconds: float = 0.0
    why: str = ""
    draw: int = 0
    repeated: bool = False


@dataclass(frozen=True)
class Failure:
    """A commit that was built, but on which the probe does not run."""

    probe: str
    position: int
    why: str


@dataclass(frozen=True)
class BatchSize:
    """What ``--batch-size auto`` is for a probe: it must stay the same for as long as its pairs are put together."""

    probe: str
    size: int


@dataclass(frozen=True)
class Look:
    """What profiles of two builds have shown: ``inside`` is that of ``culprits.json``, less what is attached to it."""

    base: int
    head: int
    inside: Mapping[str, Any]


@dataclass(frozen=True)
class Note:
    """What a reader of the bisection should know beside its facts."""

    text: str


@dataclass(frozen=True)
class Facts:
    """All of it, in the order in which it was learnt."""

    readings: tuple[Reading, ...] = ()
    builds: tuple[Build, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def built(self) -> frozenset[int]:
        """Positions whose environment could be made."""
        return frozenset(build.position for build in self.builds if build.ok)

    @property
    def made(self) -> frozenset[tuple[int, int]]:
        """Positions and draws of all builds that could be made."""
        return frozenset((build.position, build.draw) for build in self.builds if build.ok)

    @property
    def repeated(self) -> bool:
        """Whether making a commit anew is known to change nothing."""
        return any(build.repeated for build in self.builds)

    @property
    def unusable(self) -> frozenset[int]:
        """Positions that nothing can be measured on so far: they were not built, or the probe does not run on them.

        A commit that was built once is not among them if another draw of it fails.
        """
        return self._unbuilt | self._failing

    @property
    def unsettled(self) -> frozenset[int]:
        """Those of them whose build has failed once only, which chance may have done.

        Where more than :data:`MOST_BY_CHANCE` have failed in a row, it was not chance.
        """
        tries = Counter(build.position for build in self.builds if not build.draw)
        return frozenset(
            position
            for position in self._unbuilt - self._failing
            if tries[position] == 1 and self._in_a_row(position) <= MOST_BY_CHANCE
        )

    @property
    def _unbuilt(self) -> frozenset[int]:
        return frozenset(build.position for build in self.builds if not build.draw) - self.built

    @property
    def _failing(self) -> frozenset[int]:
        return frozenset(failure.position for failure in self.failures)

    def _in_a_row(self, position: int) -> int:
        """How many were not built around a position, with none among them that was."""
        left = max((place for place in self.built if place < position), default=-1)
        right = min((place for place in self.built if place > position), default=math.inf)
        return sum(left < place < right for place in self._unbuilt)
