"""What is found in the past of a series."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torchperf_ci.series.series import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.series.series import Point
    from torchperf_ci.stats.effect import Effect

Word = Literal["regressed", "improved", "changed"]
"""``changed`` where nobody knows which way is better."""
Name = Series | Path
"""A series of records, or a file with one series."""


@dataclass(frozen=True)
class Change:
    """A new level, which begins at point ``index`` of the series, counted from 0.

    ``old`` and ``new`` are the levels in the metric's unit, ``effect`` their ratio where there is one. ``last`` is the
    last point at the old level, ``first`` the first at the new. ``recovered`` is the first point of a later level that
    lies nearer to the old level of a regression than to its new one. Where ``is_outcome``, levels are pass and fail.
    """

    index: int
    word: Word
    old: float
    new: float
    effect: Effect | None
    last: Point
    first: Point
    recovered: Point | None = None
    is_outcome: bool = False


@dataclass(frozen=True)
class MachineChange:
    """From point ``index`` on the series is measured on another machine, for good: nothing is compared across it."""

    index: int
    first: Point
    differs: Sequence[str]


@dataclass(frozen=True)
class Newest:
    """So many of the newest ``runs`` differ from those before, as ``check`` judges, and are too few for a level.

    ``effect`` says by how much, where that is a ratio; it has no direction of its own for a count or an outcome.
    """

    runs: int
    effect: Effect | None = None


@dataclass(frozen=True)
class Past:
    """One series: ``n`` points, its changes of level and of machine, oldest first, and what is too new to be one."""

    name: Name
    n: int
    changes: Sequence[Change]
    machines: Sequence[MachineChange] = ()
    newest: Newest | None = None
