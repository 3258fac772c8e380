"""Where each series stands: confirmed over the range, explained by which steps, and what of it is still unexplained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.bisect.reasoning.drawing import Drawing
from torchperf_ci.bisect.reasoning.evidence import within
from torchperf_ci.bisect.reasoning.proof import KnownLuck, Proof, confirmed, verified
from torchperf_ci.bisect.reasoning.question import Measure
from torchperf_ci.bisect.reasoning.segment import Segment
from torchperf_ci.bisect.reasoning.steadiness import steadied
from torchperf_ci.stats.build_offsets import tau_prior
from torchperf_ci.stats.posterior import chance_of_rise, posterior

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.bisect.reasoning.facts import Facts
    from torchperf_ci.bisect.reasoning.question import Question
    from torchperf_ci.stats.posterior import Posterior
    from torchperf_ci.stats.reading_errors import Readings

SURE = 0.95
WORTH_ASKING = 0.5


@dataclass(frozen=True)
class Standing:
    """What the facts say of one series."""

    question: Question
    facts: Facts
    series: str
    probe: str

    @property
    def whole(self) -> Segment:
        """All suspects."""
        return Segment(0, self.question.bad)

    @cached_property
    def confirmation(self) -> Proof:
        """Whether bad is slower than good."""
        return self.confirm(self.whole)

    def confirm(self, segment: Segment) -> Proof:
        """Whether the end of a segment is slower than its beginning, from pairs of just these two."""
        drawing = self._drawing(segment, fresh=False)
        luck = KnownLuck(
            self.question.luck, drawing.is_possible, tuple(np.exp(tau_prior(self.question.luck)))
        )
        return confirmed(drawing.blocks, self.question.min_effect, len(self.question.probes), luck)

    @property
    def first_and_anew(self) -> tuple[list[float], list[float]]:
        """The log-ratios of the first builds of bad and good, and those of the builds that were made anew."""
        first, *anew = self._drawing(self.whole, fresh=False).blocks.values()
        return first, [*chain.from_iterable(anew)]

    def verify(self, step: Segment) -> Proof:
        """Whether a step is a culprit, from fresh pairs of its two commits."""
        drawing = self._drawing(step, fresh=True)
        blocks = drawing.blocks
        belief = self._belief if self.question.luck and blocks else (1.0,)
        luck = KnownLuck(self.question.luck, drawing.is_possible, belief)
        proof = verified(blocks, self.question.min_effect, luck)
        return steadied(proof, self.facts, self.series, step, self.question.min_effect)

    def pair(self, segment: Segment, purpose: Literal["confirm", "verify"]) -> Measure:
        """The next pair to confirm or to verify, of the draws that tell most."""
        drawing = self._drawing(segment, fresh=purpose == "verify")
        proof = self.verify(segment) if purpose == "verify" else self.confirm(segment)
        return Measure(self.probe, segment.before, segment.after, purpose, drawing.next_draws(proof))

    @cached_property
    def _belief(self) -> tuple[float, ...]:
        """What is believed of τ: half of it beforehand, half what pairs have shown that prove nothing themselves."""
        others = tuple(reading for reading in self.facts.readings if reading.purpose != "verify")
        readings = within(replace(self.facts, readings=others), self.series, self.whole, self.question.luck)
        learnt = posterior(self.question.weights, [readings], self.question.min_effect).series[0].tau_shares
        return tuple((learnt + np.exp(tau_prior(self.question.luck))) / 2)

    def _drawing(self, segment: Segment, *, fresh: bool) -> Drawing:
        return Drawing(self.question, self.facts, self.series, segment, fresh)

    @cached_property
    def tried(self) -> Mapping[Segment, Proof]:
        """The steps that fresh pairs were taken of."""
        steps = {
            Segment(reading.base, reading.head): None
            for reading in self.facts.readings
            if reading.purpose == "verify" and self.series in reading.log_ratios
        }
        return {step: self.verify(step) for step in steps}

    @cached_property
    def culprits(self) -> Sequence[Segment]:
        """The steps that were proven, in order."""
        return sorted(step for step, proof in self.tried.items() if proof.word == "slower")

    @cached_property
    def refuted(self) -> frozenset[Segment]:
        """The steps that looked like culprits and were not proven."""
        return frozenset(
            step for step, proof in self.tried.items() if proof.word in ("not slower", "unknown")
        )

    @cached_property
    def unexplained(self) -> Mapping[Segment, Proof]:
        """The parts of the range that may hold a culprit yet, and what pairs of their ends say."""
        if self.confirmation.word != "slower":
            return {}
        if not self.culprits:
            return {self.whole: self.confirmation}
        parts = self.whole.without(self.culprits)
        return {part: self.confirm(part) for part in parts if not self._is_explained(part)}

    def weigh(self, segment: Segment) -> Posterior:
        """The suspects of a segment by this series alone."""
        return posterior(weights(self.question, segment), [self.readings(segment)], self.question.min_effect)

    def readings(self, segment: Segment) -> Readings:
        """What bears on a segment; see :func:`torchperf_ci.stats.posterior.posterior`."""
        return within(self.facts, self.series, segment, self.question.luck)

    def _is_explained(self, part: Segment) -> bool:
        """Whether it is likelier than not that nothing that matters is left in a part of the range.

        A part that was worth asking about stays so.
        """
        ends = (part.before, part.after)
        if any(r.purpose == "confirm" and (r.base, r.head) == ends for r in self.facts.readings):
            return False
        views = [Segment(start, self.whole.after) for start in self._anchors(part)]
        return bool(views) and all(self._chance_of_rise(view, part) < WORTH_ASKING for view in views)

    def _anchors(self, part: Segment) -> list[int]:
        """The builds, as far as they lie before the part, that its end was measured against."""
        starts = {0, *(step.after for step in self.culprits)}
        return sorted(
            start
            for start in starts
            if start <= part.before and self._drawing(Segment(start, part.after), fresh=False).blocks
        )

    def _chance_of_rise(self, view: Segment, part: Segment) -> float:
        readings, prior = self.readings(view), weights(self.question, view)
        ends = (part.before - view.before, part.after - view.before)
        return chance_of_rise(prior, readings, self.question.min_effect, ends)


def weights(question: Question, segment: Segment) -> NDArray[np.float64]:
    """How suspect the commits of a segment are beforehand, among themselves."""
    part = question.weights[segment.before : segment.after]
    return np.asarray(part / part.sum())
