"""A simulated range of commits, some of which make a benchmark slower, and what it costs to look into it."""

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
Outcome = Literal["right", "wrong", "unresolved"]

UNBUILDABLE = 0.10
"""The share of commits that cannot be built; good and bad can."""
MOST_NAMED = 5
"""A set of more commits than this leaves the reader to search."""
_SPIKE = math.log(1.2), math.log(2.0)


@dataclass(frozen=True)
class Noise:
    """The ``cv`` of a run, the standard deviation of what all runs of a ``job`` share, and the share of ``spikes``."""

    cv: float
    job: float = 0.01
    spikes: float = 0.05


@dataclass(frozen=True)
class Range:
    """``n`` commits after the good one; each position of ``changes`` makes it slower by a factor, or faster below 1.

    ``reverts`` are positions that take back another one, which say so, and the position of that: to name what was taken
    back is neither asked for nor wrong.
    """

    n: int
    changes: Mapping[int, float]
    reverts: Mapping[int, int] = field(default_factory=dict)


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
    """

    def __init__(self, commits: Range, noise: Noise, random: np.random.Generator) -> None:
        self.commits, self.noise = commits, noise
        self.n = commits.n
        self.runs = self.pairs = 0
        self._levels = np.zeros(commits.n + 1)
        for position, factor in commits.changes.items():
            self._levels[position:] += math.log(factor)
        self._buildable = random.random(commits.n + 1) >= UNBUILDABLE
        self._buildable[[0, -1]] = True
        self._tried: set[int] = set()
        self._random = random

    @property
    def builds(self) -> int:
        """How many commits were built, or at least tried."""
        return len(self._tried)

    def build(self, position: int) -> bool:
        """Build a commit, if that was not done before: is there something to run?"""
        self._tried.add(position)
        return bool(self._buildable[position])

    def measure(self, position: int, runs: int) -> NDArray[np.float64]:
        """The log times of ``runs`` of one build, all in one job."""
        assert self.build(position)
        self.runs += runs
        job = self._random.normal(0, self.noise.job)
        return self._levels[position] + job + self._observed(runs) + self._spikes(runs)

    def pair(self, base: int, head: int) -> float:
        """ln(head/base) of one pair."""
        assert self.build(base)
        assert self.build(head)
        self.pairs += 1
        self.runs += 2
        spike = self._random.choice([-1, 1]) * self._spikes(1)
        return float((self._levels[head] - self._levels[base] + self._observed(1) + spike)[0])

    def _observed(self, count: int) -> NDArray[np.float64]:
        return self._random.normal(0, self.noise.cv, count)

    def _spikes(self, count: int) -> NDArray[np.float64]:
        spoiled = self._random.random(count) < self.noise.spikes
        return spoiled * self._random.uniform(*_SPIKE, count)

    def outcome(self, named: Sequence[Step]) -> Outcome:
        """Wrong is a name without a culprit; right is to name them all as closely as their builds allow."""
        slower = {position for position, factor in self.commits.changes.items() if factor > 1}
        if not all(slower & _positions(step) for step in named):
            return "wrong"
        found = {position for step in named if self._closest(step) for position in _positions(step)}
        wanted = slower - {*self.commits.reverts.values()}
        return "right" if wanted <= found and all(map(self._closest, named)) else "unresolved"

    def _closest(self, step: Step) -> bool:
        """Whether no commit between the two could have been measured, and they are few."""
        before, after = step
        return after - before <= MOST_NAMED and not self._buildable[before + 1 : after].any()


def _positions(step: Step) -> set[int]:
    return set(range(step[0] + 1, step[1] + 1))


def between(world: World, low: int, high: int) -> int | None:
    """The commit next to the middle of two others that can be built, if any can."""
    middle = (low + high) // 2
    for position in sorted(range(low + 1, high), key=lambda position: abs(position - middle)):
        if world.build(position):
            return position
    return None
