"""Replay the gate over a recorded past: as it was, and with shuffled runs, where every alarm is false."""

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
"""Shuffled pasts whose newest run is judged; 100 alarms give a rate to within a tenth of itself."""
BLOCK = 10
"""Successive runs that stay together when a past is shuffled, which preserves most of the autocorrelation."""


@dataclass(frozen=True)
class GateInputs:
    """The arguments of :func:`judge` for a whole past; ``repetitions`` have the shape of ``values``, (series, runs)."""

    values: Floats
    min_effect: Floats
    worse: Ints
    jobs: Ints
    groups: Ints
    sessions: Ints
    repetitions: Repetitions

    def picked(self, runs: Ints) -> GateInputs:
        """Return only these runs, in this order."""
        return replace(
            self,
            values=self.values[:, runs],
            jobs=self.jobs[:, runs],
            sessions=self.sessions[:, runs],
            repetitions=Repetitions(*(extreme[:, runs] for extreme in self.repetitions)),
        )

    def moved(self, by: Floats) -> GateInputs:
        """Subtract ``by``, which has the shape of ``values``, from all values."""
        return replace(
            self,
            values=self.values - by,
            repetitions=Repetitions(*(extreme - by for extreme in self.repetitions)),
        )


@dataclass(frozen=True)
class Alarms:
    """Counts over ``runs`` judged runs: series judged, candidates, and proven changes, for better or worse."""

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


def replayed(past: GateInputs) -> Alarms:
    """Judge each run of the past by the runs before it; real changes count, too."""
    ends = range(MIN_HISTORY + NEWEST, past.values.shape[1] + 1)
    return sum((_alarms(past.picked(np.arange(end))) for end in ends), Alarms())


def false_alarms(past: GateInputs, shuffles: int = SHUFFLES, seed: int = 0) -> Alarms:
    """Judge the newest run of pasts whose runs are shuffled in blocks: every alarm there is false.

    All series are shuffled in the same way, so that machine effects on many of them at once are preserved. Steps are
    removed first, since shuffled they would only add noise.
    """
    random = np.random.default_rng(seed)
    level = past.moved(levels(past.values))
    orders = (_shuffled(past.values.shape[1], random) for _ in range(shuffles))
    return sum((_alarms(level.picked(order)) for order in orders), Alarms())


def levels(values: Floats) -> Floats:
    """Return the level of each run of each series, shape as ``values``: the median of its stable segment."""
    levels_of_runs = np.zeros(values.shape)
    for row, points in enumerate(change_points(values)):
        for begin, end in zip([0, *points], [*points, values.shape[1]], strict=True):
            known = values[row, begin:end][~np.isnan(values[row, begin:end])]
            levels_of_runs[row, begin:end] = np.median(known) if known.size else 0.0
    return levels_of_runs


def _shuffled(runs: int, random: np.random.Generator) -> Ints:
    """Return run numbers in blocks with a random offset and in random order.

    This is a block bootstrap without replacement (Carlstein, *Annals of Statistics* 14, 1986).
    """
    turned = np.roll(np.arange(runs), random.integers(runs))
    blocks = [turned[begin : begin + BLOCK] for begin in range(0, runs, BLOCK)]
    return np.concatenate([blocks[place] for place in random.permutation(len(blocks))])


def _alarms(past: GateInputs) -> Alarms:
    newest = Repetitions(*(extreme[:, -1] for extreme in past.repetitions))
    judged = judge(past.values, past.min_effect, past.jobs, past.groups, newest, past.worse, past.sessions)
    return Alarms(
        runs=1,
        judged=int((~np.isnan(judged.up.rate)).sum()),
        candidates=int((judged.up.candidate | judged.down.candidate).sum()),
        proven=int((judged.up.proven | judged.down.proven).sum()),
    )
