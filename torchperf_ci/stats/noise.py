"""Robust noise between runs, and how surprising a deviation of a given number of σ is.

Arrays have the shape (series, runs), oldest first, and NaN where there is no value.

Benchmarks have heavier tails than the normal distribution, and spikes that no formula describes. Thousands of series
with dozens of runs each show how often a deviation of a given size occurs when nothing has changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.stats import Floats, Ints


_erfc = np.frompyfunc(math.erfc, 1, 1)
_inverse = np.frompyfunc(NormalDist().inv_cdf, 1, 1)


def tail_probability(scores: Floats) -> Floats:
    """P(Z > score) of a standard normal Z; NaN stays NaN."""
    return np.asarray(_erfc(scores / math.sqrt(2)), dtype=np.float64) / 2


def score_of_tail(probabilities: Floats) -> Floats:
    """Return the score that a standard normal exceeds with each probability, which must lie strictly in (0, 1)."""
    return -np.asarray(_inverse(probabilities), dtype=np.float64)


def score_of_student(t: Floats, df: Floats | float) -> Floats:
    """Return the normal score with the same tail probability as ``t`` under Student's distribution.

    ``df`` are the degrees of freedom. For at least 3 of them it is accurate to 0.02 for |t| up to 4, and too close to 0
    by at most 0.06 for |t| up to 10 (Wallace, *Annals of Mathematical Statistics* 30, 1959).
    """
    magnitude = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df))
    return np.asarray(np.sign(t) * magnitude)


def student_of_score(score: Floats, df: Floats | float) -> Floats:
    """The inverse of :func:`score_of_student`."""
    plain = score * (8 * df + 3) / (8 * df + 1)
    return np.asarray(np.sign(score) * np.sqrt(df * np.expm1(plain**2 / df)))


def student_quantile(probability: float, df: float) -> float:
    """Return the value that Student's t is below with this probability, by :func:`student_of_score`."""
    return float(student_of_score(np.array(NormalDist().inv_cdf(probability)), df))


MAD_TO_SIGMA = 1.482602218505602
"""σ of a normal distribution whose median absolute deviation is 1: 1/Φ⁻¹(¾)."""
MEAN_DEVIATION_TO_SIGMA = 1.2533141373155003
"""σ of a normal distribution whose mean absolute deviation is 1: √(π/2)."""
DECILES_TO_SIGMA = 0.3901520577989803
"""σ of a normal distribution whose first and last decile are 1 apart: 1/(2·Φ⁻¹(0.9))."""
FLOOR = 1e-3
"""Smallest σ assumed for any series, 0.1%: otherwise the smallest change of a constant series would be a discovery."""


def level_and_sigma(log_values: Floats) -> tuple[Floats, Floats]:
    """Return the median of each series and σ between its runs, both of shape (series,).

    σ is NaN for fewer than two values, else >= :data:`FLOOR`. It is the root mean square of two estimates: the median
    absolute difference of successive values, which a step affects only once and a spike twice, and the distance between
    the first and last decile, which also includes a drifting or bimodal level.
    """
    values = compacted(log_values)
    level, low, high = _quantiles(values, (0.5, 0.1, 0.9))
    successive = successive_sigma(values)
    around = (high - low) * DECILES_TO_SIGMA
    sigma: Floats = np.sqrt((successive**2 + around**2) / 2)
    return level, np.maximum(sigma, FLOOR)


def successive_sigma(values: Floats) -> Floats:
    """Estimate σ of each series, shape (series,), from successive differences of gapless values; >= :data:`FLOOR`."""
    return np.asarray(np.maximum(robust_scale(np.abs(np.diff(values, axis=1))) / np.sqrt(2), FLOOR))


def row_median(values: Floats) -> Floats:
    """Return the median of each row, ignoring NaN; NaN for a row without values."""
    return _quantiles(values, (0.5,))[0]


