"""What is run to tell builds apart: a workload, a user's command, or what verdicts say got worse.

The file may come from anywhere: nothing in it is believed but names that are known here and numbers within bounds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench.process import LARGEST_BATCH_SIZE
from torchperf_ci.bench.selection import CaseGrid, Selection, select_cases
from torchperf_ci.errors import UsageError
from torchperf_ci.metrics import DOWN, GRAPH_BREAKS, LATENCY, PAIRED, UP, bisected_as
from torchperf_ci.options.option import BACKENDS, DTYPES
from torchperf_ci.series import policy
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.points import Series
from torchperf_ci.stats.build_variance import LEAST_TAU, MOST_TAU, USUAL_TAU
from torchperf_ci.verdicts.evidence import commit_ends_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci import config
    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import Pair
    from torchperf_ci.bench.selection import KnownWorkloads
    from torchperf_ci.series.points import Points
    from torchperf_ci.verdicts.evidence import CommitEnds
    from torchperf_ci.verdicts.verdict import Judgement, Verdict


UNNAMED_SERIES = "the command's number"
"""The series of a number that nobody has named."""
MOST_NAMED = 5


def read_command_output(output: Path, metric: str, rules: Mapping[str, config.Rule]) -> Mapping[str, float]:
    """What the command has printed, by series, as costs: numbers above 0 that grow as things get worse.

    A number in the last line is the ``metric``, and better when lower where that is empty or unknown. Else the records
    count: those of the metric, or where it is empty all that have a direction. ``rules`` are the configuration's.
    Raises :class:`ValueError` for an output without a number that can be used.
    """
    last = _last_line(output)
    number = _number(last)
    if number is None:
        return _costs_of_records(output, metric, rules)
    cost = _cost(number, metric, rules, otherwise=DOWN)
    if cost is None:
        msg = f"its last line is {last}, which is no measurement that a ratio could be taken of"
        raise ValueError(msg)
    return {metric or UNNAMED_SERIES: cost}


def _costs_of_records(output: Path, metric: str, rules: Mapping[str, config.Rule]) -> Mapping[str, float]:
    points = points_of_records([output]).points
    if not points:
        msg = "its last line is no number, and there are no v3 records in what it printed"
        raise ValueError(msg)
    costs: dict[str, list[float]] = defaultdict(list)
    for series, row in points.items():
        if metric in ("", series.metric):
            found = [_cost(point.value, series.metric, rules) for point in row if point.value is not None]
            costs[str(series)] += [cost for cost in found if cost is not None]
    if usable := {name: median(found) for name, found in costs.items() if found}:
        return usable
    raise ValueError(_unusable(points, metric))


def _cost(value: float, metric: str, rules: Mapping[str, config.Rule], otherwise: str = "") -> float | None:
    """A number above 0 that grows as things get worse; None where there is none, or the direction is not known."""
    rule = policy.rule_of_metric(metric, rules)
    direction = rule.direction or otherwise
    size = value + 1 if rule.kind == "count" else value
    if rule.kind in ("outcome", "amount") or not direction or not isfinite(size) or size <= 0:
        return None
    return 1 / size if direction == UP else size


def _unusable(points: Points, metric: str) -> str:
    found = ", ".join(list(dict.fromkeys(series.metric for series in points))[:MOST_NAMED])
    whose = f"of {metric!r} " if metric else ""
    reasons = (point.info.get("reason", "") for row in points.values() for point in row)
    why = next((f"; {reason}" for reason in reasons if reason), "")
    return (
        f"its records (of {found}) have no number {whose}that a ratio could be taken of and that is known to be better "
        f"higher or lower: name a metric with --metric, and its direction in torchperf.yml{why}"
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _last_line(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


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
        return read_command_output(output, self.metric, self.rules)


Probe = WorkloadProbe | CommandProbe


NO_NUMBER = (
    "what fails has no number to bisect by; git bisect run finds the commit since which a command fails"
)


@dataclass(frozen=True)
class UnprobedSeries:
    """A series that got worse and that cannot be bisected, and why."""

    series: str
    why: str


@dataclass(frozen=True)
class VerdictProbes:
    """One probe a case, with all metrics of it that got worse; and the rest."""

    probes: tuple[WorkloadProbe, ...]
    left_out: tuple[UnprobedSeries, ...]


def probes_from_verdicts(judgement: Judgement, known: KnownWorkloads, device: str) -> VerdictProbes:
    """What got worse, or looks as if, as probes for the catalogue ``known`` on a torch ``device``."""
    metrics: dict[Case, list[str]] = defaultdict(list)
    named: dict[Case, str] = {}
    left_out = []
    for verdict in _worse(judgement):
        case = _case(verdict, known, device)
        if isinstance(case, str):
            left_out.append(UnprobedSeries(str(verdict.series), case))
        else:
            named.setdefault(case, verdict.series.device)
            metrics[case].append(bisected_as(verdict.series.metric))
    probes = (
        WorkloadProbe(case, tuple(dict.fromkeys(found)), named[case]) for case, found in metrics.items()
    )
    return VerdictProbes(tuple(probes), tuple(left_out))


def commit_ranges(judgement: Judgement) -> Sequence[CommitEnds]:
    """Between which commits everything that can be bisected got worse; empty where the file does not tell.

    First those of the repository whose job measured, then those of PyTorch: which of them are meant, the repository
    that is bisected knows. Several ranges give the one that holds them all.
    """
    return commit_ends_of(
        [one.evidence.commits for one in _worse(judgement) if bisected_as(one.series.metric)]
    )


def expected_build_luck(judgement: Judgement) -> float:
    """How far builds of one code lie apart, as the past of what got worse has it; of several series the most."""
    told = [luck.tau for one in _worse(judgement) if (luck := one.evidence.luck)]
    return min(max(LEAST_TAU, *told), MOST_TAU) if told else USUAL_TAU


def _worse(judgement: Judgement) -> Sequence[Verdict]:
    return [one for one in judgement.verdicts if one.is_red or one.candidate]


def _case(verdict: Verdict, known: KnownWorkloads, device: str) -> Case | str:
    """The case, or why there is none."""
    series = verdict.series
    if verdict.verdict == "broken":
        return NO_NUMBER
    if not bisected_as(series.metric):
        return f"pairs do not tell {series.metric!r} of a workload: bisect it by --command"
    if series.model not in known.workloads:
        return f"there is no workload {series.model!r} at the good commit: name its --suite, or bisect by --command"
    grid = CaseGrid((series.model,), (series.mode,), (series.dtype,), (series.backend,))
    if not _runs(series, known):
        return f"{series.model} has no {series.metric} in mode {series.mode!r}, {series.dtype!r} and {series.backend!r}"
    size = verdict.evidence.batch_size
    chosen = size if size and size <= LARGEST_BATCH_SIZE else None
    return select_cases(Selection([grid], batch_size=chosen), known, device)[0]


def _runs(series: Series, known: KnownWorkloads) -> bool:
    modes = known.workloads[series.model].modes
    if series.metric == GRAPH_BREAKS and series.backend == "eager":
        return False
    return series.mode in modes and series.dtype in DTYPES and series.backend in BACKENDS
