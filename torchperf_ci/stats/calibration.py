"""What the gate would have said of the past: as it was, and with its runs shuffled, so that nothing in it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.changepoints import change_points
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.past import BASELINE, MIN_HISTORY, NEWEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

SHUFFLES = 100
"""Pasts without change, of which the newest run is judged; 100 alarms tell a rate to a tenth of itself."""


@dataclass(frozen=True)
class Alarms:
    """Over ``runs`` judged: how many series were judged, candidates and proven, better or worse, in all of them."""

    runs: int = 0
    judged: int = 0
    candidates: int = 0
    proven: int = 0

    def __add__(self, other: Alarms) -> Alarms:
        return Alarms(
            self.runs + other.runs,
            self.judged + other.judged,
            self.candidates + other.candidates,
            self.proven + other.proven,
        )


def replayed(values: Floats, min_effect: Floats, jobs: Ints, groups: Ints) -> Alarms:
    """Each run of the past judged by those before it; real changes count, too. Arguments as of :func:`judge`."""
    ends = range(MIN_HISTORY + NEWEST, values.shape[1] + 1)
    return sum((_alarms(values[:, :end], min_effect, jobs[:, :end], groups) for end in ends), Alarms())


def false_alarms(
    values: Floats, min_effect: Floats, jobs: Ints, groups: Ints, shuffles: int = SHUFFLES, seed: int = 0
) -> Alarms:
    """The newest run of pasts whose runs are shuffled: whatever is found there is false.

    The runs of all series are shuffled alike, so that what a machine did to many of them at once stays together.
    Steps are taken out before, since shuffled they would only be noise.
    """
    random = np.random.default_rng(seed)
    level = without_steps(values)
    orders = (random.permutation(values.shape[1]) for _ in range(shuffles))
    return sum((_alarms(level[:, order], min_effect, jobs[:, order], groups) for order in orders), Alarms())


def without_steps(values: Floats) -> Floats:
    """Each stable segment of each series less its own median; shape and NaN as ``values``."""
    level = values - np.nanmedian(values, axis=1, keepdims=True)
    for row, points in enumerate(change_points(values)):
        for begin, end in zip([0, *points], [*points, values.shape[1]], strict=True):
            level[row, begin:end] -= np.nanmedian(level[row, begin:end])
    return level


def _alarms(values: Floats, min_effect: Floats, jobs: Ints, groups: Ints) -> Alarms:
    begin = max(0, values.shape[1] - BASELINE - NEWEST)
    found = judge(values[:, begin:], min_effect, jobs[:, begin:], groups)
    return Alarms(
        runs=1,
        judged=int((~np.isnan(found.up.rate)).sum()),
        candidates=int((found.up.candidate | found.down.candidate).sum()),
        proven=int((found.up.proven | found.down.proven).sum()),
    )
