"""The evidence that the values of windows have two levels, by their ranks among all noise of their series.

Arrays have the shape (windows, width): each row is padded after the values of its window.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.scores import Scores, tied
from torchperf_ci.stats.splits import FEWEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

MOST_AROUND = 100
"""Points around a change that say how large noise is, at most so many: more would outvote those at the change."""


class Ranked:
    """Values in rising order, ready to be ranked with others from any level.

    ``values`` are padded with infinity; ``left``, shape (windows,), are before the change, of so many ``runs``; they
    are in the ``rows`` of ``scores``.
    """

    def __init__(self, values: Floats, left: Ints, runs: Ints, scores: Scores, rows: Ints) -> None:
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


class Others:
    """All ``noise`` of each window's series, of which each is in rising order, but that of the window itself.

    ``rows`` are the series, those of one next to each other, and ``ranks`` those of the window's noise, -1 after it.
    """

    def __init__(self, noise: Sequence[Floats], rows: Ints, ranks: Ints) -> None:
        edges = np.flatnonzero(np.diff(rows, prepend=-1, append=-1)).tolist()
        self._parts = [
            (first, last, noise[rows[first]], _missing(ranks[first:last], noise[rows[first]].size))
            for first, last in pairwise(edges)
        ]

    def around(self, values: Floats) -> tuple[Ints, Ints]:
        """How many of the others are below each of ``values``, shape (…, windows, width), and how many upto it."""
        below, upto = np.empty(values.shape, dtype=np.intp), np.empty(values.shape, dtype=np.intp)
        for first, last, noise, missing in self._parts:
            base = np.arange(last - first)[:, None] * (noise.size + 1)
            for side, found in (("left", below), ("right", upto)):
                places = noise.searchsorted(values[..., first:last, :], side)
                found[..., first:last, :] = places - missing.take(places + base)
        return below, upto


def _missing(ranks: Ints, size: int) -> Ints:
    """How many of the ranks of each window are below each number from 0 to ``size``: (windows, size + 1)."""
    is_missing = np.zeros((len(ranks), size + 1), dtype=np.int16)
    is_missing[np.arange(len(ranks))[:, None], ranks + 1] = 1
    is_missing[:, 0] = 0
    return is_missing.cumsum(axis=1, dtype=np.int16)
