"""How a series is judged, given what it has measured: the name of a metric does not tell everything."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.series.policy import Rule
    from torchperf_ci.series.series import Point


def suited(rule: Rule, old: Sequence[Point], new: Sequence[Point] = ()) -> Rule:
    """The rule of a metric, as the values of a series have it.

    An outcome with other numbers than 0 and 1 is an accuracy in the usual sense, a ratio; and there is no ratio to what
    was mostly zero or below.
    """
    kind = rule.kind
    if kind == "outcome" and not _is_outcome((*old, *new)):
        kind = "ratio"
    if kind == "ratio" and (values := numbers(old)) and median(values) <= 0:
        kind = "amount"
    return replace(rule, kind=kind)


def numbers(points: Iterable[Point]) -> list[float]:
    """The values of the points that have one."""
    return [point.value for point in points if point.value is not None]


def _is_outcome(points: Iterable[Point]) -> bool:
    return {number for point in points for number in point.repetitions} <= {0.0, 1.0}
