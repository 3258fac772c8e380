"""How far a reading may lie from the level that it is a reading of: Student's errors, and now and then anything at all.

The scale of the errors is not known, and is weighed like everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ERROR_DF = 4.0
SPOILED = 0.03
"""Share of the readings that say nothing, because something else kept the machine busy."""
SPOILED_SCALE = 0.3
SIGMAS = np.geomspace(1e-3, 0.2, 12)
"""Scales of the errors that are weighed against each other, shape (scales,)."""
PRIOR_SIGMA = 0.015
PRIOR_DF = 4.0
"""The belief about the scale beforehand, and how many readings it is worth."""

_T4 = math.gamma((ERROR_DF + 1) / 2) / (math.sqrt(ERROR_DF * math.pi) * math.gamma(ERROR_DF / 2))


@dataclass(frozen=True)
class Readings:
    """Log-ratios of pairs of builds, each of shape (n,): what was read, and between which two of the tested builds.

    ``draws``, (n, 2), tell builds of one commit apart; they are of base and head, and without them each commit has one.
    ``luck`` is the standard deviation that builds of one commit are expected to have among themselves.
    """

    base: NDArray[np.intp]
    head: NDArray[np.intp]
    values: Floats
    draws: NDArray[np.intp] = field(default_factory=lambda: np.zeros((0, 2), np.intp))
    luck: float = 0.0

    def blocks(self, base: int, head: int) -> dict[tuple[int, int], tuple[float, ...]]:
        """What was read between two builds, by their draws."""
        found: dict[tuple[int, int], tuple[float, ...]] = {}
        for place in np.flatnonzero((self.base == base) & (self.head == head)):
            of_base, of_head = self.draws[place].tolist() if self.draws.size else (0, 0)
            draws = (of_base, of_head)
            found[draws] = (*found.get(draws, ()), float(self.values[place]))
        return found


def sigma_prior() -> Floats:
    """The logarithm of the belief about :data:`SIGMAS`: σ² is scaled inverse χ²."""
    logs = -PRIOR_DF * (np.log(SIGMAS) + (PRIOR_SIGMA / SIGMAS) ** 2 / 2)
    return np.asarray(logs - np.log(np.exp(logs - logs.max()).sum()) - logs.max())


def log_density(errors: Floats, sigmas: Floats) -> Floats:
    """ln of the density of a reading's error; the shapes of the two are broadcast.

    Student's t, and now and then anything at all.
    """
    scaled = errors / sigmas
    usual = _T4 * (1 + scaled**2 / ERROR_DF) ** (-(ERROR_DF + 1) / 2) / sigmas
    anything = np.exp(-np.abs(errors) / SPOILED_SCALE) / (2 * SPOILED_SCALE)
    return np.asarray(np.log((1 - SPOILED) * usual + SPOILED * anything))


def log_likelihood(values: Floats, levels: Floats) -> Floats:
    """Of independent readings for each scale and level, (scales, levels)."""
    errors = values[:, np.newaxis, np.newaxis] - levels
    return np.asarray(log_density(errors, SIGMAS[:, np.newaxis]).sum(axis=0))
