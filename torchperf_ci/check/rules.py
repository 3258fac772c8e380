"""The rule that new points of a series are judged by."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.series.policy import MetricRule, numbers, rule, suited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.series import Point, Series


def rule_of(
    series: Series, old: Sequence[Point], newest: Point, policy: Mapping[str, config.Rule]
) -> MetricRule:
    """The metric's rule, as the values have it; the level of the past tells where a target lies."""
    values = numbers(old)
    found = rule(series.metric, policy, newest.target, median(values) if values else None)
    return suited(found, old, (newest,))
