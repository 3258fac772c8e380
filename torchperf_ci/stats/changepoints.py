"""Where did the level of a series change? ``docs/how-history-is-segmented.md`` tells the same in prose."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.segments import Suspect, segments, suspected
from torchperf_ci.stats.splits import FEWEST, stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIN_EFFECT = 0.01
"""A smaller change of level is none. People report changes from about 1.4% on; slow drift makes many below 1%."""
_BATCH = 1 << 14
"""Values that are looked at in one go: their intermediate results fit in a processor's cache."""
_TOGETHER = 64
"""Series that are given a second look in one go, for the same reason."""


def change_points(values: Floats, min_effect: float = MIN_EFFECT) -> list[NDArray[np.intp]]:
    """The columns at which each row of log ``values``, (series, runs), oldest first, begins a new level, in order.

    What is not finite is a missing run and leaves no gap. A level has at least :data:`FEWEST` runs, and differs by at
    least ``min_effect`` from the one before. Fewer than 1% of series without a change get one, whatever the
    distribution of their noise, as long as it does not remember the run before.
    """
    known = np.isfinite(values)
    found = [np.empty(0, dtype=np.intp)] * values.shape[0]
    suspects = _suspects(values, known)
    while some := list(islice(suspects, _TOGETHER)):
        series = [suspect for _, suspect in some]
        for (row, _), changes in zip(some, segments(series, min_effect), strict=True):
            found[row] = np.flatnonzero(known[row])[changes]
    return found


def _suspects(values: Floats, known: NDArray[np.bool_]) -> Iterator[tuple[int, Suspect]]:
    """The rows that may have changes. Rows with equally many runs are looked at together."""
    runs = known.sum(axis=1)
    for n in np.unique(runs[runs >= 2 * FEWEST]).tolist():
        rows = np.flatnonzero(runs == n)
        for batch in np.array_split(rows, -(-rows.size * n // _BATCH)):
            compact = values[batch][known[batch]].reshape(-1, n)
            seen = stretches(compact)
            for row in np.flatnonzero(seen.may_have_changed()).tolist():
                yield int(batch[row]), Suspect(compact[row], suspected(seen, row))
