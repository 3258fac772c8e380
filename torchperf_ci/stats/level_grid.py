"""The grid of levels that a quantity may have, its jump probabilities, and products of matrices over such grids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torchperf_ci.stats import Flags, Floats


CHANGE = 0.08
"""Expected scale, in log units, of the change of a commit that changes anything."""
CHANGE_DF = 3.0
"""Degrees of freedom of that change, for heavy tails: a tenfold slowdown must not be taken for noise."""
SLOW_SHARE = 0.25
"""Share of the whole change from which a build is slow; three regressions of equal size are still found one by one."""
STEPS = 96
"""Most steps of the grid; a finer one does not distinguish more commits."""


@dataclass(frozen=True)
class LevelGrid:
    """Levels on the log scale, ascending by ``step``, 0 among them, and which of them count as slow."""

    levels: Floats
    step: float
    slow: Flags

    @cached_property
    def origin(self) -> int:
        """The index of level 0."""
        return int(np.argmin(np.abs(self.levels)))


def level_grid(values: Floats, min_effect: float, slow: float = 0.0) -> LevelGrid:
    """Return a grid that spans the readings ``values``, shape (n,), fine enough for a change of ``min_effect`` (log).

    A level is slow if it is at least half of ``min_effect`` and at least ``slow``, a share of the whole change:
    otherwise a small part of a large change would have to be ruled out at each build, which takes many readings. A
    single extreme reading on either side does not extend the grid: it may be arbitrarily far off, and would make the
    grid too coarse for all others.
    """
    ordered = np.sort(np.append(values, (0.0, 0.0)))
    least, most = min(ordered[1], -3 * min_effect), max(ordered[-2], 3 * min_effect)
    step = max(min_effect / 6, (most - least) / STEPS)
    levels = np.arange(math.floor(least / step), math.ceil(most / step) + 1) * step
    return LevelGrid(levels, step, matters(levels, max(min_effect, 2 * slow)))


def jump_probabilities(grid: LevelGrid, min_effect: float) -> Floats:
    """Return the probabilities of the next level, given that the level changes: one row per level, (levels, levels).

    No change is smaller than half of ``min_effect``, because smaller ones are not searched for.
    """
    change = grid.levels - grid.levels[:, np.newaxis]
    weights = (1 + (change / CHANGE) ** 2 / CHANGE_DF) ** (-(CHANGE_DF + 1) / 2)
    weights[~matters(np.abs(change), min_effect)] = 0.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def matters(change: Floats, min_effect: float) -> Flags:
    """Whether a change is at least half of ``min_effect``, three steps of the finest grid, up to rounding errors."""
    return np.asarray(change >= min_effect / 2 - 1e-9)


MAX_MULTIPLICATIONS = 2**18
"""Most multiplications in a product that is computed by a single thread."""


def small_product(left: Floats, right: Floats) -> Floats:
    """Return ``left @ right`` for two matrices, computed on one thread in slices along the longer side.

    OpenBLAS uses several threads for more than 2¹⁸ multiplications. If a product takes less than a millisecond, they
    mostly wait for each other, the more so the busier the machine is.
    """
    (rows, inner), columns = left.shape, right.shape[1]
    if rows * inner * columns <= MAX_MULTIPLICATIONS:
        return np.asarray(left @ right)
    if rows < columns:
        return np.asarray(small_product(right.T, left.T).T)
    # A single row would use a routine that starts threads sooner.
    step = max(MAX_MULTIPLICATIONS // (inner * columns), 2)
    return np.concatenate([left[first : first + step] @ right for first in range(0, rows, step)])
