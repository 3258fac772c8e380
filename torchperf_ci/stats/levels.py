"""The levels that a quantity may have gone through from build to build, weighed by noisy readings of a few builds.

The builds are points on a line. The first one is at level 0, which all readings are relative to, and from each to the
next the level stays or jumps. Levels lie on a grid, so the model is a hidden Markov model, and the sums over all paths
are exact (Rabiner, *Proceedings of the IEEE* 77, 1989): improvements, several regressions and reverts are paths like
any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.grid import jumps, matters
from torchperf_ci.stats.reading_errors import SIGMAS, log_likelihood, sigma_prior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from torchperf_ci.stats.grid import Grid

    Floats = NDArray[np.float64]

NEGLIGIBLE = 1e-7
"""A probability that makes no difference."""
_LEAST = 1e-150
"""The least likelihood of a level, beside the most likely one's: no level is ever ruled out by the range of numbers."""


@dataclass(frozen=True)
class Readings:
    """Log-ratios of pairs of builds, each of shape (n,): what was read, and between which two of the tested builds."""

    base: NDArray[np.intp]
    head: NDArray[np.intp]
    values: Floats


@dataclass(frozen=True)
class Weighed:
    """What readings of one series say about K + 1 builds and the K gaps between them.

    ``gaps`` (K,) is the probability that the last build which is not slow lies just before the gap, so that what is
    slow at the end is slow since then; ``none`` that the last build is not slow. ``before`` and ``after``, both
    (K + 1, levels), are the joint probabilities of a build's level and of whether that gap is still to come. ``sigma``
    is the expected scale of the readings' errors.
    """

    grid: Grid
    gaps: Floats
    none: float
    before: Floats
    after: Floats
    sigma: float


def weigh(chances: Floats, readings: Readings, found: Grid, min_effect: float) -> Weighed:
    """Sum over all paths of levels through K + 1 builds.

    ``chances`` (K,) are the probabilities that anything changes from one build to the next. A reading is of a build
    against the first one, or against the one just before it.
    """
    paths = _Paths(chances, readings, found, min_effect)
    slow_backward, shares = paths.backward(everywhere=False), paths.shares
    after = (shares * paths.forward * slow_backward).sum(axis=1)
    everything = (shares * paths.forward * paths.backward(everywhere=True)).sum(axis=1)
    return Weighed(
        found,
        np.array([(shares * paths.entering(k, slow_backward)).sum() for k in range(chances.size)]),
        float(everything[-1, ~found.slow].sum()),
        np.maximum(everything - after, 0.0),
        after,
        float((shares[:, 0] * SIGMAS).sum()),
    )


def rise(chances: Floats, readings: Readings, found: Grid, min_effect: float, first: int, last: int) -> float:
    """The probability that the ``last`` of the builds is slower than the ``first`` by half of ``min_effect`` or more.

    The other arguments are as in :func:`weigh`.
    """
    paths = _Paths(chances, readings, found, min_effect)
    backward, higher = paths.backward(everywhere=True), 0.0
    belief = (paths.shares * paths.forward[first] * backward[first]).sum(axis=0)
    for level in np.flatnonzero(belief > NEGLIGIBLE):
        moved = np.where(np.arange(belief.size) == level, paths.forward[first], 0.0)
        for k in range(first, last):
            moved = paths.onward(k, moved)
        joint = paths.shares * moved * backward[last]
        higher += joint[:, matters(found.levels - found.levels[level], min_effect)].sum()
    return float(higher)


