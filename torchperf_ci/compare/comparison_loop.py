"""Measure in rounds: one pair of each case that can be settled in time, with A/A controls between them."""

from __future__ import annotations

import math
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, zip_longest
from statistics import median, stdev
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import PrestartedWorkers, Side, SideFailure, measure_alone, measure_pair
from torchperf_ci.bench.process import ProcessOutcome, find_batch_size
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.compare.case_verdicts import decided, has_enough_repeats, is_beyond
from torchperf_ci.document import change_text
from torchperf_ci.stats.comparison import CONTROLS_BESIDE, MIN_PAIRS_ALIKE, MIN_PAIRS_WITH_CONTROLS
from torchperf_ci.stats.noise import FLOOR
from torchperf_ci.stats.sequential_test import boundaries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.compare.compared_case import ComparedCase, Comparison
    from torchperf_ci.console import Progress


STANDARD_ERRORS = 2.2
"""Half-width of an interval from few pairs, in standard errors."""
PAIRS_A_CONTROL = 3
"""A case that seems changed gets one control (base against itself) per this many pairs."""


@dataclass(frozen=True)
class BudgetAllocation:
    """Decides which cases get the remaining time. ``min_effect`` is the smallest change that matters."""

    comparison: Comparison
    min_effect: float

    def is_settled(self, compared: ComparedCase) -> bool:
        """Whether another pair of the case would change nothing."""
        if not (compared.pairs and has_enough_repeats(compared)):
            return False
        decision = decided(compared, self.comparison.cases, self.min_effect)
        if decision.word in ("open", "none"):
            return decision.word == "none"
        luck = self.comparison.luck
        return is_beyond(decision.effect, luck) or abs(math.log(decision.effect.ratio)) <= luck

    def cases_of_round(self, left: float) -> list[ComparedCase]:
        """Return the cases that get a pair when ``left`` seconds remain.

        These are all open cases if the time is estimated to be enough to settle them; otherwise as many as can be
        settled, the quickest first, but at least one.
        """
        unsettled = [
            compared for compared in self.comparison.cases if not (compared.settled or compared.failed)
        ]
        quickest = sorted(unsettled, key=self._seconds_needed)
        fitting = sum(end <= left for end in accumulate(map(self._seconds_needed, quickest)))
        chosen = quickest[: max(fitting, 1)]
        return [compared for compared in unsettled if any(compared is case for case in chosen)]

    def wants_control(self, compared: ComparedCase) -> bool:
        """Whether a case seems changed and has too few controls."""
        pairs, controls = len(compared.pairs), len(compared.controls)
        if compared.settled or compared.failed or pairs < 2:
            return False
        changed = abs(median(compared.log_ratios)) >= math.log1p(self.min_effect) / 2
        wanted = (
            pairs // 2 if pairs < MIN_PAIRS_WITH_CONTROLS else max(CONTROLS_BESIDE, pairs // PAIRS_A_CONTROL)
        )
        return changed and controls < wanted

    def _seconds_needed(self, compared: ComparedCase) -> float:
        return compared.seconds * max(self._pairs_needed(compared.log_ratios) - len(compared.pairs), 1)

    def _pairs_needed(self, log_ratios: Sequence[float]) -> float:
        """Estimate how many pairs it takes to prove that there is no change that matters, or that there is one."""
        if len(log_ratios) < MIN_PAIRS_ALIKE:
            return MIN_PAIRS_ALIKE
        delta, middle = math.log1p(self.min_effect), abs(median(log_ratios))
        spread = max(stdev(log_ratios), FLOOR)
        confirm, _ = boundaries(len(self.comparison.cases))
        alike = (STANDARD_ERRORS * spread / (delta - middle)) ** 2 if middle < delta else math.inf
        changed = 2 * confirm * (spread / middle) ** 2 if middle >= delta / 2 else math.inf
        return max(min(alike, changed), MIN_PAIRS_ALIKE)


def _pair_text(compared: ComparedCase, before: int) -> str:
    """Return the line about a case after its next pair, of which it had so many ``before``."""
    if compared.failed or len(compared.pairs) == before:
        words = [f"{side} {outcome.status}" for side, outcome in compared.alone.items() if not outcome.passed]
        return f"{compared.case}: {', '.join(words) or 'the pair failed'}"
    number, change = len(compared.pairs), math.expm1(compared.pairs[-1].log_ratio)
    return f"{compared.case}: pair {number}, {change_text(change)}{', settled' if compared.settled else ''}"