def compacted(values: Floats) -> Floats:
    """Move the NaN of each row to the front, keeping the order of the values, so that there are no gaps."""
    missing = np.isnan(values)
    if not (missing[:, 1:] & ~missing[:, :-1]).any():
        return values
    order = np.argsort(~missing, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1)


def _quantiles(values: Floats, shares: Sequence[float]) -> list[Floats]:
    """Return quantiles of each row by definition 8 of Hyndman & Fan (*American Statistician* 50, 1996)."""
    if not values.shape[1]:
        return [np.full(len(values), np.nan) for _ in shares]
    ordered = np.sort(values, axis=1)  # NaN are sorted to the end; a row without values stays all NaN
    count = (~np.isnan(values)).sum(axis=1)
    return [_quantile(ordered, count, share) for share in shares]


def _quantile(ordered: Floats, count: Ints, share: float) -> Floats:
    place = np.clip(share * (count + 1 / 3) - 2 / 3, 0, np.maximum(count - 1, 0))
    lower = place.astype(np.intp)
    upper = np.minimum(lower + 1, np.maximum(count - 1, 0))
    rows = np.arange(len(ordered))
    below = ordered[rows, lower]
    return np.asarray(below + (place - lower) * (ordered[rows, upper] - below))


def robust_scale(deviations: Floats) -> Floats:
    """Estimate σ of each row from absolute deviations, at least one of them not NaN.

    Based on their median, or on their mean if more than half are 0 (values on a coarse grid).
    """
    typical = row_median(deviations) * MAD_TO_SIGMA
    coarse = typical == 0
    if coarse.any():
        typical[coarse] = np.nanmean(deviations[coarse], axis=1) * MEAN_DEVIATION_TO_SIGMA
    return typical


PRIOR_DF = 4.0
"""Degrees of freedom of the prior, a Student distribution with tails about as heavy as those of benchmarks."""
PRIOR_WEIGHT = 500.0
"""Weight of the prior in observations."""
MAX_SCORE = 4.5
"""Largest score of a single run (1 in 300,000), however far it is off."""
_KNOTS = np.concatenate([np.linspace(0.0, 4.0, 81), np.geomspace(4.2, 200.0, 80)])


@dataclass(frozen=True)
class Tails:
    """Normal scores of upward and downward deviations at fixed knots."""

    up: Floats
    down: Floats

    def score(self, z: Floats, df: Floats) -> Floats:
        """Convert deviations of ``z`` σ to scores: standard normal if nothing has changed, at most :data:`MAX_SCORE`.

        ``df``, which must broadcast with ``z``, are the degrees of freedom of the σ that z was divided by: with few of
        them Student's distribution may have the heavier tails, and is then used instead.
        """
        seen = np.where(z >= 0, np.interp(z, _KNOTS, self.up), -np.interp(-z, _KNOTS, self.down))
        student = score_of_student(z, df)
        return np.clip(np.where(np.abs(student) < np.abs(seen), student, seen), -MAX_SCORE, MAX_SCORE)

    def deviation(self, score: Floats, df: Floats) -> Floats:
        """Return the deviation in σ that has this positive ``score`` in either direction."""
        seen = np.maximum(np.interp(score, self.up, _KNOTS), np.interp(score, self.down, _KNOTS))
        return np.asarray(np.maximum(seen, student_of_score(score, df)))


def learn_tails(deviations: Floats) -> Tails:
    """Learn the tails from past deviations in σ, of any shape, ignoring NaN."""
    known = np.sort(deviations[~np.isnan(deviations)])
    return Tails(_scores(known), _scores(-known[::-1]))


def _scores(ordered: Floats) -> Floats:
    beyond = ordered.size - np.searchsorted(ordered, _KNOTS, side="left")
    believed = tail_probability(score_of_student(_KNOTS, PRIOR_DF))
    seen = (beyond + PRIOR_WEIGHT * believed) / (ordered.size + PRIOR_WEIGHT)
    scores = np.maximum(score_of_tail(np.clip(seen, 1e-15, 1 - 1e-9)), 0.0)
    return np.maximum.accumulate(scores)
