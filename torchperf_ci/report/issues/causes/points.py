"""The runs that a verdict rests on, as its evidence has them: it may be a stranger's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Verdict

_LARGEST = 1e15


def points_of(verdict: Verdict) -> list[Mapping[str, Any]]:
    """Those that have a number, oldest first."""
    found = verdict.evidence.get("points")
    points = found if isinstance(found, list) else []
    return [point for point in points if isinstance(point, Mapping) and is_number(point.get("value"))]


def level_of(verdict: Verdict) -> float | None:
    """What the newest run measured: ``new`` may be a mean with runs of the nights before."""
    points = points_of(verdict)
    return points[-1]["value"] if points else verdict.new


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it can be drawn and reckoned with."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and abs(value) < _LARGEST
