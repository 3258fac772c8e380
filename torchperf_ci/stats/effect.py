"""The size of a change, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LARGEST = 700.0
"""A larger logarithm has no number any more; noise without any measure may lead to one."""


@dataclass(frozen=True)
class Effect:
    """A ratio new/old with its confidence interval, from ``pairs`` paired log-ratios."""

    ratio: float
    low: float
    high: float
    pairs: int

    @classmethod
    def of_logs(cls, middle: float, low: float, high: float, pairs: int) -> Effect:
        """The effect from its logarithms: where these are finite, so is it, and positive."""
        return cls(_exponential(middle), _exponential(low), _exponential(high), pairs)

    def inverse(self) -> Effect:
        """Of a quantity that falls where this one rises."""
        low, high = (1 / end if end else inf for end in (self.high, self.low))
        return Effect(1 / self.ratio, low, high, self.pairs)

    def widened(self, factor: float) -> Effect:
        """The same with an interval that reaches so many times as far from the ratio, on the log scale."""
        low, high = ((end / self.ratio) ** factor * self.ratio for end in (self.low, self.high))
        return Effect(self.ratio, low, high, self.pairs)


def paired_effect(log_ratios: ArrayLike, confidence: float = 0.95) -> Effect:
    """The Hodges–Lehmann estimate of paired log-ratios, shape (n,), and its distribution-free interval.

    The estimate is the median of the Walsh averages ``(xᵢ + xⱼ)/2, i ≤ j``; the interval runs between two of them,
    chosen by the exact null distribution of Wilcoxon's signed-rank statistic (Hollander, Wolfe & Chicken,
    *Nonparametric Statistical Methods*, §3.3). It assumes a symmetric distribution, not a normal one, so one spoiled
    pair moves it little. Where n is too small for ``confidence`` (below 6 for 95%) the interval is all of ``(0, ∞)``.
    """
    x = np.asarray(log_ratios, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        msg = f"paired_effect needs one row of finite log-ratios, not shape {x.shape}"
        raise ValueError(msg)
    i, j = np.triu_indices(x.size)
    walsh = np.sort((x[i] + x[j]) / 2)
    rank = _signed_rank_quantile(x.size, (1 - confidence) / 2)
    low, high = (walsh[rank - 1], walsh[-rank]) if rank else (-inf, inf)
    return Effect.of_logs(float(np.median(walsh)), float(low), float(high), x.size)


def _exponential(log: float) -> float:
    return exp(max(-LARGEST, min(log, LARGEST))) if isfinite(log) else exp(log)


def _signed_rank_quantile(n: int, alpha: float) -> int:
    """Largest k with P(W < k) ≤ alpha under the null: the interval runs from the k-th smallest Walsh average."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        # Each rank counts for or against with probability one half.
        taken = np.zeros_like(ways)
        taken[rank:] = ways[:-rank]
        ways = (ways + taken) / 2
    return int(np.searchsorted(np.cumsum(ways), alpha, side="right"))
