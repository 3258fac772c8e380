"""Estimate a change with its confidence interval from pairs, from two unpaired groups, or over many cases."""

from __future__ import annotations

import math
from functools import lru_cache
from math import floor, inf, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.noise import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from torchperf_ci.stats import Floats, Ints


def paired_effect(log_ratios: ArrayLike, confidence: float = 0.95) -> Effect:
    """Return the Hodges–Lehmann estimate of paired log-ratios, shape (n,), with its distribution-free interval.

    The estimate is the median of the Walsh averages ``(xᵢ + xⱼ)/2, i ≤ j``; the interval runs between two of them,
    chosen by the exact null distribution of Wilcoxon's signed-rank statistic (Hollander, Wolfe & Chicken,
    *Nonparametric Statistical Methods*, §3.3). It assumes a symmetric distribution, not a normal one, so one outlier
    moves it little. If n is too small for ``confidence`` (below 6 for 95%) the interval is ``(0, ∞)``.
    """
    x = np.asarray(log_ratios, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ValueError(f"paired_effect needs one row of finite log-ratios, not shape {x.shape}")
    i, j = _index_pairs(x.size)
    walsh = np.sort((x[i] + x[j]) / 2)
    median = walsh[[(walsh.size - 1) // 2, walsh.size // 2]].mean()
    rank = _signed_rank_quantile(x.size, (1 - confidence) / 2)
    low, high = (walsh[rank - 1], walsh[-rank]) if rank else (-inf, inf)
    return Effect.of_logs(float(median), float(low), float(high), x.size)


_index_pairs = lru_cache(maxsize=128)(np.triu_indices)
"""Return the indices i ≤ j of all pairs of so many values; bisections ask for the same again and again."""


@lru_cache(maxsize=1024)
def _signed_rank_quantile(n: int, alpha: float) -> int:
    """Return the largest k with P(W < k) ≤ alpha under the null: the interval starts at the k-th smallest average."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        # Each rank counts as positive or negative with probability one half.
        with_rank = np.zeros_like(ways)
        with_rank[rank:] = ways[:-rank]
        ways = (ways + with_rank) / 2
    return int(np.searchsorted(np.cumsum(ways), alpha, side="right"))


MAX_EXACT = 400
"""Most differences for which the exact distribution is used; its at most C(40, 20) cases fit into int64."""


def shift_effect(old: Floats, new: Floats, confidence: float = 0.95, autocorrelation: float = 0.0) -> Effect:
    """Return the Hodges–Lehmann ratio new/old of log values, shapes (m,) and (n,), with its distribution-free interval.

    The estimate is the median of all m·n differences new − old; the interval runs between two of them, the k-th from
    either end, k by the Mann–Whitney distribution (Hollander, Wolfe & Chicken, *Nonparametric Statistical Methods*,
    §4.3), beyond :data:`MAX_EXACT` differences by its large-sample approximation. If m and n are too small for
    ``confidence`` (below 4 and 4 for 95%, 5 and 5 for 99%) it is ``(0, ∞)``. The means of values with the lag-one
    ``autocorrelation`` r vary by √((1 + r)/(1 − r)) times as much, so the interval is as many times as wide.
    """
    differences = np.sort(np.subtract.outer(new, old), axis=None)
    rank = _rank(*sorted((old.size, new.size)), confidence)
    low, high = (differences[rank - 1], differences[-rank]) if rank > 0 else (-inf, inf)
    middle, wider = float(np.median(differences)), sqrt((1 + autocorrelation) / (1 - autocorrelation))
    return Effect.of_logs(middle, middle - (middle - low) * wider, middle + (high - middle) * wider, pairs=0)


@lru_cache(maxsize=1024)
def _rank(m: int, n: int, confidence: float) -> int:
    """Return the largest k with P(U < k) ≤ (1 − confidence)/2 under the null; below 1 if there is none."""
    if m * n > MAX_EXACT:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        return floor(m * n / 2 - z * sqrt(m * n * (m + n + 1) / 12))
    ways = _ways(m, n)
    return int(np.searchsorted(np.cumsum(ways) / ways.sum(), (1 - confidence) / 2, side="right"))


def _ways(m: int, n: int) -> Ints:
    """Count the orders of m and n values for each U from 0 to m·n: the coefficients of ∏ (1 − qⁿ⁺ⁱ)/(1 − qⁱ), i ≤ m.

    Mann & Whitney, *Annals of Mathematical Statistics* 18, 1947; as Gaussian binomials, MacMahon 1916.
    """
    ways = np.zeros(m * n + 1, dtype=np.int64)
    ways[0] = 1
    for i in range(1, m + 1):
        ways[n + i :] -= ways[: -n - i].copy()
        for start in range(i):
            ways[start::i] = np.cumsum(ways[start::i])
    return ways


def geometric_mean(rows: Sequence[Sequence[float]], confidence: float = 0.95) -> Effect:
    """Return the geometric mean over cases of their mean ratios, with Student's interval.

    ``rows`` holds the log-ratios of each case's pairs, at least two. The cases are fixed, not a sample of others, so
    only the pairs are random: the variance of the mean is ``∑ sᵢ²/nᵢ / cases²``, its degrees of freedom those of Welch
    and Satterthwaite (Welch, *Biometrika* 34, 1947): ``(∑ sᵢ²/nᵢ)² / ∑ (sᵢ²/nᵢ)²/(nᵢ − 1)``. The number of pairs of a
    case must not depend on their values: stopping once the mean is high or low enough would bias it.
    """
    if not rows or min(map(len, rows)) < 2:
        raise ValueError("geometric_mean needs two or more pairs of each case")
    mean = math.fsum(float(np.mean(row)) for row in rows) / len(rows)
    variances = np.array([np.var(row, ddof=1) / len(row) for row in rows])
    pairs = sum(map(len, rows))
    if not variances.any():
        return Effect.of_logs(mean, mean, mean, pairs)
    freedom = variances.sum() ** 2 / np.sum(variances**2 / np.array([len(row) - 1 for row in rows]))
    half = student_quantile((1 + confidence) / 2, freedom) * math.sqrt(variances.sum()) / len(rows)
    return Effect.of_logs(mean, mean - half, mean + half, pairs)
