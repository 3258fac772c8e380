"""Decide what to measure next: confirm the regression, locate a culprit, verify it, and repeat for what remains.

The facts are the only state, so an interrupted bisection resumes by asking again.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torchperf_ci.bisect.reasoning.culprit_search import CulpritSearch
from torchperf_ci.bisect.reasoning.evidence import PlannedPair, with_order
from torchperf_ci.bisect.reasoning.proof import MIN_TO_CONFIRM, with_control
from torchperf_ci.bisect.reasoning.series_evidence import SeriesEvidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectQuestion, SuspectRange

POSSIBLE = 0.01
"""If one series has proven a step, others are tested on it too if they give it at least this probability."""


@dataclass(frozen=True)
class Investigation:
    """Everything that follows from the facts."""

    question: BisectQuestion
    facts: BisectFacts

    @cached_property
    def series(self) -> Sequence[SeriesEvidence]:
        """Every series that was measured of bad and good; commits between them may have others."""
        ends = self.facts.by_ends.get((0, self.question.bad), ())
        known = {name: reading.probe for reading in ends for name in reading.log_ratios}
        return [SeriesEvidence(self.question, self.facts, name, probe) for name, probe in known.items()]

    @property
    def missing(self) -> Sequence[str]:
        """The series that were asked for, or that some runs of bad and good had, but no pair of them has yielded."""
        ends = self.facts.by_ends.get((0, self.question.bad), ())
        yielded = {series.name for series in self.series}
        return sorted({name for reading in ends for name in reading.missing} - yielded)

    @cached_property
    def probes(self) -> Sequence[str]:
        """The probes that run on both ends of the range."""
        failing = {f.probe for f in self.facts.failures if f.position in (0, self.question.bad)}
        return [probe for probe in self.question.probes if probe not in failing]

    @cached_property
    def regressed(self) -> Sequence[SeriesEvidence]:
        """The series of which bad is slower than good, or that have a culprit, the clearest first.

        A proven culprit stays proven, even if later pairs of bad and good look less slow.
        """
        slower = [series for series in self.series if series.confirmation.word == "slower" or series.culprits]
        return sorted(slower, key=_clarity, reverse=True)

    @cached_property
    def proven(self) -> frozenset[SuspectRange]:
        """The steps that any series has proven."""
        return frozenset(step for series in self.regressed for step in series.culprits)

    @cached_property
    def culprits(self) -> Sequence[SuspectRange]:
        """The culprits. If the step of one series contains that of another one, both are counted as the narrower."""
        return sorted({self.narrowest(step) for step in self.proven})

    def narrowest(self, step: SuspectRange) -> SuspectRange:
        """The single culprit inside ``step``, or ``step`` itself: not all probes run on the builds closest to one."""
        inside = [*step.parts(self.proven - {step})]
        return inside[0] if len(inside) == 1 else step

    @property
    def explained_by_luck(self) -> SeriesEvidence | None:
        """A series that regressed only until both ends were rebuilt; None if there is none, or if another regressed."""
        gone = (series for series in self.series if series.confirmation.is_luck)
        return None if self.regressed else next(gone, None)

    @cached_property
    def searches(self) -> Sequence[CulpritSearch]:
        """The searches for unexplained changes; series with the same part to explain share one search.

        Unless one cannot be measured where the other can, and locates the culprit more closely; or their readings do
        not agree on one, or the search has ended without one and they are of other probes.
        """
        groups: dict[tuple[SuspectRange, frozenset[SuspectRange], frozenset[int]], list[SeriesEvidence]] = {}
        for series in self.regressed:
            for part, proof in series.unexplained.items():
                if proof.word == "slower":
                    alike = (
                        part,
                        frozenset(part.parts(series.refuted)),
                        series.failing.intersection(range(part.before, part.after + 1)),
                    )
                    groups.setdefault(alike, []).append(series)
        return [
            search for (part, *_), members in groups.items() for search in _searches_within(part, members)
        ]

    def next_step(self, *, may_build: bool = True) -> PlannedPair | None:
        """The pair to measure next; None when there is nothing more to learn."""
        for steps in (
            self._confirmations(first=True),
            self._shared_culprits(),
            self._remainders(),
            self._rebuilt_ends(series for series in self.series if series.is_doubtful),
            self._verifications(may_build=may_build),
            self._locations(may_build=may_build),
            self._last_steps(),
            self._confirmations(first=False),
            self._disputed_steps(),
            self._rebuilt_ends(self.regressed),
        ):
            if (step := next(filter(self._may_run, steps), None)) is not None:
                return with_order(self.facts, with_control(self.facts, step))
        return None

    def _may_run(self, step: PlannedPair) -> bool:
        """Whether the probe is not known to fail on one of the two builds, where a pair would tell nothing new."""
        ends = (step.base, step.head)
        return not any(f.probe == step.probe and f.position in ends for f in self.facts.failures)

    def _confirmations(self, *, first: bool) -> Iterator[PlannedPair]:
        """Pairs of bad and good, for the probe with the fewest first: a minimum for each, or until the result is clear.

        Clear changes are located before others are confirmed further, because what takes many pairs may be no change.
        """
        whole = (0, self.question.bad)
        asked = Counter(r.probe for r in self.facts.readings if (r.base, r.head) == whole)
        undecided = {
            series.probe: series for series in reversed(self.series) if series.confirmation.word == "open"
        }
        for probe in sorted(self.probes, key=lambda probe: asked[probe]):
            if asked[probe] < MIN_TO_CONFIRM if first else probe in undecided:
                series = undecided.get(probe)
                yield (
                    series.pair(series.whole, "confirm") if series else PlannedPair(probe, *whole, "confirm")
                )

    def _shared_culprits(self) -> Iterator[PlannedPair]:
        """Verify a culprit that one series has proven on the other series that may have it, and locate it no closer."""
        for series in self.regressed:
            for part in series.unexplained:
                for step in sorted({*part.parts(self.proven)} - series.refuted):
                    if step in series.tried or (
                        series.are_closest(step)
                        and series.failing.isdisjoint((step.before, step.after))
                        and _gives(series, part, step) >= POSSIBLE
                    ):
                        yield series.pair(step, "verify")

    def _remainders(self) -> Iterator[PlannedPair]:
        """Confirm whether the culprits leave any change unexplained."""
        for series in self.regressed:
            for part, proof in series.unexplained.items():
                if proof.word == "open":
                    yield series.pair(part, "confirm")

    def _rebuilt_ends(self, found: Iterable[SeriesEvidence]) -> Iterator[PlannedPair]:
        """Pairs of rebuilds of bad and good, whose first builds may differ by luck, for series without a culprit."""
        for series in found:
            if not series.culprits and series.rebuilt.word == "open":
                yield series.pair_of_rebuilds()

    def _verifications(self, *, may_build: bool) -> Iterator[PlannedPair]:
        for search in self.searches:
            if search.step and search.step not in search.first.refuted:
                if revert := search.pair_of_revert(may_build=may_build):
                    yield revert
                if search.is_to_verify:
                    yield search.first.pair(search.step, "verify")

    def _locations(self, *, may_build: bool) -> Iterator[PlannedPair]:
        for search in self.searches:
            if search.step is None and (step := search.next_pair(may_build=may_build)):
                yield step

    def _last_steps(self) -> Iterator[PlannedPair]:
        """Verify the likeliest step if no other pair is informative."""
        for search in self.searches:
            if search.step is None and search.last_step and search.last_step not in search.first.refuted:
                yield search.first.pair(search.last_step, "verify")

    def _disputed_steps(self) -> Iterator[PlannedPair]:
        """If nothing else is left to do, more pairs of a step that is the culprit by all readings together."""
        for search in self.searches:
            if search.disputed_step:
                yield search.first.pair(search.disputed_step, "verify")


def _searches_within(part: SuspectRange, members: Sequence[SeriesEvidence]) -> Iterator[CulpritSearch]:
    earlier: Counter[str] = Counter()
    while members:
        probe = members[0].probe
        search = CulpritSearch(part, members, earlier[probe])
        yield search
        earlier[probe] += 1
        is_in_vain = search.is_spent and search.step is None
        shared = {series.name for series in search.agreeing if series.probe == probe or not is_in_vain}
        members = [series for series in members if series.name not in shared]


def _clarity(series: SeriesEvidence) -> float:
    """The effect in standard deviations of one pair."""
    decision = series.confirmation.decision
    return math.log(decision.effect.ratio) / decision.noise if decision else 0.0


def _gives(series: SeriesEvidence, part: SuspectRange, step: SuspectRange) -> float:
    """The probability that a series gives to the suspects of a step."""
    suspects = series.weigh(part).suspects
    return float(suspects[step.before - part.before : step.after - part.before].sum())
