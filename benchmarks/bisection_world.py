"""A simulated range of commits, some of which make a benchmark slower, and the cost of builds and runs in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Story = Callable[[int, np.random.Generator], "Range"]

Step = tuple[int, int]
"""What is named: the change lies after the first position and not after the second."""
Outcome = Literal["right", "wrong", "unresolved", "aborted"]

UNBUILDABLE = 0.10
"""The share of commits that cannot be built; good and bad can."""
MIN_CULPRIT = math.log(1.03) / 2
"""A commit that makes it slower by less is no culprit, however many like it there are."""
MAX_NAMED = 5
"""A set of more commits than this leaves the reader to search."""
_SPIKE = math.log(1.2), math.log(2.0)


@dataclass(frozen=True)
class Noise:
    """The ``cv`` of a run, the standard deviation of what all runs of a ``job`` share, and the share of ``spikes``.

    ``builds`` is the standard deviation of what luck gives each build for good: where its code came to lie. The others
    are of pairs, in the order in which they are taken, whichever builds they are of, and favour whichever of the two
    begins, since pairs of a build with itself have them, too: the correlation ``rho`` of each with the next one; a
    ``mode`` that is added to or taken from them, for :data:`MODE_LASTS` pairs on average; and what they ``drift`` by
    from one to the next. ``of_bad``: the mode is the bad commit's instead, whichever build begins. ``in_either_order``:
    all of these favour the first of each pair of commits, and of base and itself, whichever begins. ``flaky`` is the
    share of attempts to build that fail by chance. ``unlucky`` is what the first build of bad is slower by, by luck.
    """

    cv: float
    job: float = 0.01
    spikes: float = 0.05
    builds: float = 0.0
    rho: float = 0.0
    mode: float = 0.0
    drift: float = 0.0
    of_bad: bool = False
    in_either_order: bool = False
    flaky: float = 0.0
    unlucky: float = 0.0


MODE_LASTS = 15


@dataclass(frozen=True)
class Range:
    """``n`` commits after the good one; each position of ``changes`` makes it slower by a factor, or faster below 1.

    ``reverts`` are positions that take back another one, which say so, and the position of that: what was taken back is
    not what makes the end slow.
    """

    n: int
    changes: Mapping[int, float]
    reverts: Mapping[int, int] = field(default_factory=dict)

    @property
    def culprits(self) -> frozenset[int]:
        """The positions that make the end slow."""
        slower = {place for place, factor in self.changes.items() if math.log(factor) >= MIN_CULPRIT}
        return frozenset(slower - {*self.reverts.values()})


def one_culprit(n: int, effect: float, random: np.random.Generator) -> Range:
    """One commit anywhere, or none where the effect is 0."""
    return Range(n, {int(random.integers(1, n + 1)): 1 + effect} if effect else {})


def _places(n: int, count: int, random: np.random.Generator) -> list[int]:
    return sorted((1 + random.choice(n, count, replace=False)).tolist())


def two_culprits(n: int, random: np.random.Generator) -> Range:
    return Range(n, dict.fromkeys(_places(n, 2, random), 1.07))


def three_culprits(n: int, random: np.random.Generator) -> Range:
    return Range(n, dict.fromkeys(_places(n, 3, random), 1.07))


def hidden(n: int, random: np.random.Generator) -> Range:
    """A regression, and before or after it an improvement of half its size."""
    slower, faster = random.permutation(_places(n, 2, random)).tolist()
    return Range(n, {slower: 1.07, faster: 1 / 1.035})


def reverted(n: int, random: np.random.Generator) -> Range:
    """A regression that is taken back, and before or after both another one."""
    places = _places(n, 3, random)
    other = places.pop(int(random.choice([0, 2])))
    return Range(n, {places[0]: 1.10, places[1]: 1 / 1.10, other: 1.07}, {places[1]: places[0]})


def returned(n: int, random: np.random.Generator, factor: float = 1.07) -> Range:
    """A regression, its revert, and its return, which says so or does not."""
    first, revert, again = _places(n, 3, random)
    taken_back = {revert: first, again: revert} if random.random() < 0.5 else {revert: first}
    return Range(n, {first: factor, revert: 1 / factor, again: factor}, taken_back)


def creep(n: int, random: np.random.Generator, count: int = 14, factor: float = 1.005) -> Range:
    """Many that are each too small to matter."""
    return Range(n, dict.fromkeys(_places(n, count, random), factor))


def drift(n: int, random: np.random.Generator, total: float = 0.03, effect: float = 0.0) -> Range:
    """Every commit makes it slower by next to nothing, and one of them by ``effect`` as well."""
    changes = dict.fromkeys(range(1, n + 1), (1 + total) ** (1 / n))
    if effect:
        changes[int(random.integers(1, n + 1))] *= 1 + effect
    return Range(n, changes)


STORIES: dict[str, Story] = {
    "two regressions of 7%": two_culprits,
    "three regressions of 7%": three_culprits,
    "7%, and an improvement of 3.5%": hidden,
    "7%, and 10% that are reverted": reverted,
}


class World:
    """What a bisection can build and measure of a range, and its bill.

    A **run** is one observation of one build: the logarithm of its time is the build's true level, normal noise of the
    CV, the offset of the job that it is taken in, and in one run of 20 a spike that makes it 1.2 to 2 times as slow. A
    **pair** is one observation of the ratio of two builds that take turns on one machine. Its logarithm spreads by the
    same CV, for that is what such pairs are measured to do (see `repeatability.py`); the offset of the job cancels, and
    the spike of one pair in 20 has either sign. A pair is billed as two runs.

    A commit can be built more than once: each **draw** is a build with luck of its own. A commit that cannot be built
    never can be; any other attempt may fail by chance, and is then billed like those that do not.
    """

    def __init__(self, commits: Range, noise: Noise, random: np.random.Generator) -> None:
        self.commits, self.noise = commits, noise
        self.n = commits.n
        self.runs = self.pairs = self.builds = 0
        self._levels = np.zeros(commits.n + 1)
        for position, factor in commits.changes.items():
            self._levels[position:] += math.log(factor)
        self._buildable = random.random(commits.n + 1) >= UNBUILDABLE
        self._buildable[[0, -1]] = True
        self._tried: dict[tuple[int, int], bool] = {}
        self._offsets: dict[tuple[int, int, int], float] = (
            {(self.n, 0, 0): noise.unlucky} if noise.unlucky else {}
        )
        self._remembered = random.normal(0, noise.cv)
        self._mode = noise.mode * random.choice([-1, 1])
        self._random = random

    def build(self, position: int, draw: int = 0, *, again: bool = False) -> bool:
        """Build a commit, if that was not done before: is there something to run? ``again``: also if it failed."""
        known = self._tried.get((position, draw))
        if known is None or (again and not known):
            self.builds += 1
            fails = self.noise.flaky > 0 and self._random.random() < self.noise.flaky
            self._tried[position, draw] = bool(self._buildable[position]) and not fails
        return self._tried[position, draw]

    def measure(self, position: int, runs: int) -> NDArray[np.float64]:
        """The log times of ``runs`` of one build, all in one job."""
        assert self.build(position)
        self.runs += runs
        job = self._random.normal(0, self.noise.job)
        return self._levels[position] + job + self._observed(runs) + self._spikes(runs)

    def pair(self, base: int, head: int, draws: tuple[int, int] = (0, 0)) -> float:
        """ln(head/base) of one pair that base begins; of a build with itself, where both are the same."""
        ends = (base, draws[0]), (head, draws[1])
        assert all(self.build(*end) for end in ends)
        level = self._levels[head] - self._levels[base] + self._offset(*ends[1]) - self._offset(*ends[0])
        if self.noise.of_bad:
            level += self._mode * ((head == self.n) - (base == self.n))
        spike = self._spike()
        found = level + self._error() + spike + self.noise.drift * self.pairs
        self.pairs += 1
        self.runs += 2
        return float(found)

    def beside(self, base: int, head: int, draws: tuple[int, int], others: int) -> list[float]:
        """What the same pair reads in ``others`` series without a change, with errors and luck of their own."""
        return [
            self._offset(head, draws[1], series)
            - self._offset(base, draws[0], series)
            + float(self._observed(1)[0])
            + self._spike()
            for series in range(1, others + 1)
        ]

    def _offset(self, position: int, draw: int, series: int = 0) -> float:
        if (position, draw, series) not in self._offsets:
            self._offsets[position, draw, series] = self._random.normal(0, self.noise.builds)
        return self._offsets[position, draw, series]

    def _spike(self) -> float:
        return float(self._random.choice([-1, 1]) * self._spikes(1)[0])

    def _error(self) -> float:
        """Of a pair: what it remembers of the one before, what is new, and the mode that the machine is in."""
        noise = self.noise
        new = self._random.normal(0, noise.cv * math.sqrt(1 - noise.rho**2))
        self._remembered = noise.rho * self._remembered + new
        if noise.mode and self._random.random() < 1 / MODE_LASTS:
            self._mode *= -1
        return float(self._remembered + (0 if noise.of_bad else self._mode))

    def _observed(self, count: int) -> NDArray[np.float64]:
        return self._random.normal(0, self.noise.cv, count)

    def _spikes(self, count: int) -> NDArray[np.float64]:
        spoiled = self._random.random(count) < self.noise.spikes
        return spoiled * self._random.uniform(*_SPIKE, count)

    def outcome(self, named: Sequence[Step]) -> Outcome:
        """Wrong is a name without a culprit; right is to name them all as closely as their builds allow."""
        wanted = self.commits.culprits
        if not all(wanted & _positions(step) for step in named):
            return "wrong"
        found = {position for step in named if self._closest(step) for position in _positions(step)}
        return "right" if wanted <= found and all(map(self._closest, named)) else "unresolved"

    def _closest(self, step: Step) -> bool:
        """Whether no commit between the two could have been measured, and they are few."""
        before, after = step
        return after - before <= MAX_NAMED and not self._buildable[before + 1 : after].any()


def _positions(step: Step) -> set[int]:
    return set(range(step[0] + 1, step[1] + 1))


def between(world: World, low: int, high: int) -> int | None:
    """The commit next to the middle of two others that can be built, if any can."""
    middle = (low + high) // 2
    for position in sorted(range(low + 1, high), key=lambda position: abs(position - middle)):
        if world.build(position):
            return position
    return None
