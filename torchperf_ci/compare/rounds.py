"""The driver: round after round one pair of each case that is not settled yet, and one pair of the control."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchperf_ci.bench.batch import find_batch_size
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.pairs import ArmFailure, Side, measure_pair
from torchperf_ci.bench.process import measure
from torchperf_ci.machine.disturbance import note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.compare.progress import Progress
    from torchperf_ci.compare.trial import Trial
    from torchperf_ci.machine.devices.base import Device

BRIEF_SECONDS = 0.1
"""Of sampling, where a case is only to be seen to work."""


@dataclass(frozen=True)
class Arms:
    """Both sides on the same CPUs, and a folder for their compiler caches and logs."""

    base: Settings
    head: Settings
    device: Device
    scratch: Path

    def pair(self, trial: Trial) -> None:
        """Measure one more pair of a case; where that fails, look at either side alone."""
        try:
            trial.pairs.append(measure_pair(trial.case, self.base, self.head, self.scratch))
        except ArmFailure as failure:
            trial.lost.append(failure)
            self.examine(trial)

    def examine(self, trial: Trial) -> None:
        """Run either side of a case alone: beside the other one, memory may have been short."""
        for side, settings in self.sides():
            trial.alone[side] = measure(
                trial.case,
                replace(settings, budget=BRIEF_SECONDS, target_ci=1.0),
                self.device,
                self.scratch / side,
                first=trial.case.compiled,
            )

    def sides(self) -> tuple[tuple[Side, Settings], ...]:
        """Both, by name."""
        return ("base", self.base), ("head", self.head)

    def control(self, case: Case) -> float | None:
        """The log-ratio of base against itself; None where it fails."""
        try:
            return measure_pair(case, self.base, self.base, self.scratch / "control").log_ratio
        except ArmFailure:
            return None


@dataclass
class Measured:
    """What the rounds have given so far; it grows in place, so that it outlives an interruption."""

    trials: Sequence[Trial]
    control_case: Case | None = None
    control: list[float] = field(default_factory=list)
    out_of_time: bool = False
    stopped: bool = False

    @property
    def disturbed(self) -> str:
        """A note, where the machine is known not to have been left alone."""
        return note([pair.observed for trial in self.trials for pair in trial.pairs])


def measure_rounds(
    measured: Measured, arms: Arms, budget: float, is_settled: Callable[[Trial], bool], shown: Progress
) -> None:
    """Measure until every case is settled or has failed, or ``budget`` seconds are over; no pair begins after that."""
    end = time.monotonic() + budget
    seconds: dict[Case, float] = {}
    while unsettled := [trial for trial in measured.trials if not (trial.settled or trial.failed)]:
        for trial in unsettled:
            if time.monotonic() >= end:
                measured.out_of_time = True
                return
            shown.starts(trial)
            start = time.monotonic()
            _one_more(trial, arms)
            if len(trial.pairs) == 1:
                seconds[trial.case] = time.monotonic() - start
            trial.settled = bool(trial.pairs) and is_settled(trial)
            shown.ends(trial)
        _one_more_control(measured, arms, seconds, end)


def _one_more(trial: Trial, arms: Arms) -> None:
    if not trial.pairs and not trial.alone:
        _begin(trial, arms)
    if not trial.failed:
        arms.pair(trial)


def _begin(trial: Trial, arms: Arms) -> None:
    """Find a batch size that both sides share; see whether a compiled step computes what the eager one does."""
    if not trial.case.batch_size:
        try:
            size = find_batch_size(trial.case, arms.base, arms.scratch / "batch")
        except WorkerFailure:
            size = 1  # the pair will fail, too, and tell whose fault it is
        trial.case = replace(trial.case, batch_size=size)
    if trial.case.compiled:
        arms.examine(trial)


def _one_more_control(measured: Measured, arms: Arms, seconds: dict[Case, float], end: float) -> None:
    """Base against itself, on the case whose pair was the quickest to have."""
    if measured.control_case is None and seconds:
        measured.control_case = min(seconds, key=lambda case: seconds[case])
    if measured.control_case is None or time.monotonic() >= end:
        return
    ratio = arms.control(measured.control_case)
    if ratio is not None:
        measured.control.append(ratio)
