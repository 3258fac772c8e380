"""A change as a ratio with its confidence interval, and the spread of values. Does not import NumPy, which is slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, inf, isfinite, log
from statistics import median

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
        return cls(ratio_of_log(middle), ratio_of_log(low), ratio_of_log(high), pairs)

    @property
    def size(self) -> float:
        """How large the change is in either direction: ``|ln(ratio)|``, infinite for a ratio that has no logarithm."""
        return abs(log(self.ratio)) if self.ratio > 0 else inf

    def widened(self, by: float) -> Effect:
        """Return the effect with an interval that is longer at each end by so much, on the log scale."""
        return replace(self, low=self.low * exp(-by), high=self.high * exp(by))

    def inverse(self) -> Effect:
        """Return the effect on the reciprocal quantity."""
        low, high = (1 / end if end else inf for end in (self.high, self.low))
        return Effect(1 / self.ratio, low, high, self.pairs)


def ratio_of_log(log_ratio: float) -> float:
    """Convert a log-ratio to a ratio: 1.03 for 3% more; finite ones give finite, positive ratios."""
    return exp(max(-LARGEST, min(log_ratio, LARGEST))) if isfinite(log_ratio) else exp(log_ratio)


def share_of_log(log_ratio: float) -> float:
    """Convert a log-ratio to a relative change: 0.03 for 3% more."""
    return expm1(min(log_ratio, LARGEST))


WIDE = 0.10
"""Spread of the typical case from which the machine counts as unsteady; docs/how-it-is-measured.md has the figures."""


def relative_spread(values: Sequence[float]) -> float | None:
    """Return largest over smallest value, minus 1; None for fewer than two values, or if one is not positive."""
    return max(values) / min(values) - 1 if len(values) > 1 and min(values) > 0 else None


def wide_spread(cases: Iterable[Sequence[float]]) -> float | None:
    """Return the median of the cases' spreads if it exceeds :data:`WIDE`, else None."""
    spreads = [found for values in cases if (found := relative_spread(values)) is not None]
    typical = median(spreads) if spreads else 0.0
    return typical if typical > WIDE else None
