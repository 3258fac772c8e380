"""Parts of the range: what is searched on its own, from one build to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, order=True)
class Segment:
    """The suspects between two builds: positions ``before`` + 1 to ``after``."""

    before: int
    after: int

    def parts(self, steps: Iterable[Segment]) -> Iterator[Segment]:
        """Those of the steps that lie within the segment."""
        return (step for step in steps if self.before <= step.before and step.after <= self.after)

    def without(self, steps: Iterable[Segment]) -> list[Segment]:
        """What is left of the segment beside some steps within it, in order."""
        places = sorted(self.parts(steps))
        starts = [self.before, *(step.after for step in places)]
        ends = [*(step.before for step in places), self.after]
        return [Segment(a, b) for a, b in zip(starts, ends, strict=True) if a < b]
