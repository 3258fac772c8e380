"""The size of a change between two unpaired groups of runs."""

from __future__ import annotations

from functools import lru_cache
from math import floor, inf, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_EXACT = 400
"""Differences up to which their exact distribution is taken; it has at most C(40, 20) cases, which int64 holds."""


def shift_effect(old: NDArray[np.float64], new: NDArray[np.float64], confidence: float = 0.95) -> Effect:
    """The Hodges–Lehmann ratio new/old of log values, shapes (m,) and (n,), and its distribution-free interval.

    The estimate is the median of all m·n differences new − old; the interval runs between two of them, the k-th from
    either end, k by the Mann–Whitney distribution (Hollander, Wolfe & Chicken, *Nonparametric Statistical Methods*,
    §4.3), beyond :data:`MOST_EXACT` differences by its large-sample approximation. Where m and n are too small for
    ``confidence`` (below 4 and 4 for 95%, 5 and 5 for 99%) it is all of ``(0, ∞)``.
    It assumes that noise does not remember the run before; where it does, the interval is too narrow.
    """
    differences = np.sort(np.subtract.outer(new, old), axis=None)
    rank = _rank(*sorted((old.size, new.size)), confidence)
    low, high = (differences[rank - 1], differences[-rank]) if rank > 0 else (-inf, inf)
    return Effect.of_logs(float(np.median(differences)), float(low), float(high), pairs=0)


@lru_cache(maxsize=1024)
def _rank(m: int, n: int, confidence: float) -> int:
    """Largest k with P(U < k) ≤ (1 − confidence)/2 under the null; below 1 where there is none."""
    if m * n > MOST_EXACT:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        return floor(m * n / 2 - z * sqrt(m * n * (m + n + 1) / 12))
    ways = _ways(m, n)
    return int(np.searchsorted(np.cumsum(ways) / ways.sum(), (1 - confidence) / 2, side="right"))


def _ways(m: int, n: int) -> NDArray[np.int64]:
    """How many orders of m and n values have each U from 0 to m·n: the coefficients of ∏ (1 − qⁿ⁺ⁱ)/(1 − qⁱ), i ≤ m.

    Mann & Whitney, *Annals of Mathematical Statistics* 18, 1947; as Gaussian binomials, MacMahon 1916.
    """
    ways = np.zeros(m * n + 1, dtype=np.int64)
    ways[0] = 1
    for i in range(1, m + 1):
        ways[n + i :] -= ways[: -n - i].copy()
        for start in range(i):
            ways[start::i] = np.cumsum(ways[start::i])
    return ways
