"""Which runs were made in one sitting: what was wrong with the machine then is in all of them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.series.series import Point

APART = 3 * 3600
"""Seconds from which on two runs of one commit are two sittings."""


def sittings_of(points: Iterable[Point]) -> dict[str, int]:
    """The number of each run's sitting, of ``points`` oldest first.

    A run goes on with a sitting if it is of the same commits and begins less than :data:`APART` after the
    one before, or if the time of one of the two is unknown.
    """
    numbers = count()
    found: dict[str, int] = {}
    newest: dict[tuple[str, str], Point] = {}
    for point in points:
        commits = point.commit, point.info.get("torch", "")
        if point.run not in found:
            before = newest.get(commits)
            goes_on = before is not None and _is_near(before.timestamp, point.timestamp)
            found[point.run] = found[before.run] if before and goes_on else next(numbers)
        newest[commits] = point
    return found


def _is_near(before: int, after: int) -> bool:
    return not (before and after) or after - before < APART
