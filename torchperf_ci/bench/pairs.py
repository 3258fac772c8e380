"""Compare two builds on one machine with two workers that take turns on the same CPUs in short blocks, A B B A.

Whatever slows the machine for longer than a block slows both sides, so their ratio stays the same. On a shared machine
whose processes differ by 10–40%, such ratios differ by about 1%.

On a GPU starting two processes takes as long as their measurement, so the next pair can be started in advance.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping  # msgspec reads the types
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from statistics import median, stdev
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from torchperf_ci import metrics
from torchperf_ci.bench import selection
from torchperf_ci.bench.process import (
    NOTHING_COMPILED,
    WorkerConversation,
    cache_of,
    measure,
    open_worker,
    prepare,
)
from torchperf_ci.bench.worker.protocol import Block, Compilation, Done, FirstStep, Peak
from torchperf_ci.bench.worker_client import Worker, WorkerFailure, forget_choices, random_variables
from torchperf_ci.machine.host import usable_cpus
from torchperf_ci.machine.interference import watch_interference
from torchperf_ci.machine.tuning import quiet_cpus
from torchperf_ci.stats.noise import student_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.process import ProcessOutcome


_T = TypeVar("_T")

Side = Literal["base", "head"]
SIDES: tuple[Side, ...] = get_args(Side)

BLOCK_SECONDS = 0.1
"""Block length, averaged over both sides. Waking a worker takes negligible time compared to a block, and the machine
changes little within four blocks."""
CALIBRATIONS = 3
"""Most samples that calibrate a side's blocks. One that waited for a CPU would make all blocks too short."""
QUADS = 10
"""Most quads of a pair; needed if they spread by about 1%, as on a shared machine."""
MIN_QUADS = 3
LONG_SECONDS = 50.0
"""After this time no further quad begins, even if there are fewer."""
IDLE = {"KMP_BLOCKTIME": "1"}
"""Milliseconds that idle threads of Intel's and LLVM's OpenMP spin. The default of 200 is longer than a block, so they
would disturb the other side on the same CPUs. It is set for the workers of a pair only."""
ALIKE = 0.0015
"""Stop taking quads once the half-width of Student's 95% interval for their mean log-ratio is below this. The remaining
uncertainty is between processes, so only another pair reduces it."""


@dataclass(frozen=True)
class Pair:
    """One pair of fresh processes: the log-ratios ln(head/base) of its A B B A quads, and the values of each side.

    Seconds are the median over a side's quads. ``base`` and ``head`` are the values of those of ``metrics.PAIRED`` that
    hardly differ between processes of a build, in their units; an eager case has no graph breaks. ``observed``
    describes the machine during the measurement (:mod:`torchperf_ci.machine.interference`).
    """

    log_ratios: tuple[float, ...]
    base_seconds: float
    head_seconds: float
    base: Mapping[str, float] = field(default_factory=dict)
    head: Mapping[str, float] = field(default_factory=dict)
    observed: Mapping[str, str] = field(default_factory=dict)

    @property
    def log_ratio(self) -> float:
        """The pair's single independent observation: its quads are correlated, being from the same two processes."""
        return median(self.log_ratios)

    def worsening(self, metric: str) -> float | None:
        """Return ln(head/base) of one of ``metrics.PAIRED``, positive if head is worse; None if the pair lacks it."""
        if metric in metrics.SPEEDS:  # throughput is batch size divided by step time
            return self.log_ratio
        if metric not in self.base or metric not in self.head:
            return None
        more = metrics.kind_of(metric) == "count"  # counts plus 1, because there are often none
        base, head = self.base[metric] + more, self.head[metric] + more
        if min(base, head) <= 0:
            return None
        return math.log(head / base if metrics.direction_of(metric) == metrics.DOWN else base / head)

    def base_value(self, metric: str, batch_size: int) -> float:
        """Return base's value of one of ``metrics.PAIRED``, in the metric's unit."""
        speeds = {
            metrics.LATENCY: 1000 * self.base_seconds,
            metrics.THROUGHPUT: batch_size / self.base_seconds,
        }
        return {**speeds, **self.base}[metric]


