"""What luck makes of a build: the offset that builds of one and the same code have among themselves.

Where code lies in memory, how it is aligned and in which order it was linked moves a benchmark by a percent (Mytkowicz,
Diwan, Hauswirth & Sweeney, *Producing wrong data without doing anything obviously wrong*, ASPLOS 2009; Curtsinger &
Berger, *Stabilizer*, ASPLOS 2013). All pairs of a build share its offset, so no number of them averages it out. Offsets
are taken to be normal, with a standard deviation τ that is not known.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.reading_errors import SIGMAS, log_likelihood

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

COUNT = 6
"""Values of τ that are weighed against each other."""
LARGEST = 0.02
"""What τ may be at most, unless it is known to be larger: builds of compiled C++ differ by up to 1.5%."""
FINER = 3
"""Steps that one of the levels is divided into, where an offset is summed over."""
_LEAST = 1e-150


def taus(luck: float) -> Floats:
    """Values that τ may have where ``luck`` is expected of it, ascending; 0 alone where builds have no luck."""
    return np.geomspace(luck / 3, max(LARGEST, 4 * luck), COUNT) if luck else np.zeros(1)


def tau_prior(luck: float) -> Floats:
    """The logarithm of the belief about :func:`taus`.

    It is half Cauchy of scale ``luck``, whose tail does not rule out what nobody has seen yet (Gelman, *Bayesian
    Analysis* 1, 2006).
    """
    values = taus(luck)
    weights = values / (1 + (values / luck) ** 2) if luck else np.ones(1)
    return np.asarray(np.log(weights / weights.sum()))


def kernels(levels: Floats, offsets: Floats, spreads: Floats) -> Floats:
    """How likely each of the ``offsets`` is for a build of each level, (spreads, offsets, levels); sums are 1."""
    distance = offsets[:, np.newaxis] - levels
    nearest = np.argmin(np.abs(distance), axis=0)
    found = np.empty((spreads.size, offsets.size, levels.size))
    for number, spread in enumerate(spreads):
        found[number] = np.exp(-0.5 * (distance / max(spread, 1e-12)) ** 2)
    # Where a spread is far below the distances the nearest place has it all.
    found[:, nearest, np.arange(levels.size)] = np.maximum(found[:, nearest, np.arange(levels.size)], 1e-9)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@lru_cache(maxsize=64)
def _fine(first: int, count: int, step: float, luck: float, builds: int) -> tuple[Floats, Floats]:
    """Places between the levels, and the kernels from levels to places side by side: (places, taus·levels)."""
    spreads = taus(luck) * math.sqrt(builds)
    beyond = int(np.ceil(4 * spreads[-1] / step)) * FINER
    whole = np.arange(first * FINER - beyond, (first + count - 1) * FINER + beyond + 1)
    places: Floats = np.asarray(whole * (step / FINER), np.float64)
    levels = np.asarray(np.arange(first, first + count) * step, np.float64)
    found = kernels(levels, places, np.asarray(spreads, np.float64))
    return places, np.ascontiguousarray(found.swapaxes(0, 1).reshape(places.size, -1))


@lru_cache(maxsize=4096)
def _of_block(
    values: tuple[float, ...], first: int, count: int, step: float, luck: float, builds: int
) -> Floats:
    if not luck:
        levels = np.asarray(np.arange(first, first + count) * step, np.float64)
        return log_likelihood(np.array(values), levels)[np.newaxis]
    places, kernel = _fine(first, count, step, luck, builds)
    logs = log_likelihood(np.array(values), places)
    most = logs.max(axis=-1, keepdims=True)
    summed = (np.exp(logs - most) @ kernel).reshape(SIGMAS.size, -1, count).swapaxes(0, 1)
    return np.asarray(np.log(np.maximum(summed, _LEAST)) + most)


def of_block(values: Sequence[float], levels: tuple[int, int, float], luck: float, builds: int) -> Floats:
    """The log-likelihood of readings that share the offsets of one or two ``builds``: (taus, sigmas, levels).

    ``levels`` are the first of them and their count, in steps, and the step.
    """
    found = _of_block(tuple(values), *levels, luck, builds)
    found.flags.writeable = False
    return found
