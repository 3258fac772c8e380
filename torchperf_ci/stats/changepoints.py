"""Where did the level of a series change? ``docs/how-history-is-segmented.md`` tells the same in prose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.segments import segment
from torchperf_ci.stats.splits import FEWEST, stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MIN_EFFECT = 0.01
"""A smaller change of level is none. People report changes from about 1.4% on; slow drift makes many below 1%."""
_BATCH = 1 << 14
"""Values that are looked at in one go: their intermediate results fit in a processor's cache."""


def change_points(values: NDArray[np.float64], min_effect: float = MIN_EFFECT) -> list[NDArray[np.intp]]:
    """The columns at which each row of log ``values``, (series, runs), oldest first, begins a new level, in order.

    What is not finite is a missing run and leaves no gap. A level has at least :data:`FEWEST` runs, and differs by at
    least ``min_effect`` from the one before. Fewer than 1% of series without a change get one, whatever the
    distribution of their noise, as long as it does not remember the run before.
    """
    found = [np.empty(0, dtype=np.intp)] * values.shape[0]
    for row, columns in _changed_rows(values, min_effect):
        found[row] = columns
    return found


def _changed_rows(values: NDArray[np.float64], min_effect: float) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """The rows that have changes, and their columns. Rows with equally many runs are looked at together."""
    known = np.isfinite(values)
    runs = known.sum(axis=1)
    for n in np.unique(runs[runs >= 2 * FEWEST]).tolist():
        rows = np.flatnonzero(runs == n)
        for batch in np.array_split(rows, -(-rows.size * n // _BATCH)):
            compact = values[batch][known[batch]].reshape(-1, n)
            seen = stretches(compact)
            for suspect in np.flatnonzero(seen.may_have_changed()).tolist():
                changes = segment(compact[suspect], seen, suspect, min_effect)
                if changes:
                    row = int(batch[suspect])
                    yield row, np.flatnonzero(known[row])[changes]
