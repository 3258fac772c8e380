"""Whether a case worked: metrics that say pass or fail, as a number or as a word."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.metrics import STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.series.series import Point, Points, Series

NOTHING_TO_MEASURE = ("unsupported", "skipped")
"""Words of a case that neither worked nor failed."""


def passed(point: Point) -> bool | None:
    """Whether an outcome is a pass; None where there is nothing to tell, or the metric is of another kind.

    It is 1 or 0 in each repetition, or words that begin with ``pass``, as the accuracy of TorchInductor's benchmarks.
    """
    words = _words(point)
    if any(word in NOTHING_TO_MEASURE for word in words):
        return None
    if point.repetitions:
        return min(point.repetitions) == 1 if set(point.repetitions) <= {0.0, 1.0} else None
    return all(word.startswith("pass") for word in words) if words else None


def word(point: Point) -> str:
    """What the record calls the outcome, such as ``oom``."""
    words = _words(point)
    bad = next((word for word in words if not word.startswith("pass")), None)
    return bad or next(iter(words), "pass" if passed(point) else "failed")


def not_measured(status: Point) -> Mapping[str, str]:
    """What the status of a case that passed has no number for, and why, by metric."""
    try:
        told = json.loads(status.info.get("not_measured", "{}"))
    except (ValueError, RecursionError):
        return {}
    return {str(metric): str(why) for metric, why in told.items()} if isinstance(told, dict) else {}


def without_failed(points: Points) -> Points:
    """The points with no number for whatever has a status in the same run that is not a pass.

    Failed benchmarks have been seen to report zeros, which are no measurements. What the status says goes to the
    points.
    """
    failing = _failing(points)
    if not failing:
        return points
    return {
        series: row if series.metric == STATUS else [_withheld(series, point, failing) for point in row]
        for series, row in points.items()
    }


def _failing(points: Points) -> dict[tuple[Series, str], Mapping[str, str]]:
    return {
        (series.case, point.run): point.info
        for series, row in points.items()
        if series.metric == STATUS
        for point in row
        if not passed(point)
    }


def _withheld(series: Series, point: Point, failing: Mapping[tuple[Series, str], Mapping[str, str]]) -> Point:
    status = failing.get((series.case, point.run))
    if status is None:
        return point
    return replace(point, value=None, repetitions=(), info={**point.info, **status})


def _words(point: Point) -> list[str]:
    """The word of torchperf's own records, else the values that are no numbers."""
    if "status" in point.info:
        return [point.info["status"]]
    try:
        values = json.loads(point.info.get("benchmark_values", "[]"))
    except (ValueError, RecursionError):
        values = [point.info["benchmark_values"]]
    return [str(value).lower() for value in (values if isinstance(values, list) else [values])]
