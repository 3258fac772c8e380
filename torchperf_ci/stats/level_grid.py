"""The levels that a quantity may have: fine enough for the changes that matter, and where one of them leads to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


CHANGE = 0.08
"""Scale of the changes that are expected of a commit that changes anything, on the log scale."""
CHANGE_DF = 3.0
"""Heavy tails: a commit that makes something ten times slower must not be called noise."""
SLOW_SHARE = 0.25
"""The part of the whole change that a slow build has; three regressions of one size are still found one by one."""
STEPS = 96
"""Most steps of the grid: a finer one tells no more commits apart."""


@dataclass(frozen=True)
class LevelGrid:
    """Levels on the log scale, ascending by ``step``, 0 among them, and which of them count as slow."""

    levels: Floats
    step: float
    slow: NDArray[np.bool_]

    @cached_property
    def origin(self) -> int:
        """The index of level 0."""
        return int(np.argmin(np.abs(self.levels)))


def level_grid(values: Floats, min_effect: float, slow: float = 0.0) -> LevelGrid:
    """A grid that spans the readings ``values``, shape (n,), fine enough for a change of ``min_effect`` (log scale).

    A level is slow from half of ``min_effect`` on, and from ``slow`` on, a part of the whole change: else a small part
    of a large change would have to be ruled out at each build, which takes many readings. One reading
    alone stretches nothing: it may be off by anything, and would blur all others.
    """
    ordered = np.sort(np.append(values, (0.0, 0.0)))
    least, most = min(ordered[1], -3 * min_effect), max(ordered[-2], 3 * min_effect)
    step = max(min_effect / 6, (most - least) / STEPS)
    levels = np.arange(math.floor(least / step), math.ceil(most / step) + 1) * step
    return LevelGrid(levels, step, matters(levels, max(min_effect, 2 * slow)))


def jump_probabilities(found: LevelGrid, min_effect: float) -> Floats:
    """Where a level goes when it changes: rows of probabilities, shape (levels, levels).

    No change is smaller than half of ``min_effect``: what is smaller is not looked for.
    """
    change = found.levels - found.levels[:, np.newaxis]
    weights = (1 + (change / CHANGE) ** 2 / CHANGE_DF) ** (-(CHANGE_DF + 1) / 2)
    weights[~matters(np.abs(change), min_effect)] = 0.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def matters(change: Floats, min_effect: float) -> NDArray[np.bool_]:
    """Whether a change is half of ``min_effect`` or more, which is three steps of the finest grid, however rounded."""
    return np.asarray(change >= min_effect / 2 - 1e-9)
