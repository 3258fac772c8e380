"""What a machine adds to everything that is measured on it in one job: a warmer room, a busier neighbour.

Such an offset moves hundreds of series together and would make as many false candidates. What most series of a job
share is therefore taken off, but no more than such offsets have been in the past: a job that stands out further than
that is no ordinary offset, and stays for all to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST = 30
"""Series in a job from which on what they share can be told from what is their own."""
FEWEST_JOBS = 8
"""Jobs of a group from which on the size of its ordinary offsets is known."""
ORDINARY = 3.0
"""An offset is ordinary up to so many of the standard deviations of its group."""
STEADIEST = 0.005
"""σ below which a series weighs no more: a handful of constant ones must not speak for all."""


def machine_offsets(
    residuals: NDArray[np.float64],
    sigma: NDArray[np.float64],
    jobs: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The ordinary offset of the job that each value comes from, in log units, shape (series, runs); 0 where unknown.

    ``residuals``, shape (series, runs), are log values less the level of their series, NaN where there are none;
    ``sigma``, shape (series,), is its noise. ``jobs``, shape (series, runs), numbers the jobs, below 0 where unknown;
    ``groups``, shape (series,), the kinds of machine and metric. A job's offset is the weighted median (weights 1/σ) of
    its residuals; ordinary ones lie within 3 σ of its group's offsets, by their median absolute value.
    """
    offsets = np.zeros(residuals.shape)
    usable = ~np.isnan(residuals) & (jobs >= 0) & ~np.isnan(sigma)[:, None]
    rows, _ = np.nonzero(usable)
    if not rows.size:
        return offsets
    keys = np.stack([groups[rows], jobs[usable]])
    pairs, pair = np.unique(keys, axis=1, return_inverse=True)
    pair = pair.reshape(-1)
    weights = 1 / np.maximum(sigma, STEADIEST)[rows]
    median, count = _weighted_medians(residuals[usable], weights, pair, pairs.shape[1])
    known = count >= FEWEST
    ordinary = _ordinary(np.where(known, median, np.nan), pairs[0])
    offsets[usable] = np.where(known, np.clip(median, -ordinary, ordinary), 0.0)[pair]
    return offsets


def _weighted_medians(
    values: NDArray[np.float64], weights: NDArray[np.float64], label: NDArray[np.intp], labels: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The weighted median and the number of values of each label."""
    order = np.lexsort((values, label))
    total = np.cumsum(weights[order])
    count = np.bincount(label, minlength=labels)
    ends = np.cumsum(count)
    before = np.concatenate([[0.0], total])[ends - count]
    middle = np.searchsorted(total, (before + total[ends - 1]) / 2)
    return values[order][np.minimum(middle, ends - 1)], count


def _ordinary(medians: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """The largest ordinary offset of each job's group, 0 where too few jobs tell."""
    largest = np.zeros(medians.shape)
    for one in np.unique(group):
        members = group == one
        known = np.abs(medians[members & ~np.isnan(medians)])
        if known.size >= FEWEST_JOBS:
            largest[members] = ORDINARY * 1.4826 * np.median(known)
    return largest
