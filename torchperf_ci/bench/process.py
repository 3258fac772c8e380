"""Measure one case in one worker process: send the requests in order and collect the answers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_ci.bench.worker import protocol
from torchperf_ci.bench.worker_client import Worker, WorkerFailure, forget_choices
from torchperf_ci.errors import SystemRefusalError
from torchperf_ci.machine.examination import DeviceExercise, noise_of
from torchperf_ci.machine.gpu_sampling import summarize_samples
from torchperf_ci.machine.host import available_memory
from torchperf_ci.machine.interference import is_void, watch_interference
from torchperf_ci.machine.tuning import quiet_cpus
from torchperf_ci.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.machine.devices.interface import GpuReading


_T = TypeVar("_T")

MEMORY_SHARE = 0.9
"""A worker's limit as a share of the memory available at its start, so that the run survives a greedy workload."""
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**31)}
"""Fixed allocator thresholds. glibc adapts them as a process frees memory, which varies page faults up to threefold."""
NOTHING_COMPILED = "torch.compile found no graph to compile: the step would run eagerly under another name"


@dataclass(frozen=True)
class ProcessOutcome:
    """The outcome of one process of a case. ``status`` is ``pass``, or why there is no result.

    ``answers`` are the worker's, in seconds and bytes. ``missing`` maps requests without an answer, in a process that
    passed, to the reason.
    """

    status: str
    reason: str = ""
    log: str = ""
    answers: protocol.WorkerAnswers = field(default_factory=protocol.WorkerAnswers)
    observed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.status == "pass"

    @property
    def void(self) -> bool:
        """Whether the times are invalid although the process passed."""
        return is_void(self.observed)


PHASES = {
    "build": "starting",
    "first_step": "first step",
    "warm_up": "warming up",
    "sample": "measuring",
    "leak": "looking for a leak",
    "phases": "timing its phases",
    "flops": "counting FLOPs",
}
"""Progress texts for the longer requests."""


STEPS_GRANTED = 15
"""A process may take as long as this many first steps: enough to measure a step of a minute."""
MAX_TIMEOUTS = 4
"""The time that a process may take after its first step, at most, in timeouts."""


class WorkerConversation:
    """Sends requests to one worker and keeps its answers.

    The answers may take ``timeout`` seconds in total, and more if the first step took long (:data:`STEPS_GRANTED`).
    The first step, which compiles, has another ``timeout`` seconds. Time between requests does not count, because the
    other side of a pair may use it. ``report_phase`` is called at the beginning of each longer request, with its name
    in :data:`PHASES`.
    """

    def __init__(
        self, worker: Worker, timeout: float, report_phase: Callable[[str], object] = lambda _phase: None
    ) -> None:
        self._worker, self._report_phase = worker, report_phase
        self._timeout = self._left = self._granted = timeout
        self.answers = protocol.WorkerAnswers()

    @property
    def alive(self) -> bool:
        """Whether the worker can still answer."""
        return self._worker.alive

    def ask(self, verb: str, kind: type[_T], **arguments: object) -> _T:
        """Send a request, limited to the remaining time of the case. Raises :class:`WorkerFailure`."""
        if verb in PHASES:
            self._report_phase(PHASES[verb])
        start, first = time.monotonic(), verb == "first_step"
        try:
            answer = self._worker.ask(
                verb, self._timeout if first else max(self._left, 0.0), kind, **arguments
            )
        finally:
            took = time.monotonic() - start
            self._left -= 0.0 if first else took
        if first:
            granted = min(STEPS_GRANTED * took, MAX_TIMEOUTS * self._timeout)
            self._left += max(granted - self._granted, 0.0)
            self._granted = max(granted, self._granted)
        if hasattr(self.answers, verb):
            setattr(self.answers, verb, answer)
        return answer


def measure(
    case: Case,
    settings: Settings,
    scratch: Path,
    *,
    first: bool,
    report_phase: Callable[[str], object] = lambda _phase: None,
) -> ProcessOutcome:
    """Measure ``case`` in one fresh process, reporting its phases to ``report_phase``.

    The ``first`` process also measures what is the same in all processes, such as FLOPs.
    """
    answers = protocol.WorkerAnswers()
    observed: dict[str, str] = {}
    whole: dict[str, str] = {}
    try:
        # A process that fails before sampling, such as by a timeout, may have been disturbed, so observe all of it.
        forget_choices(cache_of(case, scratch), keep_graphs=True)  # because a warm start is measured as well
        with (
            # At both ends, when the GPU is read, the worker is not there.
            watch_interference(settings.hardware, workers=0, closely=False) as whole,
            open_worker(case, settings, scratch) as worker,
        ):
            conversation = WorkerConversation(worker, settings.timeout, report_phase)
            answers = conversation.answers
            inner = prepare(conversation, case, settings)
            if case.compiled and not conversation.ask("compilation", protocol.Compilation).graphs:
                return ProcessOutcome("unsupported", NOTHING_COMPILED, answers=answers)
            if (
                first
                and case.compiled
                and not (agreement := conversation.ask("agreement", protocol.Agreement)).agrees
            ):
                return ProcessOutcome("inaccurate", _disagreement(agreement), answers=answers)
            observed = _sample(conversation, inner, settings)
            missing = _inspect(conversation, case, settings, first=first)
    except WorkerFailure as failure:
        return ProcessOutcome(
            failure.status, _reason(failure, settings), failure.log, answers, observed or whole
        )
    return ProcessOutcome("pass", answers=answers, observed=observed, missing=missing)


