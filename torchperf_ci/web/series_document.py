"""A year of one series as a document: its points, its levels, what changed them, and how small a change is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from math import expm1, log1p
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.series.level_changes import parts_of
from torchperf_ci.series.policy import numbers, rule_of_metric, suited
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.past import MIN_HISTORY
from torchperf_ci.web.value_columns import SHOWN_DIGITS, ranges, value_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci import config
    from torchperf_ci.series.level_changes import LevelChange, SeriesHistory
    from torchperf_ci.series.points import Point, Series
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.web.catalogue import RunFacts
    from torchperf_ci.web.known_culprits import ProvenCulprit

_QUIET = 0.003
"""Noise, as a share, beside which what a fifth digit tells of a value is more than a hundredth of the variance."""


@dataclass(frozen=True)
class ChangeEntry:
    """A change of level. ``ratio``, new over old, with its 95% interval, is None where there is none.

    ``last_commit`` is the last that was measured at the old level, ``first_commit`` the first at the new one;
    ``recovered`` is when a regression was over, None while it lasts.
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


def series_document(
    series: Series,
    points: Sequence[Point],
    runs: Sequence[RunFacts],
    year: int,
    policy: Mapping[str, config.Rule],
    culprits: Sequence[ProvenCulprit] = (),
) -> dict[str, object]:
    """Return a year of a series. ``points`` are all it has, oldest first: its levels are those of the whole past.

    ``runs`` are all of its kind of machine, newest first. ``noise`` and ``detectable`` are shares of the value, as
    ``check`` sees them; they are None where the past is too short or the metric is no ratio.
    """
    trunk = of_trunk(points)
    rule = rule_of_series(series, trunk, policy)
    (history,) = segment_all({series: trunk}, lambda *_: rule)
    noise, detectable = sensitivity_of_series(trunk, rule)
    shown = [point for point in points if year_of(point.timestamp) == year]
    return {
        "id": series.id,
        "direction": rule.direction,
        "kind": rule.kind,
        "year": year,
        **_columns(series, shown, runs, SHOWN_DIGITS if noise and noise > _QUIET else SHOWN_DIGITS + 1),
        "levels": [level for level in _levels(trunk, history, rule) if _overlaps(level, year)],
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
        "noise": noise,
        "detectable": detectable,
        "min_effect": rule.min_effect,
        "version": 2,
    }


def year_of(timestamp: int) -> int:
    """The year in UTC; 1970 where the time is unknown."""
    return datetime.fromtimestamp(timestamp, timezone.utc).year


def of_trunk(points: Sequence[Point]) -> Sequence[Point]:
    """The points of the branch that has most of them, which are what is judged; a branch of a pull request is not."""
    counts = Counter(point.branch for point in points)
    trunk = max(counts, key=lambda branch: (counts[branch], branch), default="")
    return [point for point in points if point.branch == trunk]


def rule_of_series(series: Series, points: Sequence[Point], policy: Mapping[str, config.Rule]) -> MetricRule:
    """When a change matters; a target lies where it does from the first level."""
    first = next(iter(numbers(points)), None)
    target = points[-1].target if points else 0.0
    return suited(rule_of_metric(series.metric, policy, target, first), points)


def sensitivity_of_series(points: Sequence[Point], rule: MetricRule) -> tuple[float | None, float | None]:
    """Noise between runs and the smallest change that ``check`` would see on the newest machine, as shares."""
    if rule.kind != "ratio" or not points:
        return None, None
    machine = points[-1].fingerprint
    values = [value for value in numbers(p for p in points if p.fingerprint == machine) if value > 0]
    if len(values) < MIN_HISTORY:
        return None, None
    row = np.array([[*np.log(values), np.nan]])
    judged = judge(row, np.array([log1p(rule.min_effect)]))
    return _share(judged.sigma[0]), _share(judged.detectable[0])


def change_entry(change: LevelChange, rule: MetricRule) -> ChangeEntry:
    """A change of level, without its culprits."""
    effect = change.effect if rule.kind == "ratio" else None
    last, first = commits_around(change)
    return ChangeEntry(
        change.first.timestamp,
        change.word,
        rounded(change.old),
        rounded(change.new),
        rounded(effect.ratio) if effect else None,
        rounded(effect.low) if effect else None,
        rounded(effect.high) if effect else None,
        last,
        first,
        change.recovered.timestamp if change.recovered else None,
    )


def with_culprits(change: ChangeEntry, culprits: Iterable[ProvenCulprit]) -> Mapping[str, object]:
    """With those that a bisection found between the commits on its two sides."""
    sides = (change.last_commit, change.first_commit)
    return vars(change) | {
        "culprits": [one.evidence for one in culprits if all(sides) and one.sides == sides]
    }


def commits_around(change: LevelChange) -> tuple[str, str]:
    """Of PyTorch where that is what differs on the two sides of a change; else of the repository that measured."""
    old, new = (point.info.get("torch", "") for point in (change.last, change.first))
    return (old, new) if old and new and old != new else (change.last.commit, change.first.commit)


def rounded(value: float | None) -> float | None:
    """Six significant digits: more than any clock tells, and half the bytes."""
    return None if value is None else float(f"{value:.6g}")


def _columns(
    series: Series, points: Sequence[Point], runs: Sequence[RunFacts], digits: int
) -> dict[str, object]:
    """Return the points, oldest first, a list for each column.

    ``run`` has ranges of the runs of the series' kind of machine in ``index.json``, of which the oldest is 0: they have
    the commit, the branch and the time, ``after`` which a point came by so many seconds.
    """
    places = {run.name: (place, run.time) for place, run in enumerate(reversed(runs))}
    parts = parts_of(points)
    machine = dict(sorted((index, place) for place, part in enumerate(parts) for index in part.indices))
    columns = {
        "run": ranges(places[point.run][0] for point in points),
        "after": [point.timestamp - places[point.run][1] for point in points],
        "machine": [*machine.values()],
        **value_columns([(series, point) for point in points], digits),
    }
    return {"points": columns, "machines": [part.facts for part in parts]}


def _levels(points: Sequence[Point], history: SeriesHistory, rule: MetricRule) -> Iterable[dict[str, float]]:
    """Between changes of level and of machine; an outcome has no level to draw."""
    if rule.kind == "outcome":
        return
    edges = {0, len(points), *(c.index for c in history.changes), *(c.index for c in history.machines)}
    for start, end in pairwise(sorted(edges)):
        if values := numbers(points[start:end]):
            value = rounded(float(np.median(values)))
            yield {"start": points[start].timestamp, "end": points[end - 1].timestamp, "value": value or 0.0}


def _overlaps(level: Mapping[str, float], year: int) -> bool:
    return year_of(int(level["start"])) <= year <= year_of(int(level["end"]))


def _share(log: float) -> float | None:
    return rounded(expm1(log)) if np.isfinite(log) else None
