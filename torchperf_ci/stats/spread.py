"""How far the processes of a case differ, and when that is too much. Does not import NumPy."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
