"""Evidence that the level changed inside a stretch of a series, and where, from the ranks of its points alone.

Two levels explain a share R² of the variance of a stretch's normal scores. The evidence for them is the likelihood
ratio −n·ln(1 − R²) of two levels against one. Scores depend only on the order of the values. So the evidence of a
stretch without change has the same distribution whatever the distribution of the noise, and its threshold is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.noise import score_of_tail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.stats import Flags, Floats, Places


def normal_scores(values: Floats) -> tuple[Floats, Floats]:
    """Return the normal scores of each row and their squares, both of the shape of ``values``, (rows, n), without NaN.

    The value of rank r has the score Φ⁻¹((r − 3/8)/(n + 1/4)) (Blom, *Statistical Estimates and Transformed
    Beta-Variables*, 1958). Equal values share the mean of their scores and the mean of their squares, which are the
    expectations if they were ordered at random. So ties never look like certainty.
    """
    table = _score_table(values.shape[1])
    order = np.argsort(values, axis=1)
    scores = _put(table, order)
    squares = scores * scores
    ordered = values[np.arange(len(values))[:, np.newaxis], order]
    has_ties = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if has_ties.size:
        first, last = tied(ordered[has_ties])
        scores[has_ties] = _put(_means(table, first, last), order[has_ties])
        squares[has_ties] = _put(_means(table**2, first, last), order[has_ties])
    return scores, squares


def scores_of_one(values: Floats) -> Floats:
    """Return the normal scores of a single row, shape (n,), faster than :func:`normal_scores`."""
    order = values.argsort()
    ordered, table = values[order], _score_table(values.size)
    scores = np.empty_like(values)
    if (ordered[1:] == ordered[:-1]).any():
        table = _means(table, *tied(ordered[None]))[0]
    scores[order] = table
    return scores


class NormalScores:
    """Normal scores of values ranked within their series; ``sizes`` are the numbers of values of several series."""

    def __init__(self, sizes: Places) -> None:
        self.sizes = sizes
        self._begins = np.cumsum(sizes) - sizes
        self._table = np.concatenate([_score_table(size) for size in sizes.tolist()])
        self._totals = np.concatenate([_totals(size) for size in sizes.tolist()], axis=1)
        self.squares = self._totals[1, self._begins + np.arange(sizes.size) + sizes]
        """The sum of the squares of all scores of each series, ties or not."""

    def between(self, rows: Places, below: Places, upto: Places, inside: Flags) -> tuple[Floats, Floats]:
        """Return the scores of values, shape (windows, width), and the sums of their squares, shape (windows,).

        ``below`` and ``upto`` are how many values of the series are below each value, and how many below or equal.
        Scores are 0 for values that are not ``inside``.
        """
        begins = self._begins[rows][:, None]
        scores = np.where(inside, self._table.take(begins + below, mode="clip"), 0.0)
        squares = (scores * scores).sum(axis=1)
        shared = np.where(inside, upto - below, 1)
        has_ties = np.flatnonzero((shared > 1).any(axis=1))
        if has_ties.size:
            first = begins[has_ties] + rows[has_ties, None]
            parts = [
                self._totals.take(first + number[has_ties], axis=1, mode="clip") for number in (upto, below)
            ]
            means = np.where(inside[has_ties], (parts[0] - parts[1]) / shared[has_ties], 0.0)
            scores[has_ties], squares[has_ties] = means[0], means[1].sum(axis=1)
        return scores, squares


def tied(ordered: Floats) -> tuple[Places, Places]:
    """Return for each place of sorted rows where its run of equal values begins, and where it ends (exclusive)."""
    n = ordered.shape[1]
    begins, ends = np.zeros(ordered.shape, dtype=np.intp), np.full(ordered.shape, n)
    differs, place = ordered[:, 1:] != ordered[:, :-1], np.arange(1, n)
    np.multiply(differs, place, out=begins[:, 1:])
    np.copyto(ends[:, :-1], place, where=differs)
    np.maximum.accumulate(begins, axis=1, out=begins)
    backwards = ends[:, ::-1]
    np.minimum.accumulate(backwards, axis=1, out=backwards)
    return begins, ends


@lru_cache(maxsize=1024)
def _totals(n: int) -> Floats:
    """Return the cumulative sums of the score table and of its squares, with a leading 0: shape (2, n + 1)."""
    totals = np.zeros((2, n + 1))
    np.cumsum([_score_table(n), _score_table(n) ** 2], axis=1, out=totals[:, 1:])
    return totals


@lru_cache(maxsize=1024)
def _score_table(n: int) -> Floats:
    """Return the scores of n values without ties, in ascending order."""
    ranks = np.arange(1, n + 1, dtype=np.float64)
    return score_of_tail(1 - (ranks - 0.375) / (n + 0.25))


def _means(table: Floats, first: Places, last: Places) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(table)])
    means: Floats = (total[last] - total[first]) / (last - first)
    return means


def _put(ordered: Floats, order: Places) -> Floats:
    placed = np.empty(order.shape)
    placed[np.arange(len(order))[:, np.newaxis], order] = ordered
    return placed


FEWEST = 5
"""Fewest points on either side of a change."""
REACH = 30
"""Most points on either side of a change: a month of nights. Points further away say more about slow drift."""
GROWTH = 2**0.5
"""Ratio of each length of stretches to the next shorter one."""
OVERLAP = 8
"""The stretches of one length begin an eighth of it apart."""


@dataclass(frozen=True)
class Stretches:
    """Overlapping stretches of several series that end in the same column.

    ``starts`` and ``ends``, shape (stretches,), are the first column and the end of each; ``evidence``, shape
    (stretches, rows), is how strongly the scores say that the level changes inside it, 0 where the row begins later.
    """

    starts: Places
    ends: Places
    evidence: Floats
    sums: Floats
    """Cumulative sums of each row's scores, with a leading 0, shape (n + 1, rows)."""
    runs: Places
    """Points of each row, shape (rows,), in the last of the n columns."""

    def may_have_changed(self) -> Flags:
        """Whether any stretch of each row has evidence above the threshold."""
        needed = np.array([threshold(runs) for runs in self.runs.tolist()])
        return np.asarray((self.evidence > needed).any(axis=0))

    def place(self, start: int, end: int, row: int) -> int:
        """Return the column in which the second level of a stretch begins, if it has two."""
        sums = self.sums[start + 1 : end + 1, row] - self.sums[start, row]
        share, weight = _splits(end - start)
        between = (sums[FEWEST - 1 : sums.size - FEWEST] - sums[-1] * share) ** 2 * weight
        return start + FEWEST + int(between.argmax())


