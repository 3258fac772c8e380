"""Changes between their neighbours, beside the noise of their whole series: those of many series in one go.

Series lie one after the other in one array, and a :data:`Window` counts from its beginning. It is as wide as
REACH to either side at most, so that windows fit in arrays of shape (windows, 2·REACH), padded at their ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.stats.ranked import Others, Ranked
from torchperf_ci.stats.scores import Scores
from torchperf_ci.stats.splits import FEWEST, REACH, best_splits, threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

Window = tuple[int, int, int]
"""The stretch that tells about a change: its first point, the place of the change, its end."""

NEARER = REACH // 2
"""Where a change is not clear among REACH runs, because another level is among them, it may be among so many."""
MAYBE = 0.5
"""Of the threshold; what is less clear is not looked at nearer."""
AGAIN = 0.7
"""Of the threshold, where the evidence is taken a second time, with the longer side as the level that was there."""
VISIBLE = 0.5
"""A smaller step than this share of the range of the noise's middle 80%, 1.3σ where noise is normal, is none: what
looks clear there is mostly drift, or modes that take turns."""


@dataclass(frozen=True)
class Noisy:
    """A series and its noise, both of shape (runs,); what it remembers makes it forget so much of its evidence."""

    values: Floats
    noise: Floats
    forgets: float


class SecondLook:
    """Looks at changes of several series."""

    def __init__(self, series: Sequence[Noisy], min_effect: float) -> None:
        sizes = np.array([one.values.size for one in series])
        self.begins = np.append(0, np.cumsum(sizes))
        self._scores, self._row = Scores(sizes), np.repeat(np.arange(sizes.size), sizes)
        self._values = np.concatenate([one.values for one in series])
        orders = [one.noise.argsort() for one in series]
        self._noise = [one.noise[order] for one, order in zip(series, orders, strict=True)]
        self._rank = np.empty(self._values.size, dtype=np.intp)
        for begin, order in zip(self.begins[:-1], orders, strict=True):
            self._rank[begin + order] = np.arange(order.size)
        least = float(np.log1p(min_effect))
        self._least = np.array([max(least, VISIBLE * _middle_range(noise)) for noise in self._noise])
        self._forgets = np.array([one.forgets for one in series])
        self._needed = np.array([threshold(size) for size in sizes.tolist()])

    def best_places(self, windows: Sequence[Window]) -> list[int]:
        """Where two levels fit best (least squares) in each window, whose change is now somewhere inside.

        Values are clipped to the two levels and one step beyond, so a spike counts for little more than the step.
        """
        start, place, end = _columns(windows)
        old, new = self._level(start, place), self._level(place, end)
        low, high = np.minimum(old.middle, new.middle), np.maximum(old.middle, new.middle)
        step = high - low
        values = self._window(start, end, 0.0)
        values = np.minimum(np.maximum(values, (low - step)[:, None]), (high + step)[:, None])
        values[np.arange(values.shape[1]) >= (end - start)[:, None]] = 0.0
        found = start + best_splits(values.cumsum(axis=1), end - start)[0]
        is_short = np.minimum(place - start, end - place) < FEWEST
        return list(np.where(is_short, place, found).tolist())

    def clearness(self, windows: Sequence[Window]) -> list[float]:
        """How clear each change is: 1 at the threshold, below 0 where the step is too small, the less the smaller it
        is."""
        start, place, end = _columns(windows)
        found = self._clearness(start, place, end, self._least[self._row[start]])
        maybe = np.flatnonzero((found > MAYBE) & (found <= 1))
        place = place[maybe]
        first, last = np.maximum(start[maybe], place - NEARER), np.minimum(end[maybe], place + NEARER)
        found[maybe] = np.maximum(found[maybe], self._clearness(first, place, last, np.zeros(maybe.size)))
        return list(found.tolist())

    def _clearness(self, start: Places, place: Places, end: Places, least: Floats) -> Floats:
        """Of steps of which only those from ``least`` on are any."""
        old, new = self._level(start, place), self._level(place, end)
        step, found = np.abs(new.middle - old.middle), np.zeros(start.size)
        is_small = step < least
        found[is_small] = step[is_small] / least[is_small] - 1
        some = np.flatnonzero(~is_small & _are_levels(old, new))
        if some.size:
            levels = old.middle[some], new.middle[some]
            found[some] = self._evidence(start[some], place[some], end[some], *levels)
        return found

    def _evidence(self, start: Places, place: Places, end: Places, old: Floats, new: Floats) -> Floats:
        """In units of the threshold, of windows that have two levels."""
        before, runs, rows = place - start, end - start, self._row[start]
        ranked = Ranked(self._window(start, end, np.inf), before, runs, self._scores, rows)
        others = Others(self._noise, rows, self._ranks(start, end))
        middle = (before * old + (runs - before) * new) / runs
        there = np.where(before >= runs - before, old, new)
        around = others.around(ranked.values - np.stack([middle, there])[:, :, None])
        first, again = (
            ranked.evidence(below, upto) / self._needed[rows] for below, upto in zip(*around, strict=True)
        )
        first = self._forgets[rows] * first
        is_seen_again = (first > 1) & (self._scores.sizes[rows] > runs)
        return np.asarray(np.where(is_seen_again, np.minimum(first, again / AGAIN), first))

    def _level(self, start: Places, end: Places) -> _Levels:
        values, runs = self._window(start, end, np.inf, REACH), end - start
        values.sort(axis=1)
        rows = np.arange(start.size)
        middle = (values[rows, (runs - 1) // 2] + values[rows, runs // 2]) / 2
        return _Levels(middle, values, runs)

    def _window(self, start: Places, end: Places, beyond: float, width: int = 2 * REACH) -> Floats:
        """The values, shape (windows, width), and ``beyond`` after their ends."""
        places = start[:, None] + np.arange(width)
        return np.asarray(np.where(places < end[:, None], self._values.take(places, mode="clip"), beyond))

    def _ranks(self, start: Places, end: Places) -> Places:
        """The ranks of the noise, -1 after their ends."""
        places = start[:, None] + np.arange(2 * REACH)
        return np.asarray(np.where(places < end[:, None], self._rank.take(places, mode="clip"), -1))


class _Levels(NamedTuple):
    """The medians of some values, these in rising order, and how many they are."""

    middle: Floats
    ordered: Floats
    runs: Places


def _columns(windows: Sequence[Window]) -> tuple[Places, Places, Places]:
    start, place, end = np.array(windows, dtype=np.intp).T
    return start, place, end


def _are_levels(left: _Levels, right: _Levels) -> NDArray[np.bool_]:
    """Whether at least FEWEST values on either side lie nearer to its own level."""
    between = ((left.middle + right.middle) / 2)[:, None]
    is_rise = left.middle < right.middle
    nearer = [
        np.where(
            is_below, (side.ordered < between).sum(axis=1), side.runs - (side.ordered <= between).sum(axis=1)
        )
        for side, is_below in ((left, is_rise), (right, ~is_rise))
    ]
    return np.asarray(np.minimum(*nearer) >= FEWEST)


def _middle_range(ordered: Floats) -> float:
    """The range in which the middle 80% of values in rising order lie."""
    tenth = ordered.size // 10
    return float(ordered[-1 - tenth] - ordered[tenth])
