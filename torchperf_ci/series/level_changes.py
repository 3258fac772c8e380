"""Find the level changes and machine changes of a series, and newest runs that differ but are too few for a level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, pairwise, repeat
from math import log1p
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from torchperf_ci.series.points import Point, Series, differing_facts, machine_facts
from torchperf_ci.series.policy import MetricRule, numbers
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.effect_estimates import shift_effect
from torchperf_ci.stats.gate import Judged, judge
from torchperf_ci.stats.past import BASELINE
from torchperf_ci.stats.segmentation import MIN_EFFECT, change_points, noise_autocorrelation, sides
from torchperf_ci.stats.split_evidence import FEWEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


ChangeWord = Literal["regressed", "improved", "changed"]
"""``changed`` where it is unknown which direction is better."""
SeriesName = Series | Path
"""A series from records, or the path of a CSV file that holds one series."""
AnySeriesName = TypeVar("AnySeriesName", bound=SeriesName)


@dataclass(frozen=True)
class LevelChange:
    """A new level that begins at point ``index`` of the series, counted from 0.

    ``old`` and ``new`` are the levels in the metric's unit, ``effect`` their ratio where there is one. ``last`` is the
    last point at the old level, ``first`` the first one at the new level, ``newest`` the newest one on their machine.
    ``recovered`` is set for regressions only: the first point of a later level that is closer to the old level than to
    the new one.
    """

    index: int
    word: ChangeWord
    old: float
    new: float
    effect: Effect | None
    last: Point
    first: Point
    newest: Point
    recovered: Point | None = None

    @property
    def commits(self) -> tuple[str, str]:
        """The last commit at the old level and the first at the new one.

        They are those of PyTorch, which is what is measured, if both are known and differ; else of the repository whose
        job measured.
        """
        old, new = self.last.torch, self.first.torch
        return (old, new) if old and new and old != new else (self.last.commit, self.first.commit)


@dataclass(frozen=True)
class MachineChange:
    """The point ``index`` from which on a series is measured on another machine: nothing is compared across it."""

    index: int
    first: Point
    differs: Sequence[str]


@dataclass(frozen=True)
class NewestRuns:
    """The number of newest ``runs`` that differ from those before by ``check``'s rules, but are too few for a level.

    ``effect`` is the ratio to the runs before; None for what has none. A level takes at least ``level`` runs.
    """

    runs: int
    level: int
    effect: Effect | None = None


@dataclass(frozen=True)
class SeriesHistory:
    """A series of ``n`` points: its level and machine changes, oldest first, and newest runs that may become one.

    They are found by ``rule``. ``is_too_short`` says that on no machine there were enough runs for two levels, so that
    no change could be found.
    """

    name: SeriesName
    rule: MetricRule
    n: int
    changes: Sequence[LevelChange]
    machines: Sequence[MachineChange] = ()
    newest: NewestRuns | None = None
    is_too_short: bool = False

    @property
    def is_newly_worse(self) -> bool:
        """Whether the newest runs are worse by a known ratio."""
        effect = self.newest.effect if self.newest else None
        return bool(effect and (effect.ratio - 1) * self.rule.worse > 0)


@dataclass(frozen=True)
class SeriesLevel:
    """A level of a series on one machine, and ``start`` and ``end``, the Unix seconds of its first and last point."""

    start: int
    end: int
    value: float


def levels_of(points: Sequence[Point], history: SeriesHistory) -> list[SeriesLevel]:
    """Return the median of the values between changes of level, for each machine by itself; the current one is last."""
    begun = {change.index for change in history.changes}
    levels = []
    for part in parts_of(points, history.rule):
        edges = [0, *(place for place, index in enumerate(part) if index in begun), len(part)]
        for start, end in pairwise(edges):
            level = [points[index] for index in part[start:end]]
            if values := numbers(level):
                levels.append(SeriesLevel(level[0].timestamp, level[-1].timestamp, median(values)))
    return sorted(levels, key=attrgetter("end"))


_TOGETHER = 4096
"""Rows per batch; a batch holds rows of similar length, so that padding costs little."""


@dataclass(frozen=True)
class LevelStep:
    """A new level that begins at value ``place`` of a row."""

    place: int
    old: float
    new: float
    effect: Effect | None = None


def ratio_steps(rows: Sequence[Sequence[float]], min_effect: float = MIN_EFFECT) -> list[list[LevelStep]]:
    """Return the steps of at least ``min_effect`` in each row of positive values."""
    logs = [np.log(row) for row in rows]
    return [
        [
            LevelStep(
                place,
                float(np.exp(np.median(old))),
                float(np.exp(np.median(new))),
                shift_effect(old, new, autocorrelation=memory),
            )
            for place, old, new in found
        ]
        for row, found in zip(logs, _places_with_sides(logs, min_effect), strict=True)
        for memory in [noise_autocorrelation(row, [place for place, _, _ in found]) if found else 0.0]
    ]


def amount_steps(
    rows: Sequence[Sequence[float]], min_amounts: Sequence[float], min_effect: float = MIN_EFFECT
) -> list[list[LevelStep]]:
    """Return the steps in each row of values that may be zero or negative, of at least one of ``min_amounts``."""
    units = [_amount_unit(row, least, min_effect) for row, least in zip(rows, min_amounts, strict=True)]
    scaled = [np.array(row) / unit for row, unit in zip(rows, units, strict=True)]
    return [
        [
            LevelStep(place, float(np.median(old)) * unit, float(np.median(new)) * unit)
            for place, old, new in found
        ]
        for found, unit in zip(_places_with_sides(scaled, min_effect), units, strict=True)
    ]


def _amount_unit(row: Sequence[float], min_amount: float, min_effect: float) -> float:
    """Return the amount of which ``min_effect`` is the smallest difference that matters, ``min_amount`` or more."""
    return max(min_amount / log1p(min_effect), abs(median(row))) if row else 1.0


def _places_with_sides(
    rows: Sequence[NDArray[np.float64]], min_effect: float
) -> list[list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]]:
    """Return the change points of each row, each with the values of the levels before and after it."""
    places_of_rows: list[list[int]] = [[] for _ in rows]
    by_length = sorted(range(len(rows)), key=lambda number: rows[number].size)
    for start in range(0, len(rows), _TOGETHER):
        some = by_length[start : start + _TOGETHER]
        padded = np.full((len(some), rows[some[-1]].size), np.nan)
        for line, number in enumerate(some):
            padded[line, : rows[number].size] = rows[number]
        for number, places in zip(some, change_points(padded, min_effect), strict=True):
            places_of_rows[number] = places.tolist()
    return [
        [(place, *sides(row, place, places)) for place in places]
        for row, places in zip(rows, places_of_rows, strict=True)
    ]


SETTLED_RUNS = 2
"""Consecutive runs with the same value that make a level: a single failed run is not one."""


def settled_steps(values: Sequence[float]) -> list[LevelStep]:
    """Return the steps of a count or an outcome; a value that does not last belongs to the level before it."""
    steps: list[LevelStep] = []
    level: float | None = None
    place = 0
    for value, run in groupby(values):
        length = len(list(run))
        if length >= SETTLED_RUNS:
            if level is not None and value != level:
                steps.append(LevelStep(place, level, value, _effect(level, value)))
            level = value
        place += length
    return steps


def _effect(old: float, new: float) -> Effect | None:
    """Return the exact ratio; None where a level is not positive."""
    return Effect(new / old, new / old, new / old, pairs=0) if old > 0 and new > 0 else None


_LOOKED_AT = 2 * BASELINE
"""Newest runs of a series that are judged: twice the baseline of ``check``, to find where its level begins."""


def newest_ratios(
    rows: Sequence[Sequence[float]], least: Sequence[float], last_changes: Sequence[int]
) -> list[NewestRuns | None]:
    """Return, for each row of positive values, newest runs that provably differ from those before at its newest level.

    ``least`` is the smallest relative change that matters, by row; ``last_changes`` the index at which the newest level
    of each row begins, 0 where there is only one level.
    """
    judged = _judged([np.log(row) for row in rows], least, last_changes)
    effects = map(Effect.of_logs, judged.change, judged.low, judged.high, repeat(0))
    return [
        newest and replace(newest, effect=effect)
        for newest, effect in zip(_proven(judged), effects, strict=True)
    ]


def newest_amounts(
    rows: Sequence[Sequence[float]],
    min_amounts: Sequence[float],
    least: Sequence[float],
    last_changes: Sequence[int],
) -> list[NewestRuns | None]:
    """Do the same for values that may be zero or negative, for differences of at least one of ``min_amounts``."""
    units = [
        _amount_unit(row[begin:], amount, share)
        for row, amount, share, begin in zip(rows, min_amounts, least, last_changes, strict=True)
    ]
    scaled = [np.array(row) / unit for row, unit in zip(rows, units, strict=True)]
    return _proven(_judged(scaled, least, last_changes))


def _judged(
    rows: Sequence[NDArray[np.float64]], least: Sequence[float], last_changes: Sequence[int]
) -> Judged:
    values = np.full((len(rows), min(_LOOKED_AT, max(map(len, rows)))), np.nan)
    for number, (row, begin) in enumerate(zip(rows, last_changes, strict=True)):
        newest = row[begin:][-_LOOKED_AT:]
        values[number, values.shape[1] - len(newest) :] = newest
    return judge(values, np.log1p(least))


def _proven(judged: Judged) -> list[NewestRuns | None]:
    proven = judged.up.proven | judged.down.proven
    return [
        NewestRuns(int(runs), FEWEST) if is_proven else None
        for runs, is_proven in zip(judged.since, proven, strict=True)
    ]


def newest_differing(values: Sequence[float]) -> NewestRuns | None:
    """Return the newest run of a count or an outcome where it differs from the level before."""
    return (
        NewestRuns(1, SETTLED_RUNS)
        if len(values) > SETTLED_RUNS and values[-1] != values[-2] == values[-1 - SETTLED_RUNS]
        else None
    )


def parts_of(points: Sequence[Point], rule: MetricRule) -> list[list[int]]:
    """Return the ascending indices of the points that share a fingerprint, for each, ordered by first point.

    Outcomes share it if they are of one machine, because a case that fails early knows few facts of its own.
    """
    compared = machine_facts if rule.kind == "outcome" else dict[str, str]
    parts: list[list[int]] = []
    part: list[int] = []
    for index, point in enumerate(points):
        facts = point.fingerprint
        if (
            not part or points[part[0]].fingerprint is not facts
        ):  # successive points usually share the mapping
            own = compared(facts)
            part = next((known for known in parts if compared(points[known[0]].fingerprint) == own), [])
            if not part:
                parts.append(part)
        part.append(index)
    return parts


def machine_changes(points: Sequence[Point], parts: Sequence[Sequence[int]]) -> list[MachineChange]:
    """Return where a part begins after all earlier parts have ended: the series has moved to another machine."""
    changes = []
    for number, part in enumerate(parts[1:], start=1):
        first = part[0]
        if all(earlier[-1] < first for earlier in parts[:number]):
            differs = differing_facts(points[first - 1].fingerprint, points[first].fingerprint)
            changes.append(MachineChange(first, points[first], differs))
    return changes
