"""How steady this machine is right now: one piece of work, over and over."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BLOCK_SECONDS = 0.02
BLOCKS = 50
PROCESSES = 3
"""That a run takes by default."""
SURE = 1.96 + 0.84
"""Normal quantiles for a two-sided 5% of false alarms and 80% of real changes seen."""


@dataclass(frozen=True)
class Noise:
    """``cv``: standard deviation of equal blocks over their mean; ``typical``: seconds of the median one."""

    cv: float
    typical: float

    @property
    def resolvable(self) -> float:
        """The smallest relative change that two unpaired runs could tell at best: ``2.8 · cv · √(2/3)``.

        Two means of three values each differ by chance with a standard deviation of ``cv · √(2/3)``. Whole
        processes differ more than blocks of one process do, so this is a bound from below.
        """
        return SURE * self.cv * math.sqrt(2 / PROCESSES)


@dataclass(frozen=True)
class Exercise:
    """The noise of a device by kind of work, and the median of its clock meanwhile, in MHz, where it is told."""

    noise: Mapping[str, Noise]
    clock: str | None = None


def measure_noise(blocks: int = BLOCKS) -> Noise:
    """Time ``blocks`` equal blocks of about 20 ms each, on one thread."""
    work = _work_for(BLOCK_SECONDS)
    _block(work)
    return noise_of([_block(work) for _ in range(blocks)])


def noise_of(seconds: Sequence[float]) -> Noise:
    """The noise of blocks of equal work, of which there are two or more."""
    return Noise(stdev(seconds) / fmean(seconds), median(seconds))


def _work_for(seconds: float) -> int:
    """Iterations that take so long undisturbed: of three tries, the fastest counts."""
    work = 1000
    while (taken := min(_block(work) for _ in range(3))) < seconds / 4:
        work *= 2
    return int(work * seconds / taken)


def _block(work: int) -> float:
    start = time.perf_counter()
    for _ in range(work):
        pass
    return time.perf_counter() - start
