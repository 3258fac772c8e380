"""How far the processes of a case lie apart, and when that is wide; without numpy."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


WIDE = 0.10
"""From here on the typical case says that its machine is not steady: docs/how-it-is-measured.md has the figures."""


def relative_spread(values: Sequence[float]) -> float | None:
    """The largest over the smallest, less 1; None where there are fewer than two, or one is not above 0."""
    return max(values) / min(values) - 1 if len(values) > 1 and min(values) > 0 else None


def wide_spread(cases: Iterable[Sequence[float]]) -> float | None:
    """The median of the cases' spreads where that is wide, else None."""
    spreads = [found for values in cases if (found := relative_spread(values)) is not None]
    typical = median(spreads) if spreads else 0.0
    return typical if typical > WIDE else None
