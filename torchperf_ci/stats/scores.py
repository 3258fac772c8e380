"""Values as normal scores: what is left of them is their order, so that no spike and no heavy tail weighs too much."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.normal import score_of_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]


def normal_scores(values: Floats) -> tuple[Floats, Floats]:
    """The scores of each row's values and their squares, both of the shape of ``values``, (rows, n), without NaN.

    The value of rank r has the score Φ⁻¹((r − 3/8)/(n + 1/4)) (Blom, *Statistical Estimates and Transformed
    Beta-Variables*, 1958). Equal values share the mean of their scores and of the squares of these: what is to be
    expected if chance ordered them. So ties never look like certainty.
    """
    table = _table(values.shape[1])
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
    """The scores of a single row, shape (n,), in less time."""
    order = values.argsort()
    ordered, table = values[order], _table(values.size)
    scores = np.empty_like(values)
    if (ordered[1:] == ordered[:-1]).any():
        table = _means(table, *tied(ordered[None]))[0]
    scores[order] = table
    return scores


class Scores:
    """The scores of values among ``sizes`` of them, one number for each of several series."""

    def __init__(self, sizes: Ints) -> None:
        self.sizes = sizes
        self._begins = np.cumsum(sizes) - sizes
        self._table = np.concatenate([_table(size) for size in sizes.tolist()])
        self._totals = np.concatenate([_totals(size) for size in sizes.tolist()], axis=1)
        self.squares = self._totals[1, self._begins + np.arange(sizes.size) + sizes]
        """The sum of the squares of all scores of each series, ties or not."""

    def between(
        self, rows: Ints, below: Ints, upto: Ints, inside: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """The scores of values, shape (windows, width), of which so many are ``below`` and so many below or equal.

        They are 0 for what is not ``inside``. And the sum of their squares, shape (windows,).
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


def tied(ordered: Floats) -> tuple[Ints, Ints]:
    """Where the run of equal values begins, and where it has ended, for each place of sorted rows."""
    n = ordered.shape[1]
    place = np.arange(n)
    differs = ordered[:, 1:] != ordered[:, :-1]
    edge = np.ones((ordered.shape[0], 1), dtype=bool)
    begins = np.where(np.hstack([edge, differs]), place, 0)
    ends = np.where(np.hstack([differs, edge]), place + 1, n)
    return np.maximum.accumulate(begins, axis=1), np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]


@lru_cache(maxsize=1024)
def _totals(n: int) -> Floats:
    """Cumulative sums of the table of scores and of their squares, with a 0 before: shape (2, n + 1)."""
    totals = np.zeros((2, n + 1))
    np.cumsum([_table(n), _table(n) ** 2], axis=1, out=totals[:, 1:])
    return totals


@lru_cache(maxsize=1024)
def _table(n: int) -> Floats:
    """The scores of n values without ties, in rising order."""
    ranks = np.arange(1, n + 1, dtype=np.float64)
    return score_of_tail(1 - (ranks - 0.375) / (n + 0.25))


def _means(table: Floats, first: Ints, last: Ints) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(table)])
    means: Floats = (total[last] - total[first]) / (last - first)
    return means


def _put(ordered: Floats, order: Ints) -> Floats:
    placed = np.empty(order.shape)
    placed[np.arange(len(order))[:, np.newaxis], order] = ordered
    return placed
