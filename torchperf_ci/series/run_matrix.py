"""Many series in one array, with the runs and sessions that measured them, and what a next run of them would show."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from math import log1p
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.series.points import Point, Points, Series, SeriesGroup, runs_of_groups
from torchperf_ci.stats.effect import share_of_log
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.past import MIN_HISTORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.series.policy import MetricRule


def log_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms, NaN for values that are not positive."""
    return np.log(np.where(values > 0, values, np.nan))


def newest_machine(points: Points) -> dict[Series, Sequence[Point]]:
    """Return, for each series, the points with a number that are comparable with the last such point."""
    measured = {series: [point for point in row if point.value is not None] for series, row in points.items()}
    return {
        series: [point for point in row if point.fingerprint == row[-1].fingerprint]
        for series, row in measured.items()
        if row
    }


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
        commits = point.commit, point.torch
        if point.run not in session_of:
            before = newest.get(commits)
            begun, now = before.timestamp if before else -1, point.timestamp
            goes_on = begun == now or (min(begun, now) > 0 and now - begun < SESSION_GAP)
            session_of[point.run] = session_of[before.run] if before and goes_on else next(numbers)
        newest[commits] = point
    return session_of


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
    runs_of = runs_of_groups(old).items()
    places = {group: {run: place for place, run in enumerate(reversed(runs))} for group, runs in runs_of}
    end = max(map(len, places.values()), default=0)
    width = end + max((len(newest) for _, newest in rows.values()), default=0)
    values = np.full((len(rows), width), np.nan)
    jobs, sessions = (np.full((len(rows), width), -1, dtype=np.int64) for _ in range(2))
    numbers: dict[str, int] = defaultdict(count().__next__)
    for row, (series, (past, newest)) in enumerate(rows.items()):
        place = places.get(series.group, {})
        columns = [end - 1 - place[run] for run in past] + list(range(width - len(newest), width))
        values[row, columns] = [*past.values(), *newest.values()]
        jobs[row, columns] = [numbers[run] for run in (*past, *newest)]
        session = sessions_of([*old.get(series, ()), *new.get(series, ())])
        sessions[row, columns] = [session[run] for run in (*past, *newest)]
    kinds: dict[tuple[SeriesGroup, str], int] = defaultdict(count().__next__)
    groups = np.array([kinds[series.group, series.metric] for series in rows], dtype=np.int64)
    return RunMatrix(list(rows), values, jobs, sessions, groups)


def _value_of_runs(points: Iterable[Point]) -> dict[str, float]:
    """Return the value of each run, oldest first."""
    values_of_run: dict[str, list[float]] = defaultdict(list)
    for point in points:
        if point.value is not None:
            values_of_run[point.run].append(point.value)
    return {run: median(values) for run, values in values_of_run.items()}


@dataclass(frozen=True)
class SeriesSensitivity:
    """Noise and smallest detectable change of one series, as shares of its value; None if the past is too short."""

    series: Series
    history: int
    noise: float | None
    detectable: float | None
    min_effect: float


def sensitivity_of(points: Points, rules: Mapping[Series, MetricRule]) -> list[SeriesSensitivity]:
    """Return the sensitivity of each series of ratios on its newest machine, for a hypothetical next run.

    Series are judged together: how far runs deviate, and what the series of a job share, is learned from all of
    ``points``, so a series alone may get slightly other numbers than among those measured with it.
    """
    ratios = {series: row for series, row in points.items() if rules[series].kind == "ratio"}
    past = run_matrix(newest_machine(ratios))
    rows = len(past.values)
    nobody = np.full((rows, 1), -1, dtype=np.int64)
    judged = judge(
        np.hstack([log_values(past.values), np.full((rows, 1), np.nan)]),
        np.array([log1p(rules[series].min_effect) for series in past.series]),
        np.hstack([past.jobs, nobody]),
        past.groups,
        sessions=np.hstack([past.sessions, nobody]),
    )
    return [
        SeriesSensitivity(
            series,
            int(history),
            share_of_log(sigma) if history >= MIN_HISTORY else None,
            share_of_log(detectable) if history >= MIN_HISTORY else None,
            rules[series].min_effect,
        )
        for series, history, sigma, detectable in zip(
            past.series, judged.history, judged.sigma, judged.detectable, strict=True
        )
    ]