class SideFailure(WorkerFailure):
    """One side of a pair failed; ``side`` says which."""

    def __init__(self, side: Side, failure: WorkerFailure) -> None:
        super().__init__(failure.status, failure.reason, failure.log)
        self.side = side


class PairWorker(WorkerConversation):
    """Sends requests to one of the two workers. Failures are raised as :class:`SideFailure`."""

    def __init__(self, side: Side, worker: Worker, timeout: float) -> None:
        super().__init__(worker, timeout)
        self._side = side

    def ask(self, verb: str, kind: type[_T], **arguments: object) -> _T:
        """Send a request, limited to the remaining time of the case."""
        try:
            return super().ask(verb, kind, **arguments)
        except WorkerFailure as failure:
            raise SideFailure(self._side, failure) from None

    def make_ready(self, case: Case, settings: Settings) -> int:
        """Build the step on the CPUs that it will run on and return the number of steps in a sample.

        Raises :class:`SideFailure` for a compiled case whose step would run eagerly.
        """
        self._worker.pin(settings.cpus)
        inner = prepare(self, case, settings)
        if case.compiled and not self.ask("compilation", Compilation).graphs:
            raise SideFailure(self._side, WorkerFailure("unsupported", NOTHING_COMPILED))
        return inner


def on_same_cpus(base: Settings, head: Settings) -> tuple[Settings, Settings]:
    """Return both settings pinned to the same CPUs: those of ``base`` or, if it has none, quiet ones."""
    cpus = base.cpus or quiet_cpus(base.threads, base.hardware)
    return replace(base, cpus=cpus), replace(head, cpus=cpus)


def measure_pair(
    case: Case,
    base: Settings,
    head: Settings,
    scratch: Path,
    started: AbstractContextManager[tuple[PairWorker, PairWorker]] | None = None,
    *,
    head_first: bool = False,
    cold: bool = False,
) -> Pair:
    """Measure one pair of fresh processes. Raises :class:`SideFailure` if a side cannot run the case.

    Both settings must be on the same CPUs (:func:`on_same_cpus`). Compiled code, except choices made by timing, is kept
    below ``scratch`` for the next pair of the case. ``started`` are the pair's workers if they were started in advance.
    Base goes first in everything done in turn, unless ``head_first``. If ``cold``, nothing compiled earlier is used and
    the pair also has the compile times.
    """
    with started or start_pair(case, base, head, scratch, head_first=head_first) as workers:
        _import_torch(*workers)
        for side in SIDES:  # not earlier: the previous pair may have begun after these workers
            cache = cache_of(case, scratch / side)
            if cold:
                shutil.rmtree(cache, ignore_errors=True)
            else:
                forget_choices(cache)
        both = [(workers[0], base), (workers[1], head)]
        (first, _), (second, _) = turns = both[::-1] if head_first else both
        samples = [worker.make_ready(case, settings) for worker, settings in turns]
        _refuse_another_workload(*workers)
        steps = calibrated_steps((first, samples[0]), (second, samples[1]))
        with watch_interference(base.hardware, workers=2) as observed:
            quads = [quad[::-1] if head_first else quad for quad in measured_quads(first, second, steps)]
        return Pair(
            tuple(math.log(head_seconds / base_seconds) for base_seconds, head_seconds in quads),
            median(base_seconds for base_seconds, _ in quads),
            median(head_seconds for _, head_seconds in quads),
            _paired_values(workers[0], case, cold=cold),
            _paired_values(workers[1], case, cold=cold),
            observed,
        )


