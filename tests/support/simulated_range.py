"""A simulated range of commits, which takes no time to build and measure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.bisect.bisect_progress import BisectProgress
from torchperf_ci.bisect.measurement_setup import BisectLimits
from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectQuestion,
    BisectReading,
    BuildAttempt,
    ProbeFailure,
)
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.search import investigate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from torchperf_ci.bisect.reasoning.evidence import PlannedPair, SuspectRange

MAX_PAIRS = 500
MAX_STEPS = 2 * MAX_PAIRS
"""Pairs, and pairs and builds: a bisection that takes more is going round in circles."""
SPIKE = math.log(2)

Event = BisectReading | BuildAttempt | ProbeFailure


@dataclass(frozen=True)
class Simulated:
    """A series of a probe: by how much its value is multiplied at which positions, and how far readings spread.

    It is not yielded on the ``absent`` positions, nor by a share of all pairs that are ``lost`` by chance.
    """

    changes: Mapping[int, float] = field(default_factory=dict)
    noise: float = 0.005
    probe: str = "p"
    absent: frozenset[int] = frozenset()
    lost: float = 0.0

    def level(self, position: int) -> float:
        """ln of the value at a position, 0 at good."""
        return sum(math.log(factor) for place, factor in self.changes.items() if place <= position)


@dataclass
class SimulatedRange:
    """What a laboratory does, for ``n`` suspects and what ``series`` say of them.

    A build takes 10 s and a pair 1 s. ``fails`` are positions on which a probe does not run, ``flaky`` those whose
    first build fails, ``spikes`` the share of readings that are off by a factor of 2, ``luck`` the standard deviation
    of builds of one commit, ``unlucky`` what the first build of the last commit is slower by, by luck, ``repeats`` the
    rebuilds of any commit that come out identical to another build, ``drift`` what each pair favours its first build by
    more than the pair before. What is done is counted in ``done``, and ends a bisection that does not end.
    """

    n: int
    series: Mapping[str, Simulated]
    unbuildable: frozenset[int] = frozenset()
    flaky: frozenset[int] = frozenset()
    fails: Mapping[str, frozenset[int]] = field(default_factory=dict)
    spikes: float = 0.0
    seed: int = 0
    luck: float = 0.0
    unlucky: float = 0.0
    repeats: Collection[int] = ()
    rebuilds: bool = False
    drift: float = 0.0
    done: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._tried: set[int] = set()
        self._favour = 0.0
        self.offsets: dict[tuple[int, int], float] = {(self.n, 0): self.unlucky} if self.unlucky else {}

    def build(self, position: int, draw: int = 0) -> BuildAttempt:
        """As :meth:`torchperf_ci.bisect.laboratory.Laboratory.build` does."""
        self._count()
        ok = position not in self.unbuildable | (self.flaky - self._tried)
        self._tried.add(position)
        why = "" if ok else "error: no such file"
        return BuildAttempt(position, ok, 10.0, why, draw, repeated=ok and draw in self.repeats)

    def holds(self, position: int, draw: int) -> bool:
        """Nothing is removed, and made in no time."""
        return True

    def build_good_anew(self) -> BuildAttempt:
        return self.build(0)

    def measure(self, step: PlannedPair) -> BisectReading | ProbeFailure:
        """As :meth:`torchperf_ci.bisect.laboratory.Laboratory.measure` does."""
        probe, base, head, purpose, draws = step.probe, step.base, step.head, step.purpose, step.draws
        assert not self.unbuildable & {base, head}
        assert 0 <= base < head <= self.n or (purpose == "control" and base == head)
        self._count()
        for position in (base, head):
            if position in self.fails.get(probe, ()):
                return ProbeFailure(probe, position, "crashed")
        luck = self._offset(head, draws[1]) - self._offset(base, draws[0])
        self._favour += self.drift
        side = -self._favour if step.head_first else self._favour
        ratios = {
            name: one.level(head) - one.level(base) + luck + side + self._error(one)
            for name, one in self.series.items()
            if one.probe == probe and one.absent.isdisjoint((base, head)) and not self._is_lost(one)
        }
        missing = tuple(
            name for name, one in self.series.items() if one.probe == probe and name not in ratios
        )
        return BisectReading(
            *(probe, base, head, ratios, purpose),
            seconds=1.0,
            draws=draws,
            head_first=step.head_first,
            missing=missing,
        )

    def question(self, weights: NDArray[np.float64] | None = None) -> BisectQuestion:
        """Which commits made the series slower by 3% or more?"""
        probes = list(dict.fromkeys(one.probe for one in self.series.values()))
        prior = np.full(self.n, 1 / self.n) if weights is None else weights
        return BisectQuestion(
            *(prior, probes, 0.03),
            build_seconds=10.0,
            pair_seconds=1.0,
            luck=0.003 if self.luck else 0.0,
            rebuilds=self.rebuilds,
        )

    def _count(self) -> None:
        self.done += 1
        assert self.done <= MAX_STEPS, "going round in circles"

    def _offset(self, position: int, draw: int) -> float:
        """What luck gives a build, of which nobody is told: only that there may be some."""
        if (position, draw) not in self.offsets:
            self.offsets[position, draw] = float(self._random.normal(0, self.luck)) if self.luck else 0.0
        return self.offsets[position, draw]

    def _is_lost(self, one: Simulated) -> bool:
        return bool(one.lost) and self._random.random() < one.lost

    def _error(self, one: Simulated) -> float:
        spike = self._random.choice([-SPIKE, SPIKE]) * (self._random.random() < self.spikes)
        return float(self._random.normal(0, one.noise) + spike)


class Kept:
    """What a state file keeps, in memory; ``events`` in the order in which they came, and the facts that they make."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.facts = BisectFacts()

    def add(self, event: Event) -> None:
        """One more."""
        self.events.append(event)
        self.facts = facts_of(self.events)


class Silent(BisectProgress):
    """Nobody is told."""

    def end(self, event: Event, facts: BisectFacts) -> None:
        """Nothing."""

    def _begin(self, activity: str, *, in_log: bool = False) -> None: ...


def facts_of(events: list[Event]) -> BisectFacts:
    """The facts that some events make."""
    readings, builds, failures = (
        [event for event in events if isinstance(event, kind)]
        for kind in (BisectReading, BuildAttempt, ProbeFailure)
    )
    return BisectFacts(tuple(readings), tuple(builds), tuple(failures))


@dataclass(frozen=True)
class Ended:
    """Where a bisection has come to, the way there, and the limit that ended it."""

    investigation: Investigation
    events: list[Event]
    ended_by: str

    @property
    def facts(self) -> BisectFacts:
        """All of them."""
        return self.investigation.facts

    @property
    def culprits(self) -> dict[str, list[SuspectRange]]:
        """The steps that each series has proven, of those that have any."""
        return {series.name: list(series.culprits) for series in self.investigation.series if series.culprits}


def bisected(
    world: SimulatedRange, limits: BisectLimits | None = None, question: BisectQuestion | None = None
) -> Ended:
    """Bisect a simulated range from its beginning to its end."""
    kept, asked = Kept(), question or world.question()
    shown = Silent(asked, [str(position) for position in range(world.n + 1)])
    most = limits or BisectLimits(pairs=MAX_PAIRS)
    ended_by = investigate(asked, world, kept, most, shown)  # type: ignore[arg-type]  # all that it asks of them
    assert limits or not ended_by, "going round in circles"
    known = Investigation(asked, kept.facts)
    return Ended(known, kept.events, ended_by)
