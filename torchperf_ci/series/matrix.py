"""Series as the arrays that ``stats`` works on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.series.runs import runs_of
from torchperf_ci.series.sittings import sittings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.series.series import Group, Point, Points, Series


@dataclass(frozen=True)
class Matrix:
    """Values of shape (series, runs), oldest first, NaN where a run has no number; the newest are in the last column.

    ``jobs`` and ``sittings``, of the same shape, number the runs and what they were made in, -1 where there is none;
    ``groups``, shape (series,), numbers the kinds of machine and metric.
    """

    series: Sequence[Series]
    values: NDArray[np.float64]
    jobs: NDArray[np.int64]
    sittings: NDArray[np.int64]
    groups: NDArray[np.int64]


def matrix(old: Points, new: Points | None = None) -> Matrix:
    """The series of ``old`` and ``new`` in their order, each with its past, and with its new points at the end.

    The columns of the past are the runs of a series' group, so that what was measured together stays together. Several
    points of one run become one, their median.
    """
    new = new or {}
    rows = {
        series: (_value_of_runs(old.get(series, ())), _value_of_runs(new.get(series, ())))
        for series in dict.fromkeys([*old, *new])
    }
    places = _places(old)
    end = max(map(len, places.values()), default=0)
    width = end + max((len(newest) for _, newest in rows.values()), default=0)
    values = np.full((len(rows), width), np.nan)
    jobs, sittings = (np.full((len(rows), width), -1, dtype=np.int64) for _ in range(2))
    numbers: dict[str, int] = {}
    for row, (series, (past, newest)) in enumerate(rows.items()):
        place = places.get(series.group, {})
        columns = [end - 1 - place[run] for run in past] + list(range(width - len(newest), width))
        values[row, columns] = [*past.values(), *newest.values()]
        jobs[row, columns] = [numbers.setdefault(run, len(numbers)) for run in (*past, *newest)]
        sitting = sittings_of([*old.get(series, ()), *new.get(series, ())])
        sittings[row, columns] = [sitting[run] for run in (*past, *newest)]
    groups = _numbered([(series.group, series.metric) for series in rows])
    return Matrix(list(rows), values, jobs, sittings, groups)


def _places(points: Points) -> dict[Group, dict[str, int]]:
    """How many runs of its group came after each run."""
    found: dict[Group, list[Point]] = defaultdict(list)
    for series, row in points.items():
        found[series.group].extend(row)
    return {
        group: {run: place for place, run in enumerate(reversed(runs_of(row)))}
        for group, row in found.items()
    }


def _value_of_runs(points: Iterable[Point]) -> dict[str, float]:
    """The value of each run, oldest first."""
    found: dict[str, list[float]] = defaultdict(list)
    for point in points:
        if point.value is not None:
            found[point.run].append(point.value)
    return {run: median(values) for run, values in found.items()}


def _numbered(names: Sequence[tuple[Group, str]]) -> NDArray[np.int64]:
    numbers: dict[tuple[Group, str], int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
