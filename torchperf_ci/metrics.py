"""The metrics that torchperf measures or knows: unit, better direction, kind, and the smallest change that matters.

The name of a metric ends with its unit in parentheses, as in ``latency(ms)``. The better direction is never guessed
from values: it comes from the project's configuration, else from the table here, else from whole words of the name,
which covers the metrics of other harnesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

UP, DOWN = "up", "down"
"""The better direction."""
MetricKind = Literal["ratio", "count", "outcome", "amount"]
"""``ratio``: judged by its relative change. ``count``: whole numbers without noise, where any increase matters.
``outcome``: pass or fail. ``amount``: judged by the absolute difference, since it may be zero or negative."""
MIN_EFFECT = 0.03
"""The smallest relative change that matters, 0.03 for 3%."""
MIN_AMOUNT = 1.0
"""The smallest difference of an amount that matters, in its unit: 1 KiB per step is 1 GiB in a million steps."""

STATUS = "status"
ACCURACY = "accuracy"
LATENCY = "latency(ms)"
THROUGHPUT = "throughput(samples/s)"
ANCHORED = "latency_vs_anchor(ratio)"
"""The ratio to a fixed build that is measured in the same run, and so is comparable across machines."""
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
    """A metric that torchperf measures.

    ``direction`` is the better one, ``up`` or ``down``. ``bisected_as`` is the metric that pairs of builds measure to
    bisect a change of this one, usually the same; empty if it cannot be bisected. ``restates`` names the metric that
    carries the same information and is judged instead if a case has both; empty if there is none.
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
        KnownMetric(RECOMPILES, DOWN, "count", bisected_as=RECOMPILES),
        KnownMetric(COMPILE_TIME, DOWN, bisected_as=COMPILE_TIME),
        KnownMetric(COMPILE_CPU_TIME, DOWN, bisected_as=COMPILE_CPU_TIME),
        KnownMetric(WARM_COMPILE_TIME, DOWN),
        KnownMetric(WARM_COMPILE_CPU_TIME, DOWN),
    )
}
"""The metrics that torchperf itself measures, by name."""
PAIRED = tuple(metric.name for metric in METRICS.values() if metric.bisected_as == metric.name)
"""The metrics that pairs of builds measure."""
COMPILE_TIMES = (COMPILE_TIME, COMPILE_CPU_TIME)
"""Measured in pairs only on request, because each process then has to compile everything."""
OF_COMPILED_CODE = (GRAPH_BREAKS, RECOMPILES, *COMPILE_TIMES)
"""Metrics that an eager case does not have."""
_IN_BYTES = (PEAK_MEMORY, HOST_PEAK_MEMORY, MEMORY_LEAK, HOST_MEMORY_LEAK)
SPEEDS = (LATENCY, THROUGHPUT)
"""Two views of one measurement: the throughput is the batch size over the latency."""

# Whole words in the metric names of other harnesses.
_KINDS: Mapping[MetricKind, str] = {
    "outcome": r"status|accuracy|pass_?rate",
    "count": r"graph_breaks?|recompiles?|recompilations?",
    "amount": r"memory_leak",
}
_RATES = (
    r"throughput|bandwidth|gbps|[gt]?flops|flops_utilization|mfu|hfu|speedup|qps|rps|tps|"
    r"(tokens?|samples?|requests?|images?|iterations?|steps?)_per_sec(ond)?s?"
)
_TIMES = r"latency|time|runtime|duration|ttft|tpot|itl|e2el"
# "Up" is matched first: memory bandwidth is not an amount of memory.
_BETTER: Mapping[str, str] = {
    UP: (
        rf"{_RATES}|compression_ratio|pass_?rate|status|accuracy|"
        r"(free|avail(able)?)(_(gpu|cuda|device|host|system))?_mem(ory)?|mem(ory)?_(free|avail(able)?)"
    ),
    DOWN: rf"{_TIMES}|memory|mem|memory_leak|instruction_count|graph_breaks?|recompiles?|recompilations?",
}
_REVERSING = r"loss|drop|degradation|savings?|saved|reduction|improvement|efficiency|error"
"""Words of names such as ``accuracy_drop`` or ``memory_savings``, whose other words do not tell what is better."""
_SPREAD = r"std|stdev|stddev|variance"
"""Words for how much something varies, which is better lower, whatever it is."""
_SIGNED = rf"delta|diff(erence)?|change|overhead|{_SPREAD}"
"""Words in names of metrics that may be zero, whatever the rest of the name says."""


