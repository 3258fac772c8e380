"""Find the change points of a series. ``docs/how-history-is-segmented.md`` explains the method in prose."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.autocorrelation import BIAS
from torchperf_ci.stats.local_evidence import ChangeWindow, LocalEvidence, NoisySeries
from torchperf_ci.stats.split_evidence import FEWEST, REACH, best_splits, scores_of_one, stretches, threshold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_ci.stats import Flags, Floats, Places
    from torchperf_ci.stats.split_evidence import Stretches


SUSPECT_SHARE = 0.57
"""A stretch with this share of the threshold may contain a change. The second look decides: it drops suspects too many,
while a missing suspect makes its neighbors look unclear."""
SURE = 1.5
"""A change this many times as clear as the threshold shows that the series does change, so that others need less. Of
the few changes found where there are none, hardly any is as clear."""
CLIP = 2.0
"""Scores are clipped here for the autocorrelation, so that a few outliers neither feign nor hide it."""
MAX_AUTOCORRELATION = 0.8
"""Largest autocorrelation assumed; what looks like more is due to levels."""


@dataclass(frozen=True)
class SuspectedSeries:
    """The log values of a series, shape (runs,), and the indices at which new levels may begin."""

    values: Floats
    places: Sequence[int]


def segments(series: Sequence[SuspectedSeries], min_effect: float) -> list[list[int]]:
    """Return the indices at which a new level begins, in order, for each series.

    The values less the levels between all suspected changes are the series' noise. Each change is moved to where it
    fits best between its neighbors. Then, of the changes that are smaller than ``min_effect``, hidden in this noise or
    not clear beside it, the weakest are dropped. This is repeated until none is left to drop. Each round computes what
    it needs for all series at once.
    """
    noisy, changes = _with_noise(series)
    looks = EvidenceCache(LocalEvidence(noisy, min_effect))
    ends = looks.second.begins.tolist()
    edges = [
        [first, *(first + place for place in row), end]
        for row, first, end in zip(changes, ends, ends[1:], strict=False)
    ]
    unsettled = [row for row in edges if len(row) > 2]
    while unsettled:
        looks.place(unsettled)
        clearness = looks.clearness(unsettled)
        unsettled = [
            row for row, clear in zip(unsettled, clearness, strict=True) if _drop_weakest(row, clear)
        ]
    return [[place - row[0] for place in row[1:-1]] for row in edges]


def _drop_weakest(edges: list[int], clearness: Sequence[float]) -> bool:
    """Drop the changes that are not clear enough and less clear than both neighbors.

    Return whether any were dropped and others are left. Where several changes are sure, the others need less evidence.
    """
    runs, sure = edges[-1] - edges[0], sum(clear > SURE for clear in clearness)
    needed = threshold(runs, max(1, sure)) / threshold(runs)
    around = [inf, *clearness, inf]
    dropped = {
        i
        for i, (before, clear, after) in enumerate(zip(around, clearness, around[2:], strict=False), 1)
        if clear <= needed and clear < before and clear <= after
    }
    edges[:] = [place for i, place in enumerate(edges) if i not in dropped]
    return bool(dropped) and len(edges) > 2


@dataclass
class EvidenceCache:
    """Caches what was computed for each window. Edges are a series' first index, its changes, and its end."""

    second: LocalEvidence
    places: dict[ChangeWindow, int] = field(default_factory=dict)
    looks: dict[ChangeWindow, float] = field(default_factory=dict)

    def place(self, series: Iterable[list[int]]) -> None:
        """Move each change to where it fits best between the one before and the one after it, in order.

        A change after one that has not been placed yet is evaluated as if that one stayed where it is, and again if
        that one moves.
        """
        left = [(edges, 1) for edges in series]
        while left:
            asked: dict[ChangeWindow, None] = {}
            left = [(edges, begun) for edges, first in left if (begun := self._place(edges, first, asked))]
            windows = list(asked)
            if windows:
                self.places.update(zip(windows, self.second.best_places(windows), strict=True))

    def _place(self, edges: list[int], first: int, asked: dict[ChangeWindow, None]) -> int:
        """Place the changes from the ``first`` on, until the place of one is unknown; return its number, or 0."""
        before, waiting = edges[first - 1], 0
        for i in range(first, len(edges) - 1):
            window = window_of(before, edges[i], edges[i + 1])
            before = self.places.get(window, -1)
            if before < 0:
                asked[window], before, waiting = None, edges[i], waiting or i
            elif not waiting:
                edges[i] = before
        return waiting

    def clearness(self, series: Sequence[list[int]]) -> list[list[float]]:
        """Return how clear each change of each series is, in units of the threshold."""
        windows = [
            [window_of(*around) for around in zip(row, row[1:], row[2:], strict=False)] for row in series
        ]
        asked = list(dict.fromkeys(one for row in windows for one in row if one not in self.looks))
        if asked:
            self.looks.update(zip(asked, self.second.clearness(asked), strict=True))
        return [[self.looks[one] for one in row] for row in windows]


