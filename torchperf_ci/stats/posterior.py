"""The posterior of which commit is the culprit, and the build that is most informative to read next.

Several series with one cause are weighed together; series of the same pairs count by what each adds to the others.

The information of a reading is its mutual information with whether the culprit lies before or after the build
(Lindley, *Annals of Mathematical Statistics* 27, 1956); a build that has yet to be made is valued by what several
readings of it would tell. Further readings of one build tell less and less, because its offset stays (see
:mod:`torchperf_ci.stats.build_variance`): another build of the same commit may tell more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.build_variance import ERROR_DF, Readings, log_density, offset_kernels
from torchperf_ci.stats.level_grid import SLOW_SHARE, level_grid, small_product
from torchperf_ci.stats.level_paths import WeighedSeries, chance_later_is_slower, weigh_levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.stats import Floats, Places


BELIEVED = 0.7
"""Prior correlation between series of the same pairs."""
BELIEF = 2.0
"""Weight of that prior, in pairs."""


def evidence_worths(series: Sequence[Readings]) -> Floats:
    """Return the exponent of each series' likelihood, shape (series,), in (0, 1].

    Series of the same pairs count ``1/(1 + ∑ r)`` each, where ``r`` are their correlations with the others: the design
    effect of a cluster (Kish, *Survey Sampling*, 1965, §5.4), since two metrics of one case share the luck of its
    processes. Series of different pairs share nothing, and those of which some pairs are the same, as much less.
    """
    shared = np.array(
        [[_correlation(one, other) if one is not other else 1.0 for other in series] for one in series]
    )
    return np.asarray(1 / np.maximum(shared, 0.0).sum(axis=1))


def _correlation(one: Readings, other: Readings) -> float:
    """Return the correlation of the pairs' deviations from the mean of their builds, shrunk towards the prior.

    It is that of the pairs that both series have, times their share of those of ``one``.
    """
    _, mine, others = np.intersect1d(one.pairs, other.pairs, assume_unique=True, return_indices=True)
    if not mine.size:
        return 0.0
    share = mine.size / one.values.size
    values, base, head = (one.values[mine], other.values[others]), one.base[mine], one.head[mine]
    if np.allclose(*values, rtol=1e-6, atol=1e-9):
        return share
    _, group, counts = np.unique(base * (head.max() + 1) + head, return_inverse=True, return_counts=True)
    first, second = (each - np.bincount(group, each)[group] / counts[group] for each in values)
    squares = float(np.sqrt((first @ first) * (second @ second)))
    pairs = float((counts - 1).sum())
    correlation = float(first @ second) / squares if squares else BELIEVED
    return share * (pairs * correlation + BELIEF * BELIEVED) / (pairs + BELIEF)


EXPECTED_CHANGES = 0.5
"""Expected number of commits that change a series by more than matters, in a range in which it is said to have got
worse."""
LEAST = 1e-12
"""The least probability of a gap, from which it rises again if what seemed all but certain is refuted."""


@dataclass(frozen=True)
class Posterior:
    """The suspects of a range of n commits, positions 1..n, after some readings.

    ``suspects`` (n,) are their probabilities, ``none`` is the probability that the last build is not slow at all.
    ``tested`` are the positions of the K + 1 builds that were read, ``gaps`` (K,) the total probabilities of the
    suspects between each of them and the next, ``series`` the posterior of each series alone. ``one_cause`` is the
    logarithm of how many times likelier the readings are with one culprit for all series than with one for each.
    """

    suspects: Floats
    none: float
    tested: Places
    gaps: Floats
    series: Sequence[WeighedSeries]
    one_cause: float

    def credible(self, share: float = 0.95) -> list[int]:
        """Return the smallest credible set: positions, ascending, that hold ``share`` of the probability.

        If all suspects together hold less, it is all of them.
        """
        order = np.argsort(-self.suspects, kind="stable")
        enough = int(np.searchsorted(np.cumsum(self.suspects[order]), share - 1e-12)) + 1
        return sorted(int(position) + 1 for position in order[:enough])


def posterior(
    weights: Floats, readings: Sequence[Readings], min_effect: float, slow_share: float = SLOW_SHARE
) -> Posterior:
    """Compute the posterior of the suspects.

    ``weights`` (n,), which sum to 1, are the prior probabilities of the commits. ``readings`` are those of each series,
    with bases and heads given by position. Those count whose base is position 0, or the build before its head among all
    that were tested. ``min_effect`` is the smallest relative change that matters, ``slow_share`` the least share of the
    whole change that a slow build has.
    """
    delta = math.log1p(min_effect)
    tested, shares, chances = _gaps(weights, readings)
    series = [
        _weighed(
            tuple(chances.tolist()), _placed(tested, item), slow_share * _whole(item, weights.size), delta
        )
        for item in readings
    ]
    worth = evidence_worths(readings)
    together, one_cause = _together(series, chances, delta, worth)
    gaps, none = np.maximum(together[:-1], LEAST), float(together[-1])
    inside = np.repeat(gaps / shares, np.diff(tested))
    return Posterior(weights * inside, none, tested, gaps, series, one_cause)


def chance_of_rise(weights: Floats, readings: Readings, min_effect: float, part: tuple[int, int]) -> float:
    """Return the probability that the second position of ``part`` is slower by at least half of ``min_effect``.

    Both positions must be tested; the other arguments are as for :func:`posterior`, with the readings of one series.
    """
    tested, _, chances = _gaps(weights, [readings])
    first, last = (int(np.searchsorted(tested, position)) for position in part)
    return _chance_of_rise(
        tuple(chances.tolist()), _placed(tested, readings), math.log1p(min_effect), first, last
    )


@lru_cache(maxsize=64)
def _chance_of_rise(
    chances: tuple[float, ...], readings: Readings, delta: float, first: int, last: int
) -> float:
    """Cached, because most new pairs are of other parts of the range."""
    grid = level_grid(readings.values, delta)
    return chance_later_is_slower(np.array(chances), readings, grid, delta, first, last)


def _gaps(weights: Floats, readings: Sequence[Readings]) -> tuple[Places, Floats, Floats]:
    """Return the tested positions, and of each gap between them its weight and the chance that anything changed."""
    ends = np.array([0, weights.size])
    tested = np.unique(
        np.concatenate([ends, *(side for item in readings for side in (item.base, item.head))])
    )
    shares = np.add.reduceat(weights, tested[:-1])
    return tested, shares, -np.expm1(-EXPECTED_CHANGES * shares)


@lru_cache(maxsize=64)
def _weighed(chances: tuple[float, ...], readings: Readings, slow: float, delta: float) -> WeighedSeries:
    """Weigh one series alone. Cached, because it is needed again with every other series that may share its cause."""
    return weigh_levels(np.array(chances), readings, level_grid(readings.values, delta, slow), delta)


def _whole(readings: Readings, last: int) -> float:
    """Estimate the change from the first build to the last one from pairs of these two; 0 if there are none."""
    ends = readings.values[(readings.base == 0) & (readings.head == last)]
    return float(np.median(ends)) if ends.size else 0.0


def _placed(tested: Places, readings: Readings) -> Readings:
    """Return the readings that count, with the numbers of the tested builds instead of their positions."""
    base, head = (np.searchsorted(tested, side) for side in (readings.base, readings.head))
    kept = (base == 0) | (head == base + 1)
    draws = readings.draws[kept] if readings.draws.size else readings.draws
    return Readings(base[kept], head[kept], readings.values[kept], draws, readings.luck)


def _together(
    series: Sequence[WeighedSeries], chances: Floats, delta: float, worth: Floats
) -> tuple[Floats, float]:
    """Return the probabilities of the gaps and of none, (K + 1,), and the logarithm of their sum before scaling."""
    if len(series) == 1:
        return _hypotheses(series[0]), 0.0
    nothing = Readings(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0))
    prior = np.array([_hypotheses(weigh_levels(chances, nothing, weighed.grid, delta)) for weighed in series])
    logs = np.log(prior[0]) + worth @ (np.log([_hypotheses(weighed) for weighed in series]) - np.log(prior))
    total = logs.max() + np.log(np.exp(logs - logs.max()).sum())
    return np.exp(logs - total), float(total)


def _hypotheses(one: WeighedSeries) -> Floats:
    return np.asarray(np.maximum(np.append(one.gaps, one.none), np.finfo(np.float64).tiny))


def capacity(distance: float) -> float:
    """Return the information, in bits, of one reading if the two levels are ``distance`` standard deviations apart.

    This is the capacity of a Gaussian channel with binary input: 1 − E log₂(1 + exp(−L)), where the log-likelihood
    ratio L is normal with mean d²/2 and variance d² (Burnashev & Zigangirov, *Problems of Information Transmission* 10,
    1974).
    """
    d = round(max(distance, 0.0), 2)
    z = np.linspace(-12, 12, 4801)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    lost = np.logaddexp(0, -(d**2 / 2 + d * z)) / math.log(2)
    return 1 - float((density * lost).sum() * (z[1] - z[0]))


REPEATS = (1, 2, 4)
"""Numbers of readings in a row for which the information of a build is computed."""
PER_GAP = 9
"""Most builds of a gap that are considered; information is a smooth and concave function of the position."""
HOPE = 1 / 16
"""Smallest chance that a commit among others that could not be built can be."""
MIN_BITS = 1e-3
"""A reading that is expected to tell fewer bits counts as uninformative."""


@dataclass(frozen=True)
class Price:
    """The costs of reading each of the n + 1 builds, all in one unit.

    ``reading`` is the cost of one reading, ``build`` (n + 1,) that of making the build, 0 if it exists. ``chance``
    (n + 1,) is the probability that the commit can be built; 0 rules it out. ``again`` is the cost of rebuilding an
    existing build, infinite if that is impossible.
    """

    reading: float
    build: Floats
    chance: Floats
    again: float = math.inf


@dataclass(frozen=True)
class ProbeChoice:
    """The position to read next, the bits it is expected to tell per unit of cost, and whether to rebuild it."""

    position: int
    rate: float
    anew: bool = False


@dataclass(frozen=True)
class _Place:
    """A candidate position, and the tested builds from which its level before and after the culprit is known.

    ``tested`` is the number of the tested build, if the position has one.
    """

    position: int
    before: int
    after: int
    tested: int | None
    anew: bool = False


def most_informative(posterior: Posterior, series: int, price: Price) -> ProbeChoice | None:
    """Return the build to read next, judged by one of the posterior's series; None if no reading is informative."""
    weighed = posterior.series[series]
    places = _places(posterior, price.chance, anew=weighed.tau > 0 and math.isfinite(price.again))
    if not places:
        return None
    positions = np.array([place.position for place in places])
    later = np.clip(np.cumsum(np.append(0.0, posterior.suspects))[positions], 0.0, 1.0)
    bits = _bits(weighed, later, places)
    build = np.where([place.anew for place in places], price.again, price.build[positions])
    chance = price.chance[positions]
    gained = bits * chance
    rates = gained / (build + chance * price.reading * np.array(REPEATS)[:, np.newaxis])
    rates[:, gained.max(axis=0) < MIN_BITS] = 0.0
    best = int(rates.max(axis=0).argmax())
    if not rates[:, best].any():
        return None
    return ProbeChoice(places[best].position, float(rates[:, best].max()), places[best].anew)


