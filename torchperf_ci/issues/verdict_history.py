"""What the evidence of a verdict tells of earlier runs: the level of the newest, failures in a row, and a chart.

The evidence is JSON that may come from anywhere, and is read here alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, TypeGuard

from torchperf_ci.document import Chart
from torchperf_ci.metrics import name_and_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.verdicts.verdict import Verdict


@dataclass(frozen=True)
class HistoryPoint:
    """A run of the past: what it measured, at which commit, and when (Unix seconds, None where nobody says)."""

    value: float
    commit: str = ""
    timestamp: float | None = None


def newest_level(verdict: Verdict) -> float | None:
    """What the newest run measured: ``new`` may be a mean with runs of the nights before."""
    points = history_points(verdict)
    return points[-1].value if points else verdict.new


def history_points(verdict: Verdict) -> list[HistoryPoint]:
    """Those that have a number, oldest first."""
    listed = verdict.evidence.get("points")
    return [
        HistoryPoint(members["value"], _text(members.get("commit")), _number(members.get("timestamp")))
        for members in (listed if isinstance(listed, list) else [])
        if isinstance(members, Mapping) and _is_number(members.get("value"))
    ]


def failed_runs(verdict: Verdict) -> int:
    """Runs in a row that the series has failed, the newest included; 0 where that is not known."""
    return int(_number(verdict.evidence.get("failing")) or 0)


MOST_POINTS = 40
_FEWEST_POINTS = 4
_LEAST_NOISE = 0.001


def clearest_chart(verdicts: Iterable[Verdict]) -> Chart | None:
    """That of the series which shows its change most clearly; None where none of them has a history."""
    charts = [(_clearness(verdict), chart) for verdict in verdicts if (chart := _chart_of(verdict))]
    return (
        max(charts, key=lambda pair: pair[0])[1] if charts else None
    )  # the first of those that are as clear


def _clearness(verdict: Verdict) -> float:
    """The change in units of its noise."""
    ratio = verdict.effect.ratio if verdict.effect else 1.0
    return round(abs(log(ratio)) / max(verdict.noise or 0.0, _LEAST_NOISE), 3) if ratio > 0 else 0.0


def _chart_of(verdict: Verdict) -> Chart | None:
    points = history_points(verdict)[-MOST_POINTS:]
    if len(points) < _FEWEST_POINTS:
        return None
    series = verdict.series
    name, unit = name_and_unit(series.metric)
    title = f"{series.model} {name} on {series.arch or series.device}"
    return Chart(
        title, unit or name, [point.value for point in points], _levels(verdict, points), _days(points)
    )


def _levels(verdict: Verdict, points: Sequence[HistoryPoint]) -> Sequence[float]:
    """The old level as far as it reaches, then the new one; none where it is not known where that begins."""
    old, new, first_new = verdict.old, verdict.new, verdict.evidence.get("first_new")
    if not isinstance(first_new, Mapping) or not (_is_number(old) and _is_number(new)):
        return ()
    commits = [first_new[name] for name in ("commit", "torch") if first_new.get(name)]
    moment = _number(first_new.get("timestamp"))
    for index, point in enumerate(points):
        if _is_since(point, moment, commits):
            return [*[old] * index, *[new] * (len(points) - index)]
    return ()


def _is_since(point: HistoryPoint, moment: float | None, commits: Sequence[str]) -> bool:
    if moment is not None and point.timestamp is not None:
        return point.timestamp >= moment
    return point.commit in commits


def _days(points: Sequence[HistoryPoint]) -> str:
    first, last = _day(points[0].timestamp), _day(points[-1].timestamp)
    return f"from {first} to {last}" if first and last else ""


_LAST_MOMENT = 253_402_300_800
"""The end of the year 9999, in Unix seconds."""


def _day(timestamp: float | None) -> str:
    """``2026-11-21``; empty where nobody says when."""
    if timestamp is None or not 0 < timestamp < _LAST_MOMENT:
        return ""
    return f"{datetime.datetime.fromtimestamp(timestamp, datetime.timezone.utc):%Y-%m-%d}"


_LARGEST_NUMBER = 1e15


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether it can be drawn and reckoned with."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and abs(value) < _LARGEST_NUMBER


def _number(value: Any) -> float | None:
    return value if _is_number(value) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
