"""How far values lie apart from run to run, and how surprising a deviation of so many σ is.

Arrays have the shape (series, runs), oldest first, and NaN where there is no value.

Benchmarks have heavier tails than the normal distribution, and spikes that no formula knows. Thousands of series with
dozens of runs each show how often which deviation happens where nothing has changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_erfc = np.frompyfunc(math.erfc, 1, 1)
_inverse = np.frompyfunc(NormalDist().inv_cdf, 1, 1)


def tail_probability(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(Z > score) of a standard normal Z; NaN stays NaN."""
    return np.asarray(_erfc(scores / math.sqrt(2)), dtype=np.float64) / 2


def score_of_tail(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The score that a standard normal exceeds with each probability, which lies between 0 and 1, both excluded."""
    return -np.asarray(_inverse(probabilities), dtype=np.float64)


def score_of_student(t: NDArray[np.float64], df: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """The normal score with the same tail as ``t`` under Student's distribution with ``df`` degrees of freedom.

    Good to 0.02 from 3 degrees of freedom on and |t| up to 10 (Wallace, *Annals of Mathematical Statistics* 30, 1959).
    """
    magnitude = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df))
    return np.asarray(np.sign(t) * magnitude)


def student_of_score(score: NDArray[np.float64], df: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """The inverse of :func:`score_of_student`."""
    plain = score * (8 * df + 3) / (8 * df + 1)
    return np.asarray(np.sign(score) * np.sqrt(df * np.expm1(plain**2 / df)))


MAD_TO_SIGMA = 1.482602218505602
"""σ of a normal distribution whose median absolute deviation is 1: 1/Φ⁻¹(¾)."""
MEAN_DEVIATION_TO_SIGMA = 1.2533141373155003
"""σ of a normal distribution whose mean absolute deviation is 1: √(π/2)."""
DECILES_TO_SIGMA = 0.3901520577989803
"""σ of a normal distribution whose first and last decile are 1 apart: 1/(2·Φ⁻¹(0.9))."""
FLOOR = 1e-3
"""No series is taken to be steadier than 0.1%: a constant one would otherwise make every digit a discovery."""


def robust_sigma(log_values: Floats) -> Floats:
    """σ between runs of each series, shape (series,); NaN for those with fewer than two values, else at least
    :data:`FLOOR`.

    The root mean square of two estimates. One is the median absolute difference of successive values, which a step
    spoils once and a spike twice; one is the distance of the first and last decile, which also sees a level that
    wanders or that has two modes.
    """
    return level_and_sigma(log_values)[1]


def level_and_sigma(log_values: Floats) -> tuple[Floats, Floats]:
    """The median of each series and its :func:`robust_sigma`, both of shape (series,)."""
    values = compacted(log_values)
    level, low, high = _quantiles(values, (0.5, 0.1, 0.9))
    successive = successive_sigma(values)
    around = (high - low) * DECILES_TO_SIGMA
    sigma: Floats = np.sqrt((successive**2 + around**2) / 2)
    return level, np.maximum(sigma, FLOOR)


def successive_sigma(values: Floats) -> Floats:
    """σ of each series, shape (series,), from the differences of successive values, which have no gaps; at least
    :data:`FLOOR`."""
    return np.asarray(np.maximum(robust_scale(np.abs(np.diff(values, axis=1))) / np.sqrt(2), FLOOR))


def row_median(values: Floats) -> Floats:
    """The median of each row without its NaN; NaN for a row that holds nothing else."""
    return _quantiles(values, (0.5,))[0]


def compacted(values: Floats) -> Floats:
    """The rows with their NaN moved to the front and the order of the others kept: a missing run leaves no gap."""
    missing = np.isnan(values)
    if not (missing[:, 1:] & ~missing[:, :-1]).any():
        return values
    order = np.argsort(~missing, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1)


def _quantiles(values: Floats, shares: Sequence[float]) -> list[Floats]:
    """Quantiles of each row, by definition 8 of Hyndman & Fan (*American Statistician* 50, 1996)."""
    if not values.shape[1]:
        return [np.full(len(values), np.nan) for _ in shares]
    ordered = np.sort(values, axis=1)  # NaN go to the end, so a row of nothing else has one in every place
    count = (~np.isnan(values)).sum(axis=1)
    return [_quantile(ordered, count, share) for share in shares]


def _quantile(ordered: Floats, count: NDArray[np.int64], share: float) -> Floats:
    place = np.clip(share * (count + 1 / 3) - 2 / 3, 0, np.maximum(count - 1, 0))
    lower = place.astype(np.intp)
    upper = np.minimum(lower + 1, np.maximum(count - 1, 0))
    rows = np.arange(len(ordered))
    below = ordered[rows, lower]
    return np.asarray(below + (place - lower) * (ordered[rows, upper] - below))


def robust_scale(deviations: Floats) -> Floats:
    """σ of each row from absolute deviations, at least one of them not NaN: their median, or their mean where more than
    half are 0 (values on a coarse grid)."""
    typical = row_median(deviations) * MAD_TO_SIGMA
    coarse = typical == 0
    if coarse.any():
        typical[coarse] = np.nanmean(deviations[coarse], axis=1) * MEAN_DEVIATION_TO_SIGMA
    return typical


PRIOR_DF = 4.0
"""Student's distribution that is believed before anything is seen: tails about as heavy as those of benchmarks are."""
PRIOR_WEIGHT = 500.0
"""How many observations that belief is worth."""
MOST_SCORE = 4.5
"""No single run counts for more than this score (1 in 300,000), however far it is off."""
_KNOTS = np.concatenate([np.linspace(0.0, 4.0, 81), np.geomspace(4.2, 200.0, 80)])


@dataclass(frozen=True)
class Tails:
    """Normal scores of upward and downward deviations at fixed knots."""

    up: NDArray[np.float64]
    down: NDArray[np.float64]

    def score(self, z: NDArray[np.float64], df: NDArray[np.float64]) -> NDArray[np.float64]:
        """Deviations of ``z`` σ as scores, standard normal where nothing has changed, at most :data:`MOST_SCORE`.

        ``df``, of a shape that fits ``z``, are the degrees of freedom of the σ that z was divided by: with few,
        Student's distribution may be the wider of the two, and then counts.
        """
        seen = np.where(z >= 0, np.interp(z, _KNOTS, self.up), -np.interp(-z, _KNOTS, self.down))
        student = score_of_student(z, df)
        return np.clip(np.where(np.abs(student) < np.abs(seen), student, seen), -MOST_SCORE, MOST_SCORE)

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
