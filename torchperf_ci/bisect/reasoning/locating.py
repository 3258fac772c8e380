"""Where in a segment the culprit lies: the series that may share it, the odds, and what to measure next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torchperf_ci.bisect.reasoning.doubt import doubted, left
from torchperf_ci.bisect.reasoning.evidence import draw_of, price
from torchperf_ci.bisect.reasoning.question import Measure
from torchperf_ci.bisect.reasoning.segment import Segment
from torchperf_ci.bisect.reasoning.standing import SURE, Standing, weights
from torchperf_ci.bisect.reasoning.taken_back import taken_back
from torchperf_ci.stats.capacity import capacity
from torchperf_ci.stats.information import most_informative
from torchperf_ci.stats.posterior import posterior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.reasoning.taken_back import TakenBack
    from torchperf_ci.stats.posterior import Posterior

APART = math.log(1 / 20)
"""Series are not taken to have one cause where two causes are twenty times as likely."""
MOST_EXPECTED, BESIDE = 12, 20
"""A search ends after so many times the pairs that were expected, and some beside these: of 320 simulated searches for
a culprit half took up to 1.8 times those and a hundredth 8 times or more where few were expected; memory and
modes of machines take more."""
LEAST_BITS = 0.02
"""A pair is worth at least as much: the budget has to end."""


@dataclass(frozen=True)
class Search:
    """The search for one culprit: a segment, and the series that got slower over it, the clearest first."""

    segment: Segment
    members: Sequence[Standing]

    @cached_property
    def agreeing(self) -> Sequence[Standing]:
        """The clearest series, and those whose readings go with its culprit."""
        chosen = [self.members[0]]
        for member in self.members[1:]:
            if self._weigh([*chosen, member]).one_cause > APART:
                chosen.append(member)
        return chosen

    @cached_property
    def odds(self) -> Posterior:
        """The suspects of the segment, less what fresh pairs have said against some of them."""
        found = self._weigh(self.agreeing)
        places = {self.segment.before + int(place): gap for gap, place in enumerate(found.tested[:-1])}
        most = {
            places[step.before]: left(SURE, proof)
            for step, proof in self.members[0].tried.items()
            if step in self.members[0].refuted
            and step in self.segment.parts([step])
            and step.before in places
        }
        return doubted(found, most)

    @cached_property
    def step(self) -> Segment | None:
        """The two builds that the culprit lies between, once that is sure enough and no build between can be had."""
        return None if self._unsettled else self._place

    @cached_property
    def _place(self) -> Segment | None:
        """The same, as far as was tried."""
        most = int(self.odds.gaps.argmax())
        if self.odds.gaps[most] < SURE:
            return None
        left, right = (int(self.odds.tested[most + side]) + self.segment.before for side in (0, 1))
        facts = self.members[0].facts
        return Segment(left, right) if {*range(left + 1, right)} <= facts.unusable else None

    @cached_property
    def _unsettled(self) -> Sequence[int]:
        """What has to be tried once more before anything rests on its not being built."""
        place = self._place
        unsettled = self.members[0].facts.unsettled
        return sorted(unsettled.intersection(range(place.before + 1, place.after))) if place else ()

    @property
    def is_to_verify(self) -> bool:
        """Whether the step may be the culprit, as far as its reverts tell."""
        return self.step is not None and not any(revert.is_out for revert in self._reverts)

    def pair_of_revert(self, *, may_build: bool) -> Measure | None:
        """What shows whether a suspect of the step still makes the end slow, or something after its revert."""
        first = self.members[0]
        for revert in self._reverts:
            if (
                revert.is_open
                and revert.place is not None
                and (may_build or revert.place in first.facts.built)
            ):
                return Measure(first.probe, self.segment.before, revert.place, "locate")
        return None

    @cached_property
    def _reverts(self) -> Sequence[TakenBack]:
        return taken_back(self.members[0], self.segment, self.step) if self.step else ()

    def next_pair(self, *, may_build: bool) -> Measure | None:
        """What is expected to tell most for its price; None where nothing would tell anything."""
        if self._unsettled:
            first, head = self.members[0], self._unsettled[0]
            return Measure(first.probe, self.segment.before, head, "locate") if may_build else None
        if self.is_spent:
            return None
        best, found = 0.0, None
        for number, member in enumerate(self.agreeing):
            cost = price(member.question, member.facts, self.segment, member.probe, may_build=may_build)
            choice = most_informative(self.odds, number, cost)
            if choice and choice.rate > best:
                head = self.segment.before + choice.position
                draws = (0, draw_of(member.facts, self.segment.before, head, anew=choice.anew))
                best, found = choice.rate, Measure(member.probe, self.segment.before, head, "locate", draws)
        return found

    @property
    def is_spent(self) -> bool:
        """Whether it has taken many times the pairs that would have shown one culprit: then there is none to show."""
        return self._taken >= MOST_EXPECTED * self._expected + BESIDE

    @property
    def _taken(self) -> int:
        """Pairs that were to locate a culprit in the segment, or to prove one that was refuted."""
        first = self.members[0]
        refuted = {(step.before, step.after) for step in first.refuted}
        return sum(
            self.segment.before <= one.base < one.head <= self.segment.after
            and (one.purpose == "locate" or (one.purpose == "verify" and (one.base, one.head) in refuted))
            for one in first.facts.readings
            if one.probe == first.probe
        )

    @property
    def _expected(self) -> float:
        """The pairs that carry as many bits as it takes to tell the suspects apart."""
        suspects, one = self.segment.after - self.segment.before, self.odds.series[0]
        decision = self.members[0].confirm(self.segment).decision
        spread = math.hypot(one.sigma, math.sqrt(2) * one.tau)
        distance = math.log(decision.effect.ratio) / spread if decision else 0.0
        return math.log2(suspects) / max(capacity(distance), LEAST_BITS)

    def suspects(self) -> dict[int, float]:
        """The fewest positions that hold 95% of the probability, each with its own."""
        return {
            self.segment.before + place: float(self.odds.suspects[place - 1])
            for place in self.odds.credible(SURE)
        }

    def _weigh(self, members: Sequence[Standing]) -> Posterior:
        first = members[0]
        readings = [member.readings(self.segment) for member in members]
        return posterior(weights(first.question, self.segment), readings, first.question.min_effect)
