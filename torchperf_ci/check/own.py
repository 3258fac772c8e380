"""The new runs themselves, where the past has them already: a job may upload before it checks."""

from __future__ import annotations

from collections import defaultdict
from math import isclose
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
FLOAT32 = 2.0**-22
"""A store keeps Float32, and its engine does not always round to the nearest: relative difference of two in a row."""


def without_own(old: Points, new: Points) -> Points:
    """The past without the new runs.

    A run is one of them where it has the same name, or the same numbers in everything that both have measured, up to
    what a store makes of them: records that come fresh from a measurement do not know what run they are.
    """
    own = {point.run for row in new.values() for point in row} | _agreeing(old, new)
    return {series: [point for point in row if point.run not in own] for series, row in old.items()}


def _agreeing(old: Points, new: Points) -> set[str]:
    shared: dict[str, set[float]] = defaultdict(set)
    different: set[str] = set()
    for series, row in new.items():
        fresh = [point.repetitions for point in row if point.repetitions]
        for point in old.get(series, ())[-RECENT:] if fresh else ():
            if any(_is_same(point.repetitions, values) for values in fresh):
                shared[point.run].update(filter(_is_fine, point.repetitions))
            elif point.repetitions:
                different.add(point.run)
    return {run for run, numbers in shared.items() if len(numbers) >= TELLING} - different


def _is_fine(value: float) -> bool:
    return float(f"{value:.{COARSE}g}") != value


def _is_same(kept: Sequence[float], fresh: Sequence[float]) -> bool:
    return len(kept) == len(fresh) and all(
        isclose(a, b, rel_tol=FLOAT32) for a, b in zip(kept, fresh, strict=True)
    )
