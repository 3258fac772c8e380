"""What the gate would have said of the past: as it was, and with its runs in another order, so that nothing changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.gate import Repetitions, judge
from torchperf_ci.stats.past import MIN_HISTORY, NEWEST
from torchperf_ci.stats.segmentation import change_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

SHUFFLES = 100
"""Pasts without change, of which the newest run is judged; 100 alarms tell a rate to a tenth of itself."""
BLOCK = 10
"""So many successive runs stay together when a past is shuffled: what a run remembers of the one before stays true."""


@dataclass(frozen=True)
class Recorded:
    """What :func:`judge` is given, of a whole past: ``repetitions`` have the shape of ``values``, (series, runs)."""

    values: Floats
    min_effect: Floats
    worse: Ints
    jobs: Ints
    groups: Ints
    sessions: Ints
    repetitions: Repetitions

    def picked(self, runs: Ints) -> Recorded:
        """These runs alone, in this order."""
        return replace(
            self,
            values=self.values[:, runs],
            jobs=self.jobs[:, runs],
            sessions=self.sessions[:, runs],
            repetitions=Repetitions(*(extreme[:, runs] for extreme in self.repetitions)),
        )

    def moved(self, by: Floats) -> Recorded:
        """All values less ``by``, of the shape of ``values``."""
        return replace(
            self,
            values=self.values - by,
            repetitions=Repetitions(*(extreme - by for extreme in self.repetitions)),
        )


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


def replayed(past: Recorded) -> Alarms:
    """Each run of the past judged by those before it; real changes count, too."""
    ends = range(MIN_HISTORY + NEWEST, past.values.shape[1] + 1)
    return sum((_alarms(past.picked(np.arange(end))) for end in ends), Alarms())


def false_alarms(past: Recorded, shuffles: int = SHUFFLES, seed: int = 0) -> Alarms:
    """The newest run of pasts whose runs are shuffled in blocks: whatever is found there is false.

    The runs of all series are shuffled alike, so that what a machine did to many of them at once stays together.
    Steps are taken out before, since shuffled they would only be noise.
    """
    random = np.random.default_rng(seed)
    level = past.moved(levels(past.values))
    orders = (_shuffled(past.values.shape[1], random) for _ in range(shuffles))
    return sum((_alarms(level.picked(order)) for order in orders), Alarms())


def levels(values: Floats) -> Floats:
    """The level that each run of each series belongs to, shape as ``values``: the median of its stable segment."""
    found = np.zeros(values.shape)
    for row, points in enumerate(change_points(values)):
        for begin, end in zip([0, *points], [*points, values.shape[1]], strict=True):
            known = values[row, begin:end][~np.isnan(values[row, begin:end])]
            found[row, begin:end] = np.median(known) if known.size else 0.0
    return found


def _shuffled(runs: int, random: np.random.Generator) -> Ints:
    """The numbers of so many runs in blocks that begin anywhere, the blocks in a random order.

    A block bootstrap without replacement (Carlstein, *Annals of Statistics* 14, 1986).
    """
    turned = np.roll(np.arange(runs), random.integers(runs))
    blocks = [turned[begin : begin + BLOCK] for begin in range(0, runs, BLOCK)]
    return np.concatenate([blocks[place] for place in random.permutation(len(blocks))])


def _alarms(past: Recorded) -> Alarms:
    newest = Repetitions(*(extreme[:, -1] for extreme in past.repetitions))
    found = judge(past.values, past.min_effect, past.jobs, past.groups, newest, past.worse, past.sessions)
    return Alarms(
        runs=1,
        judged=int((~np.isnan(found.up.rate)).sum()),
        candidates=int((found.up.candidate | found.down.candidate).sum()),
        proven=int((found.up.proven | found.down.proven).sum()),
    )
