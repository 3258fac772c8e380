"""The document of one year of a series: its points, levels, changes, and the smallest change that would be noticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from torchperf_ci.series.from_store import NEWEST_POINTS
from torchperf_ci.series.level_changes import LevelChange, levels_of, parts_of
from torchperf_ci.series.points import Point, Series, of_trunk, trunk_of
from torchperf_ci.series.policy import MetricRule, rule_of_points
from torchperf_ci.series.run_matrix import sensitivity_of
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.web.numbering import Numbering
from torchperf_ci.web.value_columns import SHOWN_DIGITS, ranges, rounded, rounded_effect, value_columns

if TYPE_CHECKING:
    from torchperf_ci import config
    from torchperf_ci.web.catalogue import RunFacts
    from torchperf_ci.web.known_culprits import ProvenCulprit

_QUIET = 0.003
"""Relative noise below which rounding to four digits would account for more than 1% of the variance."""


@dataclass(frozen=True)
class ChangeEntry:
    """A change of level. ``ratio``, new over old, and its 95% interval are None if the change has no ratio.

    ``last_commit`` is the last that was measured at the old level, ``first_commit`` the first at the new one;
    ``recovered`` is when a regression ended, None while it lasts. If the two commits are PyTorch's, ``own_commits`` are
    those of the repository whose jobs measured.
    """

    time: int
    word: str
    old: float | None
    new: float | None
    ratio: float | None
    low: float | None
    high: float | None
    last_commit: str
    first_commit: str
    recovered: int | None
    own_commits: Sequence[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is a regression that lasts."""
        return self.word == "regressed" and self.recovered is None


def series_document(
    series: Series,
    points: Sequence[Point],
    runs: Sequence[RunFacts],
    year: int,
    policy: Mapping[str, config.Rule],
    culprits: Sequence[ProvenCulprit] = (),
) -> dict[str, object]:
    """Return a year of a series. ``points`` are all its points, oldest first; levels are found in the whole past.

    ``runs`` are all runs on its kind of machine, newest first. ``noise`` and ``detectable`` are shares of the value, as
    computed by ``check``; they are None where the past is too short or the metric has no ratios.
    """
    branch = trunk_of(run.branch for run in runs)
    trunk = of_trunk(points, branch)
    rule = rule_of_points(series.metric, trunk, policy)
    (history,) = segment_all({series: trunk}, lambda *_: rule)
    sensitivity = next(iter(sensitivity_of({series: trunk[-NEWEST_POINTS:]}, {series: rule})), None)
    noise, detectable = (sensitivity.noise, sensitivity.detectable) if sensitivity else (None, None)
    shown = [point for point in points if year_of(point.timestamp) == year]
    return {
        "id": series.id,
        "direction": rule.direction,
        "kind": rule.kind,
        "trunk": branch,
        "year": year,
        **_columns(series, shown, runs, SHOWN_DIGITS if noise and noise > _QUIET else SHOWN_DIGITS + 1),
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


def change_entry(change: LevelChange, rule: MetricRule) -> ChangeEntry:
    """Return the entry of a change of level, without its culprits."""
    own = (change.last.commit, change.first.commit)
    return ChangeEntry(
        change.first.timestamp,
        change.word,
        rounded(change.old),
        rounded(change.new),
        *rounded_effect(change.effect if rule.kind == "ratio" else None),
        *change.commits,
        change.recovered.timestamp if change.recovered else None,
        own if own != change.commits else None,
    )


def with_culprits(change: ChangeEntry, culprits: Iterable[ProvenCulprit]) -> Mapping[str, object]:
    """Return a change with the culprits that a bisection found between the commits around it."""
    ranges = {(change.last_commit, change.first_commit), tuple(change.own_commits or ())}
    return vars(change) | {
        "culprits": [one.evidence for one in culprits if all(one.sides) and one.sides in ranges]
    }


def _columns(
    series: Series, points: Sequence[Point], runs: Sequence[RunFacts], digits: int
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