def _reason(failure: WorkerFailure, settings: Settings) -> str:
    if failure.status != "timeout":
        return failure.reason
    return (
        f"{failure.reason}: raise --timeout ({settings.timeout:g} s for the first step, and at least as long for the "
        "rest)"
    )


def prepare(conversation: WorkerConversation, case: Case, settings: Settings) -> int:
    """Build, run the first step (which compiles) and warm up. Return the number of steps in a sample."""
    built = build(conversation, case, settings)
    conversation.ask("first_step", protocol.FirstStep)
    if built.is_function:
        conversation.ask("dtype_check", protocol.Done)
    return conversation.ask("warm_up", protocol.WarmUp, budget=settings.budget).inner


def build(conversation: WorkerConversation, case: Case, settings: Settings) -> protocol.Built:
    """Build the step of a case."""
    return conversation.ask(
        "build",
        protocol.Built,
        workload=case.workload,
        files=list(settings.files),
        device=settings.device,
        threads=settings.threads,
        mode=case.mode,
        dtype=case.dtype,
        backend=case.backend,
        batch_size=case.batch_size,
    )


def open_worker(
    case: Case, settings: Settings, scratch: Path, more: Mapping[str, str] | None = None
) -> Worker:
    """Start a worker with the case's own compiler cache under ``scratch``: cold the first time, then warm.

    Its temporary files are in ``scratch``, too, because a killed compiler leaves some behind. ``more`` are environment
    variables in addition to those of every worker. Raises :class:`SystemRefusalError` if the Python is gone.
    """
    folder = cache_of(case, scratch).parent
    folder.mkdir(parents=True, exist_ok=True)
    try:
        temporary = {"TMPDIR": str(scratch)} if len(str(scratch)) <= MAX_TEMPORARY_LENGTH else {}
        return start_worker(settings, folder, {**temporary, **(more or {})})
    except FileNotFoundError as error:
        msg = (
            f"{error.filename} has been removed since it was first used: once it is there again, call torchperf again "
            "(run with --resume)"
        )
        raise SystemRefusalError(msg) from error


MAX_TEMPORARY_LENGTH = 72
"""Most characters of a path to temporary files, among them sockets, whose paths have at most 103 on macOS."""


def start_worker(settings: Settings, folder: Path, more: Mapping[str, str] | None = None) -> Worker:
    """Start a worker with its log and compiler caches in ``folder``; ``more`` are additional environment variables."""
    limit = int(available_memory() * MEMORY_SHARE) or None
    environment = {**worker_environment(settings, folder / "cache"), **(more or {})}
    return Worker(settings.python, folder / "worker.log", environment, settings.cpus, limit)


def cache_of(case: Case, scratch: Path) -> Path:
    """Return the folder of a case's compiler caches."""
    return scratch / case.key / "cache"


