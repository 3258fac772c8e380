"""The document of one year of a series: its points, levels, changes, and the smallest change that would be noticed."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from torchperf_ci.metrics import rounded
from torchperf_ci.series.from_store import NEWEST_POINTS
from torchperf_ci.series.level_changes import levels_of, parts_of
from torchperf_ci.series.points import of_trunk
from torchperf_ci.series.policy import rule_of_points
from torchperf_ci.series.run_matrix import sensitivity_of
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.web.changes import change_entry, with_culprits
from torchperf_ci.web.columns import SHOWN_DIGITS, Numbering, ranges, value_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.config import Rule
    from torchperf_ci.series.points import Point, Series
    from torchperf_ci.web.catalogue import GroupCatalogue, RunEntry
    from torchperf_ci.web.changes import ProvenCulprit

_QUIET = 0.003
"""Relative noise below which rounding to four digits would account for more than 1% of the variance."""


def series_document(
    series: Series,
    points: Sequence[Point],
    group: GroupCatalogue,
    year: int,
    policy: Mapping[str, Rule],
    culprits: Sequence[ProvenCulprit] = (),
) -> dict[str, object]:
    """Return a year of a series. ``points`` are all its points, oldest first; levels are found in the whole past.

    ``group`` is that of its kind of machine. ``noise`` and ``detectable`` are shares of the value, as
    computed by ``check``; they are None where the past is too short or the metric has no ratios.
    """
    trunk = of_trunk(points, group.trunk)
    rule = rule_of_points(series.metric, trunk, policy)
    (history,) = segment_all({series: trunk}, lambda *_: rule)
    sensitivity = next(iter(sensitivity_of({series: trunk[-NEWEST_POINTS:]}, {series: rule})), None)
    noise, detectable = (sensitivity.noise, sensitivity.detectable) if sensitivity else (None, None)
    shown = [point for point in points if year_of(point.timestamp) == year]
    return {
        "id": series.id,
        "direction": rule.direction,
        "kind": rule.kind,
        "trunk": group.trunk,
        "year": year,
        **_columns(series, shown, group.runs, SHOWN_DIGITS if noise and noise > _QUIET else SHOWN_DIGITS + 1),
        "levels": [
            vars(level) | {"value": rounded(level.value)}
            for level in levels_of(trunk, history)
            if rule.kind != "outcome" and year_of(level.start) <= year <= year_of(level.end)
        ],
        "changes": [
            with_culprits(change_entry(change, rule), culprits)
            for change in history.changes
            if year_of(change.first.timestamp) == year
        ],
        "machine_changes": [
            {"time": change.first.timestamp, "differs": change.differs}
            for change in history.machines
            if year_of(change.first.timestamp) == year
        ],
        "noise": noise and rounded(noise),
        "detectable": detectable and rounded(detectable),
        "min_effect": rule.min_effect,
        "version": 3,
    }


def year_of(timestamp: int) -> int:
    """Return the year in UTC; 1970 if the time is unknown."""
    return datetime.fromtimestamp(timestamp, timezone.utc).year


def _columns(
    series: Series, points: Sequence[Point], runs: Sequence[RunEntry], digits: int
) -> dict[str, object]:
    """Return the points, oldest first, as one list per column.

    ``run`` are ranges of indices of runs on the series' kind of machine in ``index.json``, where the oldest is 0; the
    commit, the branch and the time are found there. ``after`` is how many seconds a point is later than its run.
    """
    oldest_first = runs[::-1]
    places = {run.name: (place, run.time) for place, run in enumerate(oldest_first)}
    numbers = [places[point.run][0] for point in points]
    parts = parts_of(points)
    machine = dict(sorted((index, place) for place, part in enumerate(parts) for index in part))
    columns = {
        "run": ranges(numbers),
        "after": [point.timestamp - places[point.run][1] for point in points],
        "machine": [*machine.values()],
        **value_columns([(series, point) for point in points], digits),
    }
    numbering = Numbering([run.id for run in oldest_first]).checksum(numbers)
    return {
        "numbering": numbering,
        "points": columns,
        "machines": [points[part[0]].fingerprint for part in parts],
    }
