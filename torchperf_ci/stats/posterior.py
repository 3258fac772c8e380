"""Which commit did it, and which build is worth reading next?

Several series of one cause are weighed together, those of the same pairs by what each adds to the others.

What is told is the mutual information of the reading and of whether the culprit lies before or after the build
(Lindley, *Annals of Mathematical Statistics* 27, 1956); a build that has still to be made is worth what several
readings of it would tell. More readings of one build tell less and less, for its offset stays (see
:mod:`torchperf_ci.stats.build_variance`): another build of the same commit may tell more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.build_variance import ERROR_DF, Readings, log_density, offset_kernels
from torchperf_ci.stats.level_grid import SLOW_SHARE, level_grid
from torchperf_ci.stats.level_paths import WeighedSeries, chance_later_is_slower, weigh_levels
from torchperf_ci.stats.small_products import small_product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]


BELIEVED = 0.7
"""The correlation that series of the same pairs are believed to have beforehand."""
BELIEF = 2.0
"""How many pairs that belief is worth."""


def evidence_worths(series: Sequence[tuple[Places, Places, Floats]]) -> Floats:
    """The exponent of each series' likelihood, shape (series,), in (0, 1].

    ``series`` are positions of base and head and log-ratios, of equal length. Those of the same pairs are worth
    ``1/(1 + ∑ r)`` each, with their correlations ``r`` with the others: the design effect of a cluster (Kish, *Survey
    Sampling*, 1965, §5.4): two metrics of one case share the luck of its processes. Of others nothing is shared.
    """
    shared = np.array(
        [[_correlation(one, other) if one is not other else 1.0 for other in series] for one in series]
    )
    return np.asarray(1 / np.maximum(shared, 0.0).sum(axis=1))


def _correlation(one: tuple[Places, Places, Floats], other: tuple[Places, Places, Floats]) -> float:
    """That of the deviations of pairs of the same builds from their mean, drawn towards what is believed."""
    if not (np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])):
        return 0.0
    if np.allclose(one[2], other[2], rtol=1e-6, atol=1e-9):
        return 1.0
    _, group, counts = np.unique(np.stack(one[:2]), axis=1, return_inverse=True, return_counts=True)
    group = group.ravel()
    first, second = (
        values - np.bincount(group, values)[group] / counts[group] for values in (one[2], other[2])
    )
    squares = float(np.sqrt((first @ first) * (second @ second)))
    pairs = float((counts - 1).sum())
    found = float(first @ second) / squares if squares else BELIEVED
    return (pairs * found + BELIEF * BELIEVED) / (pairs + BELIEF)


EXPECTED_CHANGES = 0.5
"""Commits of a range that change a series by more than matters, of which somebody says that it got worse."""


@dataclass(frozen=True)
class Posterior:
    """The suspects of a range of n commits, positions 1..n, after some readings.

    ``suspects`` (n,) are their probabilities, ``none`` the one that the last build is not slow at all. ``tested`` are
    the positions of the K + 1 builds that were read, ``gaps`` (K,) the probabilities of the suspects between each and
    the next together, ``series`` what each series alone says. ``one_cause`` is ln of how much likelier the readings are
    with one culprit for all series than with one for each.
    """

    suspects: Floats
    none: float
    tested: NDArray[np.intp]
    gaps: Floats
    series: Sequence[WeighedSeries]
    one_cause: float

    def credible(self, share: float = 0.95) -> list[int]:
        """Positions of the fewest suspects that hold ``share`` of the probability, ascending; all, if they do not."""
        order = np.argsort(-self.suspects, kind="stable")
        enough = int(np.searchsorted(np.cumsum(self.suspects[order]), share - 1e-12)) + 1
        return sorted(int(position) + 1 for position in order[:enough])


def posterior(
    weights: Floats, readings: Sequence[Readings], min_effect: float, slow_share: float = SLOW_SHARE
) -> Posterior:
    """Weigh the suspects.

    ``weights`` (n,) sums to 1: how suspect each commit is beforehand. ``readings`` are those of each series, of bases
    and heads by their positions. A base is position 0, or the last tested one before its head. ``min_effect`` is the
    smallest relative change that matters, ``slow_share`` the part of the whole change that a slow build has at least.
    """
    delta = math.log1p(min_effect)
    tested, shares, chances = _gaps(weights, readings)
    series = [
        _weighed(
            tuple(chances.tolist()), _placed(tested, item), slow_share * _whole(item, weights.size), delta
        )
        for item in readings
    ]
    worth = evidence_worths([(item.base, item.head, item.values) for item in readings])
    together, one_cause = _together(series, chances, delta, worth)
    gaps, none = together[:-1], float(together[-1])
    inside = np.repeat(gaps / shares, np.diff(tested))
    return Posterior(weights * inside, none, tested, gaps, series, one_cause)


def chance_of_rise(weights: Floats, readings: Readings, min_effect: float, part: tuple[int, int]) -> float:
    """The probability that of two positions the second is slower than the first by half of ``min_effect`` or more.

    Both must be tested; the arguments are as for :func:`posterior`, with the readings of one series.
    """
    delta = math.log1p(min_effect)
    tested, _, chances = _gaps(weights, [readings])
    first, last = (int(np.searchsorted(tested, position)) for position in part)
    return chance_later_is_slower(
        chances, _placed(tested, readings), level_grid(readings.values, delta), delta, first, last
    )


def _gaps(weights: Floats, readings: Sequence[Readings]) -> tuple[NDArray[np.intp], Floats, Floats]:
    """The tested positions, and of the gaps between them the weight and the chance that anything changed there."""
    ends = np.array([0, weights.size])
    tested = np.unique(
        np.concatenate([ends, *(side for item in readings for side in (item.base, item.head))])
    )
    shares = np.add.reduceat(weights, tested[:-1])
    return tested, shares, -np.expm1(-EXPECTED_CHANGES * shares)


@lru_cache(maxsize=64)
def _weighed(chances: tuple[float, ...], readings: Readings, slow: float, delta: float) -> WeighedSeries:
    """One series alone, which is asked for again with each other one that may have the same cause."""
    return weigh_levels(np.array(chances), readings, level_grid(readings.values, delta, slow), delta)


def _whole(readings: Readings, last: int) -> float:
    """The change from the first build to the last one, as far as pairs of just these two tell."""
    ends = readings.values[(readings.base == 0) & (readings.head == last)]
    return float(np.median(ends)) if ends.size else 0.0


def _placed(tested: NDArray[np.intp], readings: Readings) -> Readings:
    base, head = (np.searchsorted(tested, side) for side in (readings.base, readings.head))
    return replace(readings, base=base, head=head)


def _together(
    series: Sequence[WeighedSeries], chances: Floats, delta: float, worth: Floats
) -> tuple[Floats, float]:
    """The probabilities of the gaps and of none, (K + 1,), and the logarithm of what they summed to before."""
    if len(series) == 1:
        return _hypotheses(series[0]), 0.0
    nothing = Readings(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0))
    prior = np.array([_hypotheses(weigh_levels(chances, nothing, one.grid, delta)) for one in series])
    logs = np.log(prior[0]) + worth @ (np.log([_hypotheses(one) for one in series]) - np.log(prior))
    total = logs.max() + np.log(np.exp(logs - logs.max()).sum())
    return np.exp(logs - total), float(total)


def _hypotheses(one: WeighedSeries) -> Floats:
    return np.asarray(np.maximum(np.append(one.gaps, one.none), np.finfo(np.float64).tiny))


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


REPEATS = (1, 2, 4)
"""How many readings of a build may be meant to be taken in a row."""
PER_GAP = 9
"""Builds of a gap that are looked at: information is a smooth and concave function of the place."""
HOPE = 1 / 16
"""The chance to build what lies among commits that could not be built."""
LEAST_BITS = 1e-3
"""Bits; a reading that is expected to tell less tells nothing."""


@dataclass(frozen=True)
class Price:
    """What it takes to read each of the n + 1 builds, all of shape (n + 1,) but ``reading``, in one unit.

    ``build`` is 0 for those that are there already. ``chance`` is that of getting a build at all; 0 rules it out.
    ``again`` is what it takes to build anew what is there; infinite where that cannot be done.
    """

    reading: float
    build: Floats
    chance: Floats
    again: float = math.inf


@dataclass(frozen=True)
class ProbeChoice:
    """A position, the bits that it is expected to tell per unit of the price, and whether it is to be built anew."""

    position: int
    rate: float
    anew: bool = False


@dataclass(frozen=True)
class _Place:
    """A position to look at, and the tested builds that its level before and after the culprit is known from.

    ``tested`` is the number of the build, if it is one that is there.
    """

    position: int
    before: int
    after: int
    tested: int | None
    anew: bool = False


def most_informative(found: Posterior, series: int, price: Price) -> ProbeChoice | None:
    """The build to read next, judged by one of the posterior's series; None where no reading would tell anything."""
    one = found.series[series]
    places = _places(found, price.chance, anew=one.tau > 0 and math.isfinite(price.again))
    if not places:
        return None
    positions = np.array([place.position for place in places])
    later = np.clip(np.cumsum(np.append(0.0, found.suspects))[positions], 0.0, 1.0)
    bits = _bits(one, later, places)
    build = np.where([place.anew for place in places], price.again, price.build[positions])
    chance = price.chance[positions]
    told = bits * chance
    rates = told / (build + chance * price.reading * np.array(REPEATS)[:, np.newaxis])
    rates[:, told.max(axis=0) < LEAST_BITS] = 0.0
    best = int(rates.max(axis=0).argmax())
    if not rates[:, best].any():
        return None
    return ProbeChoice(places[best].position, float(rates[:, best].max()), places[best].anew)


