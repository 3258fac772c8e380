"""How surprising is a deviation of so many σ? Learned from the past of all series that are judged together.

Benchmarks have heavier tails than the normal distribution, and spikes that no formula knows. Thousands of series with
dozens of runs each show how often which deviation happens where nothing has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.normal import score_of_student, score_of_tail, student_of_score, tail_probability

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRIOR_DF = 4.0
"""Student's distribution that is believed before anything is seen: tails about as heavy as those of benchmarks are."""
PRIOR_WEIGHT = 500.0
"""How many observations that belief is worth."""
MOST = 4.5
"""No single run counts for more than this score (1 in 300,000), however far it is off."""
_KNOTS = np.concatenate([np.linspace(0.0, 4.0, 81), np.geomspace(4.2, 200.0, 80)])


@dataclass(frozen=True)
class Tails:
    """Normal scores of upward and downward deviations at fixed knots."""

    up: NDArray[np.float64]
    down: NDArray[np.float64]

    def score(self, z: NDArray[np.float64], df: NDArray[np.float64]) -> NDArray[np.float64]:
        """Deviations of ``z`` σ as scores, standard normal where nothing has changed, at most :data:`MOST`.

        ``df``, of a shape that fits ``z``, are the degrees of freedom of the σ that z was divided by: with few,
        Student's distribution may be the wider of the two, and then counts.
        """
        seen = np.where(z >= 0, np.interp(z, _KNOTS, self.up), -np.interp(-z, _KNOTS, self.down))
        student = score_of_student(z, df)
        return np.clip(np.where(np.abs(student) < np.abs(seen), student, seen), -MOST, MOST)

    def deviation(self, score: NDArray[np.float64], df: NDArray[np.float64]) -> NDArray[np.float64]:
        """How many σ a value must be off, up or down alike, to have this ``score``, which is positive."""
        seen = np.maximum(np.interp(score, self.up, _KNOTS), np.interp(score, self.down, _KNOTS))
        return np.asarray(np.maximum(seen, student_of_score(score, df)))


def learn_tails(deviations: NDArray[np.float64]) -> Tails:
    """Tails from deviations of the past, in σ, of any shape; NaN is left out."""
    known = np.sort(deviations[~np.isnan(deviations)])
    return Tails(_scores(known), _scores(-known[::-1]))


def _scores(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    beyond = ordered.size - np.searchsorted(ordered, _KNOTS, side="left")
    believed = tail_probability(score_of_student(_KNOTS, PRIOR_DF))
    seen = (beyond + PRIOR_WEIGHT * believed) / (ordered.size + PRIOR_WEIGHT)
    scores = np.maximum(score_of_tail(np.clip(seen, 1e-15, 1 - 1e-9)), 0.0)
    return np.maximum.accumulate(scores)
