"""When a change of a metric matters: which direction is better, the smallest relevant change, and how it is compared.

The project's configuration takes precedence, then the record, then :mod:`torchperf_ci.metrics`. If none of them gives
the direction, changes both ways are reported and none is a regression. A record's target gives none: a series on one
side of it may not have reached it yet, or may never have missed it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Literal

from torchperf_ci.metrics import DOWN, MIN_AMOUNT, MIN_EFFECT, UP, MetricKind, direction_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.config import Rule
    from torchperf_ci.series.points import Point


@dataclass(frozen=True)
class MetricRule:
    """How changes of a metric are judged.

    ``direction`` is the better one, ``up`` or ``down``; empty where unknown, and then nothing is a regression.
    ``min_effect`` is the smallest relative change that matters, 0.03 for 3%, and ``min_amount`` the smallest difference
    of amounts.
    """

    direction: str
    min_effect: float
    kind: MetricKind
    min_amount: float = MIN_AMOUNT

    @property
    def worse(self) -> int:
        """1 if higher is worse, -1 if lower is worse, 0 if unknown."""
        return {DOWN: 1, UP: -1}.get(self.direction, 0)

    def word(self, *, above: bool, below: bool) -> Literal["regressed", "improved"] | None:
        """What it is to be above or below what was before; None if it is neither. Above is worse if that is unknown."""
        worse, better = (below, above) if self.direction == UP else (above, below)
        return "regressed" if worse else "improved" if better else None


def rule_of_metric(metric: str, policy: Mapping[str, Rule], recorded: str = "") -> MetricRule:
    """Return the rule of a metric.

    ``policy`` holds the configured rules by full metric name, ``recorded`` is the direction in the records, if any.
    """
    rule = policy.get(metric)
    direction = (rule.direction if rule else "") or recorded or direction_of(metric)
    return MetricRule(direction, rule.min_effect if rule else MIN_EFFECT, kind_of(metric))


def rule_of_points(
    metric: str, points: Sequence[Point], policy: Mapping[str, Rule], new: Sequence[Point] = ()
) -> MetricRule:
    """Return the rule of a metric, adapted to the points of a series, oldest first, and to ``new`` ones after them."""
    return suited(rule_of_metric(metric, policy, recorded_direction(new or points)), points, new)


def recorded_direction(points: Sequence[Point]) -> str:
    """Return the better direction as given by the newest record of the series; empty if it gives none."""
    direction = points[-1].info.get("direction", "") if points else ""
    return direction if direction in (UP, DOWN) else ""


NEGATIVE = 20
"""If more than one value in this many is negative, such values are no failures of a harness."""


def suited(metric_rule: MetricRule, old: Sequence[Point], new: Sequence[Point] = ()) -> MetricRule:
    """Adapt the rule of a metric to the values of a series, since the name does not tell everything.

    An outcome with values other than 0 and 1 is an accuracy in the usual sense and compared as a ratio, but as a count
    if it is 0 now, which has no ratio to anything; in a whole history with zeros as an amount, in shares of the best.
    Values have no ratio and are compared as amounts if most are zero or negative, or more than one in :data:`NEGATIVE`
    is negative, or no new one is above zero: a metric that is positive by nature has no such values. Their unit is
    unknown, so a difference matters from the largest value before on, from half of the new one where all were zero, and
    in a whole history from half of the largest; from :data:`MIN_AMOUNT` on anyway.
    """
    kind, values = metric_rule.kind, sorted(numbers(old))
    if kind == "outcome" and {number for point in (*old, *new) for number in point.repetitions} - {0.0, 1.0}:
        if not new and not all(values):
            least = metric_rule.min_effect * values[-1]
            return replace(metric_rule, kind="amount", min_amount=least or MIN_AMOUNT)
        kind = "ratio" if all(numbers(new)) else "count"
    is_signed = values and (median(values) <= 0 or values[len(values) // NEGATIVE] < 0)
    if kind == "ratio" and (is_signed or (values and max(numbers(new), default=inf) <= 0)):
        before, now = (max(map(abs, some), default=0.0) for some in (values, numbers(new)))
        large = before or now / 2 if new else before / 2
        return replace(metric_rule, kind="amount", min_amount=min(large or MIN_AMOUNT, MIN_AMOUNT))
    return metric_rule if kind == metric_rule.kind else replace(metric_rule, kind=kind)


def numbers(points: Iterable[Point]) -> list[float]:
    """Return the values of the points that have one."""
    return [point.value for point in points if point.value is not None]
