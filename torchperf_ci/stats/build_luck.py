"""How far do builds of the same code lie apart by luck: code layout, alignment, the order of links?

A build has an offset of its own, N(0, τ²) on the log scale, which all of its runs share, beside the noise σ of each.
Two runs of one build differ by σ√2, and runs of two builds by √(2σ² + 2τ²). Of one run a build, history tells no more
than that τ is not larger than all that runs differ by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.noise import FLOOR, spread
from torchperf_ci.stats.normal import tail_probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

USUAL = 0.003
"""τ where history does not tell; a third to three times as much is usual, of compiled C++ 0.5 to 1.5%."""
UNSURE, ALIKE = 0.75, 0.5
"""Standard deviation of ln τ beforehand, from kind to kind of series and among series of one kind: so one in forty is
above 1.75%, and what luck does to one series says something about the others."""
TRIM, TRIMMED = 2.5, 0.9113
"""Differences beyond so many standard deviations are left out, since they are steps and spikes; of normal ones, so much
of the variance is then left."""
EFFICIENCY = 0.45
"""Degrees of freedom that a difference of two successive runs is worth: each run is in two of them."""
LEAST, MOST = 1e-4, 0.05
"""τ lies between."""
TAUS: Floats = np.geomspace(LEAST, MOST, 48)
_SIGMAS: Floats = np.geomspace(3e-4, 0.5, 120)


@dataclass(frozen=True)
class TauEstimate:
    """What is known of a series' τ: a probability for each of :data:`TAUS`."""

    shares: Floats

    @property
    def tau(self) -> float:
        """The median."""
        return self.quantile(0.5)

    def quantile(self, share: float) -> float:
        """τ is below with this probability."""
        return float(np.exp(np.interp(share, self.shares.cumsum() - self.shares / 2, np.log(TAUS))))

    def chance(self, change: float, builds: tuple[int, int]) -> float:
        """The probability that luck alone makes a ``change`` (log scale) as large, in its direction, between the means
        of so many old and so many new ``builds``."""
        share = sum(1 / number for number in builds)
        return float(self.shares @ tail_probability(abs(change) / (TAUS * np.sqrt(share))))


def build_luck(values: Floats, builds: Ints) -> Sequence[TauEstimate]:
    """What the runs of each of several series of one kind say, in their order.

    ``values`` (log scale) and ``builds``, shape (series, runs), oldest first, NaN and -1 where there is none, are of
    runs that share nothing but their build: of several in one sitting, one. The likelihood of the two spreads of each
    series is that of χ² distributions, with the σ that fits best: so of one run a build, it only says how large τ may
    be, and nothing about other series. What series say together counts less, the more of their runs' deviations they
    have in common.
    """
    if not len(values):
        return []
    differences, is_same = _successive(values, builds)
    own = _likelihoods(differences, is_same)
    kinship = _bell(np.log(TAUS)[:, np.newaxis] - np.log(TAUS), ALIKE)
    kinship /= kinship.sum(axis=1, keepdims=True)
    has_both = is_same.any(axis=1, keepdims=True)
    of_kind = np.where(has_both, np.log(own @ kinship.T), 0.0)
    others = _weight(differences) * (of_kind.sum(axis=0) - of_kind) + np.log(
        _bell(np.log(TAUS / USUAL), UNSURE)
    )
    beforehand = np.exp(others - others.max(axis=1, keepdims=True)) @ kinship
    shares = own * beforehand
    return [TauEstimate(one) for one in shares / shares.sum(axis=1, keepdims=True)]


def _likelihoods(differences: Floats, is_same: Flags) -> Floats:
    """Of each τ by each series, the largest 1, shape (series, taus)."""
    between, of_between = _variance(np.where(is_same, np.nan, differences))
    within, of_within = _variance(np.where(is_same, differences, np.nan))
    logs = np.full((len(differences), TAUS.size), -np.inf)
    for sigma in _SIGMAS:
        of_noise = _log_density(within, of_within, np.array([sigma**2]))
        logs = np.maximum(logs, of_noise + _log_density(between, of_between, sigma**2 + TAUS**2))
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _successive(values: Floats, builds: Ints) -> tuple[Floats, Flags]:
    """The difference of each run to the one before it in its series, NaN where there is none, and whether both are of
    one build."""
    known = ~np.isnan(values) & (builds >= 0)
    places = np.where(known, np.arange(values.shape[1]), 0)
    before = np.maximum.accumulate(places, axis=1)[:, :-1]
    rows = np.arange(len(values))[:, np.newaxis]
    has_both = known[:, 1:] & known[rows, before]
    differences = np.where(has_both, values[:, 1:] - values[rows, before], np.nan)
    return differences, has_both & (builds[:, 1:] == builds[rows, before])


def _variance(differences: Floats) -> tuple[Floats, Floats]:
    """Of one run by the differences of two, (series, differences), and its degrees of freedom, both (series, 1)."""
    known = ~np.isnan(differences)
    sigma = np.zeros(len(differences))
    some = known.any(axis=1)
    sigma[some] = spread(np.abs(differences[some]))
    kept = np.abs(differences) <= TRIM * sigma[:, np.newaxis]
    squares = np.where(kept, differences, 0.0) ** 2
    variance = squares.sum(axis=1) / np.maximum(kept.sum(axis=1), 1) / TRIMMED / 2
    return np.maximum(variance, FLOOR**2)[:, np.newaxis], EFFICIENCY * known.sum(axis=1, keepdims=True)


def _log_density(found: Floats, freedom: Floats, true: Floats) -> Floats:
    """Of a variance that was ``found``, but for what does not depend on the ``true`` one."""
    return np.asarray(-freedom / 2 * (np.log(true) + found / true))


def _weight(differences: Floats) -> float:
    """What a series says about another, where ``differences`` of all have a mean correlation r: variances have r²."""
    sigma = np.sqrt(2 * _variance(differences)[0])
    scores = np.nan_to_num(np.clip(differences / sigma, -TRIM, TRIM))
    squares, series = (scores**2).sum(), len(scores)
    shared = (scores.sum(axis=0) ** 2).sum() - squares
    alike = max(0.0, shared / max(squares, 1e-9) / max(series - 1, 1)) ** 2
    return float((1 - alike) / (1 + (series - 1) * alike))


def _bell(distance: Floats, scale: float) -> Floats:
    return np.asarray(np.exp(-0.5 * (distance / scale) ** 2))
