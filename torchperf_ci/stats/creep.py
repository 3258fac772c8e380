"""Series that get worse, or better, by steps that are too small to be seen, until they have changed by what matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from torchperf_ci.stats.noise import successive_sigma

if TYPE_CHECKING:
    from torchperf_ci.stats import Floats


CREEP_RUNS = 60
"""Runs over which a series may creep."""
LEVEL_RUNS = 10
"""Runs whose median is a level."""
SURE = 4.0 * np.sqrt(2 * np.pi / (2 * LEVEL_RUNS))
"""Four standard errors of the difference of two levels, in σ; that of a median of n normal values is σ√(π/2n)."""


def creep(values: Floats, min_effect: Floats) -> Floats:
    """Return by how much each series has changed in :data:`CREEP_RUNS` runs, as a logarithm; 0 if there is a step.

    ``values``, shape (series, runs), are logarithms, NaN only in front; ``min_effect``, shape (series,), is the
    smallest change that matters. There is a step if two successive levels differ by as much. Less is 0, too.
    """
    values = values[:, -(CREEP_RUNS + LEVEL_RUNS) :]
    if values.shape[1] < CREEP_RUNS + LEVEL_RUNS:
        return np.zeros(len(values))
    levels = np.median(sliding_window_view(values, LEVEL_RUNS, axis=1), axis=-1)
    change = levels[:, -1] - levels[:, 0]
    steps = np.abs(levels[:, LEVEL_RUNS:] - levels[:, :-LEVEL_RUNS]).max(axis=1)
    matters = np.abs(change) >= np.maximum(min_effect, SURE * successive_sigma(values))
    return np.where(matters & (steps < min_effect), change, 0.0)
