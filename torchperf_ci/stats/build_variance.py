"""How much builds of the same code differ by chance, because of code layout, alignment and link order.

Memory layout, alignment and link order change the result of a benchmark by about a percent (Mytkowicz, Diwan, Hauswirth
& Sweeney, *Producing wrong data without doing anything obviously wrong*, ASPLOS 2009; Curtsinger & Berger,
*Stabilizer*, ASPLOS 2013). All pairs of a build share its offset, so it does not average out, however many there are.
Offsets are assumed to be normal with an unknown standard deviation τ.

Each build has an offset N(0, τ²) on the log scale, which all of its runs share, besides the noise σ of each run. Two
runs of the same build differ by σ√2, two runs of different builds by √(2σ² + 2τ²). With one run per build, history only
gives an upper bound of τ: the differences between runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.level_grid import small_product
from torchperf_ci.stats.noise import FLOOR, robust_scale, tail_probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.stats import Flags, Floats, Ints, Places


ERROR_DF = 4.0
SPOILED = 0.03
"""Share of readings that are meaningless because other work kept the machine busy."""
SPOILED_SCALE = 0.3
SIGMAS = np.geomspace(1e-3, 0.2, 12)
"""Candidate scales of the errors, shape (scales,); the true scale is unknown and weighed like everything else."""
PRIOR_SIGMA = 0.015
PRIOR_DF = 4.0
"""Prior of the scale, and its weight in readings."""

_T4 = math.gamma((ERROR_DF + 1) / 2) / (math.sqrt(ERROR_DF * math.pi) * math.gamma(ERROR_DF / 2))


@dataclass(frozen=True, eq=False)
class Readings:
    """Log-ratios of pairs (``values``) and the tested builds they compare, each of shape (n,). Compared by content.

    ``draws``, shape (n, 2), distinguish rebuilds of the same commit, for base and head; if empty, each commit has one
    build. ``luck`` is the expected standard deviation between builds of the same commit. ``pairs``, shape (n,), are
    numbers by which to tell the pairs that several series share, and are not compared; if empty, none are shared.
    """

    base: Places
    head: Places
    values: Floats
    draws: Places = field(default_factory=lambda: np.zeros((0, 2), np.intp))
    luck: float = 0.0
    pairs: Places = field(default_factory=lambda: np.zeros(0, np.intp))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Readings) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @cached_property
    def _content(self) -> tuple[bytes | float, ...]:
        return (*(array.tobytes() for array in (self.base, self.head, self.values, self.draws)), self.luck)

    def blocks(self, base: int, head: int) -> dict[tuple[int, int], tuple[float, ...]]:
        """Return the readings between two builds by the draws of both."""
        values_by_draws: dict[tuple[int, int], tuple[float, ...]] = {}
        for place in np.flatnonzero((self.base == base) & (self.head == head)):
            of_base, of_head = self.draws[place].tolist() if self.draws.size else (0, 0)
            draws = (of_base, of_head)
            values_by_draws[draws] = (*values_by_draws.get(draws, ()), float(self.values[place]))
        return values_by_draws


@lru_cache(maxsize=1)
def sigma_prior() -> Floats:
    """Return the log-prior over :data:`SIGMAS`: σ² is scaled inverse χ²."""
    logs = -PRIOR_DF * (np.log(SIGMAS) + (PRIOR_SIGMA / SIGMAS) ** 2 / 2)
    return _constant(logs - np.log(np.exp(logs - logs.max()).sum()) - logs.max())


def log_density(errors: Floats, sigmas: Floats) -> Floats:
    """Return the log-density of reading errors; the two arguments are broadcast.

    It is a mixture of Student's t and, for outliers, a broad Laplace distribution.
    """
    scaled = 1 + (errors / sigmas) ** 2 / ERROR_DF
    usual = _T4 / (scaled**2 * np.sqrt(scaled)) / sigmas  # (ERROR_DF + 1)/2 is 2.5
    anything = np.exp(-np.abs(errors) / SPOILED_SCALE) / (2 * SPOILED_SCALE)
    return np.asarray(np.log((1 - SPOILED) * usual + SPOILED * anything))


def _constant(values: Floats) -> Floats:
    """Make a cached array read-only."""
    constant = np.asarray(values)
    constant.flags.writeable = False
    return constant


TOO_SMALL = 1e-280
"""Probabilities below this make no difference, but arithmetic below 1e-307 is a hundred times slower."""


def without_traces(probabilities: Floats) -> Floats:
    """Set probabilities below :data:`TOO_SMALL` to 0, in place."""
    probabilities[probabilities < TOO_SMALL] = 0.0
    return probabilities


def log_likelihood(values: Floats, levels: Floats) -> Floats:
    """Return the log-likelihood of independent readings for each scale and level, (scales, levels)."""
    errors = values[:, np.newaxis, np.newaxis] - levels
    return np.asarray(log_density(errors, SIGMAS[:, np.newaxis]).sum(axis=0))


TAU_COUNT = 6
"""Number of candidate values of τ."""
MAX_USUAL_TAU = 0.02
"""Largest candidate of τ, unless it is known to be larger: builds of compiled C++ differ by up to 1.5%."""
LARGE_TAU = 0.015
"""τ of the compiled code that luck moves most: builds have offsets of 0.5 to 1.5%."""
FINER = 3
"""Steps per level of the finer grid on which offsets are summed over."""
_LEAST = 1e-150


@lru_cache(maxsize=64)
def taus(luck: float) -> Floats:
    """Return the candidates of τ, ascending, if ``luck`` is expected; only 0 if ``luck`` is 0."""
    return _constant(np.geomspace(luck / 3, max(MAX_USUAL_TAU, 4 * luck), TAU_COUNT) if luck else np.zeros(1))


@lru_cache(maxsize=64)
def tau_prior(luck: float) -> Floats:
    """Return the log-prior over :func:`taus`.

    It is half-Cauchy with scale ``luck``, whose heavy tail does not rule out unusually large values (Gelman, *Bayesian
    Analysis* 1, 2006).
    """
    values = taus(luck)
    weights = values / (1 + (values / luck) ** 2) if luck else np.ones(1)
    return _constant(np.log(weights / weights.sum()))


def offset_kernels(levels: Floats, offsets: Floats, spreads: Floats) -> Floats:
    """Return the probability of each offset for builds of each level, (spreads, offsets, levels); each sums to 1."""
    distance = offsets[:, np.newaxis] - levels
    nearest = np.argmin(np.abs(distance), axis=0)
    kernels = np.empty((spreads.size, offsets.size, levels.size))
    for number, spread in enumerate(spreads):
        kernels[number] = np.exp(-0.5 * (distance / max(spread, 1e-12)) ** 2)
    # If a spread is far below the grid's step, the nearest grid point gets all of the probability.
    kernels[:, nearest, np.arange(levels.size)] = np.maximum(
        kernels[:, nearest, np.arange(levels.size)], 1e-9
    )
    return without_traces(np.asarray(kernels / kernels.sum(axis=1, keepdims=True)))


@lru_cache(maxsize=64)
def _fine(first: int, count: int, step: float, luck: float, builds: int) -> tuple[Floats, Floats]:
    """Return the finer grid, and the kernels from levels to grid points for each τ, (points, taus·levels)."""
    spreads = taus(luck) * math.sqrt(builds)
    beyond = int(np.ceil(4 * spreads[-1] / step)) * FINER
    whole = np.arange(first * FINER - beyond, (first + count - 1) * FINER + beyond + 1)
    places: Floats = np.asarray(whole * (step / FINER), np.float64)
    levels = np.asarray(np.arange(first, first + count) * step, np.float64)
    kernels = offset_kernels(levels, places, np.asarray(spreads, np.float64))
    return places, np.ascontiguousarray(kernels.swapaxes(0, 1).reshape(places.size, -1))


@lru_cache(maxsize=4096)
def block_log_likelihood(
    values: tuple[float, ...], levels: tuple[int, int, float], luck: float, builds: int
) -> Floats:
    """Return the log-likelihood of readings that share the offsets of one or two ``builds``, (taus, sigmas, levels).

    ``levels`` are the first level (in steps), their number, and the step.
    """
    first, count, step = levels
    if not luck:
        grid = np.asarray(np.arange(first, first + count) * step, np.float64)
        return _constant(log_likelihood(np.array(values), grid)[np.newaxis])
    places, kernel = _fine(first, count, step, luck, builds)
    logs = log_likelihood(np.array(values), places)
    most = logs.max(axis=-1, keepdims=True)
    summed = small_product(np.exp(logs - most), kernel).reshape(SIGMAS.size, -1, count).swapaxes(0, 1)
    return _constant(np.log(np.maximum(summed, _LEAST)) + most)


USUAL_TAU = 0.003
"""Prior median of τ; a third to three times as much is common, and 0.5 to 1.5% for compiled C++."""
UNSURE, ALIKE = 0.75, 0.5
"""Prior standard deviation of ln τ between kinds of series, and between series of one kind. So one in forty is above
1.75%, and a series tells something about others of its kind."""
TRIM, TRIMMED = 2.5, 0.9113
"""Differences beyond this many standard deviations are dropped as steps and spikes; the second number is the share of
the variance that this leaves of normal noise."""
EFFICIENCY = 0.45
"""Degrees of freedom per difference of successive runs: less than one, since each run is in two differences."""
MIN_TAU, MAX_TAU = 1e-4, 0.05
"""Range of τ."""
TAUS: Floats = np.geomspace(MIN_TAU, MAX_TAU, 48)
_SIGMAS: Floats = np.geomspace(3e-4, 0.5, 120)


def most_luck(alpha: float) -> float:
    """Return the change of a case, on the log scale, that one build of each of two commits may show by luck alone.

    If its τ is :data:`LARGE_TAU`, a larger one in a given direction has the probability ``alpha``.
    """
    return NormalDist(0.0, LARGE_TAU * math.sqrt(2)).inv_cdf(1 - alpha)


@dataclass(frozen=True)
class TauEstimate:
    """The posterior of a series' τ: a probability for each of :data:`TAUS`."""

    shares: Floats

    @property
    def tau(self) -> float:
        """The posterior median."""
        return self.quantile(0.5)

    def quantile(self, share: float) -> float:
        """Return the value that τ is below with this probability."""
        return float(np.exp(np.interp(share, self.shares.cumsum() - self.shares / 2, np.log(TAUS))))

    def chance(self, change: float, builds: tuple[int, int]) -> float:
        """Return the probability that luck alone makes a change at least as large, in the same direction.

        ``change`` is on the log scale, between the means of as many old and new builds as ``builds`` says.
        """
        share = sum(1 / number for number in builds)
        return float(self.shares @ tail_probability(abs(change) / (TAUS * np.sqrt(share))))


