"""Who gets the next pairs: what is settled gets none, and what cannot be settled in time yields to what can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median, stdev
from typing import TYPE_CHECKING

from torchperf_ci.compare.latency import is_settled
from torchperf_ci.compare.repeatable import repeats
from torchperf_ci.stats.comparison import CONTROLS_BESIDE, FEWEST_ALIKE, FEWEST_BESIDE
from torchperf_ci.stats.noise import FLOOR
from torchperf_ci.stats.sprt import boundaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.compare.trial import ComparedCase

STANDARD_ERRORS = 2.2
"""From the middle to the end of an interval of few pairs."""
BESIDE = 3
"""Of so many pairs of what seems changed, one more is of base against itself."""


@dataclass(frozen=True)
class BudgetAllocation:
    """The cases of one session, and the smallest change that matters."""

    cases: Sequence[ComparedCase]
    min_effect: float

    def is_settled(self, compared: ComparedCase) -> bool:
        """Whether another pair of the case would change nothing."""
        return (
            bool(compared.pairs) and repeats(compared) and is_settled(compared, self.cases, self.min_effect)
        )

    def cases_of_round(self, left: float) -> list[ComparedCase]:
        """The cases that get a pair, where ``left`` seconds are.

        All that are open, if that is enough to settle them by what is known; else those that the time is enough for,
        the quickest counted first, and at least one.
        """
        unsettled = [compared for compared in self.cases if not (compared.settled or compared.failed)]
        chosen: list[ComparedCase] = []
        total = 0.0
        for compared in sorted(unsettled, key=self._seconds_needed):
            total += self._seconds_needed(compared)
            if chosen and total > left:
                break
            chosen.append(compared)
        return [compared for compared in unsettled if any(compared is one for one in chosen)]

    def wants_control(self, compared: ComparedCase) -> bool:
        """Whether a case seems changed, and too little is known of its base against itself."""
        pairs, controls = len(compared.pairs), len(compared.controls)
        if compared.settled or compared.failed or pairs < 2:
            return False
        changed = abs(median(compared.log_ratios)) >= math.log1p(self.min_effect) / 2
        wanted = pairs // 2 if pairs < FEWEST_BESIDE else max(CONTROLS_BESIDE, pairs // BESIDE)
        return changed and controls < wanted

    def _seconds_needed(self, compared: ComparedCase) -> float:
        return compared.seconds * max(self._pairs_needed(compared.log_ratios) - len(compared.pairs), 1)

    def _pairs_needed(self, log_ratios: Sequence[float]) -> float:
        """Until the interval lies within what does not matter, or the evidence is enough that a change is there."""
        if len(log_ratios) < FEWEST_ALIKE:
            return FEWEST_ALIKE
        delta, middle = math.log1p(self.min_effect), abs(median(log_ratios))
        spread = max(stdev(log_ratios), FLOOR)
        confirm, _ = boundaries(len(self.cases))
        alike = (STANDARD_ERRORS * spread / (delta - middle)) ** 2 if middle < delta else math.inf
        changed = 2 * confirm * (spread / middle) ** 2 if middle >= delta / 2 else math.inf
        return max(min(alike, changed), FEWEST_ALIKE)
