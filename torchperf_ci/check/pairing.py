"""Pair new points with the past points that they can be compared with, and arrange many series in one array."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.series.outcomes import passed
from torchperf_ci.series.points import differing_facts, runs_of
from torchperf_ci.verdicts.evidence import CommitRange, MeasuredPoint, RangeEnd, measured_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.series.points import Point, Points, Series, SeriesGroup


MOST_CHARTED = 40
"""Most points of a series in the evidence, the newest ones."""
MOST_NEW_CHARTED = 20
"""Most new points among them, so that the chart still shows the old level."""
SHOWN_NAMES = 5
"""Most facts that are named if machines differ."""


@dataclass(frozen=True)
class SeriesPairing:
    """A series with new points. All points in ``old`` and ``new`` have numbers and one fingerprint, oldest first.

    ``differs`` lists the differences to the past if there is a past but none of it is comparable.
    """

    series: Series
    old: Sequence[Point]
    new: Sequence[Point]
    differs: Sequence[str] = ()

    @property
    def newest(self) -> Point:
        """The last new point."""
        return self.new[-1]


def pair_with_past(series: Series, old: Sequence[Point], new: Sequence[Point]) -> SeriesPairing:
    """Pair new points, at least one of which has a number, with the comparable points of the past.

    If the new points come from several machines, only those of the newest point's machine count.
    """
    measured = [point for point in new if point.value is not None]
    facts = measured[-1].fingerprint
    past = [point for point in old if point.value is not None]
    comparable = [point for point in past if point.fingerprint == facts]
    return SeriesPairing(
        series,
        comparable,
        [point for point in measured if point.fingerprint == facts],
        differing_facts(past[-1].fingerprint, facts) if past and not comparable else (),
    )


def several_machines(new: Points) -> str:
    """Return a note if some new points are not judged because they are not comparable with the newest ones."""
    differing_names = [differing for row in new.values() if (differing := _differing_names(row))]
    if not differing_names:
        return ""
    names = sorted(set().union(*differing_names))
    return (
        f"{len(differing_names)} series have new points of several machines or batch sizes, which differ in "
        f"{', '.join(names[:SHOWN_NAMES])}{' and more' if len(names) > SHOWN_NAMES else ''}; of each only those of the "
        "newest machine are judged: check each machine's records by itself"
    )


def _differing_names(points: Iterable[Point]) -> set[str]:
    """Return the names of the facts that differ between points with a number or an outcome."""
    telling = [point.fingerprint for point in points if point.value is not None or passed(point) is not None]
    return {
        name
        for facts in telling
        for name in {*facts, *telling[-1]}
        if facts.get(name) != telling[-1].get(name)
    }


def of_newest_runs(points: Sequence[Point], count: int) -> list[Point]:
    """Return the points of the last ``count`` runs."""
    newest = set(list(dict.fromkeys(point.run for point in points))[-count:])
    return [point for point in points if point.run in newest]


def newest_machine(points: Points) -> dict[Series, Sequence[Point]]:
    """Return, for each series, the points with a number that are comparable with the last such point."""
    measured = {series: [point for point in row if point.value is not None] for series, row in points.items()}
    return {
        series: [point for point in row if point.fingerprint == row[-1].fingerprint]
        for series, row in measured.items()
        if row
    }


def commits_around(old: Sequence[Point], new: Sequence[Point]) -> CommitRange:
    """Return the commits of the last point at the old level and the first point at the new level."""
    return CommitRange(*(_commit_of(points[0]) if points else RangeEnd() for points in (old[-1:], new[:1])))


def chart_points(pairing: SeriesPairing) -> Sequence[MeasuredPoint]:
    """Return the points for a chart of the series, at the old level and the new."""
    points = [*pairing.old[-MOST_CHARTED:], *pairing.new[-MOST_NEW_CHARTED:]]
    return tuple(
        MeasuredPoint(point.value, point.commit or point.info.get("torch", ""), point.timestamp)
        for point in points[-MOST_CHARTED:]
        if point.value is not None
    )


def _commit_of(point: Point) -> RangeEnd:
    return measured_commit(point.commit, point.info.get("torch", ""), point.timestamp)


SESSION_GAP = 3 * 3600
"""Seconds between two runs of one commit from which on they belong to different sessions."""


def sessions_of(points: Iterable[Point]) -> dict[str, int]:
    """Return the session number of each run. ``points`` are oldest first.

    A run continues a session if it has the same commits and begins less than :data:`SESSION_GAP` after the previous
    run, or if neither has a time. New records have no time yet, so they do not continue last night's session.
    """
    numbers = count()
    session_of: dict[str, int] = {}
    newest: dict[tuple[str, str], Point] = {}
    for point in points:
        commits = point.commit, point.info.get("torch", "")
        if point.run not in session_of:
            before = newest.get(commits)
            goes_on = before is not None and _is_near(before.timestamp, point.timestamp)
            session_of[point.run] = session_of[before.run] if before and goes_on else next(numbers)
        newest[commits] = point
    return session_of


def _is_near(before: int, after: int) -> bool:
    if not (before or after):
        return True
    return bool(before and after) and after - before < SESSION_GAP


@dataclass(frozen=True)
class RunMatrix:
    """Values of shape (series, runs), oldest first, NaN where a run has no number; the last column has the newest.

    ``jobs`` and ``sessions``, of the same shape, are the numbers of the run and of its session, -1 where there is
    none. ``groups``, of shape (series,), numbers the combinations of machine and metric.
    """

    series: Sequence[Series]
    values: NDArray[np.float64]
    jobs: NDArray[np.int64]
    sessions: NDArray[np.int64]
    groups: NDArray[np.int64]


def run_matrix(old: Points, new: Points | None = None) -> RunMatrix:
    """Return the matrix of all series in ``old`` and ``new``, in their order, with new points in the last columns.

    Columns of the past are the runs of a series' group, so that values measured together are in one column. Several
    points of one run are replaced by their median.
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
    jobs, sessions = (np.full((len(rows), width), -1, dtype=np.int64) for _ in range(2))
    numbers: dict[str, int] = {}
    for row, (series, (past, newest)) in enumerate(rows.items()):
        place = places.get(series.group, {})
        columns = [end - 1 - place[run] for run in past] + list(range(width - len(newest), width))
        values[row, columns] = [*past.values(), *newest.values()]
        jobs[row, columns] = [numbers.setdefault(run, len(numbers)) for run in (*past, *newest)]
        session = sessions_of([*old.get(series, ()), *new.get(series, ())])
        sessions[row, columns] = [session[run] for run in (*past, *newest)]
    groups = _numbered([(series.group, series.metric) for series in rows])
    return RunMatrix(list(rows), values, jobs, sessions, groups)


def _places(points: Points) -> dict[SeriesGroup, dict[str, int]]:
    """Return how many later runs its group has, for each run."""
    points_of_group: dict[SeriesGroup, list[Point]] = defaultdict(list)
    for series, row in points.items():
        points_of_group[series.group].extend(row)
    return {
        group: {run: place for place, run in enumerate(reversed(runs_of(row)))}
        for group, row in points_of_group.items()
    }


def _value_of_runs(points: Iterable[Point]) -> dict[str, float]:
    """Return the value of each run, oldest first."""
    values_of_run: dict[str, list[float]] = defaultdict(list)
    for point in points:
        if point.value is not None:
            values_of_run[point.run].append(point.value)
    return {run: median(values) for run, values in values_of_run.items()}


def _numbered(names: Sequence[tuple[SeriesGroup, str]]) -> NDArray[np.int64]:
    numbers: dict[tuple[SeriesGroup, str], int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
