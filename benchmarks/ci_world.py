"""Simulated series like those of real continuous integration, with the changes that a human would mark in the plot.

Levels come, go and come back; values flicker between two to four modes; noise has heavy tails, spikes, bursts of
outliers, autocorrelation, days that share an offset, a scale that depends on the level, and a coarse grid; steady
series wander and drift. There are two worlds with different distributions: one to develop detectors on, and one that is
held out for the final evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from labelled import Labelled, Score, matched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

VISIBLE = 2.0
"""A step of so many standard deviations of the noise is marked."""
INVISIBLE = 1.0
"""A smaller one is not; whoever reports one in between is neither right nor wrong."""
LEAST = 0.01
SHORTEST = 5
"""Runs at a level that a person sees as one."""


@dataclass(frozen=True)
class World:
    """The distributions of what varies from series to series."""

    seed: int
    runs: tuple[int, int]
    cv: tuple[float, float]
    tails: Sequence[str]
    stable: float
    """Share of the series without a change."""
    many: float
    """Share of the others with up to 40 changes instead of up to three."""
    short: float
    """Share of levels that last 5 to 20 runs."""
    steps: tuple[float, float]
    """Of a change, in standard deviations of the noise around its level."""
    returns: float
    """How often a level is the one before the last again."""
    flicker: float
    apart: tuple[float, float]
    """Modes, in standard deviations of the noise around each."""
    dwell: tuple[float, float]
    """Mean runs in a mode before another is drawn."""
    memory: float
    days: float
    drift: float
    bursts: float
    uneven: float
    coarse: float


DEVELOPED = World(
    seed=1,
    runs=(100, 1500),
    cv=(0.005, 0.2),
    tails=("normal", "t₃", "t₆", "skewed", "spikes"),
    stable=0.2,
    many=0.2,
    short=0.25,
    steps=(0.8, 12),
    returns=0.35,
    flicker=0.25,
    apart=(3, 12),
    dwell=(1, 1.5),
    memory=0.25,
    days=0.15,
    drift=0.45,
    bursts=0.2,
    uneven=0.3,
    coarse=0.2,
)
HELD_OUT = World(
    seed=2,
    runs=(80, 1200),
    cv=(0.003, 0.15),
    tails=("laplace", "t₄", "lognormal", "spikes", "normal"),
    stable=0.25,
    many=0.3,
    short=0.35,
    steps=(0.7, 16),
    returns=0.5,
    flicker=0.35,
    apart=(2.5, 16),
    dwell=(1, 1.8),
    memory=0.3,
    days=0.2,
    drift=0.5,
    bursts=0.3,
    uneven=0.4,
    coarse=0.15,
)


@dataclass(frozen=True)
class Made:
    """A series, the changes that a person marks, those nobody can be blamed for, and what it is made of."""

    labelled: Labelled
    unclear: Sequence[int]
    kind: str


def made(world: World, count: int) -> list[Made]:
    """The first ``count`` series of a world."""
    return [_series(world, np.random.default_rng([world.seed, number]), number) for number in range(count)]


def outcome(series: Sequence[Made], found: Sequence[Sequence[int]]) -> Score:
    """What a detector has made of the series; what it found of the unclear changes is neither right nor wrong."""
    total = Score()
    for one, points in zip(series, found, strict=True):
        marks = one.labelled.labels
        hits = matched(points, marks)
        false = len(points) - max(hits, matched(points, [*marks, *one.unclear]))
        stable = not marks and not one.unclear
        total = Score(
            labels=total.labels + len(marks),
            found=total.found + hits,
            stable=total.stable + stable,
            hit=total.hit + (stable and false > 0),
            false=total.false + false * stable,
            false_beside=total.false_beside + false * (not stable),
        )
    return total


def _series(world: World, rng: np.random.Generator, number: int) -> Made:
    n = int(np.exp(rng.uniform(*np.log(world.runs))))
    cv = float(np.exp(rng.uniform(*np.log(world.cv))))
    tails = str(rng.choice(list(world.tails)))
    stable = rng.random() < world.stable
    kinds = [tails]
    noise = _noise(tails, rng, n)
    if rng.random() < world.memory:
        kinds.append("memory")
        noise = _remembering(noise, rng.uniform(0.1, 0.4))
    if rng.random() < world.days:
        kinds.append("days")
        noise = _with_days(noise, rng)
    if rng.random() < world.flicker:
        kinds.append("flicker")
        noise = noise + _flicker(world, rng, n)
    if rng.random() < world.bursts:
        kinds.append("bursts")
        _add_bursts(noise, rng)
    spread = _spread(noise)
    starts = _starts(world, rng, n) if not stable else []
    uneven = rng.random() < world.uneven
    log_level, noise, sizes = _levels(world, rng, noise, starts, spread * cv, uneven=uneven)
    if stable:
        kinds.append("stable")
    if rng.random() < world.drift:
        kinds.append("drift")
        log_level = log_level + _drift(rng, n) * spread * cv
    logs = log_level + noise * cv
    values = np.exp(np.clip(logs - np.median(logs), -6, 6) + np.log(rng.uniform(20, 5000)))
    if rng.random() < world.coarse:
        kinds.append("coarse")
        grid = float(np.median(values)) * cv * rng.uniform(0.3, 2)
        values = np.maximum(np.round(values / grid), 1) * grid
    marked = [s for s, size in zip(starts, sizes, strict=True) if size == "marked"]
    unclear = [s for s, size in zip(starts, sizes, strict=True) if size == "unclear"]
    return Made(
        Labelled(f"{number} {' '.join(kinds)}", values, marked, complete=True), unclear, " ".join(kinds)
    )


def _noise(tails: str, rng: np.random.Generator, n: int) -> Floats:
    if tails.startswith("t"):
        freedom = {"t₃": 3, "t₄": 4, "t₆": 6}[tails]
        return rng.standard_t(freedom, size=n) / np.sqrt(freedom / (freedom - 2))
    if tails == "skewed":
        return rng.gamma(2, size=n) / np.sqrt(2)
    if tails == "lognormal":
        return np.exp(0.7 * rng.normal(size=n)) / 0.9
    if tails == "laplace":
        return rng.laplace(size=n) / np.sqrt(2)
    noise = rng.normal(size=n)
    if tails == "spikes":
        noise += (
            (rng.random(n) < rng.uniform(0.01, 0.1)) * rng.exponential(10, size=n) * rng.choice([1, 1, 1, -1])
        )
    return noise


def _remembering(noise: Floats, memory: float) -> Floats:
    """First-order autoregressive noise."""
    found = noise - np.median(noise)
    for run in range(1, found.size):
        found[run] = memory * found[run - 1] + np.sqrt(1 - memory**2) * found[run]
    return found


def _with_days(noise: Floats, rng: np.random.Generator) -> Floats:
    """One to five runs a day, which share an offset."""
    day = np.repeat(np.arange(noise.size), rng.integers(1, 6, size=noise.size))[: noise.size]
    return noise + rng.uniform(0.3, 0.8) * rng.normal(size=noise.size)[day]


def _flicker(world: World, rng: np.random.Generator, n: int) -> Floats:
    modes = int(rng.choice([2, 2, 2, 3, 4]))
    levels = np.append(0.0, np.cumsum(np.exp(rng.uniform(*np.log(world.apart), size=modes - 1))))
    shares = rng.dirichlet(np.full(modes, 3.0))
    dwell = rng.uniform(*world.dwell)
    mode = np.empty(n, dtype=int)
    stays = rng.random(n) < 1 - 1 / dwell
    drawn = rng.choice(modes, size=n, p=shares)
    mode[0] = drawn[0]
    for run in range(1, n):
        mode[run] = mode[run - 1] if stays[run] else drawn[run]
    return levels[mode]


def _add_bursts(noise: Floats, rng: np.random.Generator) -> None:
    for _ in range(max(1, rng.poisson(noise.size / 150))):
        start = rng.integers(noise.size)
        stop = start + rng.integers(1, 5)
        noise[start:stop] += rng.uniform(4, 25) * rng.choice([1, 1, -1])


def _spread(noise: Floats) -> float:
    """The spread that the eye sees: modes count, a few spikes do not."""
    inner = np.sort(noise)[noise.size // 20 : noise.size - noise.size // 20]
    return float(inner.std()) * 1.26  # of normal noise the inner 90% have 0.79 of its standard deviation


def _starts(world: World, rng: np.random.Generator, n: int) -> list[int]:
    if rng.random() < world.many:
        wanted = int(np.exp(rng.uniform(np.log(4), np.log(41))))
    else:
        wanted = int(rng.choice([1, 1, 1, 2, 2, 3]))
    starts: list[int] = []
    mean = n / (wanted + 1)
    place = int(rng.uniform(SHORTEST, 2 * mean))
    while len(starts) < wanted and place <= n - SHORTEST:
        starts.append(place)
        is_short = rng.random() < world.short
        place += int(rng.integers(SHORTEST, 21)) if is_short else max(20, int(rng.exponential(mean)))
    return starts


def _levels(
    world: World,
    rng: np.random.Generator,
    noise: Floats,
    starts: Sequence[int],
    sigma: float,
    *,
    uneven: bool,
) -> tuple[Floats, Floats, list[str]]:
    """The log level of each run, the noise around it, and which steps a person marks."""
    n = noise.size
    level, noise = np.zeros(n), noise.copy()
    sizes: list[str] = []
    before = [0.0]
    factor = 1.0
    for start, stop in pairwise([*starts, n]):
        size = max(LEAST, sigma * float(np.exp(rng.uniform(*np.log(world.steps)))))
        size = min(size, np.log1p(rng.uniform(0.05, 0.5)) if size > 0.4 else size)
        new = before[-1] + size * rng.choice([-1, 1])
        if len(before) > 1 and rng.random() < world.returns:
            new = before[-2]
        elif abs(new) > 1.5:
            new = before[-1] - size * np.sign(new)
        old_factor = factor
        if uneven:
            factor = float(np.exp(rng.normal(0, 0.3)))
            noise[start:stop] *= factor
        level[start:stop] = new
        ratio = abs(new - before[-1]) / (sigma * max(factor, old_factor))
        sizes.append("marked" if ratio >= VISIBLE else "unclear" if ratio >= INVISIBLE else "small")
        before.append(new)
    return level, noise, sizes


def _drift(rng: np.random.Generator, n: int) -> Floats:
    """A line, a wave, a random walk, a level that wanders around, or small levels that nobody marks; in σ."""
    size = rng.uniform(0.3, 2)
    kind = rng.integers(6)
    if kind == 0:
        return np.linspace(0, size, n)
    if kind == 1:
        return size / 2 * np.sin(np.linspace(0, rng.uniform(2, 12), n))
    if kind == 2:
        walk = np.cumsum(rng.normal(size=n))
        return size * walk / max(1e-9, np.ptp(walk))
    if kind == 3:
        return _remembering(rng.normal(size=n), 1 - 1 / rng.uniform(8, 50)) * size * 0.35
    stays = rng.uniform(15, 80)
    return rng.uniform(-0.5, 0.5, size=n)[np.cumsum(rng.random(n) < 1 / stays)] * size * 0.7