def chances_to_build(count: int, built: Sequence[int], failed: Sequence[int]) -> Floats:
    """How likely each of the positions 0..count can be built, where some could and some could not; shape (count + 1,).

    What broke one commit often breaks its neighbours: next to a failed one the chance is one half, and it halves what
    is missing with each step away. Where several in a row have failed the steps are as wide as the row, and what was
    not tried within it has a chance of one half that halves with each failure after the second, down to ``HOPE``.
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


def _places(found: Posterior, chance: Floats, *, anew: bool) -> list[_Place]:
    tested = [(int(position), k) for k, position in enumerate(found.tested) if k and chance[position]]
    places = [_Place(position, k, k, k) for position, k in tested]
    if anew:
        places += [_Place(position, k, k, k, anew=True) for position, k in tested]
    for k, (left, right) in enumerate(pairwise(found.tested)):
        inside = left + 1 + np.flatnonzero(chance[left + 1 : right])
        if inside.size > PER_GAP:
            inside = inside[np.unique(np.linspace(0, inside.size - 1, PER_GAP).round().astype(int))]
        places += [_Place(int(position), k, k + 1, None) for position in inside]
    return places


def _bits(one: WeighedSeries, later: Floats, places: Sequence[_Place]) -> Floats:
    """Expected bits of 1, 2, … readings of each place, shape (repeats, places); ``later`` is P(slow there)."""
    before = _normalised(one.before[[place.before for place in places]])
    after = _normalised(one.after[[place.after for place in places]])
    if one.tau:
        lie = _kernels(one, places)
        before, after = (np.einsum("pl,pul->pu", side, lie) for side in (before, after))
    return np.array([_mutual_information(later, *_read(one, repeats, before, after)) for repeats in REPEATS])


def _kernels(one: WeighedSeries, places: Sequence[_Place]) -> Floats:
    """Where the build that would be read lies, given its commit's level: (places, levels, levels); sums are 1.

    One that was read before is known to lie where its readings were.
    """
    levels = one.grid.levels
    usual = offset_kernels(levels, levels, np.array([one.tau]))[0]
    found = np.repeat(usual[np.newaxis], len(places), axis=0)
    for number, place in enumerate(places):
        if place.tested is not None and not place.anew and (values := one.latest.get(place.tested)):
            logs = log_density(np.array(values)[:, np.newaxis] - levels, np.array(one.sigma)).sum(axis=0)
            joint = usual * np.exp(logs - logs.max())[:, np.newaxis]
            found[number] = joint / np.maximum(joint.sum(axis=0), np.finfo(np.float64).tiny)
    return found


def _normalised(joint: Floats) -> Floats:
    total = joint.sum(axis=1, keepdims=True)
    uniform = np.full_like(joint, 1 / joint.shape[1])
    return np.asarray(np.divide(joint, total, out=uniform, where=total > 0))


def _read(one: WeighedSeries, repeats: int, before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """The distributions of the mean of some readings of builds that are distributed like this."""
    levels, step = one.grid.levels, one.grid.step
    sigma = max(one.sigma / np.sqrt(repeats), step / 4)
    values = np.arange(levels[0] - 4 * sigma, levels[-1] + 4 * sigma, sigma / 2)
    density = (1 + ((values - levels[:, np.newaxis]) / sigma) ** 2 / ERROR_DF) ** (-(ERROR_DF + 1) / 2)
    density /= density.sum(axis=1, keepdims=True)
    return small_product(before, density), small_product(after, density)


def _mutual_information(later: Floats, before: Floats, after: Floats) -> Floats:
    """Bits; rows of ``before`` and ``after`` are distributions, ``later`` the weight of the second."""
    weight = later[:, np.newaxis]
    mixed = (1 - weight) * before + weight * after
    tiny = np.finfo(np.float64).tiny
    told = (1 - weight) * before * np.log2(np.maximum(before, tiny) / np.maximum(mixed, tiny))
    told += weight * after * np.log2(np.maximum(after, tiny) / np.maximum(mixed, tiny))
    return np.asarray(told.sum(axis=1))
