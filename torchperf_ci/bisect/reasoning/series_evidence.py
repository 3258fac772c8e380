"""What the facts show about one series: whether it regressed, which steps explain that, and what to measure next.

The pairs of the same two draws form a block. The number of pairs per block is chosen as in two-stage sampling: the
next pair or draw is whichever lowers the variance of the mean more for its price (Cochran, *Sampling Techniques*,
§10.6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.bisect.reasoning.evidence import (
    PlannedPair,
    Purpose,
    SuspectRange,
    build_seconds,
    can_rebuild,
    pair_seconds,
    readings_within,
)
from torchperf_ci.bisect.reasoning.proof import (
    MAX_PAIRS,
    MIN_BUILDS,
    KnownLuck,
    Proof,
    alpha_shares,
    confirmed,
    mostly_slower,
    unless_coarse,
    unless_memory,
    verified,
)
from torchperf_ci.stats.build_variance import Readings, tau_prior
from torchperf_ci.stats.posterior import Posterior, chance_of_rise, posterior

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectQuestion, BisectReading


PAIRS_PER_BLOCK = 3
"""The fewest pairs of a block."""
MAX_BLOCKS = MAX_PAIRS // PAIRS_PER_BLOCK
MAX_FAILED_DRAWS = 3
"""After so many failed rebuilds of a commit, no more are tried."""


@dataclass(frozen=True)
class BuildDraws:
    """The draws of the two ends of a segment; if ``fresh``, only rebuilds that were measured for nothing but its proof.

    These are the pairs whose purpose is one of ``purposes``.
    """

    question: BisectQuestion
    facts: BisectFacts
    series: str
    probe: str
    segment: SuspectRange
    fresh: bool
    purposes: tuple[Purpose, ...] = ("verify",)

    @cached_property
    def is_possible(self) -> bool:
        """Whether both ends can be rebuilt, and builds of them differ by luck."""
        ends = (self.segment.before, self.segment.after)
        can_differ = self.question.luck and not self.facts.differ_in_texts(*ends)
        if not (can_differ and can_rebuild(self.question, self.facts)):
            return False
        failed = [build.position for build in self.facts.builds if build.draw and not build.ok]
        return all(failed.count(end) < MAX_FAILED_DRAWS for end in ends)

    @cached_property
    def blocks(self) -> dict[tuple[int, int], list[float]]:
        """The measured log ratios by draws of base and head, in the order in which these were first measured."""
        found: dict[tuple[int, int], list[float]] = {}
        for reading in self._pairs:
            if self.series in reading.log_ratios:
                found.setdefault(reading.draws, []).append(reading.log_ratios[self.series])
        return found

    @cached_property
    def _pairs(self) -> Sequence[BisectReading]:
        pairs = self.facts.by_ends.get((self.segment.before, self.segment.after), ())
        return [reading for reading in pairs if reading.probe == self.probe and self._counts(reading)]

    def ended(self, proof: Proof) -> Proof:
        """The proof; unknown after the most pairs, also if some of them did not yield the series."""
        is_spent = proof.word == "open" and len(self._pairs) >= MAX_PAIRS
        return replace(proof, word="unknown") if is_spent else proof

    def next_draws(self, proof: Proof) -> tuple[int, int]:
        """The draws of the next pair."""
        if not self.is_possible:
            return (0, 0)
        if not self._pairs:
            return self._new()
        latest = self._pairs[-1].draws
        # Also pairs that did not yield the series, or each of them would be followed by two builds.
        if sum(reading.draws == latest for reading in self._pairs) < PAIRS_PER_BLOCK:
            return latest
        blocks = {draws: len(values) for draws, values in self.blocks.items()}
        fewest = MIN_BUILDS if self.fresh else 1
        if len(blocks) < MAX_BLOCKS and (len(blocks) < fewest or self._new_is_better(blocks, proof)):
            return self._new()
        return min(blocks, key=blocks.__getitem__)

    def _new_is_better(self, blocks: dict[tuple[int, int], int], proof: Proof) -> bool:
        if proof.by_build is None:
            return False
        sigma, tau = proof.by_build.sigma, max(proof.by_build.tau, self.question.luck)
        pair = pair_seconds(self.question, self.facts.readings)
        by_pair = sigma**2 / sum(blocks.values()) ** 2 / pair
        of_draws = 2 * build_seconds(self.question, self.facts) + PAIRS_PER_BLOCK * pair
        by_draws = (2 * tau**2 + sigma**2 / PAIRS_PER_BLOCK) / len(blocks) ** 2 / of_draws
        return by_draws > by_pair

    def _new(self) -> tuple[int, int]:
        """A new draw of each end: the first number that has not been measured for another purpose or wasted."""
        before, after = (
            next(number for number in count(int(self.fresh)) if (end, number) not in self.facts.taken)
            for end in (self.segment.before, self.segment.after)
        )
        return before, after

    def _counts(self, reading: BisectReading) -> bool:
        return not self.fresh or (
            reading.purpose in self.purposes and (all(reading.draws) or not self.is_possible)
        )


SURE = 0.95
CHANCE_WORTH_ASKING = 0.2


@dataclass(frozen=True)
class SeriesEvidence:
    """What the facts show about one series."""

    question: BisectQuestion
    facts: BisectFacts
    name: str
    probe: str

    @property
    def whole(self) -> SuspectRange:
        """The range of all suspects."""
        return SuspectRange(0, self.question.bad)

    @cached_property
    def failing(self) -> frozenset[int]:
        """The positions on which its probe does not run, or yields other series but not this one."""
        mine = [(one, (one.base, one.head)) for one in self.facts.readings if one.probe == self.probe]
        having = {end for one, ends in mine if self.name in one.log_ratios for end in ends}
        lacking = [
            [end for end in ends if end not in having]
            for one, ends in mine
            if self.name not in one.log_ratios
        ]
        return self.facts.failing(self.probe) | {ends[0] for ends in lacking if ends}

    @cached_property
    def unusable(self) -> frozenset[int]:
        """The positions that it cannot be measured on so far."""
        return self.facts.unbuilt | self.failing

    def are_closest(self, step: SuspectRange) -> bool:
        """Whether it can be measured on no build between the two of a step."""
        return self.unusable.issuperset(range(step.before + 1, step.after))

    @cached_property
    def confirmation(self) -> Proof:
        """Whether bad is slower than good; it is luck if only their first builds are."""
        proof = self.confirm(self.whole)
        return replace(self.rebuilt, is_luck=True) if self._is_gone(proof) else proof

    def confirm(self, segment: SuspectRange, *, is_learnt: bool = False) -> Proof:
        """Whether the end of a segment is slower than its beginning, from pairs of these two builds only.

        ``is_learnt``: the spread between builds is as likely as all pairs so far show it, and not as expected.
        """
        draws = self.draws_of(segment, fresh=False)
        luck = self._luck(draws)
        if is_learnt and luck.scale:
            luck = replace(luck, belief=self._belief)
        proof = confirmed(draws.blocks, self.question.min_effect, self.facts.distinct_series, luck)
        return unless_coarse(draws.ended(proof), self._resolution, self.question.min_effect)

    @cached_property
    def rebuilt(self) -> Proof:
        """Whether bad is slower than good, from rebuilds of both alone; "unknown" if there cannot be any."""
        draws = self._rebuilds
        if not draws.is_possible:
            return Proof("unknown", (), None)
        proof = verified(draws.blocks, self.question.min_effect, self._luck(draws))
        return unless_coarse(draws.ended(proof), self._resolution, self.question.min_effect)

    @property
    def _rebuilds(self) -> BuildDraws:
        return replace(self.draws_of(self.whole, fresh=True), purposes=("confirm", "verify"))

    @property
    def is_doubtful(self) -> bool:
        """Whether a step that begins with good or ends with bad was refuted, so that their first builds may be odd."""
        return any(step.before == 0 or step.after == self.question.bad for step in self.refuted)

    def _is_gone(self, proof: Proof) -> bool:
        """Whether rebuilds of bad and good lack a slowdown that a search began with, or that left ``proof`` unknown."""
        is_searched = any(
            reading.purpose in ("locate", "verify") and reading.probe == self.probe
            for reading in self.facts.readings
        )
        is_odd = proof.word == "unknown" and mostly_slower(self.first_and_anew[0], self.question.min_effect)
        return (is_searched or is_odd) and self.rebuilt.word == "not slower"

    @property
    def first_and_anew(self) -> tuple[list[float], list[float]]:
        """The log ratios of the first builds of bad and good, and those of their rebuilds."""
        first, *anew = self.draws_of(self.whole, fresh=False).blocks.values()
        return first, [*chain.from_iterable(anew)]

    def verify(self, step: SuspectRange) -> Proof:
        """Whether a step is a culprit, from fresh pairs of its two commits."""
        draws = self.draws_of(step, fresh=True)
        blocks = draws.blocks
        scale = 0.0 if self.facts.differ_in_texts(step.before, step.after) else self.question.luck
        luck = KnownLuck(scale, draws.is_possible, self._belief if scale and blocks else (1.0,))
        shares = alpha_shares(self.facts, step) if blocks else 1
        proof = verified(blocks, self.question.min_effect, luck, shares)
        proof = unless_memory(proof, self.facts, self.name, step, self.question.min_effect)
        return unless_coarse(draws.ended(proof), self._resolution, self.question.min_effect)

    @cached_property
    def _resolution(self) -> float:
        """How far the log ratios of most pairs may be off because readings are coarse."""
        read = [reading for reading in self.facts.readings if self.name in reading.log_ratios]
        return median(reading.resolution.get(self.name, 0.0) for reading in read) if read else 0.0

    def pair(self, segment: SuspectRange, purpose: Literal["confirm", "verify"]) -> PlannedPair:
        """The next pair to confirm or verify, with the draws that tell most."""
        draws = self.draws_of(segment, fresh=purpose == "verify")
        proof = self.verify(segment) if purpose == "verify" else self.confirm(segment)
        return PlannedPair(self.probe, segment.before, segment.after, purpose, draws.next_draws(proof))

    def pair_to_locate(self, segment: SuspectRange) -> PlannedPair:
        """The next pair of the ends of a segment while a culprit is located: first of their first builds."""
        draws = self.draws_of(segment, fresh=False)
        chosen = draws.next_draws(self.confirm(segment)) if draws.blocks else (0, 0)
        return PlannedPair(self.probe, segment.before, segment.after, "locate", chosen)

    def pair_of_rebuilds(self) -> PlannedPair:
        """The next pair of rebuilds of bad and good."""
        draws = self._rebuilds.next_draws(self.rebuilt)
        return PlannedPair(self.probe, self.whole.before, self.whole.after, "confirm", draws)

    def _luck(self, draws: BuildDraws) -> KnownLuck:
        scale = self.question.luck
        return KnownLuck(scale, draws.is_possible, tuple(np.exp(tau_prior(scale))))

    @cached_property
    def _belief(self) -> tuple[float, ...]:
        """The probabilities of τ: the mean of its prior and of its posterior from pairs that are not part of proofs."""
        others = tuple(reading for reading in self.facts.readings if reading.purpose != "verify")
        readings = readings_within(
            replace(self.facts, readings=others), self.name, self.whole, self.question.luck
        )
        learnt = posterior(self.question.weights, [readings], self.question.min_effect).series[0].tau_shares
        return tuple((learnt + np.exp(tau_prior(self.question.luck))) / 2)

    def draws_of(self, segment: SuspectRange, *, fresh: bool) -> BuildDraws:
        """The draws of the ends of a segment that were measured; if ``fresh``, only those that may prove it."""
        return BuildDraws(self.question, self.facts, self.name, self.probe, segment, fresh)

    @cached_property
    def tried(self) -> Mapping[SuspectRange, Proof]:
        """The steps for which fresh pairs were taken, with their proofs."""
        steps = {
            SuspectRange(reading.base, reading.head): None
            for reading in self.facts.readings
            if reading.purpose == "verify" and self.name in reading.log_ratios
        }
        return {step: self.verify(step) for step in steps}

    @cached_property
    def culprits(self) -> Sequence[SuspectRange]:
        """The proven steps, in order."""
        return sorted(step for step, proof in self.tried.items() if proof.word == "slower")

    @cached_property
    def refuted(self) -> frozenset[SuspectRange]:
        """The steps that looked like culprits but were not proven."""
        return frozenset(
            step for step, proof in self.tried.items() if proof.word in ("not slower", "unknown")
        )

    @cached_property
    def unexplained(self) -> Mapping[SuspectRange, Proof]:
        """The parts of the range that may still contain a culprit, with the proofs from pairs of their ends."""
        if self.confirmation.word != "slower":
            return {}
        if not self.culprits:
            return {self.whole: self.confirmation}
        parts = self.whole.without(self.culprits)
        return {part: self.confirm(part) for part in parts if not self._is_explained(part)}

    def weigh(self, segment: SuspectRange) -> Posterior:
        """The posterior of the suspects in a segment from this series alone."""
        return posterior(
            weights_within(self.question, segment), [self.readings(segment)], self.question.min_effect
        )

    def readings(self, segment: SuspectRange) -> Readings:
        """The readings of a segment; :func:`torchperf_ci.stats.posterior.posterior` says which of them count."""
        return readings_within(self.facts, self.name, segment, self.question.luck)

    def _is_explained(self, part: SuspectRange) -> bool:
        """Whether it is likely that a part of the range contains no further change that matters.

        A part whose ends have been confirmed stays unexplained.
        """
        ends = (part.before, part.after)
        if any(reading.purpose == "confirm" for reading in self.facts.by_ends.get(ends, ())):
            return False
        views = [SuspectRange(start, self.whole.after) for start in self._anchors(part)]
        return bool(views) and all(self.chance_of_rise(view, part) < CHANCE_WORTH_ASKING for view in views)

    def _anchors(self, part: SuspectRange) -> list[int]:
        """The builds at or before the start of the part that its end was measured against."""
        starts = {0, *(step.after for step in self.culprits)}
        return sorted(
            start
            for start in starts
            if start <= part.before and self.draws_of(SuspectRange(start, part.after), fresh=False).blocks
        )

    def chance_of_rise(self, view: SuspectRange, part: SuspectRange) -> float:
        """How probable it is that a part gets slower by what matters, by all readings of a ``view`` around it."""
        readings, prior = self.readings(view), weights_within(self.question, view)
        ends = (part.before - view.before, part.after - view.before)
        return chance_of_rise(prior, readings, self.question.min_effect, ends)


def weights_within(question: BisectQuestion, segment: SuspectRange) -> NDArray[np.float64]:
    """The prior probabilities of the suspects of a segment, normalized."""
    part = question.weights[segment.before : segment.after]
    return np.asarray(part / part.sum())
