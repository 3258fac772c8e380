"""Run all cases of ``torchperf run``, with their processes interleaved, and save each process as soon as it ends."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import IO, TYPE_CHECKING

from torchperf_ci import actions, json_files
from torchperf_ci.bench.pairs import Pair, SideFailure, measure_against, why_unpaired
from torchperf_ci.bench.process import ProcessOutcome, find_batch_size, measure
from torchperf_ci.bench.results import CaseResult, RunSetting, records
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.console import Progress
from torchperf_ci.errors import OutputDirectoryError, ResumeError, failing_as
from torchperf_ci.interruption import Stopped
from torchperf_ci.records.files import OWN_FOLDER, ignore_in_git, make_own_folder, open_journal, try_lock
from torchperf_ci.records.record import write_records
from torchperf_ci.scratch import is_disk_full, refuse_full_disk, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_ci.bench.case import Case


OTHERWISE = "repeat its options or start anew in --out"


@dataclass(frozen=True)
class JournalLine:
    """What a line adds to a case: a process, a pair with the anchor or why there is none, or its batch size."""

    case: str
    outcome: ProcessOutcome | None = None
    pair: Pair | None = None
    unpaired: str = ""
    batch_size: int = 0


class RunJournal:
    """A file with one line per finished process or pair, synced at once, after a first line that holds the plan."""

    def __init__(self, records: Path, plan: Mapping[str, object], *, resume: bool = False) -> None:
        """Begin a run in ``records``, or read the journal of an interrupted run of the same plan.

        An incomplete last line is ignored. Raises :class:`OutputDirectoryError` if the folder holds the records of an
        earlier run or cannot be written, and :class:`ResumeError` if there is no run to resume or another one.
        """
        import msgspec

        self._path = _journal_path(records)
        self._lines: dict[str, list[JournalLine]] = defaultdict(list)
        _check_folder(records, resume=resume)
        try:
            make_own_folder(self._path.parent)
            if records.parent == Path() and records.name.startswith(RECORDS.name):
                ignore_in_git(records)
            with self.locked() as file:  # reading cuts off what another run may be about to write
                for entry in json_files.read_entries(file, plan, OTHERWISE):
                    line = msgspec.convert(entry, JournalLine)
                    self._lines[line.case].append(line)
        except msgspec.ValidationError as error:
            msg = f"{self._path} is of another version of torchperf ({error}): {OTHERWISE}"
            raise ResumeError(msg) from None
        except OSError as error:
            msg = f"{self._path} cannot be used ({error.strerror}): choose a directory of yours with --out"
            raise OutputDirectoryError(msg) from None

    @contextmanager
    def locked(self) -> Iterator[IO[bytes]]:
        """Lock the journal against other runs for the block. Raises :class:`ResumeError`."""
        with open_journal(self._path) as file:
            with suppress(OSError):  # on a file system without locks
                if not try_lock(file):
                    msg = (
                        f"{self._path} is in use by another run: wait for it to end, or choose another --out"
                    )
                    raise ResumeError(msg)
            yield file

    def add(self, line: JournalLine) -> None:
        """Save one line. Raises :class:`OutputDirectoryError`."""
        before, after = f"{self._path} cannot be written (", "): once it can be, continue with --resume"
        with failing_as(OutputDirectoryError, before, after), open_journal(self._path) as file:
            json_files.append_entry(file, {name: value for name, value in asdict(line).items() if value})
        self._lines[line.case].append(line)

    def result(self, case: Case) -> CaseResult:
        """Return what is known of a case, with its batch size if that has been determined."""
        lines = self._lines[case.key]
        size = next((line.batch_size for line in lines if line.batch_size), case.batch_size)
        return CaseResult(
            replace(case, batch_size=size),
            [line.outcome for line in lines if line.outcome],
            [line.pair for line in lines if line.pair],
            next((line.unpaired for line in lines if line.unpaired), ""),
        )


def _journal_path(records: Path) -> Path:
    """Path of the journal, in a subfolder that readers of records skip."""
    return records / OWN_FOLDER / "journal.jsonl"


def _holds_run(records: Path) -> bool:
    return _journal_path(records).exists() or any(records.glob("*.json"))


def _check_folder(records: Path, *, resume: bool) -> None:
    if resume and not _journal_path(records).exists():
        msg = f"{records} holds no run to resume: leave out --resume, or name its directory with --out"
        raise ResumeError(msg)
    if not resume and _holds_run(records):
        msg = f"{records} holds the records of an earlier run: choose another --out, or continue it with --resume"
        raise OutputDirectoryError(msg)


RECORDS = Path("torchperf-records")
"""Default folder for records; from the second run on ``torchperf-records-2`` and so on."""


def output_folder(given: str | None, *, resume: bool) -> Path:
    """Return the folder of a run: the given one, or else a default one. Raises as :class:`RunJournal`."""
    folder = Path(given) if given else newest_folder() if resume else free_folder()
    _check_folder(folder, resume=resume)
    return folder


def free_folder() -> Path:
    """Return the first of the default folders that holds no run yet."""
    numbered = (RECORDS.with_name(f"{RECORDS}-{number}") for number in count(2))
    return next(folder for folder in chain([RECORDS], numbered) if not _holds_run(folder))


def newest_folder() -> Path:
    """Return the default folder of the most recent run; the first default folder if there is none."""
    begun = [folder for folder in Path().glob(f"{RECORDS}*") if _journal_path(folder).exists()]
    return max(begun, key=lambda folder: _journal_path(folder).stat().st_mtime, default=RECORDS)


@dataclass(frozen=True)
class RunPlan:
    """A run before it starts. One file of records per case is written to ``out``.

    ``imported`` are the files of the modules that suite files import.
    """

    cases: Sequence[Case]
    setting: RunSetting
    out: Path
    resume: bool = False
    imported: Sequence[str] = ()

    def identity(self) -> Mapping[str, object]:
        """Properties that must be equal for a run to resume an interrupted one."""
        return {
            "benchmark": self.setting.benchmark,
            "commit": self.setting.identity.get("head_sha"),
            "suite files and their imports": _digests((*self.setting.settings.files, *self.imported)),
            "fingerprint": self.setting.fingerprint,
            "torch": self.setting.dependencies["pytorch"].sha,
            **{f"version of {name}": used.version for name, used in self.setting.dependencies.items()},
            "anchor": self.setting.anchor.build if self.setting.anchor else None,
            "cases": [case.key for case in self.cases],
            **self.setting.settings.plan(),
        }


def _digests(files: Sequence[str]) -> list[str]:
    """Return the names and digests of files. A suite may also be a folder, a checkout of TorchBench."""
    paths = [path for path in map(Path, files) if path.is_file()]
    return [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}" for path in paths]


def run(plan: RunPlan) -> list[CaseResult]:
    """Measure the plan's cases and write their records. A case's file is rewritten after each of its processes.

    A signal (:class:`Stopped`) ends the current worker.
    """
    journal = RunJournal(plan.out, plan.identity(), resume=plan.resume)
    # Before anything can fail, so that a later step finds what an interrupted run has saved.
    actions.set_output("records-dir", str(plan.out.absolute()))
    try:
        with journal.locked(), scratch_folder() as scratch:
            return _measure_all(plan, journal, scratch)
    except Stopped as stopped:
        stopped.outcome = f"what was measured is in {plan.out}; to continue"
        stopped.resume = (("--resume",), ("--out", str(plan.out)))
        raise


@dataclass(frozen=True)
class _RunStep:
    """The ``number``-th process of a case, or its ``number``-th pair with the anchor."""

    case: Case
    number: int
    paired: bool

    def __str__(self) -> str:
        return f"{self.case} against the anchor" if self.paired else str(self.case)

    def is_settled(self, known: CaseResult) -> bool:
        """Whether the step is already measured, or is skipped because an earlier one of its case failed."""
        if known.failure or (self.paired and known.unpaired):
            return True
        return len(known.pairs if self.paired else known.outcomes) > self.number


def _measure_all(plan: RunPlan, journal: RunJournal, scratch: Path) -> list[CaseResult]:
    steps = [step for step in _steps(plan) if not step.is_settled(journal.result(step.case))]
    with closing(Progress(len(steps))) as shown:
        for done, step in enumerate(steps, start=1):
            if step.is_settled(journal.result(step.case)):
                continue
            shown.begin(step)
            if step.paired:
                outcome = _one_pair(step.case, plan, journal, scratch)
            else:
                outcome = _one_process(step.case, plan, journal, scratch, shown.show_phase)
            _write_records(journal.result(step.case), plan)
            log = () if outcome.passed else outcome.log.splitlines()[-LOG_LINES:]
            how = (
                f"pass in {outcome.seconds:.1f} s"
                if outcome.passed
                else f"{outcome.status}: {outcome.reason}"
            )
            shown.end(f"{step}: {how}", done, failed=not outcome.passed, log=log)
    results = [journal.result(case) for case in plan.cases]
    for result in results:
        _write_records(result, plan)
    return results


LOG_LINES = 8
"""Most lines of a failed process's log that are printed; its record has more."""