def chances_to_build(count: int, built: Sequence[int], failed: Sequence[int]) -> Floats:
    """Return the probability that each of the positions 0..count can be built, shape (count + 1,).

    ``built`` are positions that could be built, ``failed`` those that could not. What broke one commit often breaks its
    neighbors: next to a failed one the chance is one half, and what is missing to 1 halves with each step away. Where
    several in a row have failed the steps are as wide as the row, and an untried position within the row has a chance
    of one half that halves with each failure after the second, down to ``HOPE``.
    """
    chance = np.ones(count + 1)
    places, walls = np.arange(count + 1), np.array([-1, *sorted(built), count + 1])
    for left, right in pairwise(walls):
        row = [position for position in failed if left < position < right]
        if row:
            distance = np.maximum(np.maximum(min(row) - places, places - max(row)), 0)
            unsure = -np.expm1(-np.log(2) * distance / (1 + max(row) - min(row)))
            inside = (places > left) & (places < right)
            chance[inside] = unsure[inside]
            inside &= (places >= min(row)) & (places <= max(row))
            chance[inside] = max(0.5 ** (len(row) - 1), HOPE)
    chance[list(failed)] = 0.0
    chance[list(built)] = 1.0
    return chance


def _places(posterior: Posterior, chance: Floats, *, anew: bool) -> list[_Place]:
    tested = [(int(position), k) for k, position in enumerate(posterior.tested) if k and chance[position]]
    places = [_Place(position, k, k, k) for position, k in tested]
    if anew:
        places += [_Place(position, k, k, k, anew=True) for position, k in tested]
    for k, (left, right) in enumerate(pairwise(posterior.tested)):
        inside = left + 1 + np.flatnonzero(chance[left + 1 : right])
        if inside.size > PER_GAP:
            inside = inside[np.unique(np.linspace(0, inside.size - 1, PER_GAP).round().astype(int))]
        places += [_Place(int(position), k, k + 1, None) for position in inside]
    return places


