"""Turn the outcomes of a case's processes into its v3 records, whose metric names include the unit."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_ci import metrics
from torchperf_ci.machine.interference import describe_interference
from torchperf_ci.records.record import Benchmark, Dependency, Metric, Model, build_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.pairs import Anchor, Pair
    from torchperf_ci.bench.process import ProcessOutcome
    from torchperf_ci.bench.worker.protocol import Built, Compilation, FirstStep, Samples, WorkerAnswers

_T = TypeVar("_T")

KIB = 2.0**10
_OF_A_BUILD = re.compile(r"(?<=\.dev)\d+|\+.*")
"""The parts of a version that depend on the build: the date of a nightly and the local suffix."""


@dataclass(frozen=True)
class RunSetting:
    """What all records of a run share. ``identity`` holds the fields for commit and run that are known."""

    benchmark: str
    settings: Settings
    runner: Mapping[str, Any]
    dependencies: Mapping[str, Dependency]
    fingerprint: str
    anchor: Anchor | None = None
    identity: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseResult:
    """A case, the outcomes of its processes and the pairs with the anchor, in the order taken.

    ``unpaired`` says why pairs are missing. If it is set, the existing pairs do not count as a result.
    """

    case: Case
    outcomes: Sequence[ProcessOutcome]
    pairs: Sequence[Pair] = ()
    unpaired: str = ""

    @property
    def failure(self) -> ProcessOutcome | None:
        """The first process that did not pass, if any. A single failure means that the case has no result."""
        return next((outcome for outcome in self.outcomes if not outcome.passed), None)

    @property
    def status(self) -> str:
        """``pass``, or the status of the failure."""
        return self.failure.status if self.failure else "pass"

    def answers(self, of: Callable[[WorkerAnswers], _T | None]) -> list[_T]:
        """Return each process's answer to one of the requests, leaving out processes without one."""
        values = [of(outcome.answers) for outcome in self.outcomes]
        return [answer for answer in values if answer is not None]

    @property
    def built(self) -> Built | None:
        """The build information of the first process that could build the case."""
        return next(iter(self.answers(lambda answers: answers.build)), None)

    @property
    def observed(self) -> list[Mapping[str, str]]:
        """What was observed on the machine during each process and each pair."""
        around = [*(outcome.observed for outcome in self.outcomes), *(pair.observed for pair in self.pairs)]
        return [facts for facts in around if facts]

    @property
    def disturbed(self) -> str | None:
        """A description of what disturbed the machine during the measurement; None if nothing is known."""
        return describe_interference(self.observed)

    @property
    def latencies(self) -> list[float]:
        """Median seconds per step of each process with valid times; empty for a failed case."""
        return [] if self.failure else [median(answer.seconds) for answer in self.samples]

    @property
    def samples(self) -> list[Samples]:
        """The samples of the processes with valid times."""
        return [o.answers.sample for o in self.outcomes if o.answers.sample and not o.void]

    @property
    def void(self) -> str:
        """How many processes have invalid times, and why; empty if all are valid."""
        void = [
            outcome.observed["throttling"] for outcome in self.outcomes if outcome.passed and outcome.void
        ]
        reasons = ", ".join(sorted(set(void)))
        return (
            f"the GPU was throttled ({reasons}) in {len(void)} of {len(self.outcomes)} processes"
            if void
            else ""
        )

    @property
    def ratios(self) -> list[float]:
        """The ratio of the latency to the anchor's, for each pair; empty without an anchor or without a result."""
        return [] if self.failure or self.unpaired else [math.exp(pair.log_ratio) for pair in self.pairs]


def records(result: CaseResult, setting: RunSetting) -> list[dict[str, object]]:
    """Return all v3 records of a case. A failed case has its status, and nothing that looks like a measurement."""
    case, built = result.case, result.built
    benchmark = Benchmark(
        setting.benchmark,
        case.mode,
        case.dtype,
        {
            "device": setting.settings.device,
            "batch_size": case.batch_size,
            "threads": setting.settings.threads,
            "fingerprint": setting.fingerprint,
            "workload_config": _workload_config(result, setting.dependencies),
        },
    )
    parameters = built.parameters if built else None
    model = Model(case.workload, case.task, case.backend, [case.origin], {"parameters": parameters})
    return [
        {
            **setting.identity,
            **build_record(
                benchmark=benchmark,
                model=model,
                metric=metric,
                dependencies=setting.dependencies,
                runners=[setting.runner],
            ),
        }
        for metric in metrics_of(result, setting)
    ]


