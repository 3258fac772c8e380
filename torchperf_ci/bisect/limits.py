"""What a bisection may spend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.bisect.reasoning.facts import Facts
    from torchperf_ci.deadline import Deadline


@dataclass(frozen=True)
class Limits:
    """Most builds and pairs in all, those of earlier jobs included, and when this job has to end; None for no limit."""

    builds: int | None = None
    pairs: int | None = None
    deadline: Deadline | None = None

    def may_build(self, facts: Facts, more: int = 1) -> bool:
        """Whether so many more commits may be built; what is built can still be measured if not."""
        return not more or self.builds is None or len(facts.builds) + more <= self.builds

    def ended_by(self, facts: Facts) -> str:
        """Which limit has been reached, as its option; empty for none."""
        if self.deadline is not None and not self.deadline.left:
            return "--deadline"
        if self.pairs is not None and len(facts.readings) >= self.pairs:
            return "--max-runs"
        return ""

    def after(self, facts: Facts) -> Limits:
        """What is left for a search that follows on another one."""
        return replace(
            self,
            builds=None if self.builds is None else max(self.builds - len(facts.builds), 0),
            pairs=None if self.pairs is None else max(self.pairs - len(facts.readings), 0),
        )
