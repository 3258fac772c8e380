"""The data classes of a bisection: the question, the facts learned one event at a time, and queries on them.

Builds are identified by their position in the range: 0 is the good commit, i the i-th suspect, and the last one the
bad commit. A commit may be built several times; these builds, its **draws**, differ only by luck, and draw 0 is the
first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import mean
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.culprits.culprit import ProfileChange
from torchperf_ci.stats.build_variance import USUAL_TAU, Readings
from torchperf_ci.stats.posterior import Price, chances_to_build

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, order=True)
class SuspectRange:
    """The suspects between two builds: positions ``before`` + 1 to ``after``."""

    before: int
    after: int

    def parts(self, steps: Iterable[SuspectRange]) -> Iterator[SuspectRange]:
        """The steps that lie within this range."""
        return (step for step in steps if self.before <= step.before and step.after <= self.after)

    def without(self, steps: Iterable[SuspectRange]) -> list[SuspectRange]:
        """The parts of this range that remain when steps within it are removed, in order."""
        places = sorted(self.parts(steps))
        starts = [self.before, *(step.after for step in places)]
        ends = [*(step.before for step in places), self.after]
        return [SuspectRange(a, b) for a, b in zip(starts, ends, strict=True) if a < b]


Purpose = Literal["confirm", "locate", "verify", "control"]
"""The purpose of a pair. A ``control`` measures the same build twice, so that its result cannot come from the code."""

MIN_SYSTEMATIC_FAILURES = 2
"""If so many builds in a row fail, and fail again when retried, their failure is not taken for chance."""
TRIES = 3
"""How often a commit is built before its failure counts, if something depends on it."""
MAX_REPEATS = 3
"""If so many rebuilds in a row come out identical to other builds of their commits, no more are made."""


@dataclass(frozen=True)
class BisectReading:
    """One pair of fresh processes of two builds: ln(head/base) of each series, positive where head is worse.

    ``seconds`` is the duration of the pair. ``values`` are those of base, in the unit of each series, where known.
    ``head_first`` means that head, and not base, went first in each turn. ``resolution`` is how far ln(head/base) may
    be off because readings are equal for want of digits, by series. ``directions`` are the better ones that records
    say themselves, by metric. ``missing`` are the series that were asked for or that some runs had, but not the pair.
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
    resolution: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildAttempt:
    """One attempt to make a commit's environment, and the reason if it failed.

    ``repeated`` means that the result was identical, byte for byte, to another draw of the commit, so that it is no
    draw of its own and is not measured. ``contents`` are digests of the texts and of the other files of a first build,
    empty if they are unknown.
    """

    position: int
    ok: bool
    seconds: float = 0.0
    why: str = ""
    draw: int = 0
    repeated: bool = False
    contents: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProbeFailure:
    """A commit that was built, but on which the probe does not run, and why."""

    probe: str
    position: int
    why: str


@dataclass(frozen=True)
class ProbeBatchSize:
    """The batch size found for a probe with ``--batch-size auto``; it must be the same for all of the probe's pairs."""

    probe: str
    size: int


@dataclass(frozen=True)
class ProfiledStep:
    """What profiles of two builds have shown; ``inside`` has no files or commands yet."""

    base: int
    head: int
    inside: ProfileChange


@dataclass(frozen=True)
class BisectNote:
    """A remark for the reader of the bisection, in addition to its facts."""

    text: str