def threshold(n: int, changes: int = 1) -> float:
    """Return the evidence that a change in a series of n points must exceed: 8 + 2·log₂(n/changes), at most n.

    More places to choose from need more evidence; with several changes, each has fewer places. Two cleanly separated
    halves of n < 16 points have evidence a little above n. In simulations (``benchmarks/changepoints.py``) fewer than
    1% of series without change exceed it, and fewer than 0.1% of those with 60 points or more; the rest is a margin for
    autocorrelated noise.
    """
    return min(float(n), 8 + 2 * log2(n / changes))


def stretches(values: Floats) -> Stretches:
    """Return the stretches of each row of ``values``, shape (rows, n), n ≥ 2·FEWEST.

    Rows of fewer than n points have leading NaN; in that case every row must have at least 2·REACH points.

    Their lengths grow from 2·FEWEST to 2·REACH by GROWTH, as in seeded binary segmentation (Kovács, Bühlmann, Li &
    Munk, *Biometrika* 110, 2023), and the last of each length ends with the newest point.
    """
    n, runs = values.shape[1], np.isfinite(values).sum(axis=1)
    scores, squares = _sums(values, runs)
    parts = [_weigh(scores, squares, length) for length in _lengths(n)]
    starts, ends, between, whole = map(np.concatenate, zip(*parts, strict=True))
    whole[starts[:, None] < n - runs] = np.inf
    return Stretches(starts, ends, _likelihood_ratio((ends - starts)[:, None], between, whole), scores, runs)


