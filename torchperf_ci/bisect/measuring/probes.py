"""What is run to tell builds apart: a workload of torchperf's, or a user's command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.bisect.measuring.printed import read_costs
from torchperf_ci.errors import UsageError
from torchperf_ci.metrics import GRAPH_BREAKS, LATENCY, PAIRED
from torchperf_ci.series.series import Series

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchperf_ci import config
    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import Pair


def check_metric(metric: str) -> None:
    """Raise :class:`UsageError` for what no pair tells of any workload."""
    if metric not in PAIRED:
        msg = f"pairs do not tell {metric!r} of a workload, but {', '.join(PAIRED)}; measure it by --command"
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
        told = {self._series(metric): pair.worsening(metric) for metric in self.metrics}
        return {series: ratio for series, ratio in told.items() if ratio is not None}

    def values(self, pair: Pair) -> Mapping[str, float]:
        """What base measured of the same series, each in its own unit."""
        told = self.log_ratios(pair)
        known = {self._series(metric): metric for metric in self.metrics}
        return {series: pair.base_value(known[series], self.case.batch_size) for series in told}

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
