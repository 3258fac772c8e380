"""The question, the facts learnt so far one event at a time, and which of them bear on a range of suspects.

Builds are told apart by their position in the range: 0 is the good commit, i the i-th suspect, and the last one the bad
commit. Of one commit several may be made, its **draws**, which differ in nothing but what luck decides: 0 is the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.culprits.culprit import ProfileChange
from torchperf_ci.stats.build_variance import USUAL_TAU, Readings
from torchperf_ci.stats.posterior import Price, chances_to_build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, order=True)
class SuspectRange:
    """The suspects between two builds: positions ``before`` + 1 to ``after``."""

    before: int
    after: int

    def parts(self, steps: Iterable[SuspectRange]) -> Iterator[SuspectRange]:
        """Those of the steps that lie within the segment."""
        return (step for step in steps if self.before <= step.before and step.after <= self.after)

    def without(self, steps: Iterable[SuspectRange]) -> list[SuspectRange]:
        """What is left of the segment beside some steps within it, in order."""
        places = sorted(self.parts(steps))
        starts = [self.before, *(step.after for step in places)]
        ends = [*(step.before for step in places), self.after]
        return [SuspectRange(a, b) for a, b in zip(starts, ends, strict=True) if a < b]


Purpose = Literal["confirm", "locate", "verify", "control"]
"""What a pair is for; a ``control`` is of one and the same build twice, so that whatever it reads is not the code."""

MOST_BY_CHANCE = 2
"""Builds that fail side by side, and fail again when they are tried once more, by chance."""
TRIES, TRIES_BY_CHANCE = 2, 3
"""Attempts to build a commit before anything rests on their failing; the latter where builds are known to fail by
chance, or where all is lost with the commit."""


@dataclass(frozen=True)
class BisectReading:
    """One pair of fresh processes of two builds: ln(head/base) of each series, positive where head is worse.

    ``seconds`` is what the pair took. ``values`` are what base measured of the series, in the unit of each, where that
    can be told. ``head_first``: head began each turn, which base does otherwise.
    """

    probe: str
    base: int
    head: int
    log_ratios: Mapping[str, float]
    purpose: Purpose
    seconds: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)
    draws: tuple[int, int] = (0, 0)
    head_first: bool = False


@dataclass(frozen=True)
class BuildAttempt:
    """One attempt to make a commit's environment, and why it failed, if it did.

    It is ``repeated`` where it came out byte for byte as another draw of the commit: nothing was left to luck.
    """

    position: int
    ok: bool
    seconds: float = 0.0
    why: str = ""
    draw: int = 0
    repeated: bool = False


@dataclass(frozen=True)
class ProbeFailure:
    """A commit that was built, but on which the probe does not run."""

    probe: str
    position: int
    why: str


@dataclass(frozen=True)
class ProbeBatchSize:
    """What ``--batch-size auto`` is for a probe: it must stay the same for as long as its pairs are put together."""

    probe: str
    size: int


@dataclass(frozen=True)
class ProfiledStep:
    """What profiles of two builds have shown: ``inside`` has neither files nor commands yet."""

    base: int
    head: int
    inside: ProfileChange


@dataclass(frozen=True)
class BisectNote:
    """What a reader of the bisection should know beside its facts."""

    text: str


@dataclass(frozen=True)
class BisectFacts:
    """All of it, in the order in which it was learnt."""

    readings: tuple[BisectReading, ...] = ()
    builds: tuple[BuildAttempt, ...] = ()
    failures: tuple[ProbeFailure, ...] = ()

    @cached_property
    def built(self) -> frozenset[int]:
        """Positions whose environment could be made."""
        return frozenset(build.position for build in self.builds if build.ok)

    @cached_property
    def by_ends(self) -> Mapping[tuple[int, int], Sequence[BisectReading]]:
        """The pairs of each two positions, which come in the order in which they were first read."""
        found: dict[tuple[int, int], list[BisectReading]] = {}
        for reading in self.readings:
            found.setdefault((reading.base, reading.head), []).append(reading)
        return found

    @cached_property
    def made(self) -> frozenset[tuple[int, int]]:
        """Positions and draws of all builds that could be made."""
        return frozenset((build.position, build.draw) for build in self.builds if build.ok)

    @property
    def repeated(self) -> bool:
        """Whether making a commit anew is known to change nothing."""
        return any(build.repeated for build in self.builds)

    @cached_property
    def unusable(self) -> frozenset[int]:
        """Positions that nothing can be measured on so far: they were not built, or the probe does not run on them.

        A commit that was built once is not among them if another draw of it fails.
        """
        return self._unbuilt | self._failing

    @cached_property
    def unsettled(self) -> frozenset[int]:
        """Those of them whose builds have failed so seldom that chance may have done it.

        Where :data:`MOST_BY_CHANCE` in a row have failed as often as they are tried, it was not chance that the others
        failed.
        """
        most, tries = TRIES_BY_CHANCE if self._fail_by_chance else TRIES, self.tries
        return frozenset(
            position
            for position in self._unbuilt - self._failing
            if tries[position] < most
            and sum(tries[place] >= most for place in self._unbuilt_around(position)) < MOST_BY_CHANCE
        )

    @cached_property
    def tries(self) -> Counter[int]:
        """How often each commit was tried to be built; what is made anew of one that was built does not count."""
        return Counter(build.position for build in self.builds if not build.draw)

    @cached_property
    def _fail_by_chance(self) -> bool:
        """Whether something could be built that had failed before."""
        return any((build.position, build.draw) in self.made for build in self.builds if not build.ok)

    @cached_property
    def _unbuilt(self) -> frozenset[int]:
        return frozenset(build.position for build in self.builds if not build.draw) - self.built

    @cached_property
    def _failing(self) -> frozenset[int]:
        return frozenset(failure.position for failure in self.failures)

    def _unbuilt_around(self, position: int) -> list[int]:
        """What was not built around a position, with none among them that was."""
        left = max((place for place in self.built if place < position), default=-1)
        right = min((place for place in self.built if place > position), default=math.inf)
        return [place for place in self._unbuilt if left < place < right]


@dataclass(frozen=True)
class BisectQuestion:
    """A range of suspects and what to measure on it.

    ``weights``, one a suspect, sum to 1: how suspect each is beforehand. ``min_effect`` is the smallest relative change
    that matters. ``reverts`` are positions of commits that take back another one, and its position.
    ``build_seconds`` and ``pair_seconds`` are guesses for as long as nothing has been built or measured.

    ``luck`` is the standard deviation that builds of one and the same code are expected to have among themselves, on
    the log scale; 0 where each process draws anew what luck decides, so that pairs carry it already. ``rebuilds`` says
    whether a commit can be built again so that it differs in what luck decides.
    """

    weights: NDArray[np.float64]
    probes: Sequence[str]
    min_effect: float
    build_seconds: float = 600.0
    pair_seconds: float = 10.0
    reverts: Mapping[int, int] = field(default_factory=dict)
    luck: float = USUAL_TAU
    rebuilds: bool = False

    @property
    def bad(self) -> int:
        """The position of the bad commit, which is also the number of suspects."""
        return int(self.weights.size)


def with_known_rebuilds(question: BisectQuestion, facts: BisectFacts) -> BisectQuestion:
    """The question after it has shown that builds of one commit come out the same, byte for byte, if it has."""
    return replace(question, rebuilds=question.rebuilds and not facts.repeated)


@dataclass(frozen=True)
class PlannedPair:
    """One pair that is to be measured next: two positions, what for, which draws of their builds, and which begins."""

    probe: str
    base: int
    head: int
    purpose: Purpose
    draws: tuple[int, int] = (0, 0)
    head_first: bool = False


def with_order(facts: BisectFacts, step: PlannedPair) -> PlannedPair:
    """The pair, begun by the build that did not begin it the last time.

    What favours whichever begins, as a mode or a drift of the machine may, then favours neither build for long. Two
    builds that were not measured yet begin the other way round than the pair before.
    """
    if step.purpose == "control":
        return step
    pairs = [one for one in facts.readings if one.probe == step.probe and one.purpose != "control"]
    wanted = (step.base, step.head, step.purpose)
    same = [one for one in pairs if (one.base, one.head, one.purpose) == wanted]
    return replace(step, head_first=any(not one.head_first for one in (same or pairs)[-1:]))


def readings_within(facts: BisectFacts, series: str, segment: SuspectRange, luck: float) -> Readings:
    """What bears on a segment, positions counted from its first build.

    That are pairs with its first build, and pairs of neighbours among the builds that were measured.
    """
    inside = [
        reading
        for reading in facts.readings
        if series in reading.log_ratios and segment.before <= reading.base < reading.head <= segment.after
    ]
    tested = sorted({segment.before, segment.after, *(place for r in inside for place in (r.base, r.head))})
    neighbours = set(pairwise(tested))
    useful = [r for r in inside if r.base == segment.before or (r.base, r.head) in neighbours]
    bases, heads = ([getattr(r, side) - segment.before for r in useful] for side in ("base", "head"))
    values = np.array([r.log_ratios[series] for r in useful], np.float64)
    draws = np.array([r.draws for r in useful], np.intp).reshape(-1, 2)
    return Readings(np.array(bases, np.intp), np.array(heads, np.intp), values, draws, luck)


def series_of(facts: BisectFacts) -> dict[str, str]:
    """The probe that yields each series, in the order in which they were first read."""
    return {series: reading.probe for reading in facts.readings for series in reading.log_ratios}


def reading_price(
    question: BisectQuestion, facts: BisectFacts, segment: SuspectRange, probe: str, *, may_build: bool
) -> Price:
    """What reading each build of a segment takes, in seconds."""
    chance = chances_to_build(question.bad, sorted(facts.built - facts.unusable), sorted(facts.unusable))
    build = np.full(question.bad + 1, build_seconds(question, facts))
    build[list(facts.built)] = 0.0
    if not may_build:
        chance[build > 0] = 0.0
    chance[list(facts.unusable)] = 0.0
    part = slice(segment.before, segment.after + 1)
    again = build_seconds(question, facts) if question.rebuilds and may_build else math.inf
    return Price(pair_seconds(question, facts.readings, probe), build[part], chance[part], again)


def draw_to_read(facts: BisectFacts, base: int, head: int, *, anew: bool) -> int:
    """The draw of head that was last read against the first one of base, or ``anew`` one that was neither read nor
    has failed."""
    read = [one.draws[1] for one in facts.by_ends.get((base, head), ()) if not one.draws[0]]
    if not anew:
        return max(read, default=0)
    others = [
        draw
        for one in facts.readings
        for end, draw in zip((one.base, one.head), one.draws, strict=True)
        if end == head
    ]
    failed = [build.draw for build in facts.builds if build.position == head and not build.ok]
    return max([*others, *failed], default=0) + 1


def build_seconds(question: BisectQuestion, facts: BisectFacts) -> float:
    """What a build has taken on average, else what is expected."""
    return mean([build.seconds for build in facts.builds] or [question.build_seconds])


def pair_seconds(
    question: BisectQuestion, readings: Sequence[BisectReading], probe: str | None = None
) -> float:
    """What a pair, of a probe or of all of them, has taken on average, else what is expected."""
    known = [reading.seconds for reading in readings if probe in (None, reading.probe)]
    return max(mean(known or [question.pair_seconds]), 1e-9)