def best_splits(sums: Floats, runs: Places) -> tuple[Places, Floats]:
    """Return where stretches of at most 2·REACH points are split best, and the sum of squares between the parts.

    ``sums``, shape (stretches, 2·REACH), are the cumulative sums of the ``runs`` points of each stretch, followed by
    copies of the last one. A stretch with fewer than 2·FEWEST points is not split; its place is meaningless.
    """
    share, weight = (part[runs] for part in _all_splits())
    last = len(share[0])
    between = (sums[:, FEWEST - 1 : FEWEST - 1 + last] - sums[:, -1:] * share) ** 2 * weight
    between[np.isnan(weight)] = -1.0
    best = between.argmax(axis=1)
    return FEWEST + best, between[np.arange(len(sums)), best]


@lru_cache(maxsize=1)
def _all_splits() -> tuple[Floats, Floats]:
    """Return :func:`_splits` of up to 2·REACH points, one row per number of points, NaN where there is no split."""
    longest = 2 * REACH
    share, weight = (np.full((longest + 1, longest - 2 * FEWEST + 1), np.nan) for _ in range(2))
    for n in range(2 * FEWEST, longest + 1):
        for table, part in zip((share, weight), _splits(n), strict=True):
            table[n, : len(part)] = part
    return share, weight


@lru_cache(maxsize=1024)
def _splits(n: int) -> tuple[Floats, Floats]:
    """Return for each split of n points the share of points before it, and the weight of the squared sum before it."""
    k = np.arange(FEWEST, n - FEWEST + 1)
    return k / n, n / (k * (n - k))


def _lengths(n: int) -> Iterator[int]:
    longest = min(n, 2 * REACH)
    length = float(2 * FEWEST)
    while length < 0.9 * longest:
        yield round(length)
        length *= GROWTH
    yield longest


def _sums(values: Floats, runs: Places) -> tuple[Floats, Floats]:
    """Return cumulative sums of each row's scores and of their squares, with a leading 0, both (n + 1, rows)."""
    scores = np.zeros((2, *values.shape))
    for n in np.unique(runs).tolist():
        rows = runs == n
        scores[:, rows, -n:] = normal_scores(values[rows, -n:])
    sums = np.zeros((2, values.shape[1] + 1, values.shape[0]))
    np.cumsum(scores.swapaxes(1, 2), axis=1, out=sums[:, 1:])
    return sums[0], sums[1]


def _weigh(scores: Floats, squares: Floats, length: int) -> tuple[Places, Places, Floats, Floats]:
    """Return the starts and ends of the stretches of one length, and sums of squares of their scores.

    The sums of squares between the two parts of the best split, and those of the whole stretch around its mean, have
    the shape (stretches, rows). Intermediate arrays have splits first and rows last, because numpy is fast where the
    last axes are long.
    """
    step = max(1, length // OVERLAP)
    n, rows = scores.shape[0] - 1, scores.shape[1]
    first = (n - length) % step
    starts = np.arange(first, n - length + 1, step)
    share, weight = (part[:, None, None] for part in _splits(length))
    # The sums up to each split of each stretch, as a view; numpy's own sliding windows take longer to create.
    one, row = scores.strides
    sums: Floats = np.ndarray(
        (len(share), starts.size, rows),
        buffer=scores,
        offset=(first + FEWEST) * one,
        strides=(one, step * one, row),
    )
    start, end = scores[first : n - length + 1 : step], scores[first + length :: step]
    total = end - start
    between = np.subtract(sums, start, order="C")
    between -= total * share
    between *= between
    between *= weight
    whole = squares[first + length :: step] - squares[first : n - length + 1 : step] - total**2 / length
    return starts, starts + length, between.max(axis=0), whole


def _likelihood_ratio(n: Places, between: Floats, whole: Floats) -> Floats:
    """Return −n·ln(1 − R²); ``whole`` is positive even where all values are equal, because ties share squares too."""
    return np.asarray(-n * np.log1p(-np.minimum(between / whole, 1 - 1e-9)))