@dataclass(frozen=True)
class PairRunner:
    """Measures pairs. Both sides are on the same CPUs; ``scratch`` is for their compiler caches and logs."""

    base: Settings
    head: Settings
    scratch: Path
    prestarted: PrestartedWorkers = field(default_factory=PrestartedWorkers)

    def pair(self, compared: ComparedCase, following: ComparedCase | None = None) -> None:
        """Measure one more pair of a case; if it fails, examine each side alone.

        ``following`` is the case of the next pair, whose workers may be started in the meantime.
        """
        start, sides = time.monotonic(), (self.base, self.head, self.scratch)
        case, head_first = compared.case, compared.head_begins
        try:
            started = self.prestarted.take(case, *sides, head_first=head_first)
            if following:
                self.prestarted.start(following.case, *sides, head_first=following.head_begins)
            compared.pairs.append(measure_pair(case, *sides, started, head_first=head_first))
            compared.seconds = time.monotonic() - start
        except SideFailure as failure:
            compared.lost.append(failure)
            self.examine(compared)

    def examine(self, compared: ComparedCase) -> None:
        """Run each side of a case alone, because the two together may have run out of memory.

        If only one fails, it gets another try, because once may be chance. If this is interrupted, nothing is known of
        either: only both together tell which build is at fault.
        """
        alone = {side: self._alone(compared.case, side, settings) for side, settings in self.sides()}
        failing = {side for side, outcome in alone.items() if not outcome.passed}
        for side, settings in self.sides():
            first = alone[side]
            if failing == {side} and first.status != "timeout":  # what takes too long would do so again
                alone[side] = self._alone(compared.case, side, settings)
                if alone[side].passed:
                    chance = WorkerFailure(first.status, first.reason, first.log)
                    compared.lost.append(SideFailure(side, chance))
        compared.alone = alone

    def _alone(self, case: Case, side: Side, settings: Settings) -> ProcessOutcome:
        return measure_alone(case, settings, self.scratch / side, first=case.compiled)

    def sides(self) -> tuple[tuple[Side, Settings], ...]:
        """Return the settings of both sides by name."""
        return ("base", self.base), ("head", self.head)

    def control(self, compared: ComparedCase) -> None:
        """Measure base against itself, alternating which side goes first. A failure is ignored."""
        sides = (self.base, self.base, self.scratch / "control")
        with suppress(SideFailure):
            pair = measure_pair(compared.case, *sides, head_first=compared.control_begins_with_head)
            compared.controls.append((len(compared.pairs), pair.log_ratio))


def measure_rounds(
    comparison: Comparison,
    runner: PairRunner,
    budget: float,
    allocation: BudgetAllocation,
    shown: Progress,
) -> None:
    """Measure until every case is settled or has failed. No pair starts after ``budget`` seconds."""
    end, cases = time.monotonic() + budget, comparison.cases
    with closing(runner.prestarted):
        while chosen := allocation.cases_of_round(end - time.monotonic()):
            for compared, following in zip_longest(chosen, chosen[1:]):
                if time.monotonic() >= end:
                    comparison.out_of_time = True
                    return
                shown.begin(compared.case)
                before = len(compared.pairs)
                if not compared.pairs and not compared.alone:
                    _begin(compared, runner)
                if not compared.failed:
                    runner.pair(compared, following)
                compared.settled = allocation.is_settled(compared)
                settled = sum(case.settled or case.failed for case in cases)
                shown.end(_pair_text(compared, before), state=f"{settled} of {len(cases)} settled")
                if allocation.wants_control(compared) and time.monotonic() < end:
                    runner.control(compared)
                    compared.settled = allocation.is_settled(compared)
            _control(comparison, chosen, runner, end)
            for compared in cases:  # a later control may unsettle a case
                compared.settled = compared.settled and allocation.is_settled(compared)


def _begin(compared: ComparedCase, runner: PairRunner) -> None:
    """Find a batch size for both sides, and check that a compiled step computes the same as the eager one."""
    if not compared.case.batch_size:
        try:
            size = find_batch_size(compared.case, runner.base, runner.scratch / "batch")
        except WorkerFailure:
            size = 1  # the pair will fail as well and show which side is at fault
        compared.case = replace(compared.case, batch_size=size)
    if compared.case.compiled:
        runner.examine(compared)


def _control(comparison: Comparison, chosen: Sequence[ComparedCase], runner: PairRunner, end: float) -> None:
    """Measure a control on the quickest case of each backend. At most one pair in four of a backend is a control."""
    for backend in dict.fromkeys(compared.case.backend for compared in chosen):
        of_backend = [
            compared for compared in comparison.cases if compared.case.backend == backend and compared.pairs
        ]
        if not of_backend or time.monotonic() >= end:
            continue
        compared = comparison.controls.setdefault(backend, min(of_backend, key=lambda case: case.seconds))
        if len(compared.controls) <= sum(len(case.pairs) for case in of_backend) // 3:
            runner.control(compared)
