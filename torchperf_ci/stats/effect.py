"""A change as a ratio with its confidence interval. Does not import NumPy, which readers of verdicts rarely need."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, isfinite, log

LARGEST = 700.0
"""Logarithms are clipped here, since the exponential of larger ones overflows; extreme noise can lead to them."""


@dataclass(frozen=True)
class Effect:
    """A ratio new/old with its confidence interval, from ``pairs`` paired log-ratios (0 if the number is unknown).

    An open end of the interval is 0 or infinity.
    """

    ratio: float
    low: float = 0.0
    high: float = inf
    pairs: int = 0

    @classmethod
    def of_logs(cls, middle: float, low: float, high: float, pairs: int) -> Effect:
        """Create an effect from logarithms; finite logarithms give finite, positive values."""
        return cls(_exponential(middle), _exponential(low), _exponential(high), pairs)

    @property
    def size(self) -> float:
        """How large the change is in either direction: ``|ln(ratio)|``, infinite for a ratio that has no logarithm."""
        return abs(log(self.ratio)) if 0 < self.ratio < inf else inf

    def inverse(self) -> Effect:
        """Return the effect on the reciprocal quantity."""
        low, high = (1 / end if end else inf for end in (self.high, self.low))
        return Effect(1 / self.ratio, low, high, self.pairs)

    def rounded(self) -> Effect:
        """Return the effect to six significant digits, which are more precise than any clock."""
        ratio, low, high = (float(f"{value:.6g}") for value in (self.ratio, self.low, self.high))
        return Effect(ratio, low, high, self.pairs)


def _exponential(value: float) -> float:
    return exp(max(-LARGEST, min(value, LARGEST))) if isfinite(value) else exp(value)


def ratio_of_log(log_ratio: float) -> float:
    """Convert a log-ratio to a ratio: 1.03 for 3% more."""
    return exp(min(log_ratio, LARGEST))


def share_of_log(log_ratio: float) -> float:
    """Convert a log-ratio to a relative change: 0.03 for 3% more."""
    return expm1(min(log_ratio, LARGEST))
