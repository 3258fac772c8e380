"""The driver: round after round one pair of each case that can be settled, and base against itself between them."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from torchperf_ci.bench.ahead import Ahead
from torchperf_ci.bench.batch import find_batch_size
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.pairs import ArmFailure, Side, measure_pair
from torchperf_ci.bench.process import measure
from torchperf_ci.machine.disturbance import note

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.compare.progress import Progress
    from torchperf_ci.compare.trial import Trial
    from torchperf_ci.compare.turns import Turns
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
    ahead: Ahead = field(default_factory=Ahead)

    def pair(self, trial: Trial, following: Case | None = None) -> None:
        """Measure one more pair of a case; where that fails, look at either side alone.

        The ``following`` pair is of another case, and its workers may start meanwhile.
        """
        start, what = time.monotonic(), (trial.case, self.base, self.head, self.scratch)
        try:
            started = self.ahead.taken(*what)
            if following:
                self.ahead.start(following, self.base, self.head, self.scratch)
            trial.pairs.append(measure_pair(*what, started))
            trial.seconds = time.monotonic() - start
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

    def control(self, trial: Trial) -> None:
        """Measure base against itself; nothing where that fails."""
        with suppress(ArmFailure):
            pair = measure_pair(trial.case, self.base, self.base, self.scratch / "control")
            trial.controls.append((len(trial.pairs), pair.log_ratio))


@dataclass
class Measured:
    """What the rounds have given so far; it grows in place, so that it outlives an interruption.

    ``controls`` are the cases on which base is measured against itself in every round, by backend.
    """

    trials: Sequence[Trial]
    controls: dict[str, Trial] = field(default_factory=dict)
    out_of_time: bool = False
    stopped: bool = False

    @property
    def disturbed(self) -> str:
        """A note, where the machine is known not to have been left alone."""
        return note([pair.observed for trial in self.trials for pair in trial.pairs])


def measure_rounds(measured: Measured, arms: Arms, budget: float, turns: Turns, shown: Progress) -> None:
    """Measure until every case is settled or has failed, or ``budget`` seconds are over; no pair begins after that."""
    end = time.monotonic() + budget
    with closing(arms.ahead):
        _measure_until(end, measured, arms, turns, shown)


def _measure_until(end: float, measured: Measured, arms: Arms, turns: Turns, shown: Progress) -> None:
    while chosen := turns.in_this_round(end - time.monotonic()):
        for trial, following in zip_longest(chosen, chosen[1:]):
            if time.monotonic() >= end:
                measured.out_of_time = True
                return
            shown.starts(trial)
            _one_more(trial, arms, following.case if following else None)
            trial.settled = turns.is_settled(trial)
            shown.ends(trial)
            if turns.wants_control(trial) and time.monotonic() < end:
                arms.control(trial)
                trial.settled = turns.is_settled(trial)
        _control(measured, chosen, arms, end)


def _one_more(trial: Trial, arms: Arms, following: Case | None) -> None:
    if not trial.pairs and not trial.alone:
        _begin(trial, arms)
    if not trial.failed:
        arms.pair(trial, following)


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


def _control(measured: Measured, chosen: Sequence[Trial], arms: Arms, end: float) -> None:
    """Base against itself on the quickest case of each backend, which gets one pair in four of it at most."""
    for backend in dict.fromkeys(trial.case.backend for trial in chosen):
        of_backend = [trial for trial in measured.trials if trial.case.backend == backend and trial.pairs]
        if not of_backend or time.monotonic() >= end:
            continue
        trial = measured.controls.setdefault(backend, min(of_backend, key=lambda one: one.seconds))
        if len(trial.controls) <= sum(len(one.pairs) for one in of_backend) // 3:
            arms.control(trial)
