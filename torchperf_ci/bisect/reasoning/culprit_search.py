"""Locate a culprit among the suspects: their probabilities, refuted and reverted suspects, and the next pair.

If fresh pairs refute a step that the posterior favors, the model does not hold: pairs may be autocorrelated, or the
machine may have changed its mode. The posterior is then trusted no more than any claim must be, and that trust is
updated with what the fresh pairs showed (Bayes' rule).

The posterior does not know of reverts: to it, a rise, a fall and another rise are three unlikely changes. The pairs
of the first build after the revert therefore decide by themselves. If the revert cannot be built and the next build
is slow, either the revert did not work or a commit in between brought the change back; then no commit is named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from torchperf_ci.bisect.reasoning.evidence import PlannedPair, SuspectRange, draw_to_read, reading_price
from torchperf_ci.bisect.reasoning.proof import Proof, may_be_proven_yet
from torchperf_ci.bisect.reasoning.series_evidence import SURE, SeriesEvidence, weights_within
from torchperf_ci.stats.level_grid import SLOW_SHARE
from torchperf_ci.stats.posterior import Posterior, capacity, most_informative, posterior
from torchperf_ci.stats.sequential_test import BETA


def probability_left(claim: float, proof: Proof) -> float:
    """The probability of a step that was claimed with probability ``claim`` and then not proven."""
    # How much likelier such pairs are for a culprit than otherwise; at most 1, so that they never support a claim.
    ratio = BETA if proof.word == "not slower" else math.exp(min(proof.increase, 0.0))
    odds = claim / (1 - claim) * ratio
    return odds / (1 + odds)


def with_refutations(found: Posterior, most: Mapping[int, float]) -> Posterior:
    """``found`` with the probabilities of some gaps capped at ``most``; the other gaps gain what these lose."""
    caps = np.ones_like(found.gaps)
    caps[list(most)] = list(most.values())
    capped = np.minimum(found.gaps, caps)
    free = np.where(caps < 1, 0.0, found.gaps)
    if not free.any() or (capped == found.gaps).all():
        return found
    gaps = capped + free * (found.gaps.sum() - capped.sum()) / free.sum()
    sizes = np.diff(found.tested)
    suspects = found.suspects * np.repeat(gaps / found.gaps, sizes)
    return replace(found, gaps=gaps, suspects=suspects)


REVERTS_IN_VAIN = 0.05
"""The prior probability that a commit which claims to revert another one does not remove its effect."""
CLEARLY_SLOW = math.log(0.95 / 0.05) + math.log((1 - REVERTS_IN_VAIN) / REVERTS_IN_VAIN)
"""The evidence from which on a build is clearly still slow after a revert."""
MAX_PAIRS_OF_REVERT = 20
"""If the result is unclear after so many pairs, the build is neither as slow nor as fast as without the revert."""


@dataclass(frozen=True)
class RevertedSuspect:
    """A suspect in a segment that the commit at ``revert`` reverts, as seen by one series."""

    evidence: SeriesEvidence
    segment: SuspectRange
    revert: int

    @cached_property
    def place(self) -> int | None:
        """The decisive build: the first usable one from the revert on, before anything may bring the change back."""
        unusable = self.evidence.unusable
        return next((place for place in range(self.revert, self._end) if place not in unusable), None)

    @property
    def is_open(self) -> bool:
        """Whether more pairs of that build may show that it is as slow as before the revert."""
        proof = self._proof
        return proof is not None and not self._lasts and len(proof.log_ratios) < MAX_PAIRS_OF_REVERT

    @property
    def is_gone(self) -> bool:
        """Whether the slowdown ends with the revert, and no commit says that it brings it back."""
        return self._return is None and self.place is not None and not self._lasts and not self.is_open

    @property
    def is_out(self) -> bool:
        """Whether the suspect is no culprit: the slowdown ends with the revert, or a later commit brings it back."""
        return self._return is not None or (self.place is not None and not self._lasts)

    @property
    def returns(self) -> Sequence[int]:
        """The commits that may have brought the change back.

        They are the commit that reverts the revert, or else those that no build can distinguish from the revert.
        """
        if self._return is not None and self._return <= self.segment.after:
            return [self._return]
        return () if self.is_out else range(self.revert + 1, self._next_build + 1)

    @property
    def unsettled(self) -> Sequence[int]:
        """The builds to try again, because they would decide the question."""
        return sorted(self.evidence.facts.unsettled.intersection(range(self.revert, self._next_build)))

    @property
    def _next_build(self) -> int:
        return self._end if self.place is None else self.place

    @property
    def _end(self) -> int:
        return min(self._return or self.segment.after, self.segment.after)

    @property
    def _lasts(self) -> bool:
        return self._proof is not None and self._proof.increase >= CLEARLY_SLOW

    @cached_property
    def _proof(self) -> Proof | None:
        if self.place is None:
            return None
        return self.evidence.confirm(SuspectRange(self.segment.before, self.place), is_learnt=True)

    @property
    def _return(self) -> int | None:
        """The position of the commit that reverts the revert, or None."""
        reverts = self.evidence.question.reverts.items()
        return min((again for again, revert in reverts if revert == self.revert), default=None)


TWO_CAUSES = math.log(1 / 20)
"""Series are not given a common cause if two causes are twenty times as likely."""
MAX_EXPECTED, PAIRS_BESIDE = 12, 20
"""A search ends after so many times the expected pairs, plus some.

