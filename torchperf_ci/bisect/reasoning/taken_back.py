"""What was taken back is no culprit: does what a suspect did last after its revert?

The odds of the levels know of no reverts: to them a rise, a fall and another rise are three changes, each unlikely. So
the pairs of the first build after the revert decide by themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torchperf_ci.bisect.reasoning.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.bisect.reasoning.standing import Standing

CLEAR = math.log(0.95 / 0.05)
"""The evidence of pairs from which on it is clear that a build is still slow."""
MOST_PAIRS = 20
"""What is not clear by then is neither as slow nor as fast as without the revert."""


@dataclass(frozen=True)
class TakenBack:
    """A suspect of a segment that the commit at ``revert`` takes back, as a series shows it."""

    standing: Standing
    segment: Segment
    revert: int

    @cached_property
    def place(self) -> int | None:
        """The build that tells: the first that can be had from the revert on, before what may bring it back."""
        end = self._return or self.segment.after
        unusable = self.standing.facts.unusable
        return next((place for place in range(self.revert, end) if place not in unusable), None)

    @property
    def is_open(self) -> bool:
        """Whether more pairs of that build may show that it is as slow as before the revert."""
        return self.place is not None and not self._lasts and self._pairs < MOST_PAIRS

    @property
    def is_out(self) -> bool:
        """Whether the suspect is no culprit: it is not slow after the revert, or what it did has returned later on."""
        return self._return is not None or (self.place is not None and not self._lasts)

    @cached_property
    def _lasts(self) -> bool:
        decision = self._proof.decision if self._proof else None
        return decision is not None and decision.increase >= CLEAR

    @property
    def _pairs(self) -> int:
        return len(self._proof.log_ratios) if self._proof else 0

    @cached_property
    def _proof(self) -> Proof | None:
        return self.standing.confirm(Segment(self.segment.before, self.place)) if self.place else None

    @property
    def _return(self) -> int | None:
        """What takes back the revert."""
        taken_back = self.standing.question.reverts.items()
        return min((again for again, revert in taken_back if revert == self.revert), default=None)


def taken_back(standing: Standing, segment: Segment, step: Segment) -> Sequence[TakenBack]:
    """The suspects of a step that are taken back before the end of its segment."""
    return [
        TakenBack(standing, segment, revert)
        for revert, reverted in sorted(standing.question.reverts.items())
        if step.before < reverted <= step.after < revert < segment.after
    ]
