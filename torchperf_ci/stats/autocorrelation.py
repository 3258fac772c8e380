"""Autocorrelation of runs, and of pairs of runs: a machine that is slow tonight is often slow tomorrow, too.

The errors of successive pairs of one series are modeled as the sum of white noise and a first-order autoregressive
process. The share and the autocorrelation of the latter, which all series of a session have in common, are weighed on a
grid by the restricted likelihood (Patterson & Thompson, *Biometrika* 58, 1971), which accounts for the means being
estimated from the same few pairs.
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

    from torchperf_ci.stats import Flags, Floats, Ints, Places


MAX_AUTOCORRELATION = 0.9
CLIP = 3.0
"""Values are clipped at this many σ from their level, so that a spike neither feigns nor hides autocorrelation."""
SHARED = 2 / 3
"""Share of the variance between runs that is assumed to be common to the runs of one session. Processes of one run
share half of it; a past of one run per night cannot tell how much runs of one session share."""
BIAS = 1.5
"""The lag-one correlation of n values around their own median is biased downwards by about this over n."""


def autocorrelations(deviations: Floats, history: Ints, fewest: int) -> tuple[Floats, Floats]:
    """Estimate the lag-one correlation of each series, and a cautious upper value of it.

    Both have the shape (series,) and lie between 0 and 0.9.

    ``deviations``, shape (series, runs), are deviations from the level in σ, NaN where there are none, without gaps;
    ``history``, shape (series,), is their number. A series with few runs says little, so its own correlation is shrunk
    towards the mean of all series with at least ``fewest`` runs, the more so the less these differ from each other:
    empirical Bayes by the method of moments (Efron & Morris, *Journal of the American Statistical Association* 70,
    1975). The upper value is the larger of the own correlation and of the shrunk one plus its posterior standard
    deviation. Series with fewer runs get that mean.
    """
    enough = history >= fewest
    if not enough.any():
        return np.zeros(len(deviations)), np.zeros(len(deviations))
    runs = np.maximum(history, 2)
    correlations = _lag_one(deviations) + BIAS / runs
    mean = np.average(correlations[enough], weights=runs[enough])
    correlations = np.where(enough, correlations, mean)
    spread = np.average((correlations[enough] - mean) ** 2 - 1 / runs[enough], weights=runs[enough])
    between = max(float(spread), 0.0)
    weight = between / (between + 1 / runs)
    drawn = mean + weight * (correlations - mean)
    most = np.maximum(drawn + np.sqrt(weight / runs), correlations)
    return np.clip(drawn, 0.0, MAX_AUTOCORRELATION), np.clip(most, 0.0, MAX_AUTOCORRELATION)


def autocorrelation_beside_step(deviations: Floats, after_step: Flags) -> Floats:
    """Estimate the lag-one correlation of each series, shape (series,), that a given step does not explain.

    ``deviations``, shape (series, runs), are NaN where there are none; ``after_step`` marks those after the step. The
    correlation around the two levels is inflated by further steps. So it is limited by an estimate from successive
    differences, each of which a step affects only once: the median over the series, or the series' own less one
    standard error, whichever is larger.
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
    return np.asarray(np.clip(np.minimum(around, np.maximum(own, usual)), 0.0, MAX_AUTOCORRELATION))


def _lag_one(deviations: Floats) -> Floats:
    """Return the lag-one correlation of each row around 0, ignoring NaN."""
    clipped = np.where(np.isnan(deviations), 0.0, np.clip(deviations, -CLIP, CLIP))
    squares = np.maximum((clipped**2).sum(axis=1), 1e-9)
    return np.asarray((clipped[:, 1:] * clipped[:, :-1]).sum(axis=1) / squares, dtype=np.float64)


def variance_of_mean(memory: Floats, sessions: Ints) -> Floats:
    """Return the variance of the mean of successive runs relative to that of one run, shape as ``memory``.

    It is the mean correlation over all pairs of runs: ``memoryʲ`` for runs that are j apart (a first-order
    autoregressive series), and at least :data:`SHARED` for runs with the same number in ``sessions``, shape
    (series, runs).
    """
    lags = np.abs(np.subtract.outer(*2 * [np.arange(sessions.shape[1])]))
    remembered = memory[:, None, None] ** lags
    together = sessions[:, :, None] == sessions[:, None, :]
    return np.asarray(np.maximum(remembered, SHARED * together).mean(axis=(1, 2)))


