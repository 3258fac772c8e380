"""Which runs of a series form its past, and to which levels it has gone before, only to return.

An excursion is a stretch of at most :data:`MAX_EXCURSION` runs that lies above the runs on both sides of it. Not
excursions are: a step that stays, the end of a level that was there from the beginning, and a level that stayed for
longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from torchperf_ci.stats.autocorrelation import autocorrelation_beside_step
from torchperf_ci.stats.noise import level_and_sigma, row_median, successive_sigma
from torchperf_ci.stats.split_evidence import FEWEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from torchperf_ci.stats import Flags, Floats, Ints, Places


Scalar = TypeVar("Scalar", bound=np.generic)

BASELINE = 40
"""Most runs before the newest ones that form the past."""
NEWEST = 5
"""This many of the newest runs may be new, so they say nothing about where the current level begins."""
MIN_HISTORY = 5
"""A series with fewer past runs is not judged, because they say nothing about noise."""
ONE_SESSION = 10
"""A past from a single session counts as at most this many runs, because it does not show how far sessions differ."""
CLEAR = 18.0
"""Twice the log-likelihood ratio above which a step is clear: 4.2 standard errors, and what :func:`change_points`
requires for 32 runs; more where runs are autocorrelated. A step missed because of it is too small to mislead a
median."""
CLIP = 4.0
"""Deviations are clipped at this many σ in the search for a level, so that a spike is not taken for a step."""

WIDENED = 2.0
"""A past whose σ is this many times what successive values explain is searched for excursions."""


def past(values: NDArray[Scalar], runs: int) -> NDArray[Scalar]:
    """Return the past of the newest ``runs``, shape (series, up to BASELINE), from ``values``, shape (series, runs)."""
    end = values.shape[1] - runs
    return values[:, max(0, end - BASELINE) : max(0, end)]


def is_one_session(settled: Floats, sessions: Ints, newest: Ints) -> Flags:
    """Whether the past runs of each series, except those made together with the newest run, come from one session.

    ``settled`` and ``sessions``, shape (series, runs), are the values and sessions of the past; ``newest``, shape
    (series, 1), are the sessions of the newest run.
    """
    known = ~np.isnan(settled) & (sessions != newest)
    most = np.iinfo(np.int64).max
    lowest = np.where(known, sessions, most).min(axis=1, initial=most)
    return np.asarray(lowest == np.where(known, sessions, -1).max(axis=1, initial=-1))


def without_gaps(values: Floats, jobs: Ints, sessions: Ints) -> tuple[Floats, Ints, Ints]:
    """Return all three arrays with missing past runs moved to the front. The newest run stays, missing or not."""
    missing = np.isnan(values[:, :-1])
    if not (missing[:, 1:] & ~missing[:, :-1]).any():
        return values, jobs, sessions
    order = np.argsort(~missing, axis=1, kind="stable")
    order = np.hstack([order, np.full((len(values), 1), values.shape[1] - 1)])
    return (
        np.take_along_axis(values, order, axis=1),
        np.take_along_axis(jobs, order, axis=1),
        np.take_along_axis(sessions, order, axis=1),
    )


def of_current_level(values: Floats) -> Floats:
    """Return ``values``, shape (series, runs) without gaps, with NaN where each series was at another level.

    That is before its last clear step, and during excursions that make it look noisy, such as a regression that was
    reverted. A step is searched for among all runs but the newest, then among those after the step, and so on, and
    again without each excursion, which may have hidden it.
    """
    current = values.copy()
    settled = current[:, :-NEWEST]
    rows = np.arange(len(values) if settled.shape[1] >= 2 * FEWEST else 0)
    while rows.size:
        searched = rows
        while searched.size:
            searched = _leave_out(settled, searched, _before_clearest_step)
        rows = _leave_out(settled, rows[_is_widened(settled[rows])], _in_clearest_excursion)
    return current


def _leave_out(values: Floats, rows: Places, search: Callable[[Floats], Flags]) -> Places:
    """Put NaN where ``search`` finds runs of another level in the ``rows``, and return the rows that had some."""
    found = search(values[rows])
    had = found.any(axis=1)
    values[rows[had]] = np.where(found[had], np.nan, values[rows[had]])
    return rows[had]


def _is_widened(values: Floats) -> Flags:
    """Whether σ of the past is :data:`WIDENED` times as large as successive values explain."""
    return np.asarray(level_and_sigma(values[:, -BASELINE:])[1] > WIDENED * successive_sigma(values))


def _before_clearest_step(values: Floats) -> Flags:
    """Return which runs of each row, NaN first, lie before the step that splits it best, if that is clear.

    The likelihood ratio of two levels against one, known σ, is ``(Sₖ − k/n·Sₙ)²·n/(k(n − k))`` with S the cumulative
    sums of the deviations in σ. If the best split has only the fewest possible runs after it, it is not clear yet: the
    step may be later.
    """
    deviations = _deviations(values)
    known = ~np.isnan(values)
    sums = np.cumsum(np.where(known, deviations, 0.0), axis=1)
    counted = known[:1] if known.all() else known  # rows without gaps count alike
    runs, before = counted.sum(axis=1, keepdims=True), np.cumsum(counted, axis=1)
    after = runs - before
    inside = (before >= FEWEST) & (after >= FEWEST)
    excess = (sums - before / np.maximum(runs, 1) * sums[:, -1:]) ** 2
    ratios = np.where(inside, excess * runs / np.maximum(before * after, 1), 0.0)
    begins = ratios.argmax(axis=1) + 1
    ratio = ratios[np.arange(len(values)), begins - 1]
    before_step = np.arange(values.shape[1]) < begins[:, None]
    ratio[begins >= values.shape[1] - FEWEST] = 0.0
    return np.asarray(before_step & _is_clear(ratio, deviations, before_step)[:, None])


def _in_clearest_excursion(values: Floats) -> Flags:
    """Return which runs of each row lie in its clearest excursion, upwards or downwards, if both its ends are clear."""
    deviations = _deviations(values)
    known = ~np.isnan(values)
    sums, counts = (
        np.pad(np.cumsum(one, axis=1), ((0, 0), (1, 0))) for one in (np.where(known, deviations, 0.0), known)
    )
    columns = np.arange(values.shape[1])
    best, found = np.zeros(len(values)), np.zeros(values.shape, dtype=bool)
    for length in range(MIN_EXCURSION, min(MAX_EXCURSION, columns.size - 2 * FEWEST) + 1):
        begins, ratio = _clearest_of_length(sums, counts, length)
        better = ratio > best
        best[better] = ratio[better]
        found[better] = (columns - begins[better, None]) // length == 0
    return found & _is_clear(best, deviations, found)[:, None]


def _clearest_of_length(sums: Floats, counts: Ints, length: int) -> tuple[Places, Floats]:
    """Return where the clearest excursion of this ``length`` begins in each row, and the smaller ratio of its two ends.

    ``sums`` and ``counts``, shape (series, runs + 1), are those of the runs before each place.
    """
    totals, runs = (
        np.stack([one[:, :-length], one[:, length:] - one[:, :-length], one[:, -1:] - one[:, length:]])
        for one in (sums, counts)
    )
    means, beside = totals / np.maximum(runs, 1), runs[[0, 2]]
    height = means[1] - means[[0, 2]]
    ratios = (height**2 * runs[1] * beside / np.maximum(runs[1] + beside, 1)).min(axis=0)
    ratios[(beside < FEWEST).any(axis=0) | (height[0] * height[1] < 0)] = 0.0
    begins = ratios.argmax(axis=1)
    return begins, ratios[np.arange(len(ratios)), begins]


def _deviations(values: Floats) -> Floats:
    level = row_median(values)[:, None]
    return np.asarray(np.clip((values - level) / successive_sigma(values)[:, None], -CLIP, CLIP))


def _is_clear(ratio: Floats, deviations: Floats, apart: Flags) -> Flags:
    """Whether each row's likelihood ratio of another level during ``apart``, shape (series, runs), is clear.

    Where successive values have the correlation r, a mean varies by ``(1 + r)/(1 - r)`` times as much, and so does the
    ratio.
    """
    is_clear = ratio > CLEAR
    memory = autocorrelation_beside_step(deviations[is_clear], apart[is_clear])
    is_clear[is_clear] = ratio[is_clear] > CLEAR * (1 + memory) / (1 - memory)
    return np.asarray(is_clear)


MAX_EXCURSION = 30
"""Runs of the longest excursion; what stays for more than a month of nights is a level."""
SHORT = 15
"""Most runs that the previous level may have lasted to count as an excursion downwards, although nothing like it was
seen before."""
NEARLY, FARTHEST = 1.5, 2.0
"""An excursion is alike if it is between 1/1.5 times and twice as high as the rise."""
HALF = 2
"""An excursion that lasted half as many runs as the rise makes it unremarkable: how long excursions last is chance."""
MIN_EXCURSION = 2
"""Runs of the shortest excursion; a spike is not one."""
SMOOTH = 5
"""Width, in runs, of the running median that removes spikes from a series."""
_BATCH = 1 << 16
"""Values processed at once; their running medians take a hundred times as much memory."""


def last_excursions(values: Floats, runs: int, level: Floats) -> Ints:
    """Return how many runs the last excursion like the current rise lasted, and how many runs ago it ended.

    The result has the shape (series, 2), 0 where there is none. The excursion must be about as high as those of the
    newest ``runs`` that rose, and last at least half as long. ``values``, shape (series, runs), are oldest first, with
    NaN only in front, the newest runs at the end; ``level``, shape (series,), is the level that these rose from. Where
    there was no such excursion, that level may itself be an excursion downwards: then its length is returned, and 0
    runs ago.
    """
    found = np.zeros((len(values), 2), dtype=np.int64)
    off = values[:, -runs:] - level[:, None]
    rose = off >= off.mean(axis=1, keepdims=True) / 2
    count = rose.sum(axis=1)
    rise = np.where(rose, off, 0.0).sum(axis=1) / np.maximum(count, 1)
    enough = np.maximum(MIN_EXCURSION, -(-count // HALF))
    for fewest in np.unique(enough).tolist():
        alike = np.flatnonzero(enough == fewest)
        if values.shape[1] < runs + fewest + 2:
            continue
        for rows in np.array_split(alike, -(-alike.size * values.shape[1] // _BATCH)):
            known = _filled(values[rows])
            known[:, -runs:] = (level + rise)[rows, None]
            found[rows] = _last_excursions(known, runs, fewest, rise[rows])
    return found


def _last_excursions(values: Floats, runs: int, fewest: int, rise: Floats) -> Ints:
    """Do the same for excursions of at least ``fewest`` runs, where all of the newest ``runs`` are at the ``rise``."""
    length, ago = _excursion_above(values[:, :-runs], fewest, rise)
    left = _left_level(values, runs, rise)
    above = np.stack([length, ago + runs], axis=1)
    below = np.stack([left, np.zeros_like(left)], axis=1)
    return np.where(length[:, None] > 0, above, below)


def _excursion_above(past: Floats, runs: int, rise: Floats) -> tuple[Ints, Ints]:
    """Return the length of the last excursion of at least ``runs``, 0 if there is none, and how many runs followed."""
    ground = np.maximum(_opened(_running_median(past, SMOOTH)), _running_median(past, 2 * MAX_EXCURSION + 1))
    above = _running(np.minimum, past, runs) - _running(np.maximum, ground, runs)
    is_like = (above >= rise[:, None] / NEARLY) & (above <= rise[:, None] * FARTHEST)
    length, ago = _last_stretch(is_like)
    return np.where(length > 0, length + runs - 1, 0), ago


def _left_level(values: Floats, runs: int, rise: Floats) -> Ints:
    """Return the length of the level before the newest runs where it is a downward excursion that ends with them.

    It must have at most :data:`SHORT` runs, or not be the only one in the series; 0 where there is none.
    """
    down = -values
    above = (down - _opened(_running_median(down, SMOOTH)))[:, :-runs]
    is_excursion = _running_median(above, SMOOTH) >= rise[:, None] / NEARLY
    length, ago = _last_stretch(is_excursion)
    begun = (is_excursion[:, 1:] & ~is_excursion[:, :-1]).sum(axis=1) + is_excursion[:, 0]
    return np.where((ago == 0) & ((length <= SHORT) | (begun > 1)), length, 0)


def _last_stretch(flags: Flags) -> tuple[Ints, Ints]:
    """Return the length of the last stretch of set flags in each row, and how many columns follow it."""
    n = flags.shape[1]
    backwards = flags[:, ::-1]
    ago = np.where(flags.any(axis=1), backwards.argmax(axis=1), n)
    after = ~backwards & (np.arange(n) >= ago[:, None])
    end = np.where(after.any(axis=1), after.argmax(axis=1), n)
    return end - ago, ago


def _opened(values: Floats) -> Floats:
    """Return ``values`` without stretches of at most :data:`MAX_EXCURSION` runs above both of their sides.

    This is the morphological opening of the series (Serra, *Image Analysis and Mathematical Morphology*, 1982): for
    each run, the highest of the minima of all stretches of MAX_EXCURSION + 1 runs that contain it. Values beyond
    both ends count as infinite.
    """
    width = MAX_EXCURSION + 1
    beyond = np.pad(values, ((0, 0), (width - 1, width - 1)), constant_values=np.inf)
    return _running(np.maximum, _running(np.minimum, beyond, width), width)


def _running(extreme: Callable[[Floats, Floats], Floats], values: Floats, width: int) -> Floats:
    """Return the extreme of each ``width`` successive columns, shape (series, columns - width + 1)."""
    columns, done, found = values.shape[1] - width + 1, 1, values
    while 2 * done <= width:
        found = extreme(found[:, :-done], found[:, done:])
        done *= 2
    return extreme(found[:, :columns], found[:, width - done :])


def _running_median(values: Floats, width: int) -> Floats:
    """Return the running median over ``width`` columns, an odd number; the ends are mirrored."""
    half = min(width // 2, values.shape[1] - 1)
    mirrored = np.pad(values, ((0, 0), (half, half)), mode="reflect")
    return np.asarray(np.median(sliding_window_view(mirrored, 2 * half + 1, axis=1), axis=-1))


def _filled(values: Floats) -> Floats:
    """Fill the missing values at the beginning of each row with its first known value."""
    missing = np.isnan(values)
    first = np.minimum(missing.sum(axis=1), values.shape[1] - 1)
    return np.where(missing, values[np.arange(len(values)), first][:, None], values)