@dataclass(frozen=True)
class BisectFacts:
    """All facts, in the order in which they were learned."""

    readings: tuple[BisectReading, ...] = ()
    builds: tuple[BuildAttempt, ...] = ()
    failures: tuple[ProbeFailure, ...] = ()

    @cached_property
    def built(self) -> frozenset[int]:
        """The positions whose environments could be made."""
        return frozenset(build.position for build in self.builds if build.ok)

    @cached_property
    def by_ends(self) -> Mapping[tuple[int, int], Sequence[BisectReading]]:
        """The pairs by their two positions, which are in the order in which they were first measured."""
        found: dict[tuple[int, int], list[BisectReading]] = {}
        for reading in self.readings:
            found.setdefault((reading.base, reading.head), []).append(reading)
        return found

    @cached_property
    def distinct_series(self) -> int:
        """How many series were measured; those that repeat one another count once."""
        names = {name for reading in self.readings for name in reading.log_ratios}
        return len({tuple(reading.log_ratios.get(name) for reading in self.readings) for name in names})

    @cached_property
    def made(self) -> frozenset[tuple[int, int]]:
        """The positions and draws of all builds that could be made."""
        return frozenset((build.position, build.draw) for build in self.builds if build.ok)

    @cached_property
    def contents(self) -> Mapping[int, tuple[str, ...]]:
        """The digests of the texts and of the other files of first builds, by position."""
        return {build.position: build.contents for build in self.builds if build.contents}

    @cached_property
    def directions(self) -> Mapping[str, str]:
        """The better direction of each metric whose records say it themselves."""
        return {metric: better for one in self.readings for metric, better in one.directions.items()}

    def differ_in_texts(self, one: int, other: int) -> bool:
        """Whether two builds differ, but only in Python files and other texts, so that no code is laid out anew."""
        mine, others = (self.contents.get(position, ()) for position in (one, other))
        return mine != others and mine[1:] == others[1:] != ()

    @property
    def repeated(self) -> bool:
        """Whether rebuilding commits gives identical builds: the last :data:`MAX_REPEATS` rebuilds were."""
        latest = [build.repeated for build in self.builds if build.ok and build.draw][-MAX_REPEATS:]
        return len(latest) == MAX_REPEATS and all(latest)

    @cached_property
    def wasted(self) -> frozenset[tuple[int, int]]:
        """The positions and draws of the rebuilds that failed, or that are identical to another build."""
        return frozenset(
            (build.position, build.draw)
            for build in self.builds
            if build.draw and (build.repeated or not build.ok)
        )

    @cached_property
    def taken(self) -> frozenset[tuple[int, int]]:
        """The positions and draws of the builds that were measured, and of the wasted rebuilds."""
        pairs = (zip((one.base, one.head), one.draws, strict=True) for one in self.readings)
        return self.wasted.union(*pairs)

    @cached_property
    def unbuilt(self) -> frozenset[int]:
        """The positions whose builds have failed so far.

        A commit with a successful build is not among them, even if another draw of it fails.
        """
        return frozenset(self.tries) - self.built

    def failing(self, probe: str) -> frozenset[int]:
        """The positions on which a probe does not run; others may."""
        return frozenset(failure.position for failure in self.failures if failure.probe == probe)

    @cached_property
    def unsettled(self) -> frozenset[int]:
        """The unbuilt positions whose builds have failed so few times that it may have been chance.

        Positions are excluded if :data:`MIN_SYSTEMATIC_FAILURES` unbuilt ones in the same gap have failed in all their
        tries: then it was not chance.
        """
        tries = self.tries
        return frozenset(
            position
            for position in self.unbuilt
            if tries[position] < TRIES
            and sum(tries[place] >= TRIES for place in self._unbuilt_around(position))
            < MIN_SYSTEMATIC_FAILURES
        )

    @cached_property
    def tries(self) -> Counter[int]:
        """How often building each commit was tried, not counting rebuilds."""
        return Counter(build.position for build in self.builds if not build.draw)

    def _unbuilt_around(self, position: int) -> list[int]:
        """The unbuilt positions between the two nearest successful builds on either side of ``position``."""
        left = max((place for place in self.built if place < position), default=-1)
        right = min((place for place in self.built if place > position), default=math.inf)
        return [place for place in self.unbuilt if left < place < right]