SHARES = (0.35, 0.7, 1.0)
"""Candidate shares of the autoregressive part in the errors' variance."""
AUTOCORRELATIONS = (0.3, 0.6, 0.8, 0.92, 0.97)
"""Candidate autocorrelations of that part from one pair to the next."""
INDEPENDENT = 0.8
"""Prior probability that pairs are independent; the rest is spread evenly over the grid."""
MIN_TO_CLIP = 4
"""Fewest pairs with which their σ is known well enough to clip them."""

_GRID = ((0.0, 0.0), *product(SHARES, AUTOCORRELATIONS))
_PRIOR = np.log([INDEPENDENT, *[(1 - INDEPENDENT) / (len(_GRID) - 1)] * (len(_GRID) - 1)])


@dataclass(frozen=True)
class PairSeries:
    """The pairs of one series in the order they were taken: ``values`` (n,) are log-ratios, ``times`` (n,) ascend.

    ``groups`` (n,) numbers the groups with a common mean from 0; -1 is base against itself, whose mean is known to be
    0. Times are counted in pairs. ``signs`` (n,) is -1 where head began and 1 where base did.
    """

    values: Floats
    times: Floats
    groups: Places
    signs: Floats = field(default_factory=lambda: np.ones(1))

    @cached_property
    def likelihoods(self) -> Floats:
        """The restricted log-likelihoods with the noise integrated out, shape (2, grid).

        The first row is for autocorrelation that favors whichever process begins, the second for one that favors the
        same build whichever begins, beside a constant effect of the order.
        """
        values, groups = _clipped(self), np.unique(self.groups[self.groups >= 0])
        design = np.asarray(self.groups[:, None] == groups, dtype=np.float64)
        by_order = _likelihoods(self.signs * values, (self.signs * design.T).T, self.times)
        beside_order = np.column_stack([design, _order(self, design)])
        return np.stack([by_order, _likelihoods(values, beside_order, self.times)])


def pair_autocorrelation(rows: Sequence[PairSeries]) -> Floats:
    """Return the posterior probability of each point of the grid, given the pairs of all series of a session.

    The shape is that of :attr:`PairSeries.likelihoods`. The first point is no autocorrelation. Without any series this
    is the prior.
    """
    logs = _PRIOR + sum((row.likelihoods for row in rows), np.zeros((2, len(_GRID))))
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def increase_beyond_autocorrelation(row: PairSeries, delta: float, memory: Floats) -> float:
    """Return the log-likelihood ratio of a change by ``delta`` or more in the pairs of group 0 against no change.

    ``memory`` is the result of :func:`pair_autocorrelation` for the other series of the session. Each hypothesis is
    weighed with the autocorrelation it needs: without a change, pairs that all lie on one side must be autocorrelated,
    which interspersed pairs of base against itself can refute. It is the lower of the ratios for autocorrelation that
    favors whichever process begins, and for one that favors the same build whichever begins. Noise is normal with the
    prior of :mod:`torchperf_ci.stats.sequential_test`, integrated out. A change beyond the largest of the mixture
    counts as that one, because its remainder would otherwise look like noise.
    """
    head = row.groups == 0
    means = np.concatenate([[0.0], delta * MULTIPLES])
    values = _clipped(row) + np.where(head, min(float(np.median(row.values[head])), means[-1]), 0.0)
    by_order = _of_means(row.signs * values, row.signs * head, means, row.times, np.empty((values.size, 0)))
    by_build = _of_means(values, head, means, row.times, _order(row, head[:, None]))
    known = np.log(np.maximum(memory, np.finfo(np.float64).tiny))
    return min(_mixed(by_order + known[0][:, None]), _mixed(by_build + known[1][:, None]))


def _of_means(values: Floats, head: Floats, means: Floats, times: Floats, order: Floats) -> Floats:
    """Return the log-likelihood of each mean up to a constant, shape (grid, means).

    ``order``, shape (n, columns), are effects of unknown size beside it.
    """
    whitened, log_determinants = _whitened(np.column_stack([values, head, order]), times)
    rest, triangles = _beside(whitened[:, :, :2], whitened[:, :, 2:])
    white, seen = np.moveaxis(rest, -1, 0)
    crossed, seen_squares = (np.einsum("gn,gn->g", one, seen)[:, None] for one in (white, seen))
    squares = (white**2).sum(axis=1)[:, None] - 2 * means * crossed + means**2 * seen_squares
    prior = PRIOR_DF * PRIOR_SIGMA**2
    spreads = (PRIOR_DF + values.size - order.shape[1]) / 2 * np.log(prior + squares)
    return np.asarray(-(log_determinants + _log_determinants(triangles))[:, None] - spreads)