def _steps(plan: RunPlan) -> list[_RunStep]:
    """Return the first process of each case with its first pair, then all second ones, and so on.

    A drift of the machine then affects all cases alike.
    """
    kinds = (False, True) if plan.setting.anchor else (False,)
    rounds = range(plan.setting.settings.processes)
    return [_RunStep(case, number, paired) for number in rounds for case in plan.cases for paired in kinds]


def _one_process(
    case: Case, plan: RunPlan, journal: RunJournal, scratch: Path, report_phase: Callable[[str], object]
) -> ProcessOutcome:
    start, settings, known = time.monotonic(), plan.setting.settings, journal.result(case)
    sized, first = known.case, not known.outcomes
    try:
        if not sized.batch_size:
            report_phase("finding its batch size")
            sized = replace(case, batch_size=find_batch_size(case, settings, scratch))
            journal.add(JournalLine(case.key, batch_size=sized.batch_size))
        outcome = measure(sized, settings, scratch, first=first, report_phase=report_phase)
    except WorkerFailure as failure:
        outcome = ProcessOutcome(failure.status, failure.reason, failure.log)
    outcome = replace(outcome, seconds=time.monotonic() - start)
    if not outcome.passed and is_disk_full():  # whatever the workload says of a disk of its own
        refuse_full_disk(f"{case}: {outcome.reason}; continue with --resume")
    journal.add(JournalLine(case.key, outcome))
    return outcome


def _one_pair(case: Case, plan: RunPlan, journal: RunJournal, scratch: Path) -> ProcessOutcome:
    """Measure one pair with the anchor and add it to the journal. The outcome is only for the progress display."""
    start = time.monotonic()
    assert plan.setting.anchor
    try:
        sized = journal.result(case).case
        pair = measure_against(plan.setting.anchor, sized, plan.setting.settings, scratch)
    except SideFailure as failure:
        why = why_unpaired(failure)
        if is_disk_full():
            refuse_full_disk(f"{case}: {why}; continue with --resume")
        journal.add(JournalLine(case.key, unpaired=why))
        return ProcessOutcome("not measured", why)
    journal.add(JournalLine(case.key, pair=pair))
    return ProcessOutcome("pass", seconds=time.monotonic() - start)


def _write_records(result: CaseResult, plan: RunPlan) -> None:
    write_records(plan.out / f"{result.case.key}.json", records(result, plan.setting))
