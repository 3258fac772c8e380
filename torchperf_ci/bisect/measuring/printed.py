"""What a user's command prints: a number, or v3 records."""

from __future__ import annotations

from collections import defaultdict
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.metrics import DOWN, UP
from torchperf_ci.series import policy
from torchperf_ci.series.records import points_of_records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchperf_ci import config
    from torchperf_ci.series.series import Points

UNNAMED = "the command's number"
"""The series of a number that nobody has named."""
MOST_NAMED = 5


def read_costs(output: Path, metric: str, rules: Mapping[str, config.Rule]) -> Mapping[str, float]:
    """What the command has printed, by series, as costs: numbers above 0 that grow as things get worse.

    A number in the last line is the ``metric``, and better when lower where that is empty or unknown. Else the records
    count: those of the metric, or where it is empty all that have a direction. ``rules`` are the configuration's.
    Raises :class:`ValueError` for an output without a number that can be used.
    """
    last = _last_line(output)
    number = _number(last)
    if number is None:
        return _costs_of_records(output, metric, rules)
    cost = _cost(number, metric, rules, otherwise=DOWN)
    if cost is None:
        msg = f"its last line is {last}, which is no measurement that a ratio could be taken of"
        raise ValueError(msg)
    return {metric or UNNAMED: cost}


def _costs_of_records(output: Path, metric: str, rules: Mapping[str, config.Rule]) -> Mapping[str, float]:
    points = points_of_records([output]).points
    if not points:
        msg = "its last line is no number, and there are no v3 records in what it printed"
        raise ValueError(msg)
    costs: dict[str, list[float]] = defaultdict(list)
    for series, row in points.items():
        if metric in ("", series.metric):
            found = [_cost(point.value, series.metric, rules) for point in row if point.value is not None]
            costs[str(series)] += [cost for cost in found if cost is not None]
    if usable := {name: median(found) for name, found in costs.items() if found}:
        return usable
    raise ValueError(_unusable(points, metric))


def _cost(value: float, metric: str, rules: Mapping[str, config.Rule], otherwise: str = "") -> float | None:
    """A number above 0 that grows as things get worse; None where there is none, or the direction is not known."""
    rule = policy.rule(metric, rules)
    direction = rule.direction or otherwise
    size = value + 1 if rule.kind == "count" else value
    if rule.kind in ("outcome", "amount") or not direction or not isfinite(size) or size <= 0:
        return None
    return 1 / size if direction == UP else size


def _unusable(points: Points, metric: str) -> str:
    found = ", ".join(list(dict.fromkeys(series.metric for series in points))[:MOST_NAMED])
    whose = f"of {metric!r} " if metric else ""
    reasons = (point.info.get("reason", "") for row in points.values() for point in row)
    why = next((f"; {reason}" for reason in reasons if reason), "")
    return (
        f"its records (of {found}) have no number {whose}that a ratio could be taken of and that is known to be better "
        f"higher or lower: name a metric with --metric, and its direction in torchperf.yml{why}"
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _last_line(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
