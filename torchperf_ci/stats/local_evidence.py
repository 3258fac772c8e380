"""How clear a change is between its neighbors, relative to the noise of its whole series, for many series at once.

The series are concatenated in one array, and the indices of a :data:`ChangeWindow` refer to that array. A window
reaches at most REACH to either side, so that windows fit in arrays of shape (windows, 2·REACH), padded at their ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.stats.split_evidence import FEWEST, REACH, NormalScores, best_splits, threshold, tied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.stats import Flags, Floats, Places


MAX_AROUND = 100
"""Most points around a change that count for the size of noise; more would outvote those at the change."""


class RankedWindows:
    """The values of windows in ascending order, ready to be ranked together with the noise of their series.

    ``values``, shape (windows, width), are padded with infinity after the end of the window; ``left``, shape
    (windows,), is how many of its ``runs`` lie before the change, and ``rows`` are its series in ``scores``.
    """

    def __init__(
        self, values: Floats, left: Places, runs: Places, scores: NormalScores, rows: Places
    ) -> None:
        order = values.argsort(axis=1)
        self.values = np.take_along_axis(values, order, axis=1)
        self._left, self._runs, self._scores, self._rows = left, runs, scores, rows
        self._inside = np.arange(values.shape[1]) < runs[:, None]
        self._is_left = (order < left[:, None]).astype(np.float64)
        self._below, self._upto = tied(self.values)

    def evidence(self, below: Places, upto: Places) -> Floats:
        """Return the evidence of two levels, shape (windows,); 0 with fewer than FEWEST values on a side.

        The others are the deviations of the series' other values from their levels: ``below`` is how many of them are
        below each value, ``upto`` how many below or equal. They are ranked together with the window, and their
        variation counts as if up to MAX_AROUND of them were in it: a step that is larger than all other noise is clear
        however few runs it has, and one no larger than their variation is not a step however well it is separated.
        """
        k, n, sizes = self._left, self._runs, self._scores.sizes[self._rows]
        scores, inside = self._scores.between(
            self._rows, self._below + below, self._upto + upto, self._inside
        )
        before = (scores * self._is_left).sum(axis=1)
        old, new = before / k, (scores.sum(axis=1) - before) / (n - k)
        between = (old - new) ** 2 * k * (n - k) / n
        more = sizes - n
        counted = np.minimum(more, MAX_AROUND)
        around = counted * (self._scores.squares[self._rows] - inside) / np.maximum(more, 1)
        within = inside - k * old**2 - (n - k) * new**2 + around
        found = (n + counted) * np.log1p(between / np.maximum(within, 1e-9))
        return np.where(np.minimum(k, n - k) < FEWEST, 0.0, found)


class OtherNoise:
    """Ranks values among the ``noise`` of their series, given in ascending order, without that of the own window."""

    def __init__(self, noise: Sequence[Floats]) -> None:
        self._noise = noise
        self._sizes = np.array([one.size for one in noise])
        self._begins = np.cumsum(self._sizes) - self._sizes
        self._together = np.concatenate(noise)
        is_last = np.diff(self._together, append=np.inf) != 0
        is_last[self._begins[1:] - 1] = True
        last = np.flatnonzero(is_last)
        self._beyond = np.repeat(last, np.diff(last, prepend=-1)) + 1 - np.arange(is_last.size)

    def around(self, values: Floats, rows: Places, ranks: Places) -> tuple[Places, Places]:
        """Return how many of the others are below each of ``values``, shape (…, windows, width), and below or equal.

        ``rows`` are the windows' series, with windows of one series adjacent; ``ranks`` are the ranks of each window's
        own noise, -1 after its end.
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


def _others(ranks: Places, sizes: Places) -> tuple[Places, Places]:
    """Return how many noise values other than the window's own ``ranks`` come before each place from 0 to ``sizes``.

    The counts of all windows are concatenated; the second result is where each window's counts begin.
    """
    is_own = ranks >= 0
    begins = np.cumsum(sizes + 1) - sizes - 1
    steps = np.ones(begins[-1] + sizes[-1] + 1, dtype=np.int32)
    steps[(begins[:, None] + ranks + 1)[is_own]] = 0
    steps[begins] = 0
    steps[begins[1:]] -= (sizes - is_own.sum(axis=1))[:-1]
    return np.cumsum(steps, out=steps), begins


ChangeWindow = tuple[int, int, int]
"""The stretch that is considered for a change: its first point, the place of the change, its end."""

