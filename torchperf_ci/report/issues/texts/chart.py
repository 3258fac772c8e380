"""The history of one series as a chart that GitHub draws by itself: https://mermaid.js.org/syntax/xyChart.html"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log, log10
from typing import TYPE_CHECKING, Any

from torchperf_ci.document import short
from torchperf_ci.metrics import name_and_unit
from torchperf_ci.report.issues.causes.points import is_number, points_of
from torchperf_ci.report.issues.texts.words import NAME_LENGTH, machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.verdicts.verdict import Verdict

MOST_POINTS = 40
_FEWEST_POINTS = 4
_LAST_MOMENT = 253_402_300_800
"""The end of the year 9999, in Unix seconds."""
_DIGITS = 6
_LEAST_NOISE = 0.001
_MARGIN = 0.1
"""Of the values' range, above and below them."""
_LOOK = """---
config:
  xyChart: {width: 800, height: 320}
  themeVariables:
    xyChart: {plotColorPalette: "#4493f8, #d1242f"}
---
"""
"""Colours that are seen on white and on black: those of GitHub's own theme make the first line pale."""


@dataclass(frozen=True)
class Chart:
    """``values``, oldest first, and the ``levels`` that they lie on, as many, or none where these are not known.

    ``days`` says from when to when they were measured; empty where that is not known.
    """

    title: str
    unit: str
    values: tuple[float, ...]
    levels: tuple[float, ...] = ()
    days: str = ""


def chart(verdicts: Iterable[Verdict]) -> Chart | None:
    """That of the series which shows its change most clearly; None where none of them has a history."""
    drawn = [(_clearness(verdict), one) for verdict in verdicts if (one := _chart(verdict))]
    return max(drawn, key=lambda item: item[0])[1] if drawn else None  # the first of those that are as clear


def mermaid(drawn: Chart) -> str:
    """The chart as a block of Markdown."""
    low, high = _room((*drawn.values, *drawn.levels))
    lines = (
        f"{_LOOK}xychart-beta",
        f'title "{_safe(drawn.title)}"',
        f'x-axis "runs{drawn.days}, the newest is 0" {1 - len(drawn.values)} --> 0',
        f'y-axis "{_safe(drawn.unit)}" {_list([low])} --> {_list([high])}',
        f"line [{_list(drawn.values)}]",
        *([f"line [{_list(drawn.levels)}]"] if drawn.levels else []),
    )
    legend = "\n\n<sub>Blue: each run. Red: the level before and after.</sub>" if drawn.levels else ""
    return "\n    ".join(["```mermaid\n" + lines[0], *lines[1:]]) + f"\n```{legend}"


def _chart(verdict: Verdict) -> Chart | None:
    points = points_of(verdict)[-MOST_POINTS:]
    if len(points) < _FEWEST_POINTS:
        return None
    name, unit = name_and_unit(verdict.series.metric)
    where = f"{verdict.series.model} {name} on {machine(verdict.series)}"
    values = tuple(point["value"] for point in points)
    return Chart(where, unit or name, values, _levels(verdict, points), _days(points))


def _levels(verdict: Verdict, points: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """The old level as far as it reaches, then the new one."""
    old, new, first = verdict.old, verdict.new, verdict.evidence.get("first_new")
    if not isinstance(first, Mapping) or not (is_number(old) and is_number(new)):
        return ()
    turn = next((index for index, point in enumerate(points) if _is_after(point, first)), None)
    if turn is None:
        return ()
    return (*[old] * turn, *[new] * (len(points) - turn))


def _is_after(point: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    """Whether a point is that which first had the new level, or later."""
    if is_number(first.get("timestamp")) and is_number(point.get("timestamp")):
        return bool(point["timestamp"] >= first["timestamp"])
    return point.get("commit") in [first[name] for name in ("commit", "torch") if first.get(name)]


def _days(points: Sequence[Mapping[str, Any]]) -> str:
    ends = [points[end].get("timestamp") for end in (0, -1)]
    moments = [
        datetime.datetime.fromtimestamp(end, datetime.timezone.utc)
        for end in ends
        if is_number(end) and 0 < end < _LAST_MOMENT
    ]
    return f" from {moments[0]:%Y-%m-%d} to {moments[1]:%Y-%m-%d}" if len(moments) == len(ends) else ""


def _clearness(verdict: Verdict) -> float:
    """The change in units of its noise."""
    ratio = verdict.effect.ratio if verdict.effect else 1.0
    return round(abs(log(ratio)) / max(verdict.noise or 0.0, _LEAST_NOISE), 3) if ratio > 0 else 0.0


def _room(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low or abs(high) or 1.0) * _MARGIN
    return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


def _list(values: Sequence[float]) -> str:
    return ", ".join(map(_decimal, values))


def _decimal(value: float) -> str:
    """Without an exponent, which the chart's language does not know."""
    decimals = _DIGITS - 1 - floor(log10(abs(value))) if value else 0
    return f"{value:.{max(min(decimals, 20), 0)}f}"


def _safe(text: str) -> str:
    """What means nothing in the chart's language, between quotation marks or elsewhere."""
    kept = " ".join(re.sub(r"[^\w./()+ -]", " ", text, flags=re.ASCII).split())
    return short(kept, 2 * NAME_LENGTH) or "value"
