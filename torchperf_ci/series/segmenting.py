"""Find the level changes of many series at once, each by the rules for its kind of metric."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from statistics import median, median_low
from typing import TYPE_CHECKING

from torchperf_ci.series import level_changes as levels
from torchperf_ci.series.outcomes import passed
from torchperf_ci.stats.segmentation import MIN_EFFECT
from torchperf_ci.stats.split_evidence import FEWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchperf_ci.series.points import Point
    from torchperf_ci.series.policy import MetricRule


_SETTLED = ("count", "outcome")
"""Kinds of metrics without noise."""


@dataclass(frozen=True)
class _PartRuns:
    """The runs of one part of a series that have a value, oldest first; ``points`` are those of the whole series.

    ``values`` has one value per run, the median of its points; ``firsts`` and ``lasts`` are the indices of the first
    and the last of these points in the series.
    """

    name: levels.SeriesName
    rule: MetricRule
    points: Sequence[Point]
    values: Sequence[float]
    firsts: Sequence[int]
    lasts: Sequence[int]


def segment_all(
    points: Mapping[levels.AnySeriesName, Sequence[Point]],
    rule_of: Callable[[levels.AnySeriesName, Sequence[Point]], MetricRule],
    min_effect: float = MIN_EFFECT,
    with_newest: bool = True,
) -> list[levels.SeriesHistory]:
    """Return the level changes of at least ``min_effect`` in each series, in the order of ``points``.

    ``with_newest`` also looks for newest runs that differ, which takes most of the time of a single series.
    """
    rules = {name: rule_of(name, row) for name, row in points.items()}
    parts = {name: levels.parts_of(row, rules[name]) for name, row in points.items()}
    rows = [
        _row(name, rules[name], points[name], part)
        for name, parts_of_series in parts.items()
        for part in parts_of_series
    ]
    changes: dict[levels.SeriesName, list[levels.LevelChange]] = {name: [] for name in points}
    steps_of_rows = list(_steps(rows, min_effect))
    for row, steps in steps_of_rows:
        changes[row.name] += _with_recoveries([_change(row, step) for step in steps])
    # Only the part that the newest run of the series belongs to.
    current = [
        (row, steps) for row, steps in steps_of_rows if with_newest and len(row.points) - 1 in row.lasts[-1:]
    ]
    newest = _newest(current, min_effect)
    examined = {row.name for row in rows if row.rule.kind in _SETTLED or len(row.values) >= 2 * FEWEST}
    return [
        levels.SeriesHistory(
            name,
            rules[name],
            len(row),
            sorted(changes[name], key=attrgetter("index")),
            levels.machine_changes(row, parts[name]),
            newest.get(name),
            name not in examined,
        )
        for name, row in points.items()
    ]


def _row(
    name: levels.SeriesName, rule: MetricRule, points: Sequence[Point], part: Sequence[int]
) -> _PartRuns:
    """Merge the points of each run into one value; in a CSV file each line is a run."""
    known = [(value, index) for index in part if (value := _value(points[index], rule)) is not None]
    values, indices = [value for value, _ in known], [index for _, index in known]
    runs: Sequence[str | int] = (
        indices if isinstance(name, Path) else [points[index].run for index in indices]
    )
    if len({*runs}) == len(runs):  # nearly always
        return _PartRuns(name, rule, points, values, indices, indices)
    values_of_run: dict[str | int, list[tuple[float, int]]] = defaultdict(list)
    for run, valued in zip(runs, known, strict=True):
        values_of_run[run].append(valued)
    merged = [_run(valued, rule) for valued in values_of_run.values()]
    return _PartRuns(
        name,
        rule,
        points,
        [value for value, _ in merged],
        [places[0] for _, places in merged],
        [places[-1] for _, places in merged],
    )


def _run(known: Sequence[tuple[float, int]], rule: MetricRule) -> tuple[float, Sequence[int]]:
    """Merge the points of a run; a count takes the value of one of them instead of an average, an outcome the worst."""
    values = [value for value, _ in known]
    if rule.kind in _SETTLED:
        value = min(values) if rule.kind == "outcome" else median_low(values)
        return value, [index for other, index in known if other == value]
    return median(values), [index for _, index in known]


def _value(point: Point, rule: MetricRule) -> float | None:
    if rule.kind == "outcome":
        fine = passed(point)
        return None if fine is None else float(fine)
    if rule.kind == "ratio" and point.value is not None and point.value <= 0:
        return None
    return point.value


def _newest(
    rows: Sequence[tuple[_PartRuns, Sequence[levels.LevelStep]]], min_effect: float
) -> dict[levels.SeriesName, levels.NewestRuns | None]:
    newest_by_name = {
        row.name: levels.newest_differing(row.values) for row, _ in rows if row.rule.kind in _SETTLED
    }
    for kind in ("ratio", "amount"):
        some = [(row, steps) for row, steps in rows if row.rule.kind == kind]
        if not some:
            continue
        values = [row.values for row, _ in some]
        least = [max(min_effect, row.rule.min_effect) for row, _ in some]
        begun = [steps[-1].place if steps else 0 for _, steps in some]
        proven = (
            levels.newest_ratios(values, least, begun)
            if kind == "ratio"
            else levels.newest_amounts(values, [row.rule.min_amount for row, _ in some], least, begun)
        )
        newest_by_name |= {row.name: newest for (row, _), newest in zip(some, proven, strict=True)}
    return newest_by_name


def _steps(
    rows: Sequence[_PartRuns], min_effect: float
) -> Iterable[tuple[_PartRuns, Sequence[levels.LevelStep]]]:
    """Yield the steps of all rows; ratios and amounts are segmented together, counts and outcomes one by one."""
    ratios, amounts = ([row for row in rows if row.rule.kind == kind] for kind in ("ratio", "amount"))
    yield from zip(ratios, levels.ratio_steps([row.values for row in ratios], min_effect), strict=True)
    min_amounts = [row.rule.min_amount for row in amounts]
    yield from zip(
        amounts, levels.amount_steps([row.values for row in amounts], min_amounts, min_effect), strict=True
    )
    for row in rows:
        if row.rule.kind in _SETTLED:
            yield row, levels.settled_steps(row.values)


def _change(row: _PartRuns, step: levels.LevelStep) -> levels.LevelChange:
    index, before = row.firsts[step.place], row.lasts[step.place - 1]
    word = row.rule.word(above=step.new > step.old, below=step.new <= step.old)
    return levels.LevelChange(
        index,
        word if word and row.rule.direction else "changed",
        step.old,
        step.new,
        step.effect,
        last=row.points[before],
        first=row.points[index],
        newest=row.points[row.lasts[-1]],
    )


def _with_recoveries(changes: Sequence[levels.LevelChange]) -> list[levels.LevelChange]:
    return [
        replace(change, recovered=_recovery(change, changes[number:]))
        for number, change in enumerate(changes, start=1)
    ]


def _recovery(change: levels.LevelChange, later: Sequence[levels.LevelChange]) -> Point | None:
    return next(
        (
            other.first
            for other in later
            if change.word == "regressed"
            and (other.new > other.old) != (change.new > change.old)
            and abs(other.new - change.old) < abs(other.new - change.new)
        ),
        None,
    )
