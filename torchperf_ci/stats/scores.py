"""Values as normal scores: what is left of them is their order, so that no spike and no heavy tail weighs too much."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.normal import score_of_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray


def normal_scores(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scores of each row's values and their squares, both of the shape of ``values``, (rows, n), without NaN.

    The value of rank r has the score Φ⁻¹((r − 3/8)/(n + 1/4)) (Blom, *Statistical Estimates and Transformed
    Beta-Variables*, 1958). Equal values share the mean of their scores and of the squares of these: what is to be
    expected if chance ordered them. So ties never look like certainty.
    """
    table = _table(values.shape[1])
    order = np.argsort(values, axis=1)
    scores = _put(table, order)
    squares = scores * scores
    ordered = np.take_along_axis(values, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if tied.size:
        first, last = _runs(ordered[tied])
        scores[tied] = _put(_means(table, first, last), order[tied])
        squares[tied] = _put(_means(table**2, first, last), order[tied])
    return scores, squares


def scores_of_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of a single row, shape (n,), in less time."""
    order = values.argsort()
    ordered = values[order]
    scores = np.empty_like(values)
    # What is in order is found several times as fast as what is not.
    scores[order] = scores_between(
        ordered.searchsorted(ordered), ordered.searchsorted(ordered, "right"), values.size
    )[0]
    return scores


def scores_between(
    below: NDArray[np.intp], upto: NDArray[np.intp], n: int
) -> tuple[NDArray[np.float64], float]:
    """Scores of values of which so many of n are ``below`` and so many below or equal, and the sum of their squares."""
    shared = upto - below
    if not np.count_nonzero(shared > 1):
        scores = _table(n)[below]
        return scores, float(scores @ scores)
    totals = _totals(n)
    scores, squares = (totals[:, upto] - totals[:, below]) / shared
    return scores, float(squares.sum())


@lru_cache(maxsize=1024)
def sum_of_squares(n: int) -> float:
    """That of the scores of n values, ties or not."""
    return float(_totals(n)[1, -1])


@lru_cache(maxsize=1024)
def _totals(n: int) -> NDArray[np.float64]:
    """Cumulative sums of the table of scores and of their squares, with a 0 before: shape (2, n + 1)."""
    totals = np.zeros((2, n + 1))
    np.cumsum([_table(n), _table(n) ** 2], axis=1, out=totals[:, 1:])
    return totals


@lru_cache(maxsize=1024)
def _table(n: int) -> NDArray[np.float64]:
    """The scores of n values without ties, in rising order."""
    ranks = np.arange(1, n + 1, dtype=np.float64)
    return score_of_tail(1 - (ranks - 0.375) / (n + 0.25))


def _runs(ordered: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the run of equal values begins, and where it has ended, for each place of sorted rows."""
    n = ordered.shape[1]
    place = np.arange(n)
    differs = ordered[:, 1:] != ordered[:, :-1]
    edge = np.ones((ordered.shape[0], 1), dtype=bool)
    begins = np.where(np.hstack([edge, differs]), place, 0)
    ends = np.where(np.hstack([differs, edge]), place + 1, n)
    return np.maximum.accumulate(begins, axis=1), np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]


def _means(
    table: NDArray[np.float64], first: NDArray[np.intp], last: NDArray[np.intp]
) -> NDArray[np.float64]:
    total = np.concatenate([[0.0], np.cumsum(table)])
    means: NDArray[np.float64] = (total[last] - total[first]) / (last - first)
    return means


def _put(ordered: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    placed = np.empty(order.shape)
    np.put_along_axis(placed, order, ordered.reshape(-1, order.shape[1]), axis=1)
    return placed
