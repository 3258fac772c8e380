"""Base against itself, of each backend: if that shows a change, the machine cannot tell any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci.stats.means import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.compare.trial import ComparedCase, Comparison
    from torchperf_ci.stats.effect import Effect

CONFIDENCE = 0.99
SHARE = 1 / 3
"""Of the change that matters: what the control may be off by without harm."""
FAR = 5.0
"""A change so many times as large as all that the control may be off by is none of the machine's doing."""


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

    def evidence(self) -> Mapping[str, Any]:
        """As JSON."""
        return {"case": self.case, "effect": self.effect, "void": self.void}

    def __str__(self) -> str:
        if self.effect is None:
            return "no A/A control: it takes two pairs of base against itself"
        low, middle, high = (
            f"{value - 1:+.1%}" for value in (self.effect.low, self.effect.ratio, self.effect.high)
        )
        found = f"{middle} ({low}…{high}, 99%) over {self.effect.pairs} pairs of {self.case}"
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
