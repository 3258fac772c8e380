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
SURE = 4.0
"""Standard errors of the difference of two levels by which a series must have changed."""
STANDARD_ERROR = np.sqrt(2 * np.pi / (2 * LEVEL_RUNS))
"""That of two levels, in σ, if runs are independent; that of a median of n normal values is σ√(π/2n)."""


def creep(values: Floats, min_effect: Floats) -> Floats:
    """Return by how much each series has changed in :data:`CREEP_RUNS` runs, as a logarithm; 0 if there is a step.

    ``values``, shape (series, runs), are logarithms, NaN only in front; ``min_effect``, shape (series,), is the
    smallest change that matters. There is a step if two successive levels differ by as much. Less is 0, too. The spread
    of such differences is the standard error where runs are autocorrelated.
    """
    values = values[:, -(CREEP_RUNS + LEVEL_RUNS) :]
    if values.shape[1] < CREEP_RUNS + LEVEL_RUNS:
        return np.zeros(len(values))
    levels = np.median(sliding_window_view(values, LEVEL_RUNS, axis=1), axis=-1)
    change = levels[:, -1] - levels[:, 0]
    steps = levels[:, LEVEL_RUNS:] - levels[:, :-LEVEL_RUNS]
    error = np.maximum(STANDARD_ERROR * successive_sigma(values), steps.std(axis=1))
    matters = np.abs(change) >= np.maximum(min_effect, SURE * error)
    return np.where(matters & (np.abs(steps).max(axis=1) < min_effect), change, 0.0)
