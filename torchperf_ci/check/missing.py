"""Series that were measured lately, and now were not: never zero, never red."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.check.comparable import commits
from torchperf_ci.metrics import STATUS
from torchperf_ci.series.outcome import not_measured
from torchperf_ci.series.runs import runs_of
from torchperf_ci.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchperf_ci.series.series import Group, Point, Points, Series

RECENT = 5
"""Runs of a group in one of which a series has to be for anybody to miss it."""


def lost_series(old: Points, new: Points, explained: Mapping[Series, str]) -> list[Verdict]:
    """The series of the past that belong to what was measured now, and have no point there.

    ``explained`` tells by case what is wrong with it. The rest may be another shard's.
    """
    measured = {series.group for series in new}
    past = {series: row for series, row in old.items() if series.group in measured}
    recent = _recent_runs(past)
    return [
        missing(series, explained.get(series.case) or _why(series, new), row)
        for series, row in past.items()
        if series not in new and any(point.run in recent[series.group] for point in row)
    ]


def _why(series: Series, new: Points) -> str:
    """The status of the case may tell."""
    status = new.get(replace(series, metric=STATUS))
    told = not_measured(status[-1]).get(series.metric, "") if status else ""
    return f"not measured: {told}" if told else "not measured in this run"


def missing(series: Series, why: str, old: Iterable[Point] = ()) -> Verdict:
    """The verdict on a series without a number."""
    past = [point for point in old if point.value is not None]
    return Verdict(
        series,
        "missing",
        why,
        old=past[-1].value if past else None,
        evidence={"history": len(past), "last_old": commits(past, ())["last_old"]},
    )


def _recent_runs(points: Points) -> dict[Group, set[str]]:
    found: dict[Group, list[Point]] = defaultdict(list)
    for series, row in points.items():
        found[series.group].extend(row)
    return {group: set(runs_of(row)[-RECENT:]) for group, row in found.items()}
