"""Where among the suspects the culprit lies: the odds, less what was refuted or reverted, and what to measure next.

Odds that go against such pairs rest on a model that does not hold here: pairs may remember each other, the machine may
have changed its mode. So they are believed no more than any claim has to be, and that is weighed by what the fresh
pairs said (Bayes' rule).

The odds of the levels know of no reverts: to them a rise, a fall and another rise are three changes, each unlikely. So
the pairs of the first build after the revert decide by themselves. Where the revert itself cannot be built and the next
build is slow, nothing tells whether it took nothing back or what lies between brought it back: then nobody is named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.bisect.reasoning.evidence import PlannedPair, SuspectRange, draw_to_read, reading_price
from torchperf_ci.bisect.reasoning.series_evidence import SURE, SeriesEvidence, weights_within
from torchperf_ci.stats.posterior import capacity, most_informative, posterior
from torchperf_ci.stats.sequential_test import BETA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.stats.posterior import Posterior


_LEAST = 1e-12


def probability_left(claim: float, proof: Proof) -> float:
    """The probability of a step that was claimed with the one of ``claim``, and then not proven."""
    odds = claim / (1 - claim) * _likelihood_ratio(proof)
    return odds / (1 + odds)


def _likelihood_ratio(proof: Proof) -> float:
    """How much likelier such pairs are of a culprit than of anything else; they never speak for one."""
    if proof.word == "not slower":
        return BETA
    return math.exp(min(proof.decision.increase, 0.0)) if proof.decision else 1.0


def with_refutations(found: Posterior, most: Mapping[int, float]) -> Posterior:
    """``found``, but gaps of these numbers have such probabilities at ``most``, and the others what these lose."""
    caps = np.ones_like(found.gaps)
    caps[list(most)] = list(most.values())
    kept = np.minimum(found.gaps, caps)
    free = np.where(caps < 1, 0.0, np.maximum(found.gaps, _LEAST))
    if not free.any() or (kept == found.gaps).all():
        return found
    gaps = kept + free * (found.gaps.sum() - kept.sum()) / free.sum()
    sizes = np.diff(found.tested)
    suspects = found.suspects * np.repeat(gaps / np.maximum(found.gaps, _LEAST), sizes)
    return replace(found, gaps=gaps, suspects=suspects)


REVERTS_IN_VAIN = 0.05
"""How probable it is beforehand that a commit which says that it takes another one back does not."""
CLEARLY_SLOW = math.log(0.95 / 0.05) + math.log((1 - REVERTS_IN_VAIN) / REVERTS_IN_VAIN)
"""The evidence of pairs from which on it is clear that a build is still slow after a revert."""
MOST_PAIRS_OF_REVERT = 20
"""What is not clear by then is neither as slow nor as fast as without the revert."""


@dataclass(frozen=True)
class RevertedSuspect:
    """A suspect of a segment that the commit at ``revert`` takes back, as a series shows it."""

    evidence: SeriesEvidence
    segment: SuspectRange
    revert: int

    @cached_property
    def place(self) -> int | None:
        """The build that tells: the first that can be had from the revert on, before what may bring it back."""
        unusable = self.evidence.facts.unusable
        return next((place for place in range(self.revert, self._end) if place not in unusable), None)

    @property
    def is_open(self) -> bool:
        """Whether more pairs of that build may show that it is as slow as before the revert."""
        return self.place is not None and not self._lasts and self._pairs < MOST_PAIRS_OF_REVERT

    @property
    def is_out(self) -> bool:
        """Whether the suspect is no culprit: it is not slow after the revert, or what it did has returned later on."""
        return self._return is not None or (self.place is not None and not self._lasts)

    @property
    def returns(self) -> Sequence[int]:
        """What may have brought back what was taken back: the commit that says so, else what no build tells apart from
        the revert."""
        if self._return is not None and self._return <= self.segment.after:
            return [self._return]
        return () if self.is_out else range(self.revert + 1, self._next_build + 1)

    @property
    def unsettled(self) -> Sequence[int]:
        """What has to be tried once more, as it would tell if it could be built."""
        return sorted(self.evidence.facts.unsettled.intersection(range(self.revert, self._next_build)))

    @property
    def _next_build(self) -> int:
        return self._end if self.place is None else self.place

    @property
    def _end(self) -> int:
        return min(self._return or self.segment.after, self.segment.after)

    @cached_property
    def _lasts(self) -> bool:
        decision = self._proof.decision if self._proof else None
        return decision is not None and decision.increase >= CLEARLY_SLOW

    @property
    def _pairs(self) -> int:
        return len(self._proof.log_ratios) if self._proof else 0

    @cached_property
    def _proof(self) -> Proof | None:
        return self.evidence.confirm(SuspectRange(self.segment.before, self.place)) if self.place else None

    @property
    def _return(self) -> int | None:
        """What takes back the revert."""
        taken_back = self.evidence.question.reverts.items()
        return min((again for again, revert in taken_back if revert == self.revert), default=None)


def reverted_suspects(
    evidence: SeriesEvidence, segment: SuspectRange, step: SuspectRange
) -> Sequence[RevertedSuspect]:
    """The suspects of a step that are taken back before the end of its segment."""
    return [
        RevertedSuspect(evidence, segment, revert)
        for revert, reverted in sorted(evidence.question.reverts.items())
        if step.before < reverted <= step.after < revert < segment.after
    ]


TWO_CAUSES = math.log(1 / 20)
"""Series are not taken to have one cause where two causes are twenty times as likely."""
MOST_EXPECTED, PAIRS_BESIDE = 12, 20
"""A search ends after so many times the pairs that were expected, and some beside these: of 320 simulated searches for
a culprit half took up to 1.8 times those and a hundredth 8 times or more where few were expected; memory and
modes of machines take more."""
LIKELIER = 0.5
"""What a step has to have where nothing tells more, to be tried: more than the rest together."""
LEAST_BITS = 0.02
"""A pair is worth at least as much: the budget has to end."""


@dataclass(frozen=True)
class CulpritSearch:
    """The search for one culprit: a segment, and the series that got slower over it, the clearest first."""

    segment: SuspectRange
    members: Sequence[SeriesEvidence]

    @cached_property
    def agreeing(self) -> Sequence[SeriesEvidence]:
        """The clearest series, and those whose readings go with its culprit."""
        chosen = [self.members[0]]
        for member in self.members[1:]:
            if self._weigh([*chosen, member]).one_cause > TWO_CAUSES:
                chosen.append(member)
        return chosen

    @cached_property
    def odds(self) -> Posterior:
        """The suspects of the segment, less what fresh pairs have said against some of them."""
        found = self._weigh(self.agreeing)
        places = {self.segment.before + int(place): gap for gap, place in enumerate(found.tested[:-1])}
        most = {
            places[step.before]: probability_left(SURE, proof)
            for step, proof in self.members[0].tried.items()
            if step in self.members[0].refuted
            and step in self.segment.parts([step])
            and step.before in places
        }
        return with_refutations(found, most)

    @cached_property
    def step(self) -> SuspectRange | None:
        """The two builds that the culprit lies between, once that is sure enough and no build between can be had."""
        return None if self._unsettled else self._place

    @cached_property
    def _place(self) -> SuspectRange | None:
        """The same, as far as was tried."""
        return self._likeliest(SURE)

    @cached_property
    def last_step(self) -> SuspectRange | None:
        """What is tried when no pair tells more of where the culprit lies: the likeliest two builds, as their proof is
        another one's. None where they are not likelier than the rest together, or hold what was reverted."""
        step = self._likeliest(LIKELIER)
        is_reverted = step and reverted_suspects(self.members[0], self.segment, step)
        return None if self._unsettled or is_reverted else step

    def _likeliest(self, least: float) -> SuspectRange | None:
        """The likeliest two builds, if they have the probability ``least`` and none between them can be had."""
        most = int(self.odds.gaps.argmax())
        if self.odds.gaps[most] < least:
            return None
        left, right = (int(self.odds.tested[most + side]) + self.segment.before for side in (0, 1))
        unusable = self.members[0].facts.unusable
        return SuspectRange(left, right) if {*range(left + 1, right)} <= unusable else None

    @cached_property
    def _unsettled(self) -> Sequence[int]:
        """What has to be tried once more before anything rests on its not being built."""
        place = self._place
        unsettled = self.members[0].facts.unsettled
        return sorted(unsettled.intersection(range(place.before + 1, place.after))) if place else ()

    @property
    def is_to_verify(self) -> bool:
        """Whether the step may be the culprit, as far as its reverts tell."""
        return self.step is not None and not self.returns and not any(one.is_out for one in self._reverts)

    @property
    def returns(self) -> Sequence[int]:
        """What may have brought back what a suspect of the step did, so that it cannot be told which it was."""
        return sorted({place for revert in self._reverts for place in revert.returns})

    def pair_of_revert(self, *, may_build: bool) -> PlannedPair | None:
        """What shows whether a suspect of the step still makes the end slow, or something after its revert."""
        first = self.members[0]
        for revert in self._reverts:
            heads = [*revert.unsettled, *([revert.place] if revert.is_open else [])]
            for head in heads:
                if head is not None and (may_build or head in first.facts.built):
                    return PlannedPair(first.probe, self.segment.before, head, "locate")
        return None

    @cached_property
    def _reverts(self) -> Sequence[RevertedSuspect]:
        return reverted_suspects(self.members[0], self.segment, self.step) if self.step else ()

    def next_pair(self, *, may_build: bool) -> PlannedPair | None:
        """What is expected to tell most for its price; None where nothing would tell anything."""
        if self._unsettled:
            first, head = self.members[0], self._unsettled[len(self._unsettled) // 2]
            return PlannedPair(first.probe, self.segment.before, head, "locate") if may_build else None
        if self.is_spent:
            return None
        best, found = 0.0, None
        for number, member in enumerate(self.agreeing):
            cost = reading_price(
                member.question, member.facts, self.segment, member.probe, may_build=may_build
            )
            choice = most_informative(self.odds, number, cost)
            if choice and choice.rate > best:
                head = self.segment.before + choice.position
                draws = (0, draw_to_read(member.facts, self.segment.before, head, anew=choice.anew))
                best, found = (
                    choice.rate,
                    PlannedPair(member.probe, self.segment.before, head, "locate", draws),
                )
        return found

    @property
    def is_spent(self) -> bool:
        """Whether it has taken many times the pairs that would have shown one culprit: then there is none to show."""
        return self._taken >= MOST_EXPECTED * self._expected + PAIRS_BESIDE

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
        odds = self._believed
        return {self.segment.before + place: float(odds.suspects[place - 1]) for place in odds.credible(SURE)}

    @property
    def _believed(self) -> Posterior:
        """The odds, of which a search that has spent its budget keeps no more than the pairs that it expected to take.

        They would have shown one culprit. Pairs that did not are unlike the model: the machine has modes, or many
        commits add up, and how well they agree says less than it seems.
        """
        if not self.is_spent:
            return self._with_returns(self.odds)
        weighed = self.odds.suspects ** (self._expected / self._taken)
        return replace(self.odds, suspects=weighed * (1 - self.odds.none) / weighed.sum())

    def _with_returns(self, odds: Posterior) -> Posterior:
        """The odds, of which half of the step's go to what may have brought it back."""
        if not self.returns or self.step is None:
            return odds
        suspects, start = odds.suspects.copy(), self.segment.before + 1
        step = slice(self.step.before + 1 - start, self.step.after + 1 - start)
        moved = suspects[step] / 2
        suspects[step] -= moved
        suspects[[place - start for place in self.returns]] += moved.sum() / len(self.returns)
        return replace(odds, suspects=suspects)

    def _weigh(self, members: Sequence[SeriesEvidence]) -> Posterior:
        first = members[0]
        readings = [member.readings(self.segment) for member in members]
        return posterior(weights_within(first.question, self.segment), readings, first.question.min_effect)
