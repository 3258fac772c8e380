"""What a series has been at and has left again: a level that comes and goes proves nothing when it comes once more.

An excursion is a stretch of at most :data:`LONGEST` runs that lies above the runs on both of its sides. So
neither a step that stays, nor the end of a level that was there from the beginning, nor one that stayed for longer is
an excursion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

LONGEST = 30
"""Runs of the longest excursion: what stays for more than a month of nights is a level."""
SHORT = 15
"""Runs after which the level before is the level again, though nothing like it was seen before."""
NEARLY, FARTHEST = 1.5, 2.0
"""A rise is that of an excursion from 1.5 times as high to half as high."""
HALF = 2
"""An excursion of half as many runs tells that one of as many is nothing special: how long they last is chance."""
FEWEST = 2
"""Runs of the shortest excursion: a spike is none."""
SMOOTH = 5
"""Runs of the running median that tells where a series stays, whatever its spikes."""
_BATCH = 1 << 16
"""Values that are looked at in one go: their running medians take a hundred times as much memory."""


def last_visits(values: Floats, runs: int, level: Floats) -> Ints:
    """The runs of the last excursion about as high as those of the newest ``runs`` that rose, and at least half as
    long, and how many runs ago it ended: shape (series, 2), 0 where there is none.

    ``values``, shape (series, runs), are oldest first, with NaN in front only, the newest runs at the end; ``level``,
    shape (series,), is what these are above of. Where there was no such excursion, the level that they rose from may be
    one, to the underside: then its runs are told, and 0 runs ago.
    """
    found = np.zeros((len(values), 2), dtype=np.int64)
    off = values[:, -runs:] - level[:, None]
    rose = off >= off.mean(axis=1, keepdims=True) / 2
    count = rose.sum(axis=1)
    rise = np.where(rose, off, 0.0).sum(axis=1) / np.maximum(count, 1)
    enough = np.maximum(FEWEST, -(-count // HALF))
    for fewest in np.unique(enough).tolist():
        alike = np.flatnonzero(enough == fewest)
        if values.shape[1] < runs + fewest + 2:
            continue
        for rows in np.array_split(alike, -(-alike.size * values.shape[1] // _BATCH)):
            known = _filled(values[rows])
            known[:, -runs:] = (level + rise)[rows, None]
            found[rows] = _last_visits(known, runs, fewest, rise[rows])
    return found


def _last_visits(values: Floats, runs: int, fewest: int, rise: Floats) -> Ints:
    """The same, with ``fewest`` runs or more and a ``rise`` that all of the newest ``runs`` have."""
    length, ago = _visit_above(values[:, :-runs], fewest, rise)
    left = _left_level(values, runs, rise)
    above = np.stack([length, ago + runs], axis=1)
    below = np.stack([left, np.zeros_like(left)], axis=1)
    return np.where(length[:, None] > 0, above, below)


def _visit_above(past: Floats, runs: int, rise: Floats) -> tuple[Ints, Ints]:
    """How long the last excursion of ``runs`` or more was, 0 if there was none; how many of ``past`` followed it."""
    ground = np.maximum(_opened(_median(past, SMOOTH)), _median(past, 2 * LONGEST + 1))
    above = _running(np.minimum, past, runs) - _running(np.maximum, ground, runs)
    is_like = (above >= rise[:, None] / NEARLY) & (above <= rise[:, None] * FARTHEST)
    length, ago = _last_stretch(is_like)
    return np.where(length > 0, length + runs - 1, 0), ago


def _left_level(values: Floats, runs: int, rise: Floats) -> Ints:
    """The runs of the level before the newest, where it is an excursion itself that ends with them, downwards: one of
    up to :data:`SHORT` runs, or one of several. 0 where it is none."""
    down = -values
    above = (down - _opened(_median(down, SMOOTH)))[:, :-runs]
    is_excursion = _median(above, SMOOTH) >= rise[:, None] / NEARLY
    length, ago = _last_stretch(is_excursion)
    begun = (is_excursion[:, 1:] & ~is_excursion[:, :-1]).sum(axis=1) + is_excursion[:, 0]
    return np.where((ago == 0) & ((length <= SHORT) | (begun > 1)), length, 0)


def _last_stretch(flags: Flags) -> tuple[Ints, Ints]:
    """How long the last stretch of flags in each row is, and how many columns follow it."""
    n = flags.shape[1]
    backwards = flags[:, ::-1]
    ago = np.where(flags.any(axis=1), backwards.argmax(axis=1), n)
    after = ~backwards & (np.arange(n) >= ago[:, None])
    end = np.where(after.any(axis=1), after.argmax(axis=1), n)
    return end - ago, ago


def _opened(values: Floats) -> Floats:
    """``values`` without what rises above both of its sides for at most :data:`LONGEST` runs.

    It is the morphological opening of the series (Serra, *Image Analysis and Mathematical Morphology*, 1982): the
    highest of the lowest values of all stretches of more runs that hold a run. Beyond both ends it is as high as one
    likes.
    """
    width = LONGEST + 1
    beyond = np.pad(values, ((0, 0), (width - 1, width - 1)), constant_values=np.inf)
    return _running(np.maximum, _running(np.minimum, beyond, width), width)


def _running(extreme: Callable[[Floats, Floats], Floats], values: Floats, width: int) -> Floats:
    """The extreme of each ``width`` successive columns, shape (series, columns - width + 1)."""
    columns, done, found = values.shape[1] - width + 1, 1, values
    while 2 * done <= width:
        found = extreme(found[:, :-done], found[:, done:])
        done *= 2
    return extreme(found[:, :columns], found[:, width - done :])


def _median(values: Floats, width: int) -> Floats:
    """The running median of ``width`` columns, an odd number; the ends are mirrored."""
    half = min(width // 2, values.shape[1] - 1)
    mirrored = np.pad(values, ((0, 0), (half, half)), mode="reflect")
    return np.asarray(np.median(sliding_window_view(mirrored, 2 * half + 1, axis=1), axis=-1))


def _filled(values: Floats) -> Floats:
    """The first known value in the place of those before it."""
    missing = np.isnan(values)
    first = np.minimum(missing.sum(axis=1), values.shape[1] - 1)
    return np.where(missing, values[np.arange(len(values)), first][:, None], values)
