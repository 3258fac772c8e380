"""What each of several series is worth as evidence, where they were read from the same pairs.

Two metrics of one case share the luck of its processes: a latency and a throughput are one number twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

BELIEVED = 0.7
"""The correlation that series of the same pairs are believed to have beforehand."""
BELIEF = 2.0
"""How many pairs that belief is worth."""


def worths(series: Sequence[tuple[Places, Places, Floats]]) -> Floats:
    """The exponent of each series' likelihood, shape (series,), in (0, 1].

    ``series`` are positions of base and head and log-ratios, of equal length. Those of the same pairs are worth
    ``1/(1 + ∑ r)`` each, with their correlations ``r`` with the others: the design effect of a cluster (Kish, *Survey
    Sampling*, 1965, §5.4). Of others nothing is shared.
    """
    shared = np.array(
        [[_correlation(one, other) if one is not other else 1.0 for other in series] for one in series]
    )
    return np.asarray(1 / np.maximum(shared, 0.0).sum(axis=1))


def _correlation(one: tuple[Places, Places, Floats], other: tuple[Places, Places, Floats]) -> float:
    """That of the deviations of pairs of the same builds from their mean, drawn towards what is believed."""
    if not (np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])):
        return 0.0
    if np.allclose(one[2], other[2], rtol=1e-6, atol=1e-9):
        return 1.0
    _, group, counts = np.unique(np.stack(one[:2]), axis=1, return_inverse=True, return_counts=True)
    group = group.ravel()
    first, second = (
        values - np.bincount(group, values)[group] / counts[group] for values in (one[2], other[2])
    )
    squares = float(np.sqrt((first @ first) * (second @ second)))
    pairs = float((counts - 1).sum())
    found = float(first @ second) / squares if squares else BELIEVED
    return (pairs * found + BELIEF * BELIEVED) / (pairs + BELIEF)
