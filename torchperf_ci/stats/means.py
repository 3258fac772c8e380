"""Geometric means of paired ratios."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.normal import student_of_score

if TYPE_CHECKING:
    from collections.abc import Sequence


def geometric_mean(rows: Sequence[Sequence[float]], confidence: float = 0.95) -> Effect:
    """The geometric mean over cases of each one's mean ratio, with Student's interval.

    ``rows`` holds the log-ratios of each case's pairs, two or more. The cases are these and no sample of others, so
    only the pairs are random: the variance of the mean is ``∑ sᵢ²/nᵢ / cases²``, its degrees of freedom those of Welch
    and Satterthwaite (Welch, *Biometrika* 34, 1947): ``(∑ sᵢ²/nᵢ)² / ∑ (sᵢ²/nᵢ)²/(nᵢ − 1)``. How many pairs a case has
    must not depend on what they gave: the mean of pairs that were taken until it was high or low enough is biased.
    """
    if not rows or min(map(len, rows)) < 2:
        msg = "geometric_mean needs two or more pairs of each case"
        raise ValueError(msg)
    mean = math.fsum(float(np.mean(row)) for row in rows) / len(rows)
    variances = np.array([np.var(row, ddof=1) / len(row) for row in rows])
    pairs = sum(map(len, rows))
    if not variances.any():
        return Effect.of_logs(mean, mean, mean, pairs)
    freedom = variances.sum() ** 2 / np.sum(variances**2 / np.array([len(row) - 1 for row in rows]))
    score = np.array(NormalDist().inv_cdf((1 + confidence) / 2))
    half = float(student_of_score(score, freedom)) * math.sqrt(variances.sum()) / len(rows)
    return Effect.of_logs(mean, mean - half, mean + half, pairs)
