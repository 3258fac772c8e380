"""The new runs themselves, where the past has them already: a job may upload before it checks."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.series.series import Points

RECENT = 20
"""The newest points of each series are looked at."""
TELLING = 2
"""Different fine numbers that a run and a new one agree in, from which on they are the same run."""
COARSE = 4
"""Digits of numbers that are equal by chance, now and then."""


def without_own(old: Points, new: Points) -> Points:
    """The past without the new runs.

    A run is one of them where it has the same name, or the same numbers in everything that both have measured, as
    Float32, which a store makes of them: records that come fresh from a measurement do not know what run they are.
    """
    own = {point.run for row in new.values() for point in row} | _agreeing(old, new)
    return {series: [point for point in row if point.run not in own] for series, row in old.items()}


def _agreeing(old: Points, new: Points) -> set[str]:
    shared: dict[str, set[float]] = defaultdict(set)
    different: set[str] = set()
    for series, row in new.items():
        fresh = {_stored(point.repetitions) for point in row if point.repetitions}
        for point in old.get(series, ())[-RECENT:] if fresh else ():
            if _stored(point.repetitions) in fresh:
                shared[point.run].update(filter(_is_fine, point.repetitions))
            elif point.repetitions:
                different.add(point.run)
    return {run for run, numbers in shared.items() if len(numbers) >= TELLING} - different


def _is_fine(value: float) -> bool:
    return float(f"{value:.{COARSE}g}") != value


def _stored(values: Sequence[float]) -> bytes:
    """The values as a store keeps them."""
    try:
        return struct.pack(f"{len(values)}f", *values)
    except OverflowError:  # beyond Float32
        return struct.pack(f"{len(values)}d", *values)
