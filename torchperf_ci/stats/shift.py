"""The size of a change between two unpaired groups of runs."""

from __future__ import annotations

from math import exp, floor, inf, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from numpy.typing import NDArray


def shift_effect(old: NDArray[np.float64], new: NDArray[np.float64], confidence: float = 0.95) -> Effect:
    """The Hodges–Lehmann ratio new/old of log values, shapes (m,) and (n,), and its distribution-free interval.

    The estimate is the median of all m·n differences new − old; the interval runs between two of them, the k-th from
    either end, k by the large-sample approximation of the Mann–Whitney distribution (Hollander, Wolfe & Chicken,
    *Nonparametric Statistical Methods*, §4.3). Where m and n are too small for ``confidence`` it is all of ``(0, ∞)``.
    It assumes that noise does not remember the run before; where it does, the interval is too narrow.
    """
    differences = np.sort(np.subtract.outer(new, old), axis=None)
    m, n = old.size, new.size
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    k = floor(m * n / 2 - z * sqrt(m * n * (m + n + 1) / 12))
    ratio = exp(float(np.median(differences)))
    if k < 1:
        return Effect(ratio, 0.0, inf, pairs=0)
    return Effect(ratio, exp(differences[k - 1]), exp(differences[-k]), pairs=0)