def _workload_config(result: CaseResult, dependencies: Mapping[str, Dependency]) -> str | None:
    """Identify what was measured by the digest of its config and the version of the library that it comes from.

    Another version of the library starts a new series, because the code of its model may differ. Nightly builds
    between two releases count as one version, because torchvision's come with PyTorch's.
    """
    made = result.built.config if result.built else ""
    library = dependencies.get(result.case.origin)
    version = f"{result.case.origin} {_OF_A_BUILD.sub('', library.version)}" if library else ""
    return " ".join(filter(None, (made, version))) or None


def metrics_of(result: CaseResult, setting: RunSetting) -> Iterator[Metric]:
    """Yield the metrics of a case, each with its unit in the name."""
    yield _status(result, setting.settings)
    for agreement in result.answers(lambda answers: answers.agreement):
        extra = {key: value for key, value in vars(agreement).items() if key != "agrees"}
        yield Metric(metrics.ACCURACY, [float(agreement.agrees)], extra)
    if result.failure:
        return
    yield from _speed(result)
    if setting.anchor and result.ratios:
        yield _anchored(result, setting.anchor)
    yield from _memory(result, host_is_device=setting.settings.device == "cpu")
    for flops in result.answers(lambda answers: answers.flops):
        if flops:
            yield Metric(metrics.FLOPS, [flops / 1e9])
    if result.case.compiled:
        yield from _compilation(result)


def _status(result: CaseResult, settings: Settings) -> Metric:
    failure = result.failure
    extra: dict[str, object] = {
        "status": result.status,
        "processes": len(result.outcomes),
        "processes_wanted": settings.processes,
        "seconds": round(sum(outcome.seconds for outcome in result.outcomes), 3),
    }
    if result.disturbed:
        extra["disturbed"] = result.disturbed
    if result.void:
        extra["void"] = result.void
    if result.built and result.built.moved:
        extra["pinned_again"] = dict(result.built.moved)
    if failure:
        extra |= {"reason": failure.reason, "log": failure.log or None}
    elif missing := unmeasured(result):
        extra["not_measured"] = missing
    return Metric(metrics.STATUS, [0.0 if failure else 1.0], extra)


def unmeasured(result: CaseResult) -> dict[str, str]:
    """Return the metrics that a passed case has no value for, or not from every process, and why."""
    missing: dict[str, str] = {}
    failed = {verb: why for outcome in result.outcomes for verb, why in outcome.missing.items()}
    if result.void and not result.latencies:
        missing |= dict.fromkeys(metrics.SPEEDS, result.void)
    if not any(leak.steps for leak in result.answers(lambda answers: answers.leak)):
        missing[metrics.MEMORY_LEAK] = failed.get("leak", "too few steps fit in the budget")
    if not any(result.answers(lambda answers: answers.flops)):
        missing[metrics.FLOPS] = failed.get("flops", "no operator of it has a known FLOP count")
    if lost := sum("peak" in outcome.missing for outcome in result.outcomes):
        some = f"in {lost} of {len(result.outcomes)} processes: " if lost < len(result.outcomes) else ""
        missing[metrics.PEAK_MEMORY] = f"{some}{failed['peak']}"
    if "phases" in failed:
        missing["phases"] = failed["phases"]
    if result.unpaired:
        missing[metrics.ANCHORED] = result.unpaired
    return missing


