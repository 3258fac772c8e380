"""The rule that a series is judged by, given what it has measured."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.series.policy import Rule, rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.series import Point, Series


def rule_of(series: Series, old: Sequence[Point], newest: Point, policy: Mapping[str, config.Rule]) -> Rule:
    """The metric's rule, as the values have it.

    An outcome with other numbers than 0 and 1 is an accuracy in the usual sense, a ratio; and there is no ratio to what
    was mostly zero or below.
    """
    values = [point.value for point in old if point.value is not None]
    level = median(values) if values else None
    found = rule(series.metric, policy, newest.target, level)
    if found.kind == "outcome" and not _is_outcome((*old, newest)):
        found = replace(found, kind="ratio")
    if found.kind == "ratio" and level is not None and level <= 0:
        found = replace(found, kind="amount")
    return found


def _is_outcome(points: Sequence[Point]) -> bool:
    return {number for point in points for number in point.repetitions} <= {0.0, 1.0}