def sides(values: Floats, place: int, changes: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the values before and after a change: up to the next change on either side, and REACH at most."""
    before = max((other for other in changes if other < place), default=0)
    after = min((other for other in changes if other > place), default=values.size)
    first, _, end = window_of(before, place, after)
    return values[first:place], values[place:end]


def suspected(stretches: Stretches, row: int) -> list[int]:
    """Return the place of the clearest stretch, then of the clearest without such a place inside, and so on, sorted."""
    runs, seen = int(stretches.runs[row]), stretches.evidence[:, row]
    suspect = np.flatnonzero(seen > SUSPECT_SHARE * threshold(runs))
    suspect = suspect[np.argsort(-seen[suspect], kind="stable")]
    columns = len(stretches.sums) - 1
    changes = [columns]  # the end, which is after all others
    for start, end in zip(stretches.starts[suspect].tolist(), stretches.ends[suspect].tolist(), strict=True):
        after = bisect_right(changes, start)
        if changes[after] >= end:
            changes.insert(after, stretches.place(start, end, row))
    return [place - columns + runs for place in changes[:-1]]


def _with_noise(series: Sequence[SuspectedSeries]) -> tuple[list[NoisySeries], list[Sequence[int]]]:
    """Return each series with its noise, and where it may change, including changes that only the noise reveals."""
    noise = [_noise(suspect.values, suspect.places) for suspect in series]
    scores = [scores_of_one(deviations) for deviations in noise]
    changes = [suspect.places for suspect in series]
    for row, more in _overlooked(scores, changes).items():
        changes[row] = sorted([*changes[row], *more])
        noise[row] = _noise(series[row].values, changes[row])
    noisy = [
        NoisySeries(suspect.values, others, _evidence_discount(score))
        for suspect, others, score in zip(series, noise, scores, strict=True)
    ]
    return noisy, changes


def _overlooked(scores: Sequence[Floats], changes: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """Return where short levels of each row may be two levels, by the ``scores`` of its noise.

    They are overlooked among the values themselves: next to distant levels, all values of a level have nearly the same
    rank.
    """
    short = [
        (row, start, end)
        for row, (scores_of_row, places) in enumerate(zip(scores, changes, strict=True))
        for start, end in pairwise([0, *places, scores_of_row.size])
        if places and 2 * FEWEST <= end - start <= 2 * REACH
    ]
    overlooked: dict[int, list[int]] = {}
    if not short:
        return overlooked
    rows, starts, ends = np.array(short).T
    runs = ends - starts
    begins = np.cumsum([0, *(scores_of_row.size for scores_of_row in scores)])
    inside = np.arange(2 * REACH) < runs[:, None]
    at = (begins[rows] + starts)[:, None] + np.arange(2 * REACH)
    levels = np.where(inside, np.concatenate(scores).take(at, mode="clip"), 0.0)
    sums = levels.cumsum(axis=1)
    places, between = best_splits(sums, runs)
    whole = np.maximum((levels * levels).sum(axis=1) - sums[:, -1] ** 2 / runs, 1e-9)
    clear = -runs * np.log1p(-np.minimum(between / whole, 1 - 1e-9))
    needed = np.array([threshold(scores_of_row.size) for scores_of_row in scores])
    for i in np.flatnonzero(clear > SUSPECT_SHARE * needed[rows]).tolist():
        overlooked.setdefault(int(rows[i]), []).append(int(starts[i] + places[i]))
    return overlooked


def _noise(values: Floats, changes: Sequence[int]) -> Floats:
    """Return the deviation of each value from the median of its level."""
    edges = [0, *changes, values.size]
    levels = [_median(values[start:end]) for start, end in pairwise(edges)]
    return np.asarray(values - np.repeat(levels, np.diff(edges)))


def _evidence_discount(scores: Floats) -> float:
    """Return the factor by which autocorrelation reduces the evidence of the values, 1 if there is none.

    The variance of the mean of many values with the lag-one correlation r is (1 + r)/(1 - r) times as large. The
    correlation is that of the noise's ``scores``; a series without a month of runs is too short to estimate it.
    """
    if scores.size < REACH:
        return 1.0
    memory = _lag_one(scores)
    return (1 - memory) / (1 + memory)


def noise_autocorrelation(values: Floats, changes: Sequence[int]) -> float:
    """Return the lag-one correlation of the noise around the levels between ``changes``, from 0 to 0.8.

    That each level's median is taken from the same few runs biases it downwards, which is corrected.
    """
    scores = scores_of_one(_noise(values, changes))
    return _lag_one(scores, BIAS * (len(changes) + 1) / values.size)


def _lag_one(scores: Floats, more: float = 0.0) -> float:
    scores = np.minimum(np.maximum(scores, -CLIP), CLIP)
    correlation = float(scores[1:] @ scores[:-1]) / max(float(scores @ scores), 1e-9)
    return min(max(0.0, correlation + more), MAX_AUTOCORRELATION)


def window_of(before: int, place: int, after: int) -> ChangeWindow:
    """Return the window around a change: up to the next change on either side, and REACH at most."""
    return max(before, place - REACH), place, min(after, place + REACH)


def _median(values: Floats) -> float:
    ordered, n = np.sort(values), values.size
    return (ordered.item((n - 1) // 2) + ordered.item(n // 2)) / 2


MIN_EFFECT = 0.01
"""Smallest change of level that counts. People report changes from about 1.4% on; slow drift makes many below 1%."""
_BATCH = 1 << 13
"""Values processed at once; their intermediate results fit in a processor's cache."""
_TOGETHER = 64
"""Series given a second look at once, for the same reason."""


def change_points(values: Floats, min_effect: float = MIN_EFFECT) -> list[Places]:
    """Return the columns at which each row of log ``values``, shape (series, runs), oldest first, begins a new level.

    Values that are not finite are missing runs and leave no gap. A level has at least :data:`FEWEST` runs, and differs
    by at least ``min_effect`` from the one before. Fewer than 1% of series without a change get one, whatever the
    distribution of their noise, as long as it is not autocorrelated.
    """
    known = np.isfinite(values)
    changes_of_rows = [np.empty(0, dtype=np.intp)] * values.shape[0]
    suspects = _suspects(values, known)
    while some := list(islice(suspects, _TOGETHER)):
        series = [suspect for _, suspect in some]
        for (row, _), changes in zip(some, segments(series, min_effect), strict=True):
            changes_of_rows[row] = np.flatnonzero(known[row])[changes]
    return changes_of_rows


def _suspects(values: Floats, known: Flags) -> Iterator[tuple[int, SuspectedSeries]]:
    """Yield the rows that may have changes.

    Rows of 2·REACH runs or more are processed together, shorter ones only with rows of equally many runs.
    """
    runs = known.sum(axis=1)
    rows = runs.argsort(kind="stable")
    rows = rows[runs[rows] >= 2 * FEWEST]
    while rows.size:
        n = runs[rows[-1]]
        alike = min(n, 2 * REACH) <= runs[rows[-max(1, _BATCH // n) :]]
        batch = rows[-int(alike.sum()) :]
        rows = rows[: -batch.size]
        compact = np.full((batch.size, n), np.nan)
        compact[np.arange(n) >= n - runs[batch, None]] = values[batch][known[batch]]
        seen = stretches(compact)
        for row in np.flatnonzero(seen.may_have_changed()).tolist():
            yield int(batch[row]), SuspectedSeries(compact[row, n - runs[batch[row]] :], suspected(seen, row))
