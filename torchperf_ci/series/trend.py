"""The trend of all latencies of a kind of machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING

from torchperf_ci.metrics import LATENCY

if TYPE_CHECKING:
    from torchperf_ci.series.points import Points

TREND_DAYS = 90
_DAY = 86_400


@dataclass(frozen=True)
class Trend:
    """The geometric mean of latencies by day, each relative to the median of its own series: 1.1 is 10% slower.

    ``n`` counts the series that were measured on each ``day`` (Unix seconds).
    """

    day: Sequence[int]
    ratio: Sequence[float]
    n: Sequence[int]


def latency_trend(points: Points) -> Trend:
    """Return the trend of the last :data:`TREND_DAYS` days. Several values of a series on a day are their median."""
    rows = [row for series, row in points.items() if series.metric == LATENCY]
    last = max((row[-1].timestamp for row in rows if row), default=0)
    days: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        by_day: dict[int, list[float]] = defaultdict(list)
        for point in row:
            if point.value is not None and point.timestamp > last - TREND_DAYS * _DAY:
                by_day[point.timestamp // _DAY * _DAY].append(log(point.value))
        level = median(value for values in by_day.values() for value in values) if by_day else 0.0
        for day, values in by_day.items():
            days[day].append(median(values) - level)
    trend = sorted(days.items())
    return Trend([*dict(trend)], [exp(fmean(logs)) for _, logs in trend], [len(logs) for _, logs in trend])
