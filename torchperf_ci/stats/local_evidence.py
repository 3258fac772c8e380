"""How clear is a change between its neighbours, beside the noise of its whole series? Of many series in one go.

Series lie one after the other in one array, and a :data:`ChangeWindow` counts from its beginning. It is as wide as
REACH to either side at most, so that windows fit in arrays of shape (windows, 2·REACH), padded at their ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.stats.split_evidence import FEWEST, REACH, NormalScores, best_splits, threshold, tied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Places = NDArray[np.intp]


MOST_AROUND = 100
"""Points around a change that say how large noise is, at most so many: more would outvote those at the change."""


class RankedWindows:
    """Values in rising order, ready to be ranked with others from any level.

    ``values``, shape (windows, width), are padded with infinity after those of their window; ``left``, shape
    (windows,), are before the change, of so many ``runs``; they are in the ``rows`` of ``scores``.
    """

    def __init__(self, values: Floats, left: Ints, runs: Ints, scores: NormalScores, rows: Ints) -> None:
        order = values.argsort(axis=1)
        self.values = np.take_along_axis(values, order, axis=1)
        self._left, self._runs, self._scores, self._rows = left, runs, scores, rows
        self._inside = np.arange(values.shape[1]) < runs[:, None]
        self._is_left = (order < left[:, None]).astype(np.float64)
        self._below, self._upto = tied(self.values)

    def evidence(self, below: Ints, upto: Ints) -> Floats:
        """The evidence of two levels, shape (windows,); 0 with fewer than FEWEST values on a side.

        So many of the others, the deviations from their levels of the same series' other values, are ``below`` each
        value, and ``upto`` it. They share the ranks, and what they vary counts as if up to MOST_AROUND of them were in
        the window: a step that is larger than all other noise is clear however few runs it has, and one as large as
        they vary is none however well it is separated by itself.
        """
        k, n, sizes = self._left, self._runs, self._scores.sizes[self._rows]
        scores, inside = self._scores.between(
            self._rows, self._below + below, self._upto + upto, self._inside
        )
        before = (scores * self._is_left).sum(axis=1)
        old, new = before / k, (scores.sum(axis=1) - before) / (n - k)
        between = (old - new) ** 2 * k * (n - k) / n
        more = sizes - n
        counted = np.minimum(more, MOST_AROUND)
        around = counted * (self._scores.squares[self._rows] - inside) / np.maximum(more, 1)
        within = inside - k * old**2 - (n - k) * new**2 + around
        found = (n + counted) * np.log1p(between / np.maximum(within, 1e-9))
        return np.where(np.minimum(k, n - k) < FEWEST, 0.0, found)


class OtherNoise:
    """The ``noise`` of each series, in rising order, of which that of a window itself is left out."""

    def __init__(self, noise: Sequence[Floats]) -> None:
        self._noise = noise
        self._sizes = np.array([one.size for one in noise])
        self._begins = np.cumsum(self._sizes) - self._sizes
        self._together = np.concatenate(noise)
        is_last = np.diff(self._together, append=np.inf) != 0
        is_last[self._begins[1:] - 1] = True
        last = np.flatnonzero(is_last)
        self._beyond = np.repeat(last, np.diff(last, prepend=-1)) + 1 - np.arange(is_last.size)

    def around(self, values: Floats, rows: Ints, ranks: Ints) -> tuple[Ints, Ints]:
        """How many of the others are below each of ``values``, shape (…, windows, width), and how many upto it.

        ``rows`` are the series, those of one next to each other, and ``ranks`` those of the window's noise, -1 after
        it.
        """
        sizes, begins = self._sizes[rows], self._begins[rows][:, None]
        places = np.empty(values.shape, dtype=np.intp)
        for first, last in pairwise(np.flatnonzero(np.diff(rows, prepend=-1, append=-1)).tolist()):
            places[..., first:last, :] = self._noise[rows[first]].searchsorted(values[..., first:last, :])
        is_equal = self._together.take(begins + places, mode="clip") == values
        is_equal &= places < sizes[:, None]
        others, first_of = _others(ranks, sizes)
        at = first_of[:, None] + places
        below = others.take(at)
        upto = below.copy()
        upto[is_equal] = others.take(at[is_equal] + self._beyond.take((begins + places)[is_equal]))
        return below, upto


def _others(ranks: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """How many of the noise of each window's series, but its own ``ranks``, are before each place, of 0 to ``sizes``:
    of one window after the other; and where each begins."""
    is_own = ranks >= 0
    begins = np.cumsum(sizes + 1) - sizes - 1
    steps = np.ones(begins[-1] + sizes[-1] + 1, dtype=np.int32)
    steps[(begins[:, None] + ranks + 1)[is_own]] = 0
    steps[begins] = 0
    steps[begins[1:]] -= (sizes - is_own.sum(axis=1))[:-1]
    return np.cumsum(steps, out=steps), begins


ChangeWindow = tuple[int, int, int]
"""The stretch that tells about a change: its first point, the place of the change, its end."""

NEARER_REACH = REACH // 2
"""Where a change is not clear among REACH runs, because another level is among them, it may be among so many."""
MAYBE_SHARE = 0.5
"""Of the threshold; what is less clear is not looked at nearer, or again."""
RECHECK_SHARE = 0.7
"""Of the evidence that is needed, where it is taken a second time, with the longer side as the level that was there."""
VISIBLE_SHARE = 0.5
"""A smaller step than this share of the range of the noise's middle 80%, 1.3σ where noise is normal, is none: what
looks clear there is mostly drift, or modes that take turns."""


@dataclass(frozen=True)
class NoisySeries:
    """A series and its noise, both of shape (runs,); what it remembers makes it forget so much of its evidence."""

    values: Floats
    noise: Floats
    forgets: float


class LocalEvidence:
    """Looks at changes of several series."""

    def __init__(self, series: Sequence[NoisySeries], min_effect: float) -> None:
        sizes = np.array([one.values.size for one in series])
        self.begins = np.append(0, np.cumsum(sizes))
        self._scores, self._row = NormalScores(sizes), np.repeat(np.arange(sizes.size), sizes)
        self._values = np.concatenate([one.values for one in series])
        orders = [one.noise.argsort() for one in series]
        noise = [one.noise[order] for one, order in zip(series, orders, strict=True)]
        self._others = OtherNoise(noise)
        self._rank = np.empty(self._values.size, dtype=np.intp)
        for begin, order in zip(self.begins[:-1], orders, strict=True):
            self._rank[begin + order] = np.arange(order.size)
        least = float(np.log1p(min_effect))
        self._least = np.array([max(least, VISIBLE_SHARE * _middle_range(one)) for one in noise])
        self._forgets = np.array([one.forgets for one in series])
        self._needed = np.array([threshold(size) for size in sizes.tolist()])

    def best_places(self, windows: Sequence[ChangeWindow]) -> list[int]:
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

    def clearness(self, windows: Sequence[ChangeWindow]) -> list[float]:
        """How clear each change is: 1 at the threshold, below 0 where the step is too small, the less the smaller it
        is."""
        start, place, end = _columns(windows)
        found = self._clearness(start, place, end, self._least[self._row[start]])
        maybe = np.flatnonzero((found > MAYBE_SHARE) & (found <= 1))
        place = place[maybe]
        first, last = (
            np.maximum(start[maybe], place - NEARER_REACH),
            np.minimum(end[maybe], place + NEARER_REACH),
        )
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
        ranked = RankedWindows(self._window(start, end, np.inf), before, runs, self._scores, rows)
        middle = (before * old + (runs - before) * new) / runs
        there = np.where(before >= runs - before, old, new)
        levels = np.stack([middle, there])[:, :, None]
        around = self._others.around(ranked.values - levels, rows, self._ranks(start, end))
        first, again = (
            ranked.evidence(below, upto) / self._needed[rows] for below, upto in zip(*around, strict=True)
        )
        first = self._forgets[rows] * first
        is_seen_again = (first > MAYBE_SHARE) & (self._scores.sizes[rows] > runs)
        return np.asarray(np.where(is_seen_again, np.minimum(first, again / RECHECK_SHARE), first))

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


def _columns(windows: Sequence[ChangeWindow]) -> tuple[Places, Places, Places]:
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