@contextmanager
def start_pair(
    case: Case,
    base: Settings,
    head: Settings,
    scratch: Path,
    cpus: tuple[int, ...] = (),
    *,
    head_first: bool = False,
) -> Iterator[tuple[PairWorker, PairWorker]]:
    """Start the workers of base and head, which import torch on ``cpus`` (empty: any) until they are made ready."""
    sides: tuple[tuple[Side, Settings], ...] = (("base", base), ("head", head))
    started: dict[Side, PairWorker] = {}
    with ExitStack() as stack:
        for side, settings in sides[::-1] if head_first else sides:
            free, variables = replace(settings, cpus=cpus), {**IDLE, **random_variables()}
            worker = stack.enter_context(open_worker(case, free, scratch / side, variables))
            started[side] = PairWorker(side, worker, settings.timeout)
        yield started["base"], started["head"]


def _refuse_another_workload(base: PairWorker, head: PairWorker) -> None:
    """Raise :class:`SideFailure` if the workload's config differs, as it may between two releases of a library."""
    before, now = (worker.answers.build and worker.answers.build.config for worker in (base, head))
    if before != now:
        reason = f"the workload is another one: its config is {now}, base's {before}"
        raise SideFailure(side="head", failure=WorkerFailure("unsupported", reason))


def _import_torch(*workers: PairWorker) -> None:
    """Wait until all workers have imported torch, which they do in parallel, because it takes longer than a block.

    A signal must be able to end the wait, so no other threads wait.
    """
    for worker in workers:
        worker.ask("ready", Done)


BRIEF_SECONDS = 0.1


def measure_alone(case: Case, settings: Settings, scratch: Path, *, first: bool) -> ProcessOutcome:
    """Run one side of a failed pair briefly, only to see whether it works: together, memory may have been short."""
    return measure(case, replace(settings, budget=BRIEF_SECONDS, target_ci=1.0), scratch, first=first)


def calibrated_steps(*workers: tuple[WorkerConversation, int]) -> int:
    """Return the number of steps in a block. ``workers`` are the sides with the number of steps in a sample."""
    seconds = sum(_fastest_sample(worker, steps) for worker, steps in workers)
    return math.ceil(len(workers) * BLOCK_SECONDS / max(seconds, 1e-9))


def _fastest_sample(worker: WorkerConversation, steps: int) -> float:
    """Return seconds per step over a sample's steps, because a single step would mostly time the device's latency.

    A sample of more than two blocks is not repeated, because waiting changes so long a sample little.
    """
    fastest = math.inf
    for _ in range(CALIBRATIONS):
        fastest = min(fastest, worker.ask("block", Block, steps=steps))
        if fastest * steps > 2 * BLOCK_SECONDS:
            break
    return fastest


def measured_quads(
    base: WorkerConversation, head: WorkerConversation, steps: int
) -> list[tuple[float, float]]:
    """Return seconds per step of both sides for each quad, measured until the quads agree.

    Only their spread decides when to stop, never the size of the difference.
    """
    quads: list[tuple[float, float]] = []
    while len(quads) < QUADS and 2 * steps * sum(map(sum, quads)) < LONG_SECONDS:
        quads.append(_quad(base, head, steps))
        if len(quads) >= MIN_QUADS and _are_alike([math.log(b / a) for a, b in quads]):
            break
    return quads


def _are_alike(log_ratios: Sequence[float]) -> bool:
    quads = len(log_ratios)
    return student_quantile(0.975, quads - 1) * stdev(log_ratios) / math.sqrt(quads) <= ALIKE


def _quad(base: WorkerConversation, head: WorkerConversation, steps: int) -> tuple[float, float]:
    """Return seconds per step of both sides over A B B A. A drift that is linear over the quad cancels out."""
    a1, b1, b2, a2 = (worker.ask("block", Block, steps=steps) for worker in (base, head, head, base))
    return (a1 + a2) / 2, (b1 + b2) / 2


def _paired_values(worker: WorkerConversation, case: Case, *, cold: bool) -> Mapping[str, float]:
    """Return a side's values of those of ``metrics.PAIRED`` that are not timed in turn."""
    answers: list[Peak | Compilation | FirstStep | None] = [worker.ask("peak", Peak)]
    if case.compiled:
        answers.append(worker.ask("compilation", Compilation))
        answers += [worker.answers.first_step] if cold else []
    values = [item for answer in answers if answer for item in answer.by_metric.items()]
    return {metric: value for metric, value in values if metric in metrics.PAIRED}


