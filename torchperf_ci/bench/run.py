"""The driver of ``torchperf run``: processes of all cases interleaved, each kept as soon as it has ended."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench.anchor import measure_against, why_not
from torchperf_ci.bench.batch import find_batch_size
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.journal import Journal
from torchperf_ci.bench.pairs import ArmFailure
from torchperf_ci.bench.process import Outcome, measure
from torchperf_ci.bench.progress import progress
from torchperf_ci.bench.results import CaseResult, Setting, records
from torchperf_ci.interruption import Stopped
from torchperf_ci.records.writing import write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case
    from torchperf_ci.machine.devices.base import Device


@dataclass(frozen=True)
class Plan:
    """A run before it starts. ``out`` gets one records file a case."""

    cases: Sequence[Case]
    setting: Setting
    device: Device
    out: Path
    resume: bool = False

    def identity(self) -> Mapping[str, Any]:
        """What an interrupted run must share with the one that continues it."""
        return {
            "benchmark": self.setting.benchmark,
            "fingerprint": self.setting.fingerprint,
            "torch": self.setting.dependencies["pytorch"].sha,
            "anchor": self.setting.anchor.build if self.setting.anchor else None,
            "cases": [case.key for case in self.cases],
            **self.setting.settings.plan(),
        }


def run(plan: Plan) -> list[CaseResult]:
    """Measure what the plan holds and write its records; a case's file is rewritten whenever a process has ended.

    A signal (:class:`Stopped`) ends the worker in progress.
    """
    journal = (Journal.resume if plan.resume else Journal.start)(plan.out, plan.identity())
    scratch = Path(tempfile.mkdtemp(prefix="torchperf-"))
    try:
        return _measure_all(plan, journal, scratch)
    except Stopped as stopped:
        stopped.outcome, stopped.resume = f"what was measured is in {plan.out}; to go on", ("--resume",)
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass(frozen=True)
class _Step:
    """The ``number``-th process of a case, or its ``number``-th pair with the anchor."""

    case: Case
    number: int
    paired: bool

    def __str__(self) -> str:
        return f"{self.case} against the anchor" if self.paired else str(self.case)

    def is_settled(self, journal: Journal) -> bool:
        """Whether it is measured, or not worth it because an earlier one failed."""
        key = self.case.key
        if any(not outcome.passed for outcome in journal.outcomes.get(key, ())):
            return True
        if self.paired:
            return key in journal.unpaired or len(journal.pairs.get(key, ())) > self.number
        return len(journal.outcomes.get(key, ())) > self.number


def _measure_all(plan: Plan, journal: Journal, scratch: Path) -> list[CaseResult]:
    steps = _steps(plan)
    with closing(progress(len(steps))) as shown:
        for done, step in enumerate(steps, start=1):
            if step.is_settled(journal):
                continue
            shown.starts(step)
            measure_step = _one_pair if step.paired else _one_process
            outcome = measure_step(step.case, plan, journal, scratch)
            _write(_result(step.case, journal), plan)
            shown.ends(step, outcome, done)
    results = [_result(case, journal) for case in plan.cases]
    for result in results:
        _write(result, plan)
    return results


def _steps(plan: Plan) -> list[_Step]:
    """All first processes, each with its first pair, then all second ones, so that drift spreads over the cases."""
    kinds = (False, True) if plan.setting.anchor else (False,)
    rounds = range(plan.setting.settings.processes)
    return [_Step(case, number, paired) for number in rounds for case in plan.cases for paired in kinds]


def _one_process(case: Case, plan: Plan, journal: Journal, scratch: Path) -> Outcome:
    settings, first = plan.setting.settings, not journal.outcomes.get(case.key)
    try:
        if not case.batch_size and case.key not in journal.batch_sizes:
            journal.found_batch_size(case.key, find_batch_size(case, settings, scratch))
        outcome = measure(_sized(case, journal), settings, plan.device, scratch, first=first)
    except WorkerFailure as failure:
        outcome = Outcome(failure.status, failure.reason, failure.log)
    journal.add(case.key, outcome)
    return outcome


def _one_pair(case: Case, plan: Plan, journal: Journal, scratch: Path) -> Outcome:
    """What it tells is in the journal; the outcome is for whoever watches."""
    start = time.monotonic()
    assert plan.setting.anchor
    try:
        pair = measure_against(plan.setting.anchor, _sized(case, journal), plan.setting.settings, scratch)
    except ArmFailure as failure:
        journal.cannot_pair(case.key, why_not(failure))
        return Outcome("not measured", why_not(failure))
    journal.add_pair(case.key, pair)
    return Outcome("pass", seconds=time.monotonic() - start)


def _sized(case: Case, journal: Journal) -> Case:
    return replace(case, batch_size=journal.batch_sizes.get(case.key, case.batch_size))


def _result(case: Case, journal: Journal) -> CaseResult:
    return CaseResult(
        _sized(case, journal),
        tuple(journal.outcomes[case.key]),
        tuple(journal.pairs.get(case.key, ())),
        journal.unpaired.get(case.key, ""),
    )


def _write(result: CaseResult, plan: Plan) -> None:
    write(plan.out / f"{result.case.key}.json", records(result, plan.setting))
