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
SHARED = 2 / 3
"""Share of the variance between runs that those of one sitting are taken to have in common. Processes of one run have
half of it; where the past has one run a night, nothing tells how much it is."""
BIAS = 1.5
"""The correlation of n values around their own median comes out too low by about this, over n."""


def memories(deviations: Floats, history: NDArray[np.int64], fewest: int) -> tuple[Floats, Floats]:
    """The correlation of each series' successive deviations from its level, and the largest that it may well be.

    Both have the shape (series,) and lie between 0 and 0.9.

    ``deviations``, shape (series, runs), are in σ, NaN where there are none, without gaps; ``history``, shape
    (series,), is their number. One series with few runs says little, so its own correlation is drawn towards the mean
    of all that have ``fewest`` runs, the more the less they differ from each other: empirical Bayes by the method of
    moments (Efron & Morris, *Journal of the American Statistical Association* 70, 1975). The largest is that, or its
    own where this is larger. Of a series with fewer runs nothing is known but that mean.
    """
    enough = history >= fewest
    if not enough.any():
        return np.zeros(len(deviations)), np.zeros(len(deviations))
    runs = np.maximum(history, 2)
    own = _successive(deviations) + BIAS / runs
    mean = np.average(own[enough], weights=runs[enough])
    own = np.where(enough, own, mean)
    spread = np.average((own[enough] - mean) ** 2 - 1 / runs[enough], weights=runs[enough])
    between = max(float(spread), 0.0)
    drawn = mean + between / (between + 1 / runs) * (own - mean)
    return np.clip(drawn, 0.0, MOST), np.clip(np.maximum(drawn, own), 0.0, MOST)


def memory_beside_step(deviations: Floats, after_step: NDArray[np.bool_]) -> Floats:
    """The correlation of each series' successive deviations, shape (series,), that a step does not explain.

    ``deviations``, shape (series, runs), are NaN where there are none; ``after_step`` says which lie after the step
    that is asked about. The correlation around the two levels also sees other steps; so it counts no further than the
    differences know of, which a step touches only once: those of most of the series, or its own less a standard error.
    Successive differences of a first-order autoregressive series have the correlation ``-(1 - r)/2``; it is estimated
    from n of them with a variance of 1/2n where r is 0 (Bartlett, *Journal of the Royal Statistical Society
    Supplement* 8, 1946).
    """
    known = ~np.isnan(deviations)
    residuals = deviations.copy()
    for side in (known & after_step, known & ~after_step):
        level = np.where(side, deviations, 0.0).sum(axis=1) / np.maximum(side.sum(axis=1), 1)
        residuals -= np.where(side, level[:, None], 0.0)
    runs = np.maximum(known.sum(axis=1), 1)
    around = _successive(residuals) + BIAS / runs
    of_differences = 1 + 2 * _successive(np.diff(deviations, axis=1))
    usual = float(np.median(of_differences)) if len(of_differences) else 0.0
    own = of_differences - np.sqrt(2 / runs)
    return np.asarray(np.clip(np.minimum(around, np.maximum(own, usual)), 0.0, MOST))


def _successive(deviations: Floats) -> Floats:
    """The correlation of each row's successive values around 0, NaN left out."""
    clipped = np.where(np.isnan(deviations), 0.0, np.clip(deviations, -CLIP, CLIP))
    squares = np.maximum((clipped**2).sum(axis=1), 1e-9)
    return np.asarray((clipped[:, 1:] * clipped[:, :-1]).sum(axis=1) / squares, dtype=np.float64)


def variance_of_mean(memory: Floats, sittings: NDArray[np.int64]) -> Floats:
    """Variance of the mean of successive runs over that of one, shape as ``memory``.

    The mean of the correlations of all pairs of runs: ``memoryʲ`` of runs that are j apart (a first-order
    autoregressive series), and at least :data:`SHARED` of runs that have the same number in ``sittings``, shape
    (series, runs).
    """
    lags = np.abs(np.subtract.outer(*2 * [np.arange(sittings.shape[1])]))
    remembered = memory[:, None, None] ** lags
    together = sittings[:, :, None] == sittings[:, None, :]
    return np.asarray(np.maximum(remembered, SHARED * together).mean(axis=(1, 2)))