def _bits(series: WeighedSeries, later: Floats, places: Sequence[_Place]) -> Floats:
    """Return the expected bits for each of :data:`REPEATS` readings of each place, shape (repeats, places).

    ``later`` is the probability that the place is slow.
    """
    before = _normalised(series.before[[place.before for place in places]])
    after = _normalised(series.after[[place.after for place in places]])
    if series.tau:
        lie = _kernels(series, places)
        before, after = (np.einsum("pl,pul->pu", side, lie) for side in (before, after))
    return np.array(
        [_mutual_information(later, *_read(series, repeats, before, after)) for repeats in REPEATS]
    )


def _kernels(series: WeighedSeries, places: Sequence[_Place]) -> Floats:
    """Return the distribution of a build's own level given its commit's level: (places, levels, levels).

    It sums to 1 over the build's levels. For a build that was read before, it takes those readings into account.
    """
    levels = series.grid.levels
    usual = offset_kernels(levels, levels, np.array([series.tau]))[0]
    kernels = np.repeat(usual[np.newaxis], len(places), axis=0)
    for number, place in enumerate(places):
        if place.tested is not None and not place.anew and (values := series.latest.get(place.tested)):
            logs = log_density(np.array(values)[:, np.newaxis] - levels, np.array(series.sigma)).sum(axis=0)
            joint = usual * np.exp(logs - logs.max())[:, np.newaxis]
            kernels[number] = joint / np.maximum(joint.sum(axis=0), np.finfo(np.float64).tiny)
    return kernels


