"""How much runs, and pairs of runs, are like the ones before: a machine that is slow tonight often is so tomorrow.

The errors of successive pairs of one series are taken for the sum of white noise and of a first-order autoregressive
one. Its share and its memory are weighed on a grid by the restricted likelihood (Patterson & Thompson, *Biometrika* 58,
1971), which knows that the means of the pairs were estimated from the same few; series of one session share them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.noise import MAD_TO_SIGMA
from torchperf_ci.stats.sequential_test import MULTIPLES, PRIOR_DF, PRIOR_SIGMA, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


MOST_AUTOCORRELATION = 0.9
CLIP = 3.0
"""Scores count up to here, so that a spike neither makes nor hides a memory."""
SHARED = 2 / 3
"""Share of the variance between runs that those of one session are taken to have in common. Processes of one run have
half of it; where the past has one run a night, nothing tells how much it is."""
BIAS = 1.5
"""The correlation of n values around their own median comes out too low by about this, over n."""


def autocorrelations(deviations: Floats, history: NDArray[np.int64], fewest: int) -> tuple[Floats, Floats]:
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
    own = _lag_one(deviations) + BIAS / runs
    mean = np.average(own[enough], weights=runs[enough])
    own = np.where(enough, own, mean)
    spread = np.average((own[enough] - mean) ** 2 - 1 / runs[enough], weights=runs[enough])
    between = max(float(spread), 0.0)
    drawn = mean + between / (between + 1 / runs) * (own - mean)
    return np.clip(drawn, 0.0, MOST_AUTOCORRELATION), np.clip(
        np.maximum(drawn, own), 0.0, MOST_AUTOCORRELATION
    )


def autocorrelation_beside_step(deviations: Floats, after_step: NDArray[np.bool_]) -> Floats:
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
    around = _lag_one(residuals) + BIAS / runs
    of_differences = 1 + 2 * _lag_one(np.diff(deviations, axis=1))
    usual = float(np.median(of_differences)) if len(of_differences) else 0.0
    own = of_differences - np.sqrt(2 / runs)
    return np.asarray(np.clip(np.minimum(around, np.maximum(own, usual)), 0.0, MOST_AUTOCORRELATION))


def _lag_one(deviations: Floats) -> Floats:
    """The correlation of each row's successive values around 0, NaN left out."""
    clipped = np.where(np.isnan(deviations), 0.0, np.clip(deviations, -CLIP, CLIP))
    squares = np.maximum((clipped**2).sum(axis=1), 1e-9)
    return np.asarray((clipped[:, 1:] * clipped[:, :-1]).sum(axis=1) / squares, dtype=np.float64)


def variance_of_mean(memory: Floats, sessions: NDArray[np.int64]) -> Floats:
    """Variance of the mean of successive runs over that of one, shape as ``memory``.

    The mean of the correlations of all pairs of runs: ``memoryʲ`` of runs that are j apart (a first-order
    autoregressive series), and at least :data:`SHARED` of runs that have the same number in ``sessions``, shape
    (series, runs).
    """
    lags = np.abs(np.subtract.outer(*2 * [np.arange(sessions.shape[1])]))
    remembered = memory[:, None, None] ** lags
    together = sessions[:, :, None] == sessions[:, None, :]
    return np.asarray(np.maximum(remembered, SHARED * together).mean(axis=(1, 2)))


SHARES = (0.35, 0.7, 1.0)
"""Of the errors' variance: what the autoregressive part may have, where there is one."""
AUTOCORRELATIONS = (0.3, 0.6, 0.8, 0.92, 0.97)
"""What may be left of that part from a pair to the next."""
INDEPENDENT = 0.8
"""How probable it is beforehand that pairs do not remember; the rest is shared evenly."""
PAIR_CLIP = 3.0
"""Robust standard deviations that a value counts up to, so that a spoiled pair neither makes nor hides a memory."""
FEWEST_TO_CLIP = 4

_GRID = ((0.0, 0.0), *product(SHARES, AUTOCORRELATIONS))
_PRIOR = np.log([INDEPENDENT, *[(1 - INDEPENDENT) / (len(_GRID) - 1)] * (len(_GRID) - 1)])


@dataclass(frozen=True)
class PairSeries:
    """The pairs of one series in the order taken: ``values`` (n,) are log-ratios, ``times`` (n,) rise.

    ``groups`` (n,) says which of them have the same mean, by a number from 0 on; -1 is base against itself, whose mean
    is known to be 0. Times are counted in pairs. ``signs`` (n,) is -1 where head began, which base does
    otherwise: what is remembered favours the first or the second, and not a build.
    """

    values: Floats
    times: Floats
    groups: NDArray[np.intp]
    signs: Floats = field(default_factory=lambda: np.ones(1))

    @cached_property
    def likelihoods(self) -> Floats:
        """The logarithm of the restricted likelihood at each point of the grid, with the noise integrated out."""
        values = self.signs * _clipped(self)
        design = (self.signs * _design(self.groups).T).T
        free = values.size - design.shape[1]
        if free < 2 or np.ptp(values) == 0:
            return np.zeros(len(_GRID))
        return _likelihoods(values, design, free, self.times)


