"""Every metric that torchperf measures or knows: unit, direction, kind, and from what size on a change matters.

The name of a metric ends with its unit in parentheses, as in ``latency(ms)``. Which way is better is never guessed from
numbers: it comes from the project's configuration, else from the table here, else from whole words of the name, which
cover the metrics of other harnesses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

UP, DOWN = "up", "down"
"""Which way is better."""
MetricKind = Literal["ratio", "count", "outcome", "amount"]
"""``ratio``: judged by its relative change. ``count``: whole numbers that are the same each time, any increase counts.
``outcome``: pass or fail. ``amount``: judged by the difference, since it may be zero or negative."""
MIN_EFFECT = 0.03
"""The smallest relative change that matters, 0.03 for 3%."""
LEAST_AMOUNT = 1.0
"""The smallest difference of an amount that matters, in its own unit: 1 KiB a step is 1 GiB in a million steps."""

STATUS = "status"
ACCURACY = "accuracy"
LATENCY = "latency(ms)"
THROUGHPUT = "throughput(samples/s)"
ANCHORED = "latency_vs_anchor(ratio)"
"""Sets each run against a fixed build on the same machine, and so survives a change of machine."""
PEAK_MEMORY = "peak_memory(MiB)"
HOST_PEAK_MEMORY = "host_peak_memory(MiB)"
MEMORY_LEAK = "memory_leak(KiB/iter)"
HOST_MEMORY_LEAK = "host_memory_leak(KiB/iter)"
FLOPS = "flops(GFLOP)"
GRAPH_BREAKS = "graph_breaks"
RECOMPILES = "recompiles"
COMPILE_TIME = "compile_time(s)"
COMPILE_CPU_TIME = "compile_cpu_time(s)"
WARM_COMPILE_TIME = "warm_compile_time(s)"
WARM_COMPILE_CPU_TIME = "warm_compile_cpu_time(s)"


@dataclass(frozen=True)
class KnownMetric:
    """What is known of a metric of torchperf's own.

    ``direction`` is ``up`` or ``down``, whichever is better. ``bisected_as`` is the metric that pairs of builds measure
    for it, mostly itself; empty where no pair tells it. ``restates`` is the metric that says the same, which alone is
    judged where a case has both; empty where there is none.
    """

    name: str
    direction: str
    kind: MetricKind = "ratio"
    bisected_as: str = ""
    restates: str = ""


METRICS: Mapping[str, KnownMetric] = {
    metric.name: metric
    for metric in (
        KnownMetric(STATUS, UP, "outcome"),
        KnownMetric(ACCURACY, UP, "outcome"),
        KnownMetric(LATENCY, DOWN, bisected_as=LATENCY),
        KnownMetric(THROUGHPUT, UP, bisected_as=THROUGHPUT, restates=LATENCY),
        KnownMetric(ANCHORED, DOWN, bisected_as=LATENCY),
        KnownMetric(PEAK_MEMORY, DOWN, bisected_as=PEAK_MEMORY),
        KnownMetric(HOST_PEAK_MEMORY, DOWN),
        KnownMetric(MEMORY_LEAK, DOWN, "amount"),
        KnownMetric(HOST_MEMORY_LEAK, DOWN, "amount"),
        KnownMetric(FLOPS, DOWN),
        KnownMetric(GRAPH_BREAKS, DOWN, "count", bisected_as=GRAPH_BREAKS),
        KnownMetric(RECOMPILES, DOWN, "count"),
        KnownMetric(COMPILE_TIME, DOWN),
        KnownMetric(COMPILE_CPU_TIME, DOWN),
        KnownMetric(WARM_COMPILE_TIME, DOWN),
        KnownMetric(WARM_COMPILE_CPU_TIME, DOWN),
    )
}
"""The metrics that torchperf itself measures, by name."""
PAIRED = tuple(metric.name for metric in METRICS.values() if metric.bisected_as == metric.name)
"""What a pair of builds tells of a workload."""
SPEEDS = (LATENCY, THROUGHPUT)
"""One measurement, told in two ways: the throughput is the batch over the latency."""

# Whole words of the names of other harnesses' metrics.
_KINDS: Mapping[MetricKind, str] = {
    "outcome": r"status|accuracy",
    "count": r"graph_breaks?|recompiles?|recompilations?",
    "amount": r"memory_leak",
}
# What is better upwards comes first: memory bandwidth is no memory.
_BETTER: Mapping[str, str] = {
    UP: (
        r"throughput|bandwidth|gbps|[gt]?flops|flops_utilization|mfu|hfu|speedup|compression_ratio|pass_?rate|qps|rps|"
        r"tps|(tokens?|samples?|requests?|images?|iterations?|steps?)_per_sec(ond)?s?|(free|available)_mem(ory)?|"
        r"status|accuracy"
    ),
    DOWN: (
        r"latency|time|runtime|duration|ttft|tpot|itl|e2el|memory|mem|memory_leak|instruction_count|"
        r"graph_breaks?|recompiles?|recompilations?"
    ),
}
_SIGNED = r"delta|diff(erence)?|change|overhead|pass_?rate"
"""Words of what may be zero, whatever else its name says."""


def direction_of(metric: str) -> str:
    """``up`` or ``down``, whichever is better; empty where neither the table nor a word of the name tells."""
    if metric in METRICS:
        return METRICS[metric].direction
    name = _words(metric)
    return next((direction for direction, words in _BETTER.items() if _has(words, name)), "")


def kind_of(metric: str) -> MetricKind:
    """How the metric is compared, as far as its name tells."""
    if metric in METRICS:
        return METRICS[metric].kind
    name = _words(metric)
    return next((kind for kind, words in _KINDS.items() if _has(words, name)), "ratio")


def bisected_as(metric: str) -> str:
    """The metric that pairs of builds measure to tell a change of this one; empty where they tell none."""
    return METRICS[metric].bisected_as if metric in METRICS else ""


def is_latency(metric: str) -> bool:
    """Whether it is what people compare builds for, and call slower rather than larger."""
    return metric.startswith(("latency", "time"))


@lru_cache(maxsize=1024)
def is_positive(metric: str) -> bool:
    """Whether the metric is positive by nature, such as a latency or a size: a ratio whose direction is known.

    A share in percent may be one of a change, which may be none.
    """
    return (
        bool(direction_of(metric))
        and "%" not in metric
        and kind_of(metric) == "ratio"
        and not _has(_SIGNED, _words(metric))
    )


def name_and_unit(metric: str) -> tuple[str, str]:
    """``latency(ms)`` as ``latency`` and ``ms``; the unit is empty where the name has none."""
    name, opening, unit = metric.rstrip().rpartition("(")
    if not opening or unit.partition(")")[1:] != (")", ""):
        return metric, ""
    return name.rstrip(), unit[:-1]


def _has(words: str, name: str) -> bool:
    return re.search(rf"(?:^|_)(?:{words})(?:_|$)", name) is not None


def _words(metric: str) -> str:
    """The name as lower-case words with underscores between them, without its unit."""
    return re.sub(r"[^a-z0-9]+", "_", name_and_unit(metric)[0].strip().lower())
