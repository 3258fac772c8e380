"""Levels of measured numbers: ratios on the log scale, amounts by their difference."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.metrics import LEAST_AMOUNT
from torchperf_ci.stats.changepoints import MIN_EFFECT, change_points
from torchperf_ci.stats.segments import sides
from torchperf_ci.stats.shift import shift_effect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.stats.effect import Effect

_TOGETHER = 4096
"""Rows that are looked at in one go; those of similar length, so that padding costs little."""


@dataclass(frozen=True)
class Step:
    """A new level from value ``place`` of a row on."""

    place: int
    old: float
    new: float
    effect: Effect | None = None


def ratio_steps(rows: Sequence[Sequence[float]], min_effect: float = MIN_EFFECT) -> list[list[Step]]:
    """The steps of each row of positive values, by at least ``min_effect``."""
    return [
        [
            Step(place, float(np.exp(np.median(old))), float(np.exp(np.median(new))), shift_effect(old, new))
            for place, old, new in found
        ]
        for found in _found([np.log(row) for row in rows], min_effect)
    ]


def amount_steps(rows: Sequence[Sequence[float]], min_effect: float = MIN_EFFECT) -> list[list[Step]]:
    """The steps of each row of values that may be zero or negative."""
    units = [max(LEAST_AMOUNT / log1p(min_effect), abs(median(row))) if row else 1.0 for row in rows]
    scaled = [np.array(row) / unit for row, unit in zip(rows, units, strict=True)]
    return [
        [Step(place, float(np.median(old)) * unit, float(np.median(new)) * unit) for place, old, new in found]
        for found, unit in zip(_found(scaled, min_effect), units, strict=True)
    ]


def _found(
    rows: Sequence[NDArray[np.float64]], min_effect: float
) -> list[list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]]:
    """Of each row the places of change, each with the values before and after that tell about it."""
    found: list[list[int]] = [[] for _ in rows]
    for some in _batches(rows):
        padded = np.full((len(some), rows[some[-1]].size), np.nan)
        for line, number in enumerate(some):
            padded[line, : rows[number].size] = rows[number]
        for number, places in zip(some, change_points(padded, min_effect), strict=True):
            found[number] = places.tolist()
    return [
        [(place, *sides(row, place, places)) for place in places]
        for row, places in zip(rows, found, strict=True)
    ]


def _batches(rows: Sequence[NDArray[np.float64]]) -> Iterator[list[int]]:
    """The numbers of the rows, those of similar length together, the longest last."""
    order = sorted(range(len(rows)), key=lambda number: rows[number].size)
    for start in range(0, len(order), _TOGETHER):
        yield order[start : start + _TOGETHER]