def worker_environment(settings: Settings, cache: Path) -> dict[str, str]:
    """Return variables that make workers reproducible, to be added to those inherited; ``cache`` is for compilers."""
    threads = str(settings.threads)
    variables = {
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # a crash in an extension leaves a traceback in the log
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        **{name: os.environ.get(name, value) for name, value in ALLOCATOR.items()},
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        # The caller's values would override inductor's, and base and head, or cold and warm runs, would share them.
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "TORCH_EXTENSIONS_DIR": str(cache / "extensions"),
        "MIOPEN_USER_DB_PATH": str(cache / "miopen"),
        "MIOPEN_CUSTOM_CACHE_DIR": str(cache / "miopen"),
        # Compile in the worker itself, so that its CPU seconds are counted and no pool of processes stays behind.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    if settings.path:
        folders = filter(None, (*settings.path, os.environ.get("PYTHONPATH")))
        variables |= {"PYTHONPATH": os.pathsep.join(folders), "PYTHONDONTWRITEBYTECODE": "1"}
    return variables


def _sample(conversation: WorkerConversation, inner: int, settings: Settings) -> dict[str, str]:
    """Take the samples and return what was observed meanwhile.

    Clock, power and temperature of a GPU are those during the samples only, without the settling before them.
    """
    read: list[GpuReading] = []
    with watch_interference(settings.hardware, readings=read) as observed:
        answer = conversation.ask(
            "sample", protocol.Samples, inner=inner, target=settings.target_ci, budget=settings.budget
        )
        end = time.monotonic()
    sampled = answer.wall_per_step * answer.inner * len(answer.seconds)
    return {**observed, **summarize_samples([one for one in read if end - sampled <= one.moment <= end])}


def _inspect(
    conversation: WorkerConversation, case: Case, settings: Settings, *, first: bool
) -> dict[str, str]:
    """Measure everything besides latency. A request that fails or has no time left is missing; the others still run."""
    budget = {"budget": settings.budget}
    looks: list[tuple[str, Any, Mapping[str, float]]] = [("peak", protocol.Peak, {})]
    if case.compiled:
        looks.append(("compilation", protocol.Compilation, {}))
    if first:
        looks += [
            ("leak", protocol.Leak, budget),
            ("phases", protocol.Phases, budget),
            ("flops", protocol.CountedFlops, {}),
        ]
    missing: dict[str, str] = {}
    gone = ""
    for verb, kind, arguments in looks:
        if gone:
            missing[verb] = gone
            continue
        try:
            conversation.ask(verb, kind, **arguments)
        except WorkerFailure as failure:
            missing[verb] = str(failure)
            gone = "" if conversation.alive else missing[verb]
    return missing


def _disagreement(agreement: protocol.Agreement) -> str:
    def how(error: float | None) -> str:
        return "of another shape or not finite" if error is None else f"{error:.2%} off"

    return (
        f"{agreement.compared} of the compiled step are {how(agreement.compiled_error)}, those of the eager one "
        f"{how(agreement.eager_error)} (reference: {agreement.reference}); a step that draws random numbers, as "
        "dropout does, cannot be compared"
    )


MAX_BATCH_SIZE = 2**16
WORTH_DOUBLING = 1.05
"""Smallest growth of throughput that justifies doubling the batch; below it only memory and latency grow."""
BATCH_BLOCK_SECONDS = 0.2
BATCH_MEMORY_SHARE = 0.5


def find_batch_size(case: Case, settings: Settings, scratch: Path) -> int:
    """Double the batch size from 1 until throughput stops growing or half of the memory is used.

    Returns the last size that was worth it. The limit is half of the memory because in a pair two workers must fit, and
    a case must have the same batch size alone and in a pair. Raises :class:`WorkerFailure` if not even two samples can
    be processed.
    """
    best, best_throughput = 0, 0.0
    room = ((settings.seen.memory_mib << 20) or available_memory()) * BATCH_MEMORY_SHARE
    with open_worker(case, settings, scratch) as worker:
        conversation = WorkerConversation(worker, settings.timeout)
        size = 1
        while size <= MAX_BATCH_SIZE:
            try:
                throughput = _throughput(conversation, replace(case, batch_size=size), settings)
                used = conversation.ask("peak", protocol.Peak).device
            except WorkerFailure as failure:
                if size == 1 and failure.status == "failed":  # a batch norm cannot train on a single sample
                    size = 2
                    continue
                if not best:
                    raise
                break
            if best and (throughput < best_throughput * WORTH_DOUBLING or used > room > 0):
                break
            best, best_throughput = size, throughput
            size *= 2
    return best


def _throughput(conversation: WorkerConversation, case: Case, settings: Settings) -> float:
    """Return samples per second over a short block after the first steps.

    The second step of a backend that replays a graph records it, so it does not tell how long a step takes.
    """
    build(conversation, case, settings)
    conversation.ask("first_step", protocol.FirstStep)
    once = min(conversation.ask("block", protocol.Block, steps=1) for _ in range(3))
    steps = max(1, round(BATCH_BLOCK_SECONDS / max(once, 1e-9)))
    seconds = min(conversation.ask("block", protocol.Block, steps=steps) for _ in range(3))
    return case.batch_size / seconds


EXERCISE_TIMEOUT = 120.0


def exercise_device(settings: Settings) -> DeviceExercise:
    """Time two seconds of work on the device, in a worker pinned like those of a run. Raises :class:`WorkerFailure`."""
    settings = replace(settings, cpus=quiet_cpus(1, settings.hardware))
    with scratch_folder() as folder, start_worker(settings, folder) as worker:
        worker.ask("ready", EXERCISE_TIMEOUT, protocol.Done)
        with watch_interference(settings.hardware) as observed:
            blocks = worker.ask("exercise", EXERCISE_TIMEOUT, dict[str, list[float]], device=settings.device)
    return DeviceExercise(
        {kind: noise_of(seconds) for kind, seconds in blocks.items()}, observed.get("gpu_sm_mhz")
    )
