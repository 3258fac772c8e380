"""The changes of one series, out of overlapping stretches, which contradict each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.scores import scores_of_one
from torchperf_ci.stats.splits import FEWEST, REACH, Noise, Ranked, Stretches, best_split, threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SUSPECT = 0.65
"""A stretch with this share of the threshold may hold a change. The second look decides: one suspect too many is
dropped there, one that is missing makes its neighbours look unclear."""
NEARER = REACH // 2
"""Where a change is not clear among REACH runs, because another level is among them, it may be among so many."""
MAYBE = 0.5
"""Of the threshold; what is less clear is not looked at nearer."""
AGAIN = 0.8
"""Of the threshold, where the evidence is taken a second time, with the longer side as the level that was there."""
CLIP = 2.0
"""Scores count up to here in what a series remembers, so that a few outliers neither make nor hide it."""
MOST = 0.8
"""No more memory than this is believed: what seems to be more are levels."""


def segment(values: Floats, stretches: Stretches, row: int, min_effect: float) -> list[int]:
    """The indices of log ``values``, shape (runs,), at which a new level begins, in order.

    ``stretches`` are those of this series, its ``row`` among others. What is left of the values without the levels of
    all suspected changes is the series' noise. Each change is put where it fits best between its neighbours; then the
    weakest is dropped that, so seen, is not clear beside this noise or smaller than ``min_effect``; until there is none
    such left.
    """
    changes = _suspected(values, stretches, row)
    noise = _noise(values, changes)
    scores = scores_of_one(noise)
    if overlooked := _overlooked(scores, changes):
        changes = sorted(changes + overlooked)
        noise = _noise(values, changes)
    look = _SecondLook(values, noise, _forgetting(scores))
    least = float(np.log1p(min_effect))
    while changes:
        changes = look.placed(changes)
        found = [look.at(*around) for around in _neighbours(changes, values.size)]
        dropped = _weaker_than_neighbours([change.clearness for change in found], 1.0)
        if not dropped:
            weakest = min(found, key=lambda change: change.step)
            if weakest.step >= least:
                break
            dropped = {found.index(weakest)}
        changes = [place for i, place in enumerate(changes) if i not in dropped]
    return changes


def _weaker_than_neighbours(clearness: Sequence[float], enough: float) -> set[int]:
    """Which changes are not clear enough and less so than the one before and the one after."""
    around = [inf, *clearness, inf]
    return {
        i
        for i, (before, one, after) in enumerate(zip(around, clearness, around[2:], strict=False))
        if one <= enough and one < before and one <= after
    }


def sides(values: Floats, place: int, changes: Sequence[int]) -> tuple[Floats, Floats]:
    """The values that tell about a change: to either side up to the next change, and REACH at most."""
    before, _, after = _between(place, changes, values.size)
    return values[max(before, place - REACH) : place], values[place : min(after, place + REACH)]


def _suspected(values: Floats, stretches: Stretches, row: int) -> list[int]:
    """The place of the clearest stretch, then of the clearest that has no such place inside it, and so on."""
    changes: list[int] = []
    seen = stretches.evidence[:, row]
    suspect = np.flatnonzero(seen > SUSPECT * threshold(values.size))
    suspect = suspect[np.argsort(-seen[suspect], kind="stable")]
    starts, ends = stretches.starts[suspect], stretches.ends[suspect]
    free = np.ones(suspect.size, dtype=bool)
    while free.any():
        first = int(free.argmax())
        found = stretches.place(int(suspect[first]), row)
        free[first] = False
        free &= (starts >= found) | (ends <= found)
        changes.append(found)
    return sorted(set(changes))


def _overlooked(scores: Floats, changes: Sequence[int]) -> list[int]:
    """Where short levels may be two, by the ``scores`` of the noise: beside levels far off all values of a level have
    nearly the same rank."""
    found = []
    for start, end in pairwise([0, *changes, scores.size]):
        if changes and 2 * FEWEST <= end - start <= 2 * REACH:
            split = best_split(scores[start:end])
            if split.evidence > SUSPECT * threshold(scores.size):
                found.append(start + split.place)
    return found


@dataclass(frozen=True)
class _Change:
    """How clear a change is, 1 at the threshold, and how large, in logarithms."""

    place: int
    clearness: float
    step: float


@dataclass
class _SecondLook:
    """Each change between its neighbours, beside the ``noise`` of the whole series; no look is taken twice."""

    values: Floats
    noise: Floats
    forgets: float
    places: dict[tuple[int, int, int], int] = field(default_factory=dict)
    looks: dict[tuple[int, int, int], _Change] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.needed = threshold(self.values.size)
        self.ordered = np.sort(self.noise)

    def placed(self, changes: Sequence[int]) -> list[int]:
        """The changes, each where it fits best between the one before and the one after it."""
        placed = [0, *changes, self.values.size]
        for i in range(1, len(placed) - 1):
            around = (placed[i - 1], placed[i], placed[i + 1])
            if around not in self.places:
                self.places[around] = _best_place(self.values, *around)
            placed[i] = self.places[around]
        return placed[1:-1]

    def at(self, before: int, place: int, after: int) -> _Change:
        """The change at ``place``, with the neighbours ``before`` and ``after``."""
        around = (before, place, after)
        if around not in self.looks:
            start, end = max(before, place - REACH), min(after, place + REACH)
            clearness = self._clearness(start, place, end)
            if MAYBE < clearness <= 1:
                near = max(start, place - NEARER), min(end, place + NEARER)
                clearness = max(clearness, self._clearness(near[0], place, near[1]))
            step = abs(_level(self.values[place:end]) - _level(self.values[start:place]))
            self.looks[around] = _Change(place, clearness, step)
        return self.looks[around]

    def _clearness(self, start: int, place: int, end: int) -> float:
        left, right = self.values[start:place], self.values[place:end]
        old, new = _level(left), _level(right)
        if not _are_levels(left, right, old, new):
            return 0.0
        ranked, noise = Ranked(left, right), Noise(self.ordered, np.sort(self.noise[start:end]))
        middle = (left.size * old + right.size * new) / (left.size + right.size)
        clearness = self.forgets * ranked.evidence(noise, middle) / self.needed
        if clearness > 1 and end - start < self.values.size:
            there = old if left.size >= right.size else new
            clearness = min(clearness, ranked.evidence(noise, there) / (AGAIN * self.needed))
        return clearness


def _noise(values: Floats, changes: Sequence[int]) -> Floats:
    """The deviation of each value from the level that it belongs to."""
    return np.concatenate(
        [values[start:end] - _level(values[start:end]) for start, end in pairwise([0, *changes, values.size])]
    )


def _forgetting(scores: Floats) -> float:
    """How much less the evidence of values is worth, the more they remember of the one before, 1 where nothing.

    The mean of many values that have the correlation r with the next varies by (1 + r)/(1 - r) times as much. The
    correlation is that of the noise's ``scores``; fewer than a month of runs on either side of a change do not tell it.
    """
    if scores.size < 2 * REACH:
        return 1.0
    scores = np.minimum(np.maximum(scores, -CLIP), CLIP)
    correlation = float(scores[1:] @ scores[:-1]) / max(float(scores @ scores), 1e-9)
    memory = min(max(0.0, correlation), MOST)
    return (1 - memory) / (1 + memory)


def _are_levels(left: Floats, right: Floats, old: float, new: float) -> bool:
    """Whether at least FEWEST values on either side lie nearer to its own level."""
    middle = (old + new) / 2
    below, above = (left, right) if old < new else (right, left)
    nearer = int(np.count_nonzero(below < middle)), int(np.count_nonzero(above > middle))
    return min(nearer) >= FEWEST


def _between(place: int, changes: Sequence[int], n: int) -> tuple[int, int, int]:
    """The change before a place, the place, the one after it."""
    before = max((other for other in changes if other < place), default=0)
    return before, place, min((other for other in changes if other > place), default=n)


def _neighbours(changes: Sequence[int], n: int) -> list[tuple[int, int, int]]:
    """Of each change the one before, itself, and the one after."""
    return list(zip([0, *changes[:-1]], changes, [*changes[1:], n], strict=True))


def _best_place(values: Floats, before: int, place: int, after: int) -> int:
    """Where two levels fit best (least squares) around a change that is now at ``place``, between its neighbours.

    Values are clipped to the two levels and one step beyond, so a spike counts for little more than the step itself.
    """
    start, end = max(before, place - REACH), min(after, place + REACH)
    if place - start < FEWEST or end - place < FEWEST:
        return place
    left, right = _level(values[start:place]), _level(values[place:end])
    step = abs(right - left)
    clipped = np.minimum(np.maximum(values[start:end], min(left, right) - step), max(left, right) + step)
    sums = clipped.cumsum()
    k = np.arange(FEWEST, clipped.size - FEWEST + 1)
    excess = sums[FEWEST - 1 : clipped.size - FEWEST] - sums[-1] * (k / clipped.size)
    return start + FEWEST + int((excess**2 / (k * (clipped.size - k))).argmax())


def _level(values: Floats) -> float:
    return float(median(values.tolist()))  # for so few values several times as fast as numpy's
