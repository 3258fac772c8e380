"""Which build to read next: the one whose reading is expected to tell most about the culprit for what it costs.

What is told is the mutual information of the reading and of whether the culprit lies before or after the build
(Lindley, *Annals of Mathematical Statistics* 27, 1956); a build that has still to be made is worth what several
readings of it would tell. More readings of one build tell less and less, for its offset stays (see
:mod:`torchperf_ci.stats.build_offsets`): another build of the same commit may tell more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.build_offsets import kernels
from torchperf_ci.stats.reading_errors import ERROR_DF, log_density

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from torchperf_ci.stats.levels import Weighed
    from torchperf_ci.stats.posterior import Posterior

    Floats = NDArray[np.float64]

REPEATS = (1, 2, 4)
"""How many readings of a build may be meant to be taken in a row."""
PER_GAP = 9
"""Builds of a gap that are looked at: information is a smooth and concave function of the place."""
HOPE = 1 / 16
"""The chance to build what lies among commits that could not be built."""
LEAST = 1e-3
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
class Choice:
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


def most_informative(found: Posterior, series: int, price: Price) -> Choice | None:
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
    rates[:, told.max(axis=0) < LEAST] = 0.0
    best = int(rates.max(axis=0).argmax())
    if not rates[:, best].any():
        return None
    return Choice(places[best].position, float(rates[:, best].max()), places[best].anew)


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


def _bits(one: Weighed, later: Floats, places: Sequence[_Place]) -> Floats:
    """Expected bits of 1, 2, … readings of each place, shape (repeats, places); ``later`` is P(slow there)."""
    before = _normalised(one.before[[place.before for place in places]])
    after = _normalised(one.after[[place.after for place in places]])
    if one.tau:
        lie = _kernels(one, places)
        before, after = (np.einsum("pl,pul->pu", side, lie) for side in (before, after))
    return np.array([_mutual_information(later, *_read(one, repeats, before, after)) for repeats in REPEATS])


def _kernels(one: Weighed, places: Sequence[_Place]) -> Floats:
    """Where the build that would be read lies, given its commit's level: (places, levels, levels); sums are 1.

    One that was read before is known to lie where its readings were.
    """
    levels = one.grid.levels
    usual = kernels(levels, levels, np.array([one.tau]))[0]
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


def _read(one: Weighed, repeats: int, before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """The distributions of the mean of some readings of builds that are distributed like this."""
    levels, step = one.grid.levels, one.grid.step
    sigma = max(one.sigma / np.sqrt(repeats), step / 4)
    values = np.arange(levels[0] - 4 * sigma, levels[-1] + 4 * sigma, sigma / 2)
    density = (1 + ((values - levels[:, np.newaxis]) / sigma) ** 2 / ERROR_DF) ** (-(ERROR_DF + 1) / 2)
    density /= density.sum(axis=1, keepdims=True)
    return before @ density, after @ density


def _mutual_information(later: Floats, before: Floats, after: Floats) -> Floats:
    """Bits; rows of ``before`` and ``after`` are distributions, ``later`` the weight of the second."""
    weight = later[:, np.newaxis]
    mixed = (1 - weight) * before + weight * after
    tiny = np.finfo(np.float64).tiny
    told = (1 - weight) * before * np.log2(np.maximum(before, tiny) / np.maximum(mixed, tiny))
    told += weight * after * np.log2(np.maximum(after, tiny) / np.maximum(mixed, tiny))
    return np.asarray(told.sum(axis=1))
