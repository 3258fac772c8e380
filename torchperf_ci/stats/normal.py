"""The normal distribution, on arrays."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
