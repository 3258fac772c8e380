"""The earlier runs behind a verdict: the level of the newest run, and a chart."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from torchperf_ci.document import Chart, day_of
from torchperf_ci.metrics import name_and_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.verdicts.verdict import MeasuredPoint, RangeEnd, Verdict


def newest_level(verdict: Verdict) -> float | None:
    """The value of the newest run; ``new`` may be a mean that includes earlier nights."""
    points = verdict.evidence.points
    return points[-1].value if points else verdict.new


MOST_POINTS = 40
_FEWEST_POINTS = 4
_LEAST_NOISE = 0.001


def clearest_chart(verdicts: Iterable[Verdict]) -> Chart | None:
    """The chart of the series that shows its change most clearly; None if no series has enough history."""
    charts = [(_clearness(verdict), chart) for verdict in verdicts if (chart := _chart_of(verdict))]
    return max(charts, key=lambda pair: pair[0])[1] if charts else None  # the first one in case of a tie


def _clearness(verdict: Verdict) -> float:
    """The size of the change in units of its noise."""
    size = verdict.effect.size if verdict.effect else 0.0
    return round(size / max(verdict.noise or 0.0, _LEAST_NOISE), 3) if size < inf else 0.0


def _chart_of(verdict: Verdict) -> Chart | None:
    points = verdict.evidence.points[-MOST_POINTS:]
    if len(points) < _FEWEST_POINTS:
        return None
    series = verdict.series
    name, unit = name_and_unit(series.metric)
    title = f"{series.model} {name} on {series.arch or series.device}"
    values = [point.value for point in points]
    return Chart(title, unit or name, values, _levels(verdict, points), _days(points))


def _levels(verdict: Verdict, points: Sequence[MeasuredPoint]) -> Sequence[float]:
    """The old level at each point before the change, then the new level; empty if it is unknown when it changed."""
    old, new = verdict.old, verdict.new
    if old is None or new is None:
        return ()
    for index, point in enumerate(points):
        if _is_since(point, verdict.evidence.commits.first_new):
            return [*[old] * index, *[new] * (len(points) - index)]
    return ()


def _is_since(point: MeasuredPoint, first_new: RangeEnd) -> bool:
    if point.timestamp and first_new.timestamp:
        return point.timestamp >= first_new.timestamp
    return point.commit != "" and point.commit in (first_new.commit, first_new.torch)


def _days(points: Sequence[MeasuredPoint]) -> str:
    first, last = day_of(points[0].timestamp), day_of(points[-1].timestamp)
    return f"from {first} to {last}" if first and last else ""
