"""What is known of one case so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import ArmFailure, Pair, Side
    from torchperf_ci.bench.process import Outcome

MOST_LOST = 2
"""Pairs that may fail although either side runs alone, before a case is given up."""


@dataclass
class Trial:
    """A case, its pairs in the order taken, and how either side ran alone, where that had to be looked at."""

    case: Case
    pairs: list[Pair] = field(default_factory=list)
    alone: dict[Side, Outcome] = field(default_factory=dict)
    lost: list[ArmFailure] = field(default_factory=list)
    settled: bool = False

    @property
    def log_ratios(self) -> list[float]:
        """One independent observation of ln(head/base) a pair."""
        return [pair.log_ratio for pair in self.pairs]

    @property
    def failed(self) -> bool:
        """Whether no pair can be had any more."""
        return len(self.lost) >= MOST_LOST or any(not outcome.passed for outcome in self.alone.values())