MIN_SPARE = 4
"""Fewest CPUs besides those of the pair for starting another: for two processes that import and read files."""

PairKey = tuple["Case", "Settings", "Settings", "Path", bool]


def spare_cpus(settings: Settings) -> tuple[int, ...]:
    """Return the CPUs that others may use during a pair; none if the CPU itself is measured or there are too few.

    What others use counts against a container's CPU quota, and the pair would be stopped once it is used up.
    """
    enough = usable_cpus() - len(settings.cpus) >= MIN_SPARE
    spares = settings.device != "cpu" and settings.cpus and enough
    return tuple(sorted(os.sched_getaffinity(0) - set(settings.cpus))) if spares else ()


@dataclass
class PrestartedWorkers:
    """The workers of one pair, started in advance. They are ended if another pair is measured instead."""

    _stack: ExitStack = field(default_factory=ExitStack)
    _started: dict[PairKey, tuple[PairWorker, PairWorker]] = field(default_factory=dict)

    def start(
        self, case: Case, base: Settings, head: Settings, scratch: Path, *, head_first: bool = False
    ) -> None:
        """Start a pair on the spare CPUs, if there are any.

        A compiled case is not started in advance, because the current pair may still need the choices in its cache.
        """
        cpus = spare_cpus(base)
        if not cpus or case.compiled or not case.batch_size:
            return
        self.close()
        beforehand = start_pair(case, base, head, scratch, cpus, head_first=head_first)
        self._started[case, base, head, scratch, head_first] = self._stack.enter_context(beforehand)

    def take(
        self, case: Case, base: Settings, head: Settings, scratch: Path, *, head_first: bool = False
    ) -> AbstractContextManager[tuple[PairWorker, PairWorker]]:
        """Return a context manager with the pair's workers, which starts them if they were not started in advance."""
        key = (case, base, head, scratch, head_first)
        if key in self._started:
            return _held_open(self._stack.pop_all(), self._started.pop(key))
        self.close()
        return start_pair(case, base, head, scratch, head_first=head_first)

    def close(self) -> None:
        """End the workers that were not taken."""
        self._started.clear()
        self._stack.close()


@contextmanager
def _held_open(
    stack: ExitStack, started: tuple[PairWorker, PairWorker]
) -> Iterator[tuple[PairWorker, PairWorker]]:
    with stack:
        yield started


ANCHOR_FLAG = "--anchor"


@dataclass(frozen=True)
class Anchor:
    """A Python with a fixed build, named by ``build``. Ratios to another anchor are another series."""

    python: str
    build: str


def find_anchor(path: str | None, settings: Settings) -> Anchor | None:
    """Describe the anchor's environment. Raises the errors of :func:`selection.describe_environment`.

    Whether it has each workload is only checked when it runs, so that a missing one does not stop the others.
    """
    if path is None:
        return None
    python = selection.python_under_test(path, ANCHOR_FLAG)
    environment = selection.describe_environment(
        replace(settings, python=python, files=()), ANCHOR_FLAG
    ).environment
    return Anchor(python, f"torch {environment.torch_version} {environment.torch_commit}".rstrip())


def measure_against(anchor: Anchor, case: Case, settings: Settings, scratch: Path) -> Pair:
    """Measure one pair with the anchor as base. Raises :class:`SideFailure`."""
    base, head = on_same_cpus(replace(settings, python=anchor.python), settings)
    return measure_pair(case, base, head, scratch / "anchored")


def why_unpaired(failure: SideFailure) -> str:
    """Return one sentence that says why there is no pair."""
    side = {"base": "the anchor", "head": "the build under test, beside the anchor"}[failure.side]
    return f"{side}: {failure.status}: {failure.reason}"
