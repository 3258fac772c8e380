"""The changes of one series, out of the splits of overlapping stretches, which contradict each other."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.splits import FEWEST, REACH, Splits, evidence, threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def segment(values: NDArray[np.float64], splits: Splits, min_effect: float) -> list[int]:
    """The indices of log ``values``, shape (runs,), at which a new level begins, in order.

    Of all ``splits`` of this one series those are taken that are clear. Each change is put where it fits best between
    its neighbours; then the weakest is dropped that, so seen, is no longer clear or smaller than ``min_effect``; until
    there is none such left.
    """
    changes = _selected(values, splits)
    while changes:
        for i, place in enumerate(changes):
            changes[i] = _best_place(values, place, changes)
        weakest = _weakest(values, changes, min_effect)
        if weakest is None:
            break
        changes.pop(weakest)
    return changes


def sides(
    values: NDArray[np.float64], place: int, changes: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values that tell about a change: to either side up to the next change, and REACH at most."""
    start, end = _neighbourhood(place, changes, values.size)
    return values[start:place], values[place:end]


def _neighbourhood(place: int, changes: Sequence[int], n: int) -> tuple[int, int]:
    start = max((other for other in changes if other < place), default=0)
    end = min((other for other in changes if other > place), default=n)
    return max(start, place - REACH), min(end, place + REACH)


def _selected(values: NDArray[np.float64], splits: Splits) -> list[int]:
    """The place of the clearest split, then of the clearest whose stretch has no such place inside it, and so on."""
    changes: list[int] = []
    clear = np.flatnonzero(splits.evidence > threshold(values.size))
    for i in clear[np.argsort(-splits.evidence[clear], kind="stable")].tolist():
        if not any(splits.starts[i] < change < splits.ends[i] for change in changes):
            changes.append(_best_place(values, int(splits.places[i]), changes))
    return sorted(set(changes))


def _best_place(values: NDArray[np.float64], place: int, changes: Sequence[int]) -> int:
    """Where two levels fit best (least squares) around a change that is now at ``place``.

    Values are clipped to the two levels and one step beyond, so a spike counts for little more than the step itself.
    """
    start, end = _neighbourhood(place, changes, values.size)
    if place - start < FEWEST or end - place < FEWEST:
        return place
    left, right = _level(values[start:place]), _level(values[place:end])
    step = abs(right - left)
    clipped = np.clip(values[start:end], min(left, right) - step, max(left, right) + step)
    k = np.arange(FEWEST, clipped.size - FEWEST + 1)
    excess = np.cumsum(clipped - clipped.mean())[k - 1]
    return start + FEWEST + int(np.argmax(excess**2 / (k * (clipped.size - k))))


def _weakest(values: NDArray[np.float64], changes: Sequence[int], min_effect: float) -> int | None:
    """Which of ``changes`` is the least clear, else the smallest, if it is too little; else None."""
    pairs = [sides(values, place, changes) for place in changes]
    clear = [evidence(left, right) for left, right in pairs]
    if min(clear) <= threshold(values.size):
        return int(np.argmin(clear))
    effect = [abs(_level(right) - _level(left)) for left, right in pairs]
    if min(effect) < np.log1p(min_effect):
        return int(np.argmin(effect))
    return None


def _level(values: NDArray[np.float64]) -> float:
    return float(median(values.tolist()))  # for so few values several times as fast as numpy's
