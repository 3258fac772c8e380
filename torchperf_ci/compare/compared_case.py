"""What is known of one case so far, and the A/A control: base against itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.machine.interference import interference_note, power_limit_note
from torchperf_ci.stats.comparison import PairReading
from torchperf_ci.stats.effect_estimates import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import ArmFailure, Pair, Side
    from torchperf_ci.bench.process import ProcessOutcome
    from torchperf_ci.stats.effect import Effect


MOST_LOST = 2
"""Pairs that may fail although either side runs alone, before a case is given up."""


@dataclass
class ComparedCase:
    """A case, its pairs in the order taken, and how either side ran alone, where that had to be looked at.

    ``controls`` are pairs of base against itself: how many of the others came before each, and its log-ratio.
    ``seconds`` is what the last pair took. ``place`` is that among the session's cases: base begins the first pair of
    every other one.
    """

    case: Case
    pairs: list[Pair] = field(default_factory=list)
    controls: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    alone: dict[Side, ProcessOutcome] = field(default_factory=dict)
    lost: list[ArmFailure] = field(default_factory=list)
    settled: bool = False
    place: int = 0

    @property
    def head_begins(self) -> bool:
        """Whether head is to begin the next pair, which base and head do in turn.

        What favours whichever begins, as a mode or a drift of the machine may, then favours neither build for long.
        """
        return self._head_began(len(self.pairs))

    def _head_began(self, number: int) -> bool:
        return (self.place + number) % 2 == 1

    @property
    def control_begins_with_head(self) -> bool:
        """The same of base against itself, of which one is called head."""
        return len(self.controls) % 2 == 1

    @property
    def log_ratios(self) -> list[float]:
        """One independent observation of ln(head/base) a pair."""
        return [pair.log_ratio for pair in self.pairs]

    @property
    def readings(self) -> list[PairReading]:
        """Pairs and controls in the order taken."""
        pairs = [
            (number, PairReading(ratio, head_first=self._head_began(number)))
            for number, ratio in enumerate(self.log_ratios)
        ]
        controls = [
            (before - 0.5, PairReading(ratio, head_first=number % 2 == 1, control=True))
            for number, (before, ratio) in enumerate(self.controls)
        ]
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
        return interference_note([pair.observed for compared in self.cases for pair in compared.pairs])

    @property
    def power_limited(self) -> str:
        """A note, where cases ran at the GPU's power limit."""
        return power_limit_note([[pair.observed for pair in compared.pairs] for compared in self.cases])


CONFIDENCE = 0.99
SHARE = 1 / 3
"""Of the change that matters: what the control may be off by without harm."""
FAR = 5.0
"""A change so many times as large as all that the control may be off by is none of the machine's doing."""
_FEWEST_SHOWN = 2
"""With no more pairs than that, an interval is as wide as -99%…+11,000%: it says nothing."""


@dataclass(frozen=True)
class Control:
    """What the A/A pairs gave. ``effect`` has a 99% interval; it is None with fewer than two pairs."""

    case: str
    effect: Effect | None
    void: bool

    def spoils(self, effect: Effect | None) -> bool:
        """Whether a change may be the machine's doing, where the control is void."""
        if not self.void or self.effect is None:
            return False
        if effect is None or effect.low <= 0 or effect.low <= 1 <= effect.high:
            return True
        off = max(abs(math.log(end)) for end in (self.effect.low, self.effect.high))
        return min(abs(math.log(end)) for end in (effect.low, effect.high)) <= FAR * off

    def members(self) -> Mapping[str, object]:
        """As JSON."""
        return {"case": self.case, "effect": self.effect, "void": self.void}

    def __str__(self) -> str:
        if self.effect is None:
            return "no A/A control: it takes two pairs of base against itself"
        low, middle, high = (
            f"{value - 1:+.1%}" for value in (self.effect.low, self.effect.ratio, self.effect.high)
        )
        interval = f" ({low}…{high}, 99%)" if self.effect.pairs > _FEWEST_SHOWN else ""
        found = f"{middle}{interval} over {self.effect.pairs} pairs of {self.case}"
        if self.void:
            return (
                f"the timings are VOID: base against itself seems to differ by {found}, so this machine tells a change "
                f"where there is none; only one that is {FAR:.0f} times as large counts. Find out what disturbs it "
                "with torchperf doctor, and compare again"
            )
        return f"A/A control: base against itself {found}"


def judge_controls(comparison: Comparison, min_effect: float) -> dict[str, Control]:
    """That of each backend, which is the case that its pairs of base against itself are strewn over."""
    backends = dict.fromkeys(compared.case.backend for compared in comparison.cases)
    return {backend: _judged(comparison.controls.get(backend), min_effect) for backend in backends}


def _judged(compared: ComparedCase | None, min_effect: float) -> Control:
    """The control is void if its interval excludes 1 and it is off by more than a third of what matters."""
    log_ratios = [ratio for _, ratio in compared.controls] if compared else []
    case = str(compared.case) if compared else ""
    if len(log_ratios) < 2:
        return Control(case, None, void=False)
    effect = geometric_mean([log_ratios], CONFIDENCE)
    differs = effect.low > 1 or effect.high < 1
    return Control(case, effect, differs and abs(math.log(effect.ratio)) > math.log1p(min_effect) * SHARE)
