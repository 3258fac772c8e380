"""A change as a ratio with its interval; without numpy, which few who read a verdict need."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite

LARGEST = 700.0
"""A larger logarithm has no number any more; noise without any measure may lead to one."""


@dataclass(frozen=True)
class Effect:
    """A ratio new/old with its confidence interval, from ``pairs`` paired log-ratios; 0 where nobody says how many.

    An end that is open is 0 or infinity.
    """

    ratio: float
    low: float = 0.0
    high: float = inf
    pairs: int = 0

    @classmethod
    def of_logs(cls, middle: float, low: float, high: float, pairs: int) -> Effect:
        """The effect from its logarithms: where these are finite, so is it, and positive."""
        return cls(_exponential(middle), _exponential(low), _exponential(high), pairs)

    def inverse(self) -> Effect:
        """Of a quantity that falls where this one rises."""
        low, high = (1 / end if end else inf for end in (self.high, self.low))
        return Effect(1 / self.ratio, low, high, self.pairs)


def _exponential(log: float) -> float:
    return exp(max(-LARGEST, min(log, LARGEST))) if isfinite(log) else exp(log)
