"""How strongly do the points of a stretch say that the level changed inside it, and where?

Two levels explain a share R² of the variance of a stretch's normal scores. The evidence for them is the likelihood
ratio −n·ln(1 − R²) of two levels against one. Scores know only the order of values; so whatever the distribution of the
noise is, the evidence of a stretch without change has one and the same distribution, and its threshold is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from torchperf_ci.stats.scores import normal_scores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FEWEST = 5
"""Points on either side of a change, at least."""
REACH = 30
"""Points on either side of a change, at most: a month of nights. What lies further off says more about slow drift."""
GROWTH = 2**0.5
"""How much longer each length of stretches is than the one before."""
OVERLAP = 8
"""The stretches of one length begin an eighth of it apart."""


@dataclass(frozen=True)
class Splits:
    """The best split of each stretch: its first point, the end of it, the first point of the right part, the evidence.

    Each of shape (stretches,) for one series; ``places`` and ``evidence`` of shape (stretches, rows) for several.
    """

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    places: NDArray[np.intp]
    evidence: NDArray[np.float64]

    def of_row(self, row: int) -> Splits:
        """Those of one of several series."""
        return Splits(self.starts, self.ends, self.places[:, row], self.evidence[:, row])


def threshold(n: int) -> float:
    """The evidence that a change in a series of n points must exceed: 7 + 2·log₂ n, but no more than n.

    More places to choose from need more evidence. Two cleanly separated halves of n < 16 points have evidence a little
    above n. By simulation (``benchmarks/changepoints.py``) fewer than 1% of series without change exceed it, and fewer
    than 0.1% of those with 60 points or more; the rest is a margin for noise that remembers the run before.
    """
    return min(float(n), 7 + 2 * log2(n))


def may_have_changed(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether any stretch of each row of ``values``, (rows, n), n ≥ 2·FEWEST, has evidence above the threshold."""
    n = values.shape[1]
    scores, squares = _sums(values)
    clear = np.zeros(values.shape[0], dtype=bool)
    for length in _lengths(n):
        _, between, whole = _weigh(scores, squares, length)
        enough = -np.expm1(-threshold(n) / length)
        clear |= (between.max(axis=1) > enough * whole).any(axis=0)
    return clear


def best_splits(values: NDArray[np.float64]) -> Splits:
    """The best split of each stretch of each row of ``values``, (rows, n), n ≥ 2·FEWEST.

    The lengths of stretches grow from 2·FEWEST to 2·REACH by GROWTH, as in seeded binary segmentation (Kovács,
    Bühlmann, Li & Munk, *Biometrika* 110, 2023), and the last of each length ends with the newest point.
    """
    scores, squares = _sums(values)
    parts = []
    for length in _lengths(values.shape[1]):
        starts, between, whole = _weigh(scores, squares, length)
        places = starts[:, None] + FEWEST + between.argmax(axis=1)
        ratio = _likelihood_ratio(length, between.max(axis=1), whole)
        parts.append((starts, starts + length, places, ratio))
    return Splits(*map(np.concatenate, zip(*parts, strict=True)))


def evidence(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """The evidence that the values of ``left`` and ``right`` have two levels; 0 with fewer than FEWEST on a side."""
    n, k = left.size + right.size, left.size
    if min(k, n - k) < FEWEST:
        return 0.0
    scores, squares = normal_scores(np.concatenate([left, right])[None])
    # Blom's scores, and the shared ones of ties, have the mean 0.
    between = scores[0, :k].sum() ** 2 * n / (k * (n - k))
    return float(_likelihood_ratio(n, np.array(between), squares.sum()))


def _lengths(n: int) -> Iterator[int]:
    longest = min(n, 2 * REACH)
    length = float(2 * FEWEST)
    while round(length) < longest:
        yield round(length)
        length *= GROWTH
    yield longest


def _sums(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cumulative sums of each row's scores and of their squares, with a 0 before: two arrays of shape (n + 1, rows)."""
    sums = np.zeros((2, values.shape[1] + 1, values.shape[0]))
    for part, total in zip(normal_scores(values), sums, strict=True):
        np.cumsum(part.T, axis=0, out=total[1:])
    return sums[0], sums[1]


def _weigh(
    scores: NDArray[np.float64], squares: NDArray[np.float64], length: int
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """The starts of the stretches of one length, and sums of squares of their scores around their mean.

    Those between the two parts of a split have the shape (stretches, splits, rows), those of whole stretches
    (stretches, rows): the rows come last, because that is where numpy is fast.
    """
    step = max(1, length // OVERLAP)
    last = scores.shape[0] - 1 - length
    starts = np.arange(last % step, last + 1, step)
    sums = np.moveaxis(sliding_window_view(scores, length + 1, axis=0)[starts[0] :: step], -1, 1)
    total = sums[:, -1:] - sums[:, :1]
    k = np.arange(FEWEST, length - FEWEST + 1)[:, None]
    between = sums[:, FEWEST : length - FEWEST + 1] - sums[:, :1]
    between -= total * (k / length)
    between *= between
    between *= length / (k * (length - k))
    whole = squares[starts + length] - squares[starts] - total[:, 0] ** 2 / length
    return starts, between, whole


def _likelihood_ratio(
    n: int, between: NDArray[np.float64], whole: NDArray[np.float64]
) -> NDArray[np.float64]:
    """−n·ln(1 − R²); ``whole`` is positive even where all values are equal, because ties share squares too."""
    return np.asarray(-n * np.log1p(-np.minimum(between / whole, 1 - 1e-9)))