Of 320 simulated searches for one culprit, half took up to 1.8 times the expected pairs, and a hundredth 8 times or
more if few were expected. Autocorrelation and modes of machines take more.
"""
LATE_SLOW_SHARE = 0.5
"""The part of the whole change that a slow build has once a search has taken half of its pairs.

Many small commits before the culprit may add up to :data:`torchperf_ci.stats.level_grid.SLOW_SHARE`.
"""
LIKELIER = 0.5
"""The probability that a step needs to be tried when no pair is informative: more than all others together."""
MIN_BITS = 0.02
"""The least information that a pair is assumed to yield, so that the budget is finite."""


@dataclass(frozen=True)
class CulpritSearch:
    """The search for one culprit: a segment, and the series that got slower over it, the clearest first.

    They cannot be measured on the same commits of it. ``earlier`` is the number of searches of the same segment that
    take pairs of the same probe, too.
    """

    segment: SuspectRange
    members: Sequence[SeriesEvidence]
    earlier: int = 0

    @property
    def first(self) -> SeriesEvidence:
        """The clearest series."""
        return self.members[0]

    @cached_property
    def agreeing(self) -> Sequence[SeriesEvidence]:
        """The clearest series, and the series whose readings are compatible with the same culprit."""
        chosen = [self.first]
        for member in self.members[1:]:
            if self._weigh([*chosen, member]).one_cause > TWO_CAUSES:
                chosen.append(member)
        return chosen

    @cached_property
    def odds(self) -> Posterior:
        """The posterior of the suspects of the segment, with refuted and reverted ones reduced."""
        return self._less_reverted(self._less_refuted(self._by_readings))

    def _less_reverted(self, found: Posterior) -> Posterior:
        """The posterior with the suspects up to a revert reduced if the step is reverted and the slowdown ends there.

        To the model of levels, the rise that brings the change back may be less likely than a slow build by luck.
        """
        step = self._likeliest(found, SURE)
        reverts = [one for one in self._reverted(step) if one.is_gone]
        gone = [one.place - self.segment.before for one in reverts if one.place]
        if not gone:
            return found
        before = found.gaps[found.tested[1:] <= max(gone)]
        return with_refutations(found, dict(enumerate(before / before.sum() * REVERTS_IN_VAIN)))

    def _less_refuted(self, found: Posterior) -> Posterior:
        places = {self.segment.before + int(place): gap for gap, place in enumerate(found.tested[:-1])}
        most = {
            places[step.before]: probability_left(SURE, proof)
            for step, proof in self.first.tried.items()
            if step in self.first.refuted and step in self.segment.parts([step]) and step.before in places
        }
        return with_refutations(found, most)

    @cached_property
    def _by_readings(self) -> Posterior:
        """The posterior before refuted steps are reduced."""
        is_late = self._pairs_spent >= self._budget / 2
        return self._weigh(self.agreeing, LATE_SLOW_SHARE if is_late else SLOW_SHARE)

    @cached_property
    def step(self) -> SuspectRange | None:
        """The two builds around the culprit, once they are probable enough and no usable build lies between them."""
        return None if self._unsettled else self._place

    @cached_property
    def _place(self) -> SuspectRange | None:
        """The same step, even if builds within it have to be tried again."""
        return self._likeliest(self.odds, SURE)

    @cached_property
    def last_step(self) -> SuspectRange | None:
        """The likeliest two builds, to be tried when no pair locates the culprit better; their proof is independent.

        None if they are not likelier than all others together, or contain a reverted suspect.
        """
        step = self._likeliest(self.odds, LIKELIER)
        return None if self._unsettled or self._reverted(step) else step

    @cached_property
    def disputed_step(self) -> SuspectRange | None:
        """A step that its own pairs narrowly failed to prove, but that is the culprit by all readings together."""
        step = None if self.is_spent else self._likeliest(self._by_readings, SURE)
        if step is None or step not in self.first.refuted or self._reverted(step):
            return None
        return step if may_be_proven_yet(self.first.tried[step]) else None

    def _likeliest(self, odds: Posterior, least: float) -> SuspectRange | None:
        """The likeliest two builds, if their probability is at least ``least`` and no usable build is between them."""
        most = int(odds.gaps.argmax())
        if odds.gaps[most] < least:
            return None
        step = SuspectRange(*(int(odds.tested[most + side]) + self.segment.before for side in (0, 1)))
        return step if self.first.are_closest(step) else None

    @cached_property
    def _unsettled(self) -> Sequence[int]:
        """The builds in the step to try again before relying on their failure."""
        place = self._place
        unsettled = self.first.facts.unsettled
        return sorted(unsettled.intersection(range(place.before + 1, place.after))) if place else ()

    @property
    def is_to_verify(self) -> bool:
        """Whether the step may be the culprit, given its reverts."""
        return self.step is not None and not self.returns and not any(one.is_out for one in self._reverts)

    @property
    def returns(self) -> Sequence[int]:
        """The commits that may have brought a suspect's change back, which leaves open which of them is the culprit."""
        return sorted({place for revert in self._reverts for place in revert.returns})

    def pair_of_revert(self, *, may_build: bool) -> PlannedPair | None:
        """A pair that shows whether a suspect's change lasts beyond its revert; None if there is none to measure."""
        for revert in self._reverts:
            heads = [*revert.unsettled, *([revert.place] if revert.is_open else [])]
            for head in heads:
                if head is not None and (may_build or head in self.first.facts.built):
                    return self.first.pair_to_locate(SuspectRange(self.segment.before, head))
        return None

    @cached_property
    def _reverts(self) -> Sequence[RevertedSuspect]:
        return self._reverted(self.step)

    def _reverted(self, step: SuspectRange | None) -> Sequence[RevertedSuspect]:
        """The suspects of a step that are reverted before the end of the segment; none without a step."""
        return [
            RevertedSuspect(self.first, self.segment, revert)
            for revert, reverted in sorted(self.first.question.reverts.items())
            if step and step.before < reverted <= step.after < revert < self.segment.after
        ]

    def next_pair(self, *, may_build: bool) -> PlannedPair | None:
        """The pair with the most expected information per second; None if no pair is informative."""
        if self._unsettled:
            head = self._unsettled[len(self._unsettled) // 2]
            return PlannedPair(self.first.probe, self.segment.before, head, "locate") if may_build else None
        if self.is_spent:
            return None
        best, found = 0.0, None
        for number, member in enumerate(self.agreeing):
            asked = (member.question, member.facts, self.segment, member.probe, member.unusable)
            cost = reading_price(*asked, may_build=may_build)
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
        """Whether the search has taken many times the pairs that would have shown a single culprit."""
        return self._pairs_spent >= self._budget

    @property
    def _budget(self) -> float:
        return (MAX_EXPECTED * self._expected + PAIRS_BESIDE) * (self.earlier + 1)

    @cached_property
    def _pairs_spent(self) -> int:
        """The pairs that were taken to locate a culprit in the segment, or to verify one that was refuted."""
        refuted = {(step.before, step.after) for step in self.first.refuted}
        return sum(
            self.segment.before <= one.base < one.head <= self.segment.after
            and (one.purpose == "locate" or (one.purpose == "verify" and (one.base, one.head) in refuted))
            for one in self.first.facts.readings
            if one.probe == self.first.probe
        )

    @cached_property
    def _expected(self) -> float:
        """The number of pairs that yield enough bits to tell the suspects apart."""
        suspects, one = self.segment.after - self.segment.before, self._weigh(self.agreeing).series[0]
        decision = self.first.confirm(self.segment).decision
        spread = math.hypot(one.sigma, math.sqrt(2) * one.tau)
        distance = math.log(decision.effect.ratio) / spread if decision else 0.0
        return math.log2(suspects) / max(capacity(distance), MIN_BITS)

    def suspects(self) -> dict[int, float]:
        """The smallest set of positions with 95% of the probability (the credible set), each with its own."""
        odds = self._believed
        return {self.segment.before + place: float(odds.suspects[place - 1]) for place in odds.credible(SURE)}

    @property
    def _believed(self) -> Posterior:
        """The posterior; if the search is spent, flattened as if it came from only the expected number of pairs.

        Those would have shown a single culprit. If more pairs did not, the model is wrong: the machine has modes, or
        many commits add up, and the agreement of pairs means less than it seems. Nor is it known what part of the whole
        change a slow build has: both parts count.
        """
        if not self.is_spent:
            return self._with_returns(self.odds)
        early = self._less_refuted(self._weigh(self.agreeing))
        weighed = ((early.suspects + self.odds.suspects) / 2) ** (self._expected / self._pairs_spent)
        return replace(self.odds, suspects=weighed * (1 - self.odds.none) / weighed.sum())

    def _with_returns(self, odds: Posterior) -> Posterior:
        """The posterior with half of the step's probability moved to the commits that may have brought it back."""
        if not self.returns or self.step is None:
            return odds
        suspects, start = odds.suspects.copy(), self.segment.before + 1
        step = slice(self.step.before + 1 - start, self.step.after + 1 - start)
        moved = suspects[step] / 2
        suspects[step] -= moved
        suspects[[place - start for place in self.returns]] += moved.sum() / len(self.returns)
        return replace(odds, suspects=suspects)

    def _weigh(self, members: Sequence[SeriesEvidence], slow_share: float = SLOW_SHARE) -> Posterior:
        first = members[0]
        readings = [member.readings(self.segment) for member in members]
        weights = weights_within(first.question, self.segment)
        return posterior(weights, readings, first.question.min_effect, slow_share)
