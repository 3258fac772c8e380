"""The driver of ``torchperf run``: processes of all cases interleaved, each kept as soon as it has ended."""

from __future__ import annotations

import shutil
import signal
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench.batch import find_batch_size
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.journal import Journal
from torchperf_ci.bench.process import Outcome, measure
from torchperf_ci.bench.progress import progress
from torchperf_ci.bench.results import CaseResult, Setting, records
from torchperf_ci.errors import InterruptedRunError
from torchperf_ci.records.writing import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

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
            "cases": [case.key for case in self.cases],
            **self.setting.settings.plan(),
        }


def run(plan: Plan) -> list[CaseResult]:
    """Measure what the plan holds and write its records; a case's file is rewritten whenever a process has ended.

    SIGTERM and Ctrl-C raise :class:`InterruptedRunError` after the worker in progress is gone.
    """
    journal = (Journal.resume if plan.resume else Journal.start)(plan.out, plan.identity())
    scratch = Path(tempfile.mkdtemp(prefix="torchperf-"))
    try:
        with _interruptible(plan.out):
            return _measure_all(plan, journal, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _measure_all(plan: Plan, journal: Journal, scratch: Path) -> list[CaseResult]:
    rounds = plan.setting.settings.processes
    with closing(progress(rounds * len(plan.cases))) as shown:
        for number in range(rounds):
            for index, case in enumerate(plan.cases):
                if _settled(journal.outcomes.get(case.key, ()), number):
                    continue
                shown.starts(case)
                outcome = _one_process(case, plan, journal, scratch)
                journal.add(case.key, outcome)
                _write(_result(case, journal), plan)
                shown.ends(case, outcome, number * len(plan.cases) + index + 1)
    results = [_result(case, journal) for case in plan.cases]
    for result in results:
        _write(result, plan)
    return results


def _settled(outcomes: Sequence[Outcome], number: int) -> bool:
    """Whether process ``number`` is measured, or not worth it because an earlier one failed."""
    return len(outcomes) > number or any(not outcome.passed for outcome in outcomes)


def _one_process(case: Case, plan: Plan, journal: Journal, scratch: Path) -> Outcome:
    settings, first = plan.setting.settings, not journal.outcomes.get(case.key)
    try:
        if not case.batch_size and case.key not in journal.batch_sizes:
            journal.found_batch_size(case.key, find_batch_size(case, settings, scratch))
    except WorkerFailure as failure:
        return Outcome(failure.status, failure.reason, failure.log)
    return measure(_sized(case, journal), settings, plan.device, scratch, first=first)


def _sized(case: Case, journal: Journal) -> Case:
    return replace(case, batch_size=journal.batch_sizes.get(case.key, case.batch_size))


def _result(case: Case, journal: Journal) -> CaseResult:
    return CaseResult(_sized(case, journal), tuple(journal.outcomes[case.key]))


def _write(result: CaseResult, plan: Plan) -> None:
    write(plan.out / f"{result.case.key}.json", records(result, plan.setting))


@contextmanager
def _interruptible(out: Path) -> Iterator[None]:
    def stop(number: int, _frame: FrameType | None) -> None:
        msg = (
            f"stopped by {signal.Signals(number).name}; what was measured is in {out}: continue with --resume"
        )
        raise InterruptedRunError(msg)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