def direction_of(metric: str) -> str:
    """Return the better direction, ``up`` or ``down``; empty if neither the table nor the name gives it."""
    if metric in METRICS:
        return METRICS[metric].direction
    name = _words(metric)
    if _has(_SPREAD, name):
        return DOWN
    return next((direction for direction, words in _BETTER.items() if _has(words, name)), "")


@lru_cache(maxsize=1024)
def kind_of(metric: str) -> MetricKind:
    """Return how the metric is compared, judging by its name."""
    if metric in METRICS:
        return METRICS[metric].kind
    name = _words(metric)
    return next((kind for kind, words in _KINDS.items() if _has(words, name)), "ratio")


def bisected_as(metric: str) -> str:
    """Return the metric that pairs of builds measure to bisect this one; empty if it cannot be bisected."""
    return METRICS[metric].bisected_as if metric in METRICS else ""


@lru_cache(maxsize=1024)
def is_timing(metric: str) -> bool:
    """Whether the metric says how fast something runs; how long compiling takes does not."""
    if metric in METRICS:
        return METRICS[metric].bisected_as in SPEEDS
    words = _words(metric)
    return is_positive(metric) and "compil" not in words and _has(f"{_RATES}|{_TIMES}", words)


@lru_cache(maxsize=1024)
def is_positive(metric: str) -> bool:
    """Whether the metric is always positive, such as a latency or a size: a ratio whose direction is known.

    A percentage may be that of a change, and so may be zero.
    """
    return (
        bool(direction_of(metric))
        and "%" not in metric
        and kind_of(metric) == "ratio"
        and not _has(_SIGNED, _words(metric))
    )


def name_and_unit(metric: str) -> tuple[str, str]:
    """Split ``latency(ms)`` into ``latency`` and ``ms``; the unit is empty if the name has none."""
    name, opening, unit = metric.rstrip().rpartition("(")
    if not opening or unit.partition(")")[1:] != (")", ""):
        return metric, ""
    return name.rstrip(), unit[:-1]


def rounded(value: float, digits: int = 6) -> float:
    """Round to some significant digits; six are far below any noise and take half the bytes."""
    return float(f"{value:.{digits}g}")


def last_digit(metric: str, values: Iterable[float]) -> float:
    """Return one unit of the last digit of the values, by half of which each may be off: 1 of 10 and 11, 0.1 of 10.4.

    It is 0 if one of the values has six digits, of which a store keeps seven, and for what is counted: bytes, and
    passes among cases.
    """
    place = 0
    if metric in _IN_BYTES or kind_of(metric) == "outcome":
        return 0.0
    for value in {*values}:
        digits, exponent = f"{value:.5e}".split("e")
        decimals = len(digits.rstrip("0").partition(".")[2])
        if decimals == 5:
            return 0.0
        place = min(place, int(exponent) - decimals)
    return float(10.0**place)


def _has(words: str, name: str) -> bool:
    return re.search(rf"(?:^|_)(?:{words})(?:_|$)", name) is not None


def _words(metric: str) -> str:
    """Return the name without its unit, as lower-case words joined by underscores; empty if they may mislead."""
    words = re.sub(r"[^a-z0-9]+", "_", name_and_unit(metric)[0].strip().lower())
    return "" if _has(_REVERSING, words) else words
