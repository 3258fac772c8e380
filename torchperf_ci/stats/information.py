"""Which build to read next: the one whose reading is expected to tell most about the culprit for what it costs.

What is told is the mutual information of the reading and of whether the culprit lies before or after the build
(Lindley, *Annals of Mathematical Statistics* 27, 1956); a build that has still to be made is worth what several
readings of it would tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.reading_errors import ERROR_DF

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
    """

    reading: float
    build: Floats
    chance: Floats


@dataclass(frozen=True)
class Choice:
    """A position, and the bits that it is expected to tell per unit of the price."""

    position: int
    rate: float


def most_informative(found: Posterior, series: int, price: Price) -> Choice | None:
    """The build to read next, judged by one of the posterior's series; None where no reading would tell anything."""
    one, choices = found.series[series], _places(found, price.chance)
    if not choices:
        return None
    positions = np.array([position for position, _, _ in choices])
    later = np.clip(np.cumsum(np.append(0.0, found.suspects))[positions], 0.0, 1.0)
    bits = _bits(one, later, [before for _, before, _ in choices], [after for _, _, after in choices])
    build, chance = price.build[positions], price.chance[positions]
    told = bits * chance
    rates = told / (build + chance * price.reading * np.array(REPEATS)[:, np.newaxis])
    rates[:, told.max(axis=0) < LEAST] = 0.0
    best = int(rates.max(axis=0).argmax())
    if not rates[:, best].any():
        return None
    return Choice(int(positions[best]), float(rates[:, best].max()))


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


def _places(found: Posterior, chance: Floats) -> list[tuple[int, int, int]]:
    """Positions to look at, each with the tested builds that its level before and after the culprit is known from."""
    tested = found.tested
    places = [(int(position), k, k) for k, position in enumerate(tested) if k and chance[position]]
    for k, (left, right) in enumerate(pairwise(tested)):
        inside = left + 1 + np.flatnonzero(chance[left + 1 : right])
        if inside.size > PER_GAP:
            inside = inside[np.unique(np.linspace(0, inside.size - 1, PER_GAP).round().astype(int))]
        places += [(int(position), k, k + 1) for position in inside]
    return places


def _bits(one: Weighed, later: Floats, before: Sequence[int], after: Sequence[int]) -> Floats:
    """Expected bits of 1, 2, … readings of each place, shape (repeats, places); ``later`` is P(slow there)."""
    levels_before, levels_after = _normalised(one.before[before]), _normalised(one.after[after])
    return np.array(
        [_mutual_information(later, *_read(one, repeats, levels_before, levels_after)) for repeats in REPEATS]
    )


def _normalised(joint: Floats) -> Floats:
    total = joint.sum(axis=1, keepdims=True)
    uniform = np.full_like(joint, 1 / joint.shape[1])
    return np.asarray(np.divide(joint, total, out=uniform, where=total > 0))


def _read(one: Weighed, repeats: int, before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """The distributions of the mean of some readings of places whose levels are distributed like this."""
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
