"""Logarithms as what people read."""

from __future__ import annotations

from math import exp, expm1
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.effect import LARGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray


def log_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithms, NaN where there is none."""
    return np.log(np.where(values > 0, values, np.nan))


def ratio(log: float) -> float:
    """1.03 for a logarithm that is 3% up."""
    return exp(min(log, LARGEST))


def share(log: float) -> float:
    """0.03 for the same."""
    return expm1(min(log, LARGEST))