def estimate_tau(values: Floats, builds: Ints) -> Sequence[TauEstimate]:
    """Estimate τ for each of several series of one kind.

    ``values`` (log scale) and ``builds``, both (series, runs), are oldest first, with NaN and -1 where there is none.
    Runs must share nothing but their build, so pass only one run of each session. The likelihood of the two spreads of
    a series is that of χ² distributions with the best-fitting σ; with one run per build it only bounds τ, and says
    nothing about other series. What series tell about each other counts less the more their deviations are correlated.
    """
    if not len(values):
        return []
    differences, is_same = _successive(values, builds)
    likelihoods = _likelihoods(differences, is_same)
    kinship = _bell(np.log(TAUS)[:, np.newaxis] - np.log(TAUS), ALIKE)
    kinship /= kinship.sum(axis=1, keepdims=True)
    has_both = is_same.any(axis=1, keepdims=True)
    of_kind = np.where(has_both, np.log(likelihoods @ kinship.T), 0.0)
    others = _weight(differences) * (of_kind.sum(axis=0) - of_kind) + np.log(
        _bell(np.log(TAUS / USUAL_TAU), UNSURE)
    )
    beforehand = np.exp(others - others.max(axis=1, keepdims=True)) @ kinship
    shares = likelihoods * beforehand
    return [TauEstimate(posterior) for posterior in shares / shares.sum(axis=1, keepdims=True)]


