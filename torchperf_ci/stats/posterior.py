"""Which commit did it? The probability of each suspect, from paired readings of a few builds of the range.

Several series of one cause are weighed together, those of the same pairs by what each adds to the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.grid import grid
from torchperf_ci.stats.levels import Weighed, rise, weigh
from torchperf_ci.stats.reading_errors import Readings
from torchperf_ci.stats.shared_pairs import worths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EXPECTED_CHANGES = 0.5
"""Commits of a range that change a series by more than matters, of which somebody says that it got worse."""


@dataclass(frozen=True)
class Posterior:
    """The suspects of a range of n commits, positions 1..n, after some readings.

    ``suspects`` (n,) are their probabilities, ``none`` the one that the last build is not slow at all. ``tested`` are
    the positions of the K + 1 builds that were read, ``gaps`` (K,) the probabilities of the suspects between each and
    the next together, ``series`` what each series alone says. ``one_cause`` is ln of how much likelier the readings are
    with one culprit for all series than with one for each.
    """

    suspects: Floats
    none: float
    tested: NDArray[np.intp]
    gaps: Floats
    series: Sequence[Weighed]
    one_cause: float

    def credible(self, share: float = 0.95) -> list[int]:
        """Positions of the fewest suspects that hold ``share`` of the probability, ascending; all, if they do not."""
        order = np.argsort(-self.suspects, kind="stable")
        enough = int(np.searchsorted(np.cumsum(self.suspects[order]), share - 1e-12)) + 1
        return sorted(int(position) + 1 for position in order[:enough])


def posterior(weights: Floats, readings: Sequence[Readings], min_effect: float) -> Posterior:
    """Weigh the suspects.

    ``weights`` (n,) sums to 1: how suspect each commit is beforehand. ``readings`` are those of each series, of bases
    and heads by their positions. A base is position 0, or the last tested one before its head. ``min_effect`` is the
    smallest relative change that matters.
    """
    delta = math.log1p(min_effect)
    tested, shares, chances = _gaps(weights, readings)
    grids = [grid(item.values, delta, _whole(item, weights.size)) for item in readings]
    series = [
        weigh(chances, _placed(tested, item), found, delta)
        for item, found in zip(readings, grids, strict=True)
    ]
    worth = worths([(item.base, item.head, item.values) for item in readings])
    together, one_cause = _together(series, chances, delta, worth)
    gaps, none = together[:-1], float(together[-1])
    inside = np.repeat(gaps / shares, np.diff(tested))
    return Posterior(weights * inside, none, tested, gaps, series, one_cause)


def chance_of_rise(weights: Floats, readings: Readings, min_effect: float, part: tuple[int, int]) -> float:
    """The probability that of two positions the second is slower than the first by half of ``min_effect`` or more.

    Both must be tested; the arguments are as for :func:`posterior`, with the readings of one series.
    """
    delta = math.log1p(min_effect)
    tested, _, chances = _gaps(weights, [readings])
    first, last = (int(np.searchsorted(tested, position)) for position in part)
    return rise(chances, _placed(tested, readings), grid(readings.values, delta), delta, first, last)


def _gaps(weights: Floats, readings: Sequence[Readings]) -> tuple[NDArray[np.intp], Floats, Floats]:
    """The tested positions, and of the gaps between them the weight and the chance that anything changed there."""
    ends = np.array([0, weights.size])
    tested = np.unique(
        np.concatenate([ends, *(side for item in readings for side in (item.base, item.head))])
    )
    shares = np.add.reduceat(weights, tested[:-1])
    return tested, shares, -np.expm1(-EXPECTED_CHANGES * shares)


def _whole(readings: Readings, last: int) -> float:
    """The change from the first build to the last one, as far as pairs of just these two tell."""
    ends = readings.values[(readings.base == 0) & (readings.head == last)]
    return float(np.median(ends)) if ends.size else 0.0


def _placed(tested: NDArray[np.intp], readings: Readings) -> Readings:
    base, head = (np.searchsorted(tested, side) for side in (readings.base, readings.head))
    return replace(readings, base=base, head=head)


def _together(
    series: Sequence[Weighed], chances: Floats, delta: float, worth: Floats
) -> tuple[Floats, float]:
    """The probabilities of the gaps and of none, (K + 1,), and the logarithm of what they summed to before."""
    if len(series) == 1:
        return _hypotheses(series[0]), 0.0
    nothing = Readings(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0))
    prior = np.array([_hypotheses(weigh(chances, nothing, one.grid, delta)) for one in series])
    logs = np.log(prior[0]) + worth @ (np.log([_hypotheses(one) for one in series]) - np.log(prior))
    total = logs.max() + np.log(np.exp(logs - logs.max()).sum())
    return np.exp(logs - total), float(total)


def _hypotheses(one: Weighed) -> Floats:
    return np.asarray(np.maximum(np.append(one.gaps, one.none), np.finfo(np.float64).tiny))
