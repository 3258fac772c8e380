"""Which runs of a series are its past: those of the current level, before the newest ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from torchperf_ci.stats.memory import memory_beside_step
from torchperf_ci.stats.noise import row_median, successive_sigma
from torchperf_ci.stats.splits import FEWEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

Scalar = TypeVar("Scalar", bound=np.generic)

BASELINE = 40
"""At most so many runs before the newest ones are the past."""
NEWEST = 5
"""So many of the newest runs may be new, so they say nothing about where the current level begins."""
MIN_HISTORY = 5
"""Fewer runs than these tell nothing about noise: such a series is not judged."""
ONE_SITTING = 10
"""However many runs a past of one sitting has, it tells no more than so many: how far sittings lie apart is not in
it."""
CLEAR = 18.0
"""Likelihood ratio (twice its logarithm) above which a step is clear: 4.2 standard errors, and what
:func:`change_points` asks of 32 runs; more where runs remember those before. A step that is missed for it is too small
to mislead a median."""
CLIP = 4.0
"""Deviations count up to so many σ where a level is looked for, so that a spike is no step."""


def past(values: NDArray[Scalar], runs: int) -> NDArray[Scalar]:
    """The past of the newest ``runs``, shape (series, up to BASELINE); values of shape (series, runs) in all."""
    end = values.shape[1] - runs
    return values[:, max(0, end - BASELINE) : max(0, end)]


def is_one_sitting(settled: Floats, sittings: Ints, newest: Ints) -> NDArray[np.bool_]:
    """Whether the runs of each past, but for those that were made together with the newest, are of one sitting.

    ``settled`` and ``sittings``, shape (series, runs), are those of the past, ``newest``, shape (series, 1), those of
    the newest runs.
    """
    known = ~np.isnan(settled) & (sittings != newest)
    most = np.iinfo(np.int64).max
    lowest = np.where(known, sittings, most).min(axis=1, initial=most)
    return np.asarray(lowest == np.where(known, sittings, -1).max(axis=1, initial=-1))


def without_gaps(values: Floats, jobs: Ints, sittings: Ints) -> tuple[Floats, Ints, Ints]:
    """All, with the missing runs of the past moved to the front. The newest run stays where it is, missing or not."""
    missing = np.isnan(values[:, :-1])
    if not (missing[:, 1:] & ~missing[:, :-1]).any():
        return values, jobs, sittings
    order = np.argsort(~missing, axis=1, kind="stable")
    order = np.hstack([order, np.full((len(values), 1), values.shape[1] - 1)])
    return (
        np.take_along_axis(values, order, axis=1),
        np.take_along_axis(jobs, order, axis=1),
        np.take_along_axis(sittings, order, axis=1),
    )


def of_current_level(values: Floats) -> Floats:
    """``values``, (series, runs) without gaps, NaN before the last clear step of each series.

    A step is looked for among all runs but the newest, then among those after it, and so on.
    """
    settled = values[:, :-NEWEST].copy()
    columns = np.arange(settled.shape[1])
    begins = np.zeros(len(values), dtype=np.intp)
    rows = np.arange(len(values))
    while rows.size and settled.shape[1] >= 2 * FEWEST:
        place, is_clear = _clearest_step(settled[rows])
        rows, place = rows[is_clear], place[is_clear]
        begins[rows] = place
        settled[rows] = np.where(columns < place[:, None], np.nan, settled[rows])
    return np.where(np.arange(values.shape[1]) < begins[:, None], np.nan, values)


def _clearest_step(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each row, NaN first, is best split in two levels, and whether that is clear.

    The likelihood ratio of two levels against one, known σ, is ``(Sₖ − k/n·Sₙ)²·n/(k(n − k))`` with S the cumulative
    sums of the deviations in σ. Where successive values have the correlation r, a mean varies by ``(1 + r)/(1 - r)``
    times as much, and so does the ratio. A best split with the fewest runs behind it is not clear yet: the step may
    be later.
    """
    known = ~np.isnan(values)
    level = row_median(values)[:, None]
    deviations = np.clip((values - level) / successive_sigma(values)[:, None], -CLIP, CLIP)
    sums = np.cumsum(np.where(known, deviations, 0.0), axis=1)
    counted = known[:1] if known.all() else known  # rows without gaps count alike
    runs, before = counted.sum(axis=1, keepdims=True), np.cumsum(counted, axis=1)
    after = runs - before
    inside = (before >= FEWEST) & (after >= FEWEST)
    excess = (sums - before / np.maximum(runs, 1) * sums[:, -1:]) ** 2
    ratios = np.where(inside, excess * runs / np.maximum(before * after, 1), 0.0)
    begins = ratios.argmax(axis=1) + 1
    ratio = ratios[np.arange(len(values)), begins - 1]
    is_clear = (ratio > CLEAR) & (begins < values.shape[1] - FEWEST)
    after_step = np.arange(values.shape[1]) >= begins[is_clear, None]
    memory = memory_beside_step(deviations[is_clear], after_step)
    is_clear[is_clear] = ratio[is_clear] > CLEAR * (1 + memory) / (1 - memory)
    return begins, is_clear
