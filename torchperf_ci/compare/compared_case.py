"""The state of one case during a comparison, and the A/A control: pairs of base against itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.document import change_text
from torchperf_ci.stats.comparison import PairReading
from torchperf_ci.stats.effect_estimates import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import Pair, Side, SideFailure
    from torchperf_ci.bench.process import ProcessOutcome
    from torchperf_ci.stats.effect import Effect


MAX_LOST = 2
"""How many tries may fail, although each side runs alone, before a case is given up."""


@dataclass
class ComparedCase:
    """A case, its pairs in the order taken, and the outcome of each side alone, if that had to be examined.

    ``controls`` are pairs of base against itself: the number of pairs before each, and its log-ratio. ``seconds`` is
    the duration of the last pair. ``place`` is the case's index in the session: base goes first in the first pair of
    cases with an even index.
    """

    case: Case
    pairs: list[Pair] = field(default_factory=list)
    controls: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    alone: dict[Side, ProcessOutcome] = field(default_factory=dict)
    lost: list[SideFailure] = field(default_factory=list)
    settled: bool = False
    place: int = 0

    @property
    def head_begins(self) -> bool:
        """Whether head goes first in the next pair. Base and head alternate.

        Otherwise an effect that favors whichever goes first, such as a drift of the machine, would favor one build.
        """
        return self._head_began(len(self.pairs))

    def _head_began(self, number: int) -> bool:
        return (self.place + number) % 2 == 1

    @property
    def control_begins_with_head(self) -> bool:
        """Whether the side called head goes first in the next control, in which both sides are base."""
        return len(self.controls) % 2 == 1

    @property
    def log_ratios(self) -> list[float]:
        """One independent observation of ln(head/base) per pair."""
        return [pair.log_ratio for pair in self.pairs]

    @property
    def readings(self) -> list[PairReading]:
        """Pairs and controls together, in the order taken."""
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
        """Whether the case is given up: a side fails alone, or too many tries failed."""
        return len(self.lost) >= MAX_LOST or any(not outcome.passed for outcome in self.alone.values())


@dataclass
class Comparison:
    """The results so far. The object is updated in place, so that results survive an interruption.

    ``controls`` has, by backend, the case on which base is measured against itself in each round. ``luck`` is the
    largest change, on the log scale, that the luck of two compiled builds explains; 0 where it does not apply.
    """

    cases: Sequence[ComparedCase]
    controls: dict[str, ComparedCase] = field(default_factory=dict)
    luck: float = 0.0
    out_of_time: bool = False
    stopped: bool = False


CONFIDENCE = 0.99
SHARE = 1 / 3
"""How far the control may be off without harm, as a share of the smallest change that matters."""
FAR = 5.0
"""A change this many times as large as the control's largest possible error is not caused by the machine."""
_MIN_SHOWN = 2
"""With at most this many pairs an interval is not shown: it can be as wide as −99%…+11,000%."""


@dataclass(frozen=True)
class Control:
    """Result of the A/A pairs. ``effect`` has a 99% interval and is None with fewer than two pairs.

    ``void`` says that base differs from itself, so the timings cannot be trusted.
    """

    case: str
    effect: Effect | None
    void: bool

    def spoils(self, effect: Effect | None) -> bool:
        """Whether the control is void and the machine alone may have caused a change of this size."""
        if not self.void or self.effect is None:
            return False
        if effect is None or effect.low <= 0 or effect.low <= 1 <= effect.high:
            return True
        off = max(abs(math.log(end)) for end in (self.effect.low, self.effect.high))
        return min(abs(math.log(end)) for end in (effect.low, effect.high)) <= FAR * off

    def __str__(self) -> str:
        if self.effect is None:
            return "no A/A control: it needs two pairs of base against itself"
        low, middle, high = (
            change_text(value - 1) for value in (self.effect.low, self.effect.ratio, self.effect.high)
        )
        interval = f" ({low}…{high}, 99%)" if self.effect.pairs > _MIN_SHOWN else ""
        found = f"{middle}{interval} over {self.effect.pairs} pairs of {self.case}"
        if self.void:
            return (
                f"the timings are VOID: base against itself seems to differ by {found}, so this machine shows changes "
                f"that are not there; only one that is {FAR:.0f} times as large counts. Find out what disturbs it "
                "with torchperf doctor, and compare again"
            )
        return f"A/A control: base against itself {found}"


def judge_controls(comparison: Comparison, min_effect: float) -> dict[str, Control]:
    """Judge the A/A control of each backend, from the pairs of base against itself on its control case."""
    backends = dict.fromkeys(compared.case.backend for compared in comparison.cases)
    return {backend: _judged(comparison.controls.get(backend), min_effect) for backend in backends}


def _judged(compared: ComparedCase | None, min_effect: float) -> Control:
    """Judge one control: it is void if its interval excludes 1 and it is off by more than a third of ``min_effect``."""
    log_ratios = [ratio for _, ratio in compared.controls] if compared else []
    case = str(compared.case) if compared else ""
    if len(log_ratios) < 2:
        return Control(case, None, void=False)
    effect = geometric_mean([log_ratios], CONFIDENCE)
    differs = effect.low > 1 or effect.high < 1
    return Control(case, effect, differs and abs(math.log(effect.ratio)) > math.log1p(min_effect) * SHARE)
