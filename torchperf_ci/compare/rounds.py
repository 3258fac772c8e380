"""The driver: round after round one pair of each case that can be settled, and base against itself between them."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from torchperf_ci.bench.ahead import PrestartedWorkers
from torchperf_ci.bench.batch import find_batch_size
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.pairs import ArmFailure, Side, measure_pair
from torchperf_ci.bench.process import measure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.compare.progress import Progress
    from torchperf_ci.compare.trial import ComparedCase, Comparison
    from torchperf_ci.compare.turns import BudgetAllocation
    from torchperf_ci.machine.devices.base import Device

BRIEF_SECONDS = 0.1
"""Of sampling, where a case is only to be seen to work."""


@dataclass(frozen=True)
class PairRunner:
    """Both sides on the same CPUs, and a folder for their compiler caches and logs."""

    base: Settings
    head: Settings
    device: Device
    scratch: Path
    prestarted: PrestartedWorkers = field(default_factory=PrestartedWorkers)

    def pair(self, compared: ComparedCase, following: Case | None = None) -> None:
        """Measure one more pair of a case; where that fails, look at either side alone.

        The ``following`` pair is of another case, and its workers may start meanwhile.
        """
        start, what = time.monotonic(), (compared.case, self.base, self.head, self.scratch)
        try:
            started = self.prestarted.taken(*what)
            if following:
                self.prestarted.start(following, self.base, self.head, self.scratch)
            compared.pairs.append(measure_pair(*what, started))
            compared.seconds = time.monotonic() - start
        except ArmFailure as failure:
            compared.lost.append(failure)
            self.examine(compared)

    def examine(self, compared: ComparedCase) -> None:
        """Run either side of a case alone: beside the other one, memory may have been short."""
        for side, settings in self.sides():
            compared.alone[side] = measure(
                compared.case,
                replace(settings, budget=BRIEF_SECONDS, target_ci=1.0),
                self.device,
                self.scratch / side,
                first=compared.case.compiled,
            )

    def sides(self) -> tuple[tuple[Side, Settings], ...]:
        """Both, by name."""
        return ("base", self.base), ("head", self.head)

    def control(self, compared: ComparedCase) -> None:
        """Measure base against itself; nothing where that fails."""
        with suppress(ArmFailure):
            pair = measure_pair(compared.case, self.base, self.base, self.scratch / "control")
            compared.controls.append((len(compared.pairs), pair.log_ratio))


def measure_rounds(
    comparison: Comparison, runner: PairRunner, budget: float, allocation: BudgetAllocation, shown: Progress
) -> None:
    """Measure until every case is settled or has failed, or ``budget`` seconds are over; no pair begins after that."""
    end = time.monotonic() + budget
    with closing(runner.prestarted):
        _measure_until(end, comparison, runner, allocation, shown)


def _measure_until(
    end: float, comparison: Comparison, runner: PairRunner, allocation: BudgetAllocation, shown: Progress
) -> None:
    while chosen := allocation.cases_of_round(end - time.monotonic()):
        for compared, following in zip_longest(chosen, chosen[1:]):
            if time.monotonic() >= end:
                comparison.out_of_time = True
                return
            shown.starts(compared)
            _one_more(compared, runner, following.case if following else None)
            compared.settled = allocation.is_settled(compared)
            shown.ends(compared)
            if allocation.wants_control(compared) and time.monotonic() < end:
                runner.control(compared)
                compared.settled = allocation.is_settled(compared)
        _control(comparison, chosen, runner, end)


def _one_more(compared: ComparedCase, runner: PairRunner, following: Case | None) -> None:
    if not compared.pairs and not compared.alone:
        _begin(compared, runner)
    if not compared.failed:
        runner.pair(compared, following)


def _begin(compared: ComparedCase, runner: PairRunner) -> None:
    """Find a batch size that both sides share; see whether a compiled step computes what the eager one does."""
    if not compared.case.batch_size:
        try:
            size = find_batch_size(compared.case, runner.base, runner.scratch / "batch")
        except WorkerFailure:
            size = 1  # the pair will fail, too, and tell whose fault it is
        compared.case = replace(compared.case, batch_size=size)
    if compared.case.compiled:
        runner.examine(compared)


def _control(comparison: Comparison, chosen: Sequence[ComparedCase], runner: PairRunner, end: float) -> None:
    """Base against itself on the quickest case of each backend, which gets one pair in four of it at most."""
    for backend in dict.fromkeys(compared.case.backend for compared in chosen):
        of_backend = [
            compared for compared in comparison.cases if compared.case.backend == backend and compared.pairs
        ]
        if not of_backend or time.monotonic() >= end:
            continue
        compared = comparison.controls.setdefault(backend, min(of_backend, key=lambda one: one.seconds))
        if len(compared.controls) <= sum(len(one.pairs) for one in of_backend) // 3:
            runner.control(compared)