NEARER_REACH = REACH // 2
"""Shorter reach, within which a change may be clear if another level within REACH runs obscures it."""
MAYBE_SHARE = 0.5
"""Share of the threshold below which a change is not checked again, neither closer by nor with another level."""
RECHECK_SHARE = 0.7
"""Share of the required evidence for the second check, which takes the level of the longer side as the old one."""
VISIBLE_SHARE = 0.5
"""Share of the range of the noise's central 80% that a step must have, 1.3σ for normal noise. Smaller steps that look
clear are mostly drift, or alternating modes."""


@dataclass(frozen=True)
class NoisySeries:
    """A series and its noise, both of shape (runs,).

    ``forgets`` is the factor on its evidence, below 1 if the noise is autocorrelated.
    """

    values: Floats
    noise: Floats
    forgets: float


class LocalEvidence:
    """Evaluates changes of several series."""

    def __init__(self, series: Sequence[NoisySeries], min_effect: float) -> None:
        sizes = np.array([noisy.values.size for noisy in series])
        self.begins = np.append(0, np.cumsum(sizes))
        self._scores, self._row = NormalScores(sizes), np.repeat(np.arange(sizes.size), sizes)
        self._values = np.concatenate([noisy.values for noisy in series])
        orders = [noisy.noise.argsort() for noisy in series]
        noise = [noisy.noise[order] for noisy, order in zip(series, orders, strict=True)]
        self._others = OtherNoise(noise)
        self._rank = np.empty(self._values.size, dtype=np.intp)
        for begin, order in zip(self.begins[:-1], orders, strict=True):
            self._rank[begin + order] = np.arange(order.size)
        least = float(np.log1p(min_effect))
        self._least = np.array(
            [max(least, VISIBLE_SHARE * _middle_range(deviations)) for deviations in noise]
        )
        self._forgets = np.array([noisy.forgets for noisy in series])
        self._needed = np.array([threshold(size) for size in sizes.tolist()])

    def best_places(self, windows: Sequence[ChangeWindow]) -> list[int]:
        """Return where two levels fit best (least squares) in each window, wherever its change is now.

        Values are clipped to the two levels and one step beyond, so that a spike counts little more than the step. A
        change with fewer than FEWEST points on a side stays where it is.
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
        """Return how clear each change is: 1 at the threshold, negative and lower the smaller the step is too small."""
        start, place, end = _columns(windows)
        clearness = self._clearness(start, place, end, self._least[self._row[start]])
        maybe = np.flatnonzero((clearness > MAYBE_SHARE) & (clearness <= 1))
        place = place[maybe]
        first, last = (
            np.maximum(start[maybe], place - NEARER_REACH),
            np.minimum(end[maybe], place + NEARER_REACH),
        )
        clearness[maybe] = np.maximum(
            clearness[maybe], self._clearness(first, place, last, np.zeros(maybe.size))
        )
        return list(clearness.tolist())

    def _clearness(self, start: Places, place: Places, end: Places, least: Floats) -> Floats:
        """Return the clearness of steps, of which those below ``least`` are too small."""
        old, new = self._level(start, place), self._level(place, end)
        step, clearness = np.abs(new.middle - old.middle), np.zeros(start.size)
        is_small = step < least
        clearness[is_small] = step[is_small] / least[is_small] - 1
        some = np.flatnonzero(~is_small & _are_levels(old, new))
        if some.size:
            levels = old.middle[some], new.middle[some]
            clearness[some] = self._evidence(start[some], place[some], end[some], *levels)
        return clearness

    def _evidence(self, start: Places, place: Places, end: Places, old: Floats, new: Floats) -> Floats:
        """Return the evidence, in units of the threshold, of windows that have two levels."""
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
        """Return the values of windows, shape (windows, width), filled with ``beyond`` after their ends."""
        places = start[:, None] + np.arange(width)
        return np.asarray(np.where(places < end[:, None], self._values.take(places, mode="clip"), beyond))

    def _ranks(self, start: Places, end: Places) -> Places:
        """Return the ranks of the windows' noise, -1 after their ends."""
        places = start[:, None] + np.arange(2 * REACH)
        return np.asarray(np.where(places < end[:, None], self._rank.take(places, mode="clip"), -1))


class _Levels(NamedTuple):
    """The medians of some values, the values in ascending order, and their number."""

    middle: Floats
    ordered: Floats
    runs: Places


def _columns(windows: Sequence[ChangeWindow]) -> tuple[Places, Places, Places]:
    start, place, end = np.array(windows, dtype=np.intp).T
    return start, place, end


def _are_levels(left: _Levels, right: _Levels) -> Flags:
    """Whether on each side at least FEWEST values lie nearer to the level of that side."""
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
    """Return the range of the central 80% of values in ascending order."""
    tenth = ordered.size // 10
    return float(ordered[-1 - tenth] - ordered[tenth])