def pair_autocorrelation(rows: Sequence[PairSeries]) -> Floats:
    """What the pairs of all series of a session tell of their memory: the probability of each point of the grid.

    The first is that of none at all; without any series it is what is believed beforehand.
    """
    logs = _PRIOR + sum((row.likelihoods for row in rows), np.zeros(len(_GRID)))
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())


def increase_beyond_autocorrelation(row: PairSeries, delta: float, memory: Floats) -> float:
    """The log-likelihood ratio of a change by ``delta`` or more in the pairs of group 0, against none.

    ``memory`` is what :func:`pair_autocorrelation` finds in the other series of the session. Under either hypothesis
    that memory is weighed which it needs: pairs that all lie on one side without a change must remember, which pairs of
    base against itself among them refute. Noise is normal with the prior of
    :mod:`torchperf_ci.stats.sequential_test`, integrated out.
    """
    head = row.groups == 0
    values = row.signs * (_clipped(row) + np.where(head, np.median(row.values[head]), 0.0))
    means = np.concatenate([[0.0], delta * MULTIPLES])
    logs = _of_means(values, row.signs * head, means, row.times)
    logs += np.log(np.maximum(memory, np.finfo(np.float64).tiny))[:, None]
    return _mixed(logs)


def _of_means(values: Floats, head: Floats, means: Floats, times: Floats) -> Floats:
    """The logarithm of the likelihood of each mean, shape (grid, means), but for a constant."""
    whitened, log_determinants = _whitened(np.column_stack([values, head]), times)
    white, seen = np.moveaxis(whitened, -1, 0)
    crossed, seen_squares = (np.einsum("gn,gn->g", one, seen)[:, None] for one in (white, seen))
    squares = (white**2).sum(axis=1)[:, None] - 2 * means * crossed + means**2 * seen_squares
    prior = PRIOR_DF * PRIOR_SIGMA**2
    spreads = (PRIOR_DF + values.size) / 2 * np.log(prior + squares)
    return np.asarray(-log_determinants[:, None] - spreads)


def _mixed(logs: Floats) -> float:
    """From likelihoods by memory and mean to the ratio of the mixture of changes and of none."""
    likelihoods = np.exp(logs - logs.max()).sum(axis=0)
    none = max(float(likelihoods[0]), np.finfo(np.float64).tiny)
    return float(np.log(max(float(likelihoods[1:] @ WEIGHTS), np.finfo(np.float64).tiny)) - np.log(none))


def _likelihoods(values: Floats, design: Floats, free: int, times: Floats) -> Floats:
    """The logarithm of the restricted likelihood at each point of the grid, shape (grid,), but for a constant."""
    white, log_determinants = _whitened(np.column_stack([values, design]), times)
    bases, triangles = np.linalg.qr(white[:, :, 1:])
    rest = white[:, :, :1]
    rest = rest - bases @ (np.swapaxes(bases, 1, 2) @ rest)
    squares = np.maximum((rest**2).sum(axis=(1, 2)), 1e-18)
    return np.asarray(-log_determinants - _log_determinants(triangles) - free / 2 * np.log(squares))


def _log_determinants(triangles: NDArray[np.floating]) -> Floats:
    """Of each triangular matrix, shape (grid, n, n); without its sign."""
    diagonals = np.diagonal(triangles, axis1=1, axis2=2)
    return np.asarray(np.log(np.abs(diagonals)).sum(axis=1))


def _whitened(columns: Floats, times: Floats) -> tuple[Floats, Floats]:
    """``columns``, (n, columns), of errors at ``times``, made independent at each point of the grid, which is to divide
    by the Cholesky factor of their correlations; and the logarithm of its determinant: (grid, n, columns) and (grid,).

    Kalman's filter does it in n steps (*Journal of Basic Engineering* 82, 1960): what an error is expected to be after
    the ones before it, and how sure that is, needs no more than the same of the last one.
    """
    shares, memories = (np.array(one) for one in zip(*_GRID, strict=True))
    white, variances = np.empty((shares.size, *columns.shape)), np.empty((len(columns), shares.size))
    expected, variance = np.zeros((shares.size, columns.shape[1])), shares
    left = memories ** np.diff(times)[:, None]
    for place, values in enumerate(columns):
        if place:
            kept = left[place - 1]
            expected *= kept[:, None]
            variance = shares + kept**2 * (variance - shares)
        variances[place] = variance + (1 - shares)
        apart = values - expected
        white[:, place] = apart
        gain = variance / variances[place]
        expected += gain[:, None] * apart
        variance = variance * (1 - gain)
    spreads = np.sqrt(variances)
    return white / spreads.T[:, :, None], np.log(spreads).sum(axis=0)


def _design(groups: NDArray[np.intp]) -> Floats:
    return np.asarray(groups[:, None] == np.unique(groups[groups >= 0]), dtype=np.float64)


def _clipped(row: PairSeries) -> Floats:
    """Values about their group's median, those far away drawn near by what the whole series spreads by."""
    middles = {
        group: 0.0 if group < 0 else float(np.median(row.values[row.groups == group]))
        for group in np.unique(row.groups).tolist()
    }
    apart = row.values - np.array([middles[group] for group in row.groups.tolist()])
    if apart.size < FEWEST_TO_CLIP:
        return np.asarray(apart)
    most = PAIR_CLIP * MAD_TO_SIGMA * float(np.median(np.abs(apart)))
    return np.asarray(np.clip(apart, -most, most))