def _likelihoods(differences: Floats, is_same: Flags) -> Floats:
    """Return the likelihood of each τ for each series, scaled to a maximum of 1, (series, taus)."""
    between, of_between = _variance(np.where(is_same, np.nan, differences))
    within, of_within = _variance(np.where(is_same, differences, np.nan))
    logs = np.full((len(differences), TAUS.size), -np.inf)
    for sigma in _SIGMAS:
        of_noise = _log_density(within, of_within, np.array([sigma**2]))
        logs = np.maximum(logs, of_noise + _log_density(between, of_between, sigma**2 + TAUS**2))
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _successive(values: Floats, builds: Ints) -> tuple[Floats, Flags]:
    """Return the difference of each run to the previous one, else NaN, and whether both are of the same build."""
    known = ~np.isnan(values) & (builds >= 0)
    places = np.where(known, np.arange(values.shape[1]), 0)
    before = np.maximum.accumulate(places, axis=1)[:, :-1]
    rows = np.arange(len(values))[:, np.newaxis]
    has_both = known[:, 1:] & known[rows, before]
    differences = np.where(has_both, values[:, 1:] - values[rows, before], np.nan)
    return differences, has_both & (builds[:, 1:] == builds[rows, before])


def _variance(differences: Floats) -> tuple[Floats, Floats]:
    """Estimate the variance of a run from differences, (series, differences); return it and its degrees of freedom."""
    known = ~np.isnan(differences)
    sigma = np.zeros(len(differences))
    some = known.any(axis=1)
    sigma[some] = robust_scale(np.abs(differences[some]))
    kept = np.abs(differences) <= TRIM * sigma[:, np.newaxis]
    squares = np.where(kept, differences, 0.0) ** 2
    variance = squares.sum(axis=1) / np.maximum(kept.sum(axis=1), 1) / TRIMMED / 2
    return np.maximum(variance, FLOOR**2)[:, np.newaxis], EFFICIENCY * known.sum(axis=1, keepdims=True)


def _log_density(variance: Floats, freedom: Floats, true: Floats) -> Floats:
    """Return the log-density of an estimated ``variance``, up to terms that do not depend on the ``true`` one."""
    return np.asarray(-freedom / 2 * (np.log(true) + variance / true))


def _weight(differences: Floats) -> float:
    """Return the weight of other series: if differences have a mean correlation r, their variances have r²."""
    sigma = np.sqrt(2 * _variance(differences)[0])
    scores = np.nan_to_num(np.clip(differences / sigma, -TRIM, TRIM))
    squares, series = (scores**2).sum(), len(scores)
    shared = (scores.sum(axis=0) ** 2).sum() - squares
    alike = max(0.0, shared / max(squares, 1e-9) / max(series - 1, 1)) ** 2
    return float((1 - alike) / (1 + (series - 1) * alike))


def _bell(distance: Floats, scale: float) -> Floats:
    return np.asarray(np.exp(-0.5 * (distance / scale) ** 2))
