"""When a change of a metric matters: which way is better, from what size on, and how it is compared.

The project's configuration goes first, then what the record says, what :mod:`torchperf_ci.metrics` knows, and the
record's target. A metric of which none of them tells the direction is judged both ways, and no change of it is a
regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.metrics import DOWN, MIN_EFFECT, UP, MetricKind, direction_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.points import Point


@dataclass(frozen=True)
class MetricRule:
    """``direction`` is ``up`` or ``down``, whichever is better, or empty where it is unknown: then nothing is red.

    ``min_effect`` is the smallest relative change that matters, 0.03 for 3%.
    """

    direction: str
    min_effect: float
    kind: MetricKind

    @property
    def worse(self) -> int:
        """1 where up is worse, -1 where down is, 0 where the direction is unknown."""
        return {DOWN: 1, UP: -1}.get(self.direction, 0)


def rule_of_metric(
    metric: str,
    policy: Mapping[str, config.Rule],
    target: float = 0.0,
    level: float | None = None,
    said: str = "",
) -> MetricRule:
    """The rule of a metric. ``policy`` is the configuration's, by the metric's whole name.

    ``said`` is the direction that its records say themselves, if they do.

    A ``target`` other than 0 tells the direction from where the metric was, its ``level``, where nothing else does.
    """
    given = policy.get(metric)
    direction = (given.direction if given else "") or said or direction_of(metric) or _towards(target, level)
    return MetricRule(direction, given.min_effect if given else MIN_EFFECT, kind_of(metric))


def said_direction(points: Sequence[Point]) -> str:
    """Which way is better, as the newest point's record says in the ``direction`` of its metric; else empty."""
    said = points[-1].info.get("direction", "") if points else ""
    return said if said in (UP, DOWN) else ""


def suited(metric_rule: MetricRule, old: Sequence[Point], new: Sequence[Point] = ()) -> MetricRule:
    """The rule of a metric, as the values of a series have it: the name does not tell everything.

    An outcome with other numbers than 0 and 1 is an accuracy in the usual sense, a ratio; and there is no ratio to what
    was mostly zero or below.
    """
    kind = metric_rule.kind
    if kind == "outcome" and not _is_outcome((*old, *new)):
        kind = "ratio"
    if kind == "ratio" and (values := numbers(old)) and median(values) <= 0:
        kind = "amount"
    return replace(metric_rule, kind=kind)


def numbers(points: Iterable[Point]) -> list[float]:
    """The values of the points that have one."""
    return [point.value for point in points if point.value is not None]


def _towards(target: float, level: float | None) -> str:
    if not target or level is None or target == level:
        return ""
    return UP if target > level else DOWN


def _is_outcome(points: Iterable[Point]) -> bool:
    return {number for point in points for number in point.repetitions} <= {0.0, 1.0}
