"""Which draws of two commits are paired next: those that are there, or new ones of both.

Each two draws make a block of pairs. How many pairs a block should have is the question of two-stage sampling: whatever
lowers the variance of the mean more for its price is next (Cochran, *Sampling Techniques*, §10.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.bisect.reasoning.evidence import build_seconds, pair_seconds
from torchperf_ci.bisect.reasoning.proof import FEWEST_BUILDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.bisect.reasoning.facts import Facts, Reading
    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.bisect.reasoning.question import Question
    from torchperf_ci.bisect.reasoning.segment import Segment

A_BLOCK = 3
"""Pairs that a block has at least."""
MOST_BLOCKS = 12
MOST_FAILED = 3
"""Draws of a commit that fail, after which none is tried any more."""


@dataclass(frozen=True)
class Drawing:
    """The draws of the two ends of a segment. ``fresh``: of those that nothing but its proof has read."""

    question: Question
    facts: Facts
    series: str
    segment: Segment
    fresh: bool

    @property
    def is_possible(self) -> bool:
        """Whether both can be built anew."""
        if not self.question.rebuilds or not self.question.luck:
            return False
        ends = (self.segment.before, self.segment.after)
        failed = [build.position for build in self.facts.builds if build.draw and not build.ok]
        return all(failed.count(end) < MOST_FAILED for end in ends)

    @property
    def _fewest(self) -> int:
        return FEWEST_BUILDS if self.fresh else 1

    @property
    def blocks(self) -> dict[tuple[int, int], list[float]]:
        """The log-ratios that were read, by draws of base and head, in the order in which these were first read."""
        found: dict[tuple[int, int], list[float]] = {}
        for reading in self.facts.readings:
            if self.series in reading.log_ratios and self._counts(reading):
                found.setdefault(reading.draws, []).append(reading.log_ratios[self.series])
        return found

    def next_draws(self, proof: Proof) -> tuple[int, int]:
        """The draws that the next pair is to be of."""
        if not self.is_possible:
            return (0, 0)
        blocks = {draws: len(values) for draws, values in self.blocks.items()}
        if not blocks:
            return self._new()
        latest, count = list(blocks.items())[-1]
        if count < A_BLOCK:
            return latest
        if len(blocks) < MOST_BLOCKS and (len(blocks) < self._fewest or self._new_is_better(blocks, proof)):
            return self._new()
        return min(blocks, key=blocks.__getitem__)

    def _new_is_better(self, blocks: dict[tuple[int, int], int], proof: Proof) -> bool:
        if proof.by_build is None:
            return False
        sigma, tau = proof.by_build.sigma, max(proof.by_build.tau, self.question.luck)
        pair = pair_seconds(self.question, self.facts.readings)
        by_pair = sigma**2 / sum(blocks.values()) ** 2 / pair
        of_draws = 2 * build_seconds(self.question, self.facts) + A_BLOCK * pair
        by_draws = (2 * tau**2 + sigma**2 / A_BLOCK) / len(blocks) ** 2 / of_draws
        return by_draws > by_pair

    def _new(self) -> tuple[int, int]:
        """One number for both: the first that neither failed at nor was read for anything else."""
        ends = {self.segment.before, self.segment.after}
        taken = {draw for position, draw in self._taken() if position in ends}
        draw = next(
            number for number in range(len(taken) + 2) if number not in taken and number >= self.fresh
        )
        return (draw, draw)

    def _taken(self) -> Iterator[tuple[int, int]]:
        for build in self.facts.builds:
            if build.draw and not build.ok:
                yield build.position, build.draw
        for reading in self.facts.readings:
            yield reading.base, reading.draws[0]
            yield reading.head, reading.draws[1]

    def _counts(self, reading: Reading) -> bool:
        if (reading.base, reading.head) != (self.segment.before, self.segment.after):
            return False
        return not self.fresh or (
            reading.purpose == "verify" and (all(reading.draws) or not self.is_possible)
        )
