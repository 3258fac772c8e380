"""What is known of one case so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.machine.disturbance import note
from torchperf_ci.stats.comparison import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import ArmFailure, Pair, Side
    from torchperf_ci.bench.process import Outcome

MOST_LOST = 2
"""Pairs that may fail although either side runs alone, before a case is given up."""


@dataclass
class ComparedCase:
    """A case, its pairs in the order taken, and how either side ran alone, where that had to be looked at.

    ``controls`` are pairs of base against itself: how many of the others came before each, and its log-ratio.
    ``seconds`` is what the last pair took.
    """

    case: Case
    pairs: list[Pair] = field(default_factory=list)
    controls: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    alone: dict[Side, Outcome] = field(default_factory=dict)
    lost: list[ArmFailure] = field(default_factory=list)
    settled: bool = False

    @property
    def log_ratios(self) -> list[float]:
        """One independent observation of ln(head/base) a pair."""
        return [pair.log_ratio for pair in self.pairs]

    @property
    def readings(self) -> list[Reading]:
        """Pairs and controls in the order taken."""
        pairs = [(place, Reading(ratio)) for place, ratio in enumerate(self.log_ratios)]
        controls = [(before - 0.5, Reading(ratio, control=True)) for before, ratio in self.controls]
        return [reading for _, reading in sorted([*pairs, *controls], key=lambda item: item[0])]

    @property
    def failed(self) -> bool:
        """Whether no pair can be had any more."""
        return len(self.lost) >= MOST_LOST or any(not outcome.passed for outcome in self.alone.values())


@dataclass
class Comparison:
    """What the rounds have given so far; it grows in place, so that it outlives an interruption.

    ``controls`` are the cases on which base is measured against itself in every round, by backend.
    """

    cases: Sequence[ComparedCase]
    controls: dict[str, ComparedCase] = field(default_factory=dict)
    out_of_time: bool = False
    stopped: bool = False

    @property
    def disturbed(self) -> str:
        """A note, where the machine is known not to have been left alone."""
        return note([pair.observed for compared in self.cases for pair in compared.pairs])
