"""What was measured together, and in which order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.series.series import Point

Natural = list[list[tuple[int, int, str]]]


def run_of(timestamp: int, commit: str, workflow_id: int, run_attempt: int, place: str) -> str:
    """The name of a run: its workflow's, else its commit and time, else the ``place`` that its records lie in."""
    if workflow_id:
        return f"{workflow_id}.{run_attempt}"
    return f"{commit}@{timestamp}" if commit or timestamp else place


def runs_of(points: Iterable[Point]) -> list[str]:
    """The runs that measured ``points``, oldest first; without a time they are in the order of their names."""
    begun: dict[str, int] = {}
    for point in points:
        begun[point.run] = min(point.timestamp, begun.get(point.run, point.timestamp))
    return sorted(begun, key=lambda run: (begun[run], natural(run)))


def natural(name: str) -> Natural:
    """A key that sorts paths and names as people do: ``run-2/a`` before ``run-10/a``."""
    return [
        [
            (0, int(digits), "") if digits else (1, 0, text)
            for digits, text in re.findall(r"(\d+)|(\D+)", part)
        ]
        for part in name.split("/")
    ]
