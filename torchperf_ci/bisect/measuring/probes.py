"""What is run to tell builds apart: a workload of torchperf's, or a user's command."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.bisect.measuring.printed import read_costs
from torchperf_ci.errors import UsageError
from torchperf_ci.series.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torchperf_ci import config
    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import Pair

LATENCY = "latency(ms)"
THROUGHPUT = "throughput(samples/s)"
MEMORY = "peak_memory(MiB)"
GRAPH_BREAKS = "graph_breaks"


def _time(pair: Pair) -> float:
    """Throughput is a batch over the time of a step: it gets worse by what the time grows."""
    return pair.log_ratio


def _memory(pair: Pair) -> float | None:
    if min(pair.base_peak, pair.head_peak) <= 0:
        return None
    return math.log(pair.head_peak / pair.base_peak)


def _graph_breaks(pair: Pair) -> float | None:
    """One more than there are, because there are often none."""
    if pair.base_graph_breaks is None or pair.head_graph_breaks is None:
        return None
    return math.log((pair.head_graph_breaks + 1) / (pair.base_graph_breaks + 1))


_WORSE: Mapping[str, Callable[[Pair], float | None]] = {
    LATENCY: _time,
    THROUGHPUT: _time,
    MEMORY: _memory,
    GRAPH_BREAKS: _graph_breaks,
}
METRICS = tuple(_WORSE)
"""What a pair of workers tells of a workload."""


def _of_base(metric: str, pair: Pair, batch_size: int) -> float:
    """What the base of a pair measured, in the metric's unit."""
    values = {
        LATENCY: 1000 * pair.base_seconds,
        THROUGHPUT: batch_size / pair.base_seconds,
        MEMORY: pair.base_peak / 2**20,
        GRAPH_BREAKS: float(pair.base_graph_breaks or 0),
    }
    return values[metric]


def check_metric(metric: str) -> None:
    """Raise :class:`UsageError` for what no pair tells of any workload."""
    if metric not in METRICS:
        msg = f"pairs do not tell {metric!r} of a workload, but {', '.join(METRICS)}; measure it by --command"
        raise UsageError(msg)


@dataclass(frozen=True)
class WorkloadProbe:
    """A case and what is looked at of it. ``device`` is what the names of its series say.

    Raises :class:`UsageError` for a metric that no pair tells of such a case.
    """

    case: Case
    metrics: tuple[str, ...] = (LATENCY,)
    device: str = ""

    def __post_init__(self) -> None:
        for metric in self.metrics:
            check_metric(metric)
        if GRAPH_BREAKS in self.metrics and not self.case.compiled:
            msg = f"{self.case.workload} has no {GRAPH_BREAKS} in eager mode: give another --backend or --metric"
            raise UsageError(msg)

    @property
    def name(self) -> str:
        """Unique among the probes of a bisection."""
        return str(self.case)

    def log_ratios(self, pair: Pair) -> Mapping[str, float]:
        """ln(head/base) by series, positive where head is worse; without those that the pair does not tell."""
        told = {self._series(metric): _WORSE[metric](pair) for metric in self.metrics}
        return {series: ratio for series, ratio in told.items() if ratio is not None}

    def values(self, pair: Pair) -> Mapping[str, float]:
        """What base measured of the same series, each in its own unit."""
        told = self.log_ratios(pair)
        known = {self._series(metric): metric for metric in self.metrics}
        return {series: _of_base(known[series], pair, self.case.batch_size) for series in told}

    def _series(self, metric: str) -> str:
        case = self.case
        return str(
            Series("", "", case.workload, case.mode, case.dtype, case.backend, self.device, "", metric)
        )


@dataclass(frozen=True)
class CommandProbe:
    """A shell line that prints a number or v3 records. ``metric`` names the number, or restricts the records to it.

    ``rules`` are the configuration's directions.
    """

    command: str
    metric: str = ""
    rules: Mapping[str, config.Rule] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Unique among the probes of a bisection: there is one command."""
        return "command"

    def costs(self, output: Path) -> Mapping[str, float]:
        """What a run has printed, by series, growing as things get worse; raises :class:`ValueError`."""
        return read_costs(output, self.metric, self.rules)


Probe = WorkloadProbe | CommandProbe
