"""How much a series remembers: a machine that is slow tonight often is so tomorrow, and two such runs prove little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST = 0.9
CLIP = 3.0
"""Scores count up to here, so that a spike neither makes nor hides a memory."""
BIAS = 1.5
"""The correlation of n values around their own median comes out too low by about this, over n."""


def memories(deviations: Floats, history: NDArray[np.int64], fewest: int) -> tuple[Floats, Floats]:
    """The correlation of each series' successive deviations from its level, and the largest that it may well be.

    Both have the shape (series,) and lie between 0 and 0.9.

    ``deviations``, shape (series, runs), are in σ, NaN where there are none, without gaps; ``history``, shape
    (series,), is their number. One series with few runs says little, so its own correlation is drawn towards the mean
    of all that have ``fewest`` runs, the more the less they differ from each other: empirical Bayes by the method of
    moments (Efron & Morris, *Journal of the American Statistical Association* 70, 1975). The largest is that, or its
    own where this is larger.
    """
    clipped = np.nan_to_num(np.clip(deviations, -CLIP, CLIP))
    enough = history >= fewest
    if not enough.any():
        return np.zeros(len(deviations)), np.zeros(len(deviations))
    runs = np.maximum(history, 2)
    squares = np.maximum((clipped**2).sum(axis=1), 1e-9)
    own = (clipped[:, 1:] * clipped[:, :-1]).sum(axis=1) / squares + BIAS / runs
    mean = np.average(own[enough], weights=runs[enough])
    spread = np.average((own[enough] - mean) ** 2 - 1 / runs[enough], weights=runs[enough])
    between = max(float(spread), 0.0)
    drawn = mean + between / (between + 1 / runs) * (own - mean)
    return np.clip(drawn, 0.0, MOST), np.clip(np.maximum(drawn, own), 0.0, MOST)


def variance_of_mean(memory: Floats, runs: int) -> Floats:
    """Variance of the mean of ``runs`` successive values over that of one, shape as ``memory``.

    ``(1 + 2·Σ (1 − j/runs)·memoryʲ) / runs`` over j from 1 to runs − 1 (a first-order autoregressive series).
    """
    lags = np.arange(1, runs)
    correlated = ((1 - lags / runs) * memory[:, None] ** lags).sum(axis=1)
    return np.asarray((1 + 2 * correlated) / runs)
