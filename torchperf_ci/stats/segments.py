"""The changes of one series, out of overlapping stretches, which contradict each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.stats.scores import scores_of_one
from torchperf_ci.stats.splits import FEWEST, REACH, Ranked, Stretches, best_split, split_of_sums, threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SUSPECT = 0.57
"""A stretch with this share of the threshold may hold a change. The second look decides: one suspect too many is
dropped there, one that is missing makes its neighbours look unclear."""
NEARER = REACH // 2
"""Where a change is not clear among REACH runs, because another level is among them, it may be among so many."""
MAYBE = 0.5
"""Of the threshold; what is less clear is not looked at nearer."""
AGAIN = 0.7
"""Of the threshold, where the evidence is taken a second time, with the longer side as the level that was there."""
CLIP = 2.0
"""Scores count up to here in what a series remembers, so that a few outliers neither make nor hide it."""
MOST = 0.8
"""No more memory than this is believed: what seems to be more are levels."""
VISIBLE = 0.5
"""A smaller step than this share of the range of the noise's middle 80%, 1.3σ where noise is normal, is none: what
looks clear there is mostly drift, or modes that take turns."""


def segment(values: Floats, stretches: Stretches, row: int, min_effect: float) -> list[int]:
    """The indices of log ``values``, shape (runs,), at which a new level begins, in order.

    ``stretches`` are those of this series, its ``row`` among others. What is left of the values without the levels of
    all suspected changes is the series' noise. Each change is put where it fits best between its neighbours; then the
    weakest are dropped that, so seen, are smaller than ``min_effect``, hide in this noise or are not clear beside it;
    until there are none such left.
    """
    changes = _suspected(values, stretches, row)
    noise = _noise(values, changes)
    scores = scores_of_one(noise)
    if overlooked := _overlooked(scores, changes):
        changes = sorted(changes + overlooked)
        noise = _noise(values, changes)
    look = _SecondLook(values, noise, _forgetting(scores), min_effect)
    while changes:
        changes = look.placed(changes)
        found = [look.at(*around) for around in _neighbours(changes, values.size)]
        dropped = _weaker_than_neighbours(found, 1.0)
        if not dropped:
            break
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
    while suspect.size:
        found = stretches.place(int(suspect[0]), row)
        free = (starts >= found) | (ends <= found)
        suspect, starts, ends = suspect[free], starts[free], ends[free]
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


class _Level(NamedTuple):
    """The median of some values in a row, and these in rising order."""

    middle: float
    ordered: list[float]


@dataclass
class _SecondLook:
    """Each change between its neighbours, beside the ``noise`` of the whole series; no look is taken twice."""

    values: Floats
    noise: Floats
    forgets: float
    min_effect: float
    levels: dict[tuple[int, int], _Level] = field(default_factory=dict)
    places: dict[tuple[int, int, int], int] = field(default_factory=dict)
    looks: dict[tuple[int, int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.needed = threshold(self.values.size)
        self.in_time = self.values.tolist()
        order = self.noise.argsort()
        self.ordered = self.noise[order]
        self.least = max(float(np.log1p(self.min_effect)), VISIBLE * _middle_range(self.ordered))
        self.rank = np.empty_like(order)
        self.rank[order] = np.arange(order.size)

    def placed(self, changes: Sequence[int]) -> list[int]:
        """The changes, each where it fits best between the one before and the one after it."""
        placed = [0, *changes, self.values.size]
        for i in range(1, len(placed) - 1):
            around = _within_reach(placed[i - 1], placed[i], placed[i + 1])
            if around not in self.places:
                self.places[around] = self._best_place(*around)
            placed[i] = self.places[around]
        return placed[1:-1]

    def at(self, before: int, place: int, after: int) -> float:
        """How clear the change at ``place`` is, with the neighbours ``before`` and ``after``: 1 at the threshold, below
        0 where the step is too small, the less the smaller it is."""
        around = start, _, end = _within_reach(before, place, after)
        if around not in self.looks:
            step = abs(self._level(place, end).middle - self._level(start, place).middle)
            clearness = self._clearness(start, place, end) if step >= self.least else step / self.least - 1
            if MAYBE < clearness <= 1:
                near = max(start, place - NEARER), min(end, place + NEARER)
                clearness = max(clearness, self._clearness(near[0], place, near[1]))
            self.looks[around] = clearness
        return self.looks[around]

    def _clearness(self, start: int, place: int, end: int) -> float:
        left, right = self._level(start, place), self._level(place, end)
        if not _are_levels(left, right):
            return 0.0
        old, new, k, n = left.middle, right.middle, place - start, end - start
        ranked, others = Ranked(self.values[start:end], k), self._noise_but(start, end)
        clearness = self.forgets * ranked.evidence(others, (k * old + (n - k) * new) / n) / self.needed
        if clearness > 1 and others.size:
            there = old if k >= n - k else new
            clearness = min(clearness, ranked.evidence(others, there) / (AGAIN * self.needed))
        return clearness

    def _best_place(self, start: int, place: int, end: int) -> int:
        """Where two levels fit best (least squares) between ``start`` and ``end``, now at ``place``.

        Values are clipped to the two levels and one step beyond, so a spike counts for little more than the step.
        """
        if place - start < FEWEST or end - place < FEWEST:
            return place
        low, high = sorted((self._level(start, place).middle, self._level(place, end).middle))
        step = high - low
        clipped = np.minimum(np.maximum(self.values[start:end], low - step), high + step)
        return start + split_of_sums(clipped.cumsum())[0]

    def _level(self, start: int, end: int) -> _Level:
        if (start, end) not in self.levels:
            ordered = sorted(self.in_time[start:end])
            n = end - start
            self.levels[start, end] = _Level((ordered[(n - 1) // 2] + ordered[n // 2]) / 2, ordered)
        return self.levels[start, end]

    def _noise_but(self, start: int, end: int) -> Floats:
        """All noise but that of a stretch, in rising order."""
        others = np.ones(self.ordered.size, dtype=bool)
        others[self.rank[start:end]] = False
        return self.ordered[others]


def _noise(values: Floats, changes: Sequence[int]) -> Floats:
    """The deviation of each value from the level that it belongs to."""
    return np.concatenate(
        [
            values[start:end] - _median(values[start:end])
            for start, end in pairwise([0, *changes, values.size])
        ]
    )


def _middle_range(ordered: Floats) -> float:
    """The range in which the middle 80% of values in rising order lie."""
    tenth = ordered.size // 10
    return float(ordered[-1 - tenth] - ordered[tenth])


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


def _are_levels(left: _Level, right: _Level) -> bool:
    """Whether at least FEWEST values on either side lie nearer to its own level."""
    below, above = (left, right) if left.middle < right.middle else (right, left)
    between = (left.middle + right.middle) / 2
    nearer = bisect_left(below.ordered, between), len(above.ordered) - bisect_right(above.ordered, between)
    return min(nearer) >= FEWEST


def _between(place: int, changes: Sequence[int], n: int) -> tuple[int, int, int]:
    """The change before a place, the place, the one after it."""
    before = max((other for other in changes if other < place), default=0)
    return before, place, min((other for other in changes if other > place), default=n)


def _neighbours(changes: Sequence[int], n: int) -> list[tuple[int, int, int]]:
    """Of each change the one before, itself, and the one after."""
    return list(zip([0, *changes[:-1]], changes, [*changes[1:], n], strict=True))


def _within_reach(before: int, place: int, after: int) -> tuple[int, int, int]:
    """The stretch that tells about a change: to either side up to the next one, and REACH at most."""
    return max(before, place - REACH), place, min(after, place + REACH)


def _median(values: Floats) -> float:
    ordered, n = np.sort(values), values.size
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