def _normalised(joint: Floats) -> Floats:
    total = joint.sum(axis=1, keepdims=True)
    uniform = np.full_like(joint, 1 / joint.shape[1])
    return np.asarray(np.divide(joint, total, out=uniform, where=total > 0))


def _read(series: WeighedSeries, repeats: int, before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return the distributions of the mean of ``repeats`` readings, given those of the build's level."""
    levels, step = series.grid.levels, series.grid.step
    sigma = max(series.sigma / np.sqrt(repeats), step / 4)
    values = np.arange(levels[0] - 4 * sigma, levels[-1] + 4 * sigma, sigma / 2)
    density = (1 + ((values - levels[:, np.newaxis]) / sigma) ** 2 / ERROR_DF) ** (-(ERROR_DF + 1) / 2)
    density /= density.sum(axis=1, keepdims=True)
    return small_product(before, density), small_product(after, density)


def _mutual_information(later: Floats, before: Floats, after: Floats) -> Floats:
    """Return the mutual information in bits of rows of distributions, where ``later`` is the weight of ``after``."""
    weight = later[:, np.newaxis]
    mixed = (1 - weight) * before + weight * after
    tiny = np.finfo(np.float64).tiny
    bits = (1 - weight) * before * np.log2(np.maximum(before, tiny) / np.maximum(mixed, tiny))
    bits += weight * after * np.log2(np.maximum(after, tiny) / np.maximum(mixed, tiny))
    return np.asarray(bits.sum(axis=1))