def _mixed(logs: Floats) -> float:
    """Return the log-likelihood ratio of the mixture of changes against no change, summed over the grid."""
    likelihoods = np.exp(logs - logs.max()).sum(axis=0)
    none = max(float(likelihoods[0]), np.finfo(np.float64).tiny)
    return float(np.log(max(float(likelihoods[1:] @ WEIGHTS), np.finfo(np.float64).tiny)) - np.log(none))


def _likelihoods(values: Floats, design: Floats, times: Floats) -> Floats:
    """Return the restricted log-likelihood at each point of the grid up to a constant, shape (grid,)."""
    free = values.size - design.shape[1]
    if free < 2 or np.ptp(values) == 0:
        return np.zeros(len(_GRID))
    white, log_determinants = _whitened(np.column_stack([values, design]), times)
    rest, triangles = _beside(white[:, :, :1], white[:, :, 1:])
    squares = np.maximum((rest**2).sum(axis=(1, 2)), 1e-18)
    return np.asarray(-log_determinants - _log_determinants(triangles) - free / 2 * np.log(squares))


def _beside(columns: Floats, design: Floats) -> tuple[Floats, Floats]:
    """Return what ``design`` leaves of ``columns``, both (grid, n, columns), and the triangles of its factors."""
    bases, triangles = np.linalg.qr(design)
    return columns - bases @ (np.swapaxes(bases, 1, 2) @ columns), triangles


def _log_determinants(triangles: NDArray[np.floating]) -> Floats:
    """Return the logarithm of the absolute determinant of each triangular matrix, shape (grid, n, n)."""
    diagonals = np.diagonal(triangles, axis1=1, axis2=2)
    return np.asarray(np.log(np.abs(diagonals)).sum(axis=1))


def _whitened(columns: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Whiten ``columns``, shape (n, columns), of errors at ``times``, for each point of the grid.

    That is multiplication by the inverse Cholesky factor of their correlation matrix. Returns the whitened columns,
    (grid, n, columns), and the logarithm of the factor's determinant, (grid,). The Kalman filter does it in n steps
    (*Journal of Basic Engineering* 82, 1960), because the prediction of an error and its variance depend on those of
    the previous error only.
    """
    shares, memories = (np.array(one) for one in zip(*_GRID, strict=True))
    white, variances = np.empty((shares.size, *columns.shape)), np.empty((len(columns), shares.size))
    expected, variance = np.zeros((shares.size, columns.shape[1])), shares
    left = memories ** np.diff(times)[:, None]
    for place, values in enumerate(columns):
        if place:
            remembered = left[place - 1]
            expected *= remembered[:, None]
            variance = shares + remembered**2 * (variance - shares)
        variances[place] = variance + (1 - shares)
        apart = values - expected
        white[:, place] = apart
        gain = variance / variances[place]
        expected += gain[:, None] * apart
        variance = variance * (1 - gain)
    spreads = np.sqrt(variances)
    return white / spreads.T[:, :, None], np.log(spreads).sum(axis=0)


def _order(row: PairSeries, design: Floats) -> Floats:
    """Return which process begins as a column, (n, 1), or none, (n, 0), if ``design`` cannot be told from it."""
    order = np.broadcast_to(row.signs, row.values.shape)[:, None]
    wider = np.column_stack([design, order])
    rank = np.linalg.matrix_rank(wider) if len(wider) else 0  # NumPy before 2.3 has none for no rows
    return np.asarray(order[:, : int(rank == wider.shape[1])])


def _clipped(row: PairSeries) -> Floats:
    """Return the values around their group's median, clipped by the robust spread of the whole series."""
    middles = {
        group: 0.0 if group < 0 else float(np.median(row.values[row.groups == group]))
        for group in np.unique(row.groups).tolist()
    }
    apart = row.values - np.array([middles[group] for group in row.groups.tolist()])
    if apart.size < MIN_TO_CLIP:
        return np.asarray(apart)
    most = CLIP * MAD_TO_SIGMA * float(np.median(np.abs(apart)))
    return np.asarray(np.clip(apart, -most, most))
