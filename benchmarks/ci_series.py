"""Simulated series like those of real continuous integration, with levels that come and go and changes that stay.

Each series has its own noise (CV 0.3–20%, normal or heavy-tailed, with or without autocorrelation), and some behavior
that no change of the code explains: flicker between two to four modes, of which the rarer ones last for 1 to 30 runs,
spikes, bursts of several runs, stairs of small steps, machines whose offset lasts for a session. Real changes of 2 to
50% lie in between, a third of which are reverted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Random = np.random.Generator

RUNS = 100, 1500
MAX_VISIT = 30
"""What stays longer is a change of level."""
MIN_BETWEEN = 15
"""Runs between two real changes."""
VISIBLE = 2.5
"""A real change is as many times the noise at least: people mark what they see."""
CHANGE = np.log(1.02), np.log(1.5)
TAKEN_BACK = 1 / 3


@dataclass(frozen=True)
class Kind:
    """One kind of series. Rates are a run's; a rate of 0 is never.

    ``modes`` is how many levels it flickers between, each ``apart`` times the noise from the first, which it leaves
    every ``home`` runs for ``away`` runs in the mean; ``heavy`` says that these have a heavy tail. ``stairs`` is the
    rate of steps of half the noise, ``session`` the number of runs of one session, which share half of the variance.
    """

    name: str
    noise: tuple[float, float] = (0.005, 0.05)
    tail: float = 0.0
    memory: float = 0.0
    modes: int = 1
    apart: tuple[float, float] = (3.0, 10.0)
    home: float = 60.0
    away: float = 4.0
    heavy: bool = False
    spikes: float = 0.0
    bursts: float = 0.0
    stairs: float = 0.0
    session: int = 1
    changes: float = 1 / 250


@dataclass(frozen=True)
class Simulated:
    """Log ``values``, shape (runs,), their ``sessions``, and the first run of each new level with its log size."""

    kind: str
    values: Floats
    changes: dict[int, float]
    sessions: NDArray[np.int64]


DEVELOPED = (
    Kind("steady", noise=(0.003, 0.02), tail=4),
    Kind("noisy", noise=(0.03, 0.2), tail=3),
    Kind("spikes", noise=(0.005, 0.05), tail=4, spikes=0.02),
    Kind("bursts", noise=(0.005, 0.03), tail=4, spikes=0.005, bursts=1 / 80),
    Kind("two modes, short visits", modes=2, home=40, away=3),
    Kind("two modes, long visits", modes=2, home=80, away=10, tail=4),
    Kind("three modes, heavy-tailed visits", modes=3, home=60, away=5, heavy=True, tail=4),
    Kind("four modes, restless", modes=4, home=8, away=4),
    Kind("memory", memory=0.5, noise=(0.005, 0.08), tail=4),
    Kind("stairs", noise=(0.005, 0.02), stairs=1 / 40, tail=4),
    Kind("sessions", noise=(0.005, 0.05), session=3, tail=4),
    Kind(
        "all at once",
        noise=(0.005, 0.04),
        modes=2,
        home=100,
        away=4,
        spikes=0.005,
        bursts=1 / 250,
        memory=0.2,
        tail=4,
    ),
)
"""What the rules of `check` were developed on."""
HELD_OUT = (
    Kind("steady", noise=(0.005, 0.03), tail=3),
    Kind("noisy", noise=(0.02, 0.12), tail=5),
    Kind("spikes", noise=(0.003, 0.03), tail=3, spikes=0.05),
    Kind("bursts", noise=(0.003, 0.05), tail=3, bursts=1 / 150),
    Kind("two modes, short visits", modes=2, home=100, away=2, apart=(2, 20), tail=4),
    Kind("two modes, long visits", modes=2, home=150, away=15, apart=(4, 8)),
    Kind("three modes, heavy-tailed visits", modes=3, home=120, away=3, heavy=True, noise=(0.003, 0.03)),
    Kind("four modes, restless", modes=4, home=15, away=6, tail=4),
    Kind("memory", memory=0.3, noise=(0.003, 0.05)),
    Kind("stairs", noise=(0.003, 0.03), stairs=1 / 80),
    Kind("sessions", noise=(0.01, 0.08), session=5),
    Kind(
        "all at once",
        noise=(0.003, 0.03),
        modes=3,
        home=150,
        away=3,
        heavy=True,
        spikes=0.01,
        stairs=1 / 200,
        tail=3,
    ),
)
"""Other parameters of the same kinds, looked at once, when the rules were fixed."""


def simulate(kind: Kind, random: Random) -> Simulated:
    """One series."""
    runs = int(np.exp(random.uniform(*np.log(RUNS))))
    sigma = float(np.exp(random.uniform(*np.log(kind.noise))))
    noise, sessions = _noise(kind, runs, random)
    values = sigma * (noise + _modes(kind, runs, random) + _bursts(kind, runs, random))
    values += (random.random(runs) < kind.spikes) * random.exponential(max(0.1, 5 * sigma), runs)
    values += sigma / 2 * np.cumsum((random.random(runs) < kind.stairs) * random.choice([-1, 1], runs))
    changes = dict(_changes(kind, sigma, runs, random))
    for begin, size in changes.items():
        values[begin:] += size
    return Simulated(kind.name, values, changes, sessions)


def _noise(kind: Kind, runs: int, random: Random) -> tuple[Floats, NDArray[np.int64]]:
    """Return the noise of each run, in σ, and the number of its session."""

    def draw(size: int) -> Floats:
        if not kind.tail:
            return random.standard_normal(size)
        return (
            random.standard_t(kind.tail, size) / np.sqrt(kind.tail / (kind.tail - 2))
            if kind.tail > 2
            else draw(0)
        )

    noise = draw(runs)
    for run in range(1, runs if kind.memory else 0):
        noise[run] = kind.memory * noise[run - 1] + np.sqrt(1 - kind.memory**2) * noise[run]
    sessions = np.arange(runs)
    if kind.session > 1:
        sessions = np.cumsum(random.random(runs) < 1 / kind.session)
        noise = np.sqrt(0.5) * (noise + draw(runs)[sessions])
    return noise, sessions


def _modes(kind: Kind, runs: int, random: Random) -> Floats:
    """How many σ the mode of each run is off from the home one, whose stays are ``home`` runs long in the mean."""
    off = np.zeros(runs)
    if kind.modes == 1:
        return off
    others = random.choice([-1, 1], kind.modes - 1, p=[0.3, 0.7]) * random.uniform(
        *kind.apart, kind.modes - 1
    )
    run = random.geometric(1 / kind.home)
    while run < runs:
        stay = random.geometric(1 / kind.away)
        if kind.heavy:
            stay = int(np.ceil(kind.away / 3 * (1 + random.pareto(1.5))))
        stay = min(stay, MAX_VISIT)
        off[run : run + stay] = random.choice(others)
        run += stay + random.geometric(1 / kind.home)
    return off


def _bursts(kind: Kind, runs: int, random: Random) -> Floats:
    """Some runs in a row that are off in one direction, by as much as each burst likes."""
    off = np.zeros(runs)
    for run in np.flatnonzero(random.random(runs) < kind.bursts):
        off[run : run + random.integers(2, 9)] = random.choice([-1, 1], p=[0.2, 0.8]) * (
            2 + random.exponential(4)
        )
    return off


def _changes(kind: Kind, sigma: float, runs: int, random: Random) -> Iterator[tuple[int, float]]:
    run = 2 * MIN_BETWEEN + random.geometric(kind.changes)
    while run < runs - MIN_BETWEEN:
        least = max(CHANGE[0], VISIBLE * sigma)
        size = random.choice([-1, 1]) * np.exp(
            random.uniform(np.log(least), np.log(max(CHANGE[1], 2 * least)))
        )
        yield run, float(size)
        if random.random() < TAKEN_BACK:
            run += int(random.integers(MIN_BETWEEN, 8 * MIN_BETWEEN))
            if run < runs - MIN_BETWEEN:
                yield run, float(-size)
        run += MIN_BETWEEN + random.geometric(kind.changes)
