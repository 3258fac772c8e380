"""What one reading can tell at most of a level that is one of two."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def capacity(distance: float) -> float:
    """Bits that one reading tells, whose two levels are ``distance`` standard deviations apart.

    This is the capacity of a Gaussian channel with binary input: 1 − E log₂(1 + exp(−L)), where the log-likelihood
    ratio L is normal with mean d²/2 and variance d² (Burnashev & Zigangirov, *Problems of Information Transmission* 10,
    1974).
    """
    return _capacity(round(max(distance, 0.0), 2))


@lru_cache(maxsize=1024)
def _capacity(d: float) -> float:
    z = np.linspace(-12, 12, 4801)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    lost = np.logaddexp(0, -(d**2 / 2 + d * z)) / math.log(2)
    return 1 - float((density * lost).sum() * (z[1] - z[0]))