@dataclass(frozen=True)
class BisectQuestion:
    """A range of suspects and what to measure on it.

    ``weights`` are the prior probabilities of the suspects; they sum to 1. ``min_effect`` is the smallest relative
    change that matters. ``reverts`` maps the position of each revert to that of the commit it reverts.
    ``build_seconds`` and ``pair_seconds`` are estimates for use until a build or a pair has been timed.

    ``luck`` is the expected standard deviation between builds of the same code, on the log scale; 0 where this luck
    varies from process to process, so that pairs already include it. ``rebuilds`` is whether rebuilding a commit can
    give a build with different luck.
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
        """The position of the bad commit, which equals the number of suspects."""
        return int(self.weights.size)


def can_rebuild(question: BisectQuestion, facts: BisectFacts) -> bool:
    """Whether a rebuild may differ by luck: not if the rebuilds so far were identical, byte for byte."""
    return question.rebuilds and not facts.repeated


@dataclass(frozen=True)
class PlannedPair:
    """A pair to measure next: its two positions and its purpose, the draws of its builds, and which one goes first."""

    probe: str
    base: int
    head: int
    purpose: Purpose
    draws: tuple[int, int] = (0, 0)
    head_first: bool = False


def with_order(facts: BisectFacts, step: PlannedPair) -> PlannedPair:
    """The pair, started by the build that did not start it the last time.

    Effects that favor whichever build starts, such as modes or drift of the machine, then favor neither. The first
    pair of two builds starts on the other side than the pair before.
    """
    if step.purpose == "control":
        return step
    pairs = [one for one in facts.readings if one.probe == step.probe and one.purpose != "control"]
    wanted = (step.base, step.head, step.purpose)
    same = [one for one in pairs if (one.base, one.head, one.purpose) == wanted]
    return replace(step, head_first=any(not one.head_first for one in (same or pairs)[-1:]))


def readings_within(facts: BisectFacts, series: str, segment: SuspectRange, luck: float) -> Readings:
    """The readings of builds within a segment, with positions counted from its first build."""
    inside = {
        number: reading
        for number, reading in enumerate(facts.readings)
        if series in reading.log_ratios and segment.before <= reading.base < reading.head <= segment.after
    }
    found = inside.values()
    bases, heads = ([getattr(r, side) - segment.before for r in found] for side in ("base", "head"))
    values = np.array([r.log_ratios[series] for r in found])
    draws = np.array([r.draws for r in found], np.intp).reshape(-1, 2)
    pairs = np.array([*inside], np.intp)
    return Readings(np.array(bases, np.intp), np.array(heads, np.intp), values, draws, luck, pairs)


def reading_price(
    question: BisectQuestion,
    facts: BisectFacts,
    segment: SuspectRange,
    probe: str,
    unusable: frozenset[int],
    *,
    may_build: bool,
) -> Price:
    """The price, in seconds, of measuring each build of a segment, of which some are ``unusable``."""
    chance = chances_to_build(question.bad, sorted(facts.built - unusable), sorted(unusable))
    build = np.full(question.bad + 1, build_seconds(question, facts))
    build[list(facts.built)] = 0.0
    if not may_build:
        chance[build > 0] = 0.0
    chance[list(unusable)] = 0.0
    part = slice(segment.before, segment.after + 1)
    again = build_seconds(question, facts) if can_rebuild(question, facts) and may_build else math.inf
    return Price(pair_seconds(question, facts.readings, probe), build[part], chance[part], again)


def draw_to_read(facts: BisectFacts, base: int, head: int, *, anew: bool) -> int:
    """The draw of head that was last measured against the first draw of base; or, if ``anew``, a new one.

    A new draw has not been measured, has not failed to build, and is not identical to another one.
    """
    read = [one.draws[1] for one in facts.by_ends.get((base, head), ()) if not one.draws[0]]
    if not anew:
        return max(read, default=0)
    return max((draw for position, draw in facts.taken if position == head), default=0) + 1


def build_seconds(question: BisectQuestion, facts: BisectFacts) -> float:
    """The mean duration of a build, or the estimate if none has been made."""
    return mean([build.seconds for build in facts.builds] or [question.build_seconds])


def pair_seconds(
    question: BisectQuestion, readings: Sequence[BisectReading], probe: str | None = None
) -> float:
    """The mean duration of a pair, of one probe or of all, or the estimate if none has been measured."""
    known = [reading.seconds for reading in readings if probe in (None, reading.probe)]
    return max(mean(known or [question.pair_seconds]), 1e-9)