class _Paths:
    """The two recursions, for all scales at once; arrays are (K + 1, scales, levels)."""

    def __init__(self, chances: Floats, readings: Readings, found: Grid, min_effect: float) -> None:
        self._chances, self._grid = chances, found
        self._jumps = jumps(found, min_effect)
        of_first = readings.base == 0
        self._seen = np.ones((chances.size + 1, SIGMAS.size, found.levels.size))
        self._scale = np.zeros((chances.size + 1, SIGMAS.size))
        self._steps: dict[int, Floats] = {}
        for k in np.unique(readings.head[of_first]):
            values = readings.values[of_first & (readings.head == k)]
            self._seen[k], self._scale[k] = _scaled(log_likelihood(values, found.levels))
        for k in np.unique(readings.head[~of_first]):
            values = readings.values[~of_first & (readings.head == k)]
            self._add_step(int(k), values)
        self.forward, self.shares = self._forward()

    def _add_step(self, k: int, values: Floats) -> None:
        """Readings of build k against the one before it: a factor on each pair of levels, (scales, levels, levels)."""
        size = self._grid.levels.size
        differences = np.arange(1.0 - size, size) * self._grid.step
        likelihood, scale = _scaled(log_likelihood(values, differences))
        self._steps[k - 1] = likelihood[:, np.arange(size) - np.arange(size)[:, np.newaxis] + size - 1]
        self._scale[k] += scale

    def _forward(self) -> tuple[Floats, Floats]:
        """Probabilities of the levels given the readings up to each build; and those of the scales, (scales, 1)."""
        filtered, self._totals = np.zeros_like(self._seen), np.ones(self._scale.shape)
        filtered[0, :, self._grid.origin] = 1.0
        for k in range(self._chances.size):
            filtered[k + 1] = self._onward(k, filtered[k]) * self._seen[k + 1]
            self._totals[k + 1] = filtered[k + 1].sum(axis=-1)
            filtered[k + 1] /= self._totals[k + 1][:, np.newaxis]
        logs = sigma_prior() + (np.log(self._totals) + self._scale).sum(axis=0)
        shares = np.exp(logs - logs.max())[:, np.newaxis]
        return filtered, shares / shares.sum()

    def backward(self, *, everywhere: bool) -> Floats:
        """Probabilities of the later readings given each level, in units of what the way forward has divided by.

        Not ``everywhere``: and of being slow from the build on until the last one.
        """
        allowed = np.ones_like(self._grid.levels) if everywhere else self._grid.slow.astype(np.float64)
        later = np.zeros_like(self._seen)
        later[-1] = allowed
        for k in reversed(range(self._chances.size)):
            later[k] = self._back(k, self._fit(k + 1) * later[k + 1]) * allowed
        return later

    def entering(self, k: int, slow_backward: Floats) -> Floats:
        """The probability of not being slow at build k, and slow from the next one on: (scales, 1)."""
        left = np.where(self._grid.slow, 0.0, self.forward[k])
        joint: Floats = (self.onward(k, left) * slow_backward[k + 1]).sum(axis=-1, keepdims=True)
        return joint

    def onward(self, k: int, here: Floats) -> Floats:
        """From build k to the next one, whose readings are counted in, in units of what the way forward divides by."""
        return np.asarray(self._onward(k, here) * self._fit(k + 1))

    def _fit(self, k: int) -> Floats:
        """How well each level fits the readings of build k, in units of what the way forward has divided by."""
        return np.asarray(self._seen[k] / self._totals[k][:, np.newaxis])

    def _onward(self, k: int, here: Floats) -> Floats:
        chance = self._chances[k]
        if k not in self._steps:
            return np.asarray((1 - chance) * here + chance * (here @ self._jumps))
        return np.asarray(np.einsum("sl,slm->sm", here, self._steps[k] * self._moves(chance)))

    def _back(self, k: int, there: Floats) -> Floats:
        chance = self._chances[k]
        if k not in self._steps:
            return np.asarray((1 - chance) * there + chance * (there @ self._jumps.T))
        return np.asarray(np.einsum("sm,slm->sl", there, self._steps[k] * self._moves(chance)))

    def _moves(self, chance: float) -> Floats:
        return np.asarray((1 - chance) * np.eye(len(self._jumps)) + chance * self._jumps)


def _scaled(logs: Floats) -> tuple[Floats, Floats]:
    """Likelihoods with a largest one of 1 for each scale, and the logarithm of what they were divided by."""
    most = logs.max(axis=-1)
    return np.maximum(np.exp(logs - most[:, np.newaxis]), _LEAST), most
