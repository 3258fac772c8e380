"""When is one run alone proof? Seldom: all its processes must agree, and it must not be the machine's doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.stats.noise import row_median

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from torchperf_ci.stats.tails import Tails
    from torchperf_ci.stats.window import Window

    Floats = NDArray[np.float64]

FEWEST_REPETITIONS = 3
"""Processes that must agree."""
MIN_HISTORY = 10
"""Runs of the past without which one run proves nothing."""
LEAST = 1.5
"""The smallest factor that one run can prove."""
BEYOND = 2.0
"""So many times as far as any run of any series has ever been off. A spike may hit all processes of a run."""
MOVED = 2.33
"""Score from which on a series counts as moved: 1 of 100 on either side does without a reason."""
MANY, SHARE = 4, 1 / 3
"""Of a job's series, at least so many and more than such a share have moved: it may be the machine."""


class Repetitions(NamedTuple):
    """The lowest and the highest repetition of the newest run, as logarithms, shape (series,), NaN where there are
    fewer than :data:`FEWEST_REPETITIONS`."""

    lowest: Floats
    highest: Floats


def single_run_scores(
    newest: Window, repetitions: Repetitions, tails: Tails, least: Floats, jobs: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """The scores that the newest run alone gives to a rise and to a fall, NaN where it cannot be proof.

    They are those of the repetition that speaks least for it, which must be off by ``least``. ``jobs``, shape
    (series,), are those of the newest run: where many series of a job have moved at once, nobody can tell from
    one run whether the code or the machine did it.
    """
    may = (newest.history >= MIN_HISTORY) & ~_moved_together(newest.score, jobs)

    rise, fall = repetitions.lowest - newest.old, repetitions.highest - newest.old
    score_of_rise, score_of_fall = (
        tails.score(change / newest.sigma, newest.freedom) / newest.spread for change in (rise, fall)
    )
    return (
        np.where(may & (rise >= least), score_of_rise, np.nan),
        np.where(may & (-fall >= least), -score_of_fall, np.nan),
    )


def smallest_proof(settled: Floats, min_effect: Floats) -> Floats:
    """The smallest change, as a logarithm, that one run can prove of each series, of which ``settled``, shape (series,
    runs), are runs of the past."""
    known = settled[~np.isnan(settled).all(axis=1)]
    seen = np.abs(known - row_median(known)[:, None])
    farthest = np.nanmax(seen) if seen.size else 0.0
    return np.maximum(min_effect, max(np.log(LEAST), BEYOND * farthest))


def _moved_together(scores: Floats, jobs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a series belongs to a job of which many have moved, up or down."""
    judged = ~np.isnan(scores)
    _, job = np.unique(jobs, return_inverse=True)
    moved = np.bincount(job, weights=judged & (np.abs(np.nan_to_num(scores)) >= MOVED))
    known = np.bincount(job, weights=judged)
    together = (moved >= MANY) & (moved > SHARE * known)
    return np.asarray(together[job])
