"""What is taken from the numbers and the ``extra_info`` of a metric."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING

from torchperf_ci.metrics import is_positive

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT = ("benchmark_values", "disturbed", "not_measured", "reason", "status")
"""What a verdict may need; the rest are samples, by the hundred."""


def kept_info(about_metric: Mapping[str, str], torch: str) -> dict[str, str]:
    """What a point remembers of a metric's extra_info, and the commit of PyTorch where it is known."""
    kept = {name: about_metric[name] for name in KEPT if about_metric.get(name)}
    return kept | ({"torch": torch} if torch else {})


def measured(metric: str, about_metric: Mapping[str, str], values: object) -> tuple[float, ...]:
    """The numbers of a metric, as exact as they are known.

    Harnesses report zero where they failed, and the database makes zero of null: of what is positive by nature, all
    else is no measurement.
    """
    numbers = finite(_exact_values(about_metric) or values)
    return tuple(number for number in numbers if number > 0 or not is_positive(metric))


def finite(values: object) -> list[float]:
    """The numbers among ``values`` that are ones, in text, too; null, which the database takes for 0, is none."""
    numbers = [_number(value) for value in values] if isinstance(values, list) else []
    return [number for number in numbers if isfinite(number)]


def _exact_values(about_metric: Mapping[str, str]) -> object:
    """The numbers as they were before they became Float32, where ``torchperf upload`` has kept them; else None."""
    try:
        return json.loads(about_metric.get("benchmark_values_exact", "null"))
    except (ValueError, RecursionError):
        return None


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError, OverflowError):
        return float("nan")