def _speed(result: CaseResult) -> Iterator[Metric]:
    seconds, samples = result.latencies, result.samples
    if not seconds:
        return
    extra: dict[str, object] = {
        "samples_ms": [[metrics.rounded(s * 1e3) for s in answer.seconds] for answer in samples],
        "steps_per_sample": [answer.inner for answer in samples],
        "half_width": [answer.half_width for answer in samples],
        "converged": [answer.converged for answer in samples],
        "wall_ms": [metrics.rounded(answer.wall_per_step * 1e3) for answer in samples],
        "cpu_ms": [metrics.rounded(answer.cpu_per_step * 1e3) for answer in samples],
        "first_step_ms": [
            metrics.rounded(first.wall * 1e3) for first in result.answers(lambda answers: answers.first_step)
        ],
        "warm_up": [asdict(answer) for answer in result.answers(lambda answers: answers.warm_up)],
        "settling": [asdict(answer.settling) for answer in samples if answer.settling] or None,
        "observed": [dict(outcome.observed) for outcome in result.outcomes],
        "disturbed": result.disturbed,
        "phases_ms": [
            {phase: metrics.rounded(s * 1e3) for phase, s in answer.items()}
            for answer in result.answers(lambda answers: answers.phases)
        ],
    }
    yield Metric(metrics.LATENCY, [s * 1e3 for s in seconds], extra)
    # Computed from the median latency, which is the one reported: averaging throughputs would not agree with it.
    yield Metric(metrics.THROUGHPUT, [result.case.batch_size / median(seconds)])


def _anchored(result: CaseResult, anchor: Anchor) -> Metric:
    """One ratio per pair, and the quads that it is the median of. Ratios are comparable only for the same anchor."""
    extra = {
        "anchor": anchor.build,
        "anchor_ms": [metrics.rounded(pair.base_seconds * 1e3) for pair in result.pairs],
        "head_ms": [metrics.rounded(pair.head_seconds * 1e3) for pair in result.pairs],
        "quads": [[metrics.rounded(math.exp(ratio)) for ratio in pair.log_ratios] for pair in result.pairs],
    }
    return Metric(metrics.ANCHORED, result.ratios, extra)


def _memory(result: CaseResult, *, host_is_device: bool) -> Iterator[Metric]:
    if peaks := result.answers(lambda answers: answers.peak):
        on_host = {"method": peaks[0].host_method}
        on_device = {"method": "reserved"} if peaks[0].held else {}
        extra = {
            metrics.PEAK_MEMORY: on_host if host_is_device else on_device,
            metrics.HOST_PEAK_MEMORY: on_host,
        }
        for metric in peaks[0].by_metric:
            if metric != metrics.HOST_PEAK_MEMORY or not host_is_device:
                yield Metric(metric, [peak.by_metric[metric] for peak in peaks], extra.get(metric, {}))
    leaks = [leak for leak in result.answers(lambda answers: answers.leak) if leak.steps]
    if leaks:
        steps = {"steps": leaks[0].steps}
        yield Metric(metrics.MEMORY_LEAK, [leak.device / KIB for leak in leaks], steps)
        if not host_is_device:
            yield Metric(metrics.HOST_MEMORY_LEAK, [leak.host / KIB for leak in leaks], steps)


def _compilation(result: CaseResult) -> Iterator[Metric]:
    counts = result.answers(lambda answers: answers.compilation)
    processes = list(zip(result.answers(lambda answers: answers.first_step), counts, strict=True))
    cold = [process for process in processes if not process[1].all_cached]
    warm = [process for process in processes if process[1].all_cached]
    yield from _compile_time(metrics.COMPILE_TIME, metrics.COMPILE_CPU_TIME, cold)
    yield from _compile_time(metrics.WARM_COMPILE_TIME, metrics.WARM_COMPILE_CPU_TIME, warm)
    extra = {
        "graphs": counts[0].graphs,
        "cudagraph_skips": counts[0].cudagraph_skips,
        "recompile_reasons": counts[0].recompile_reasons,
    }
    for metric in counts[0].by_metric:
        yield Metric(metric, [counted.by_metric[metric] for counted in counts], extra)


def _compile_time(
    wall: str, cpu: str, processes: Sequence[tuple[FirstStep, Compilation]]
) -> Iterator[Metric]:
    """Yield the compile times of processes that compiled a graph (cold) or found all in the compiler's cache (warm).

    Gates should use the CPU seconds: under load, the wall seconds of the same compilation can triple.
    """
    if processes:
        caches = {
            "cache_hits": [counted.cache_hits for _, counted in processes],
            "cache_misses": [counted.cache_misses for _, counted in processes],
        }
        yield Metric(wall, [first.wall for first, _ in processes], caches)
        yield Metric(cpu, [first.cpu for first, _ in processes], caches)
