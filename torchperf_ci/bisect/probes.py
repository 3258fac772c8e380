"""What is measured to compare builds: a workload, a user's command, or the series that verdicts report as worse.

A verdicts file is untrusted input: only names known here and numbers within bounds are used.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench.process import MAX_BATCH_SIZE
from torchperf_ci.bench.selection import Selection, select_cases
from torchperf_ci.config import Rule, Suite
from torchperf_ci.errors import UsageError
from torchperf_ci.metrics import DOWN, LATENCY, OF_COMPILED_CODE, PAIRED, UP, bisected_as, direction_of
from torchperf_ci.options.option import BACKENDS, DTYPES
from torchperf_ci.series import policy
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.points import Points, Series
from torchperf_ci.stats.build_variance import MAX_TAU, MIN_TAU, USUAL_TAU
from torchperf_ci.verdicts.verdict import CommitEnds, Judgement, Verdict, commit_ends_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import Pair
    from torchperf_ci.bench.worker.protocol import KnownWorkloads


UNNAMED_SERIES = "the command's number"
"""The name of the series if the command prints a number and no metric is given."""
MAX_NAMED = 5


def read_command_output(output: Path, metric: str, rules: Mapping[str, Rule]) -> Mapping[str, float]:
    """The costs that the command printed, by series: numbers above 0 that grow as things get worse.

    A number in the last line is the ``metric``; if that is empty or unknown, lower is better. Otherwise v3 records
    are read: those of the metric, or, if it is empty, all whose direction is known from ``rules``, those of the
    configuration, from the records themselves, or from the built-in table. Raises :class:`ValueError` if the output has
    no usable number.
    """
    last = _last_line(output)
    number = _number(last)
    if number is None:
        return _costs_of_records(output, metric, rules)
    cost = _cost(number, metric, rules, otherwise=DOWN)
    if cost is None:
        raise ValueError(f"its last line is {last}: print a finite number above 0")
    return {metric or UNNAMED_SERIES: cost}


def printed_unit(output: Path) -> float:
    """One unit of the last digit of the number that the command printed, relative to it; 0 if it printed records."""
    last = _last_line(output)
    try:
        exponent = Decimal(last).as_tuple().exponent
        return float(10.0 ** int(exponent) / abs(float(last)))
    except (ArithmeticError, ValueError):
        return 0.0


def _costs_of_records(output: Path, metric: str, rules: Mapping[str, Rule]) -> Mapping[str, float]:
    points = points_of_records([output]).points
    if not points:
        msg = "its last line is not a number, and its output has no v3 records"
        if not _last_line(output):
            msg = "it printed nothing on standard output, where its number or its v3 records belong"
        raise ValueError(msg)
    costs: dict[str, list[float]] = defaultdict(list)
    for series, row in points.items():
        if metric in ("", series.metric):
            how = (series.metric, rules, policy.recorded_direction(row))
            found = [_cost(point.value, *how) for point in row if point.value is not None]
            costs[str(series)] += [cost for cost in found if cost is not None]
    if usable := {name: median(found) for name, found in costs.items() if found}:
        return usable
    raise ValueError(_unusable(points, metric))


def _cost(
    value: float, metric: str, rules: Mapping[str, Rule], recorded: str = "", otherwise: str = ""
) -> float | None:
    """A positive number that grows as things get worse; None if the value is unusable or its direction unknown."""
    rule = policy.rule_of_metric(metric, rules, recorded=recorded)
    direction = rule.direction or otherwise
    size = value + 1 if rule.kind == "count" else value
    if rule.kind in ("outcome", "amount") or not direction or not isfinite(size) or size <= 0:
        return None
    return 1 / size if direction == UP else size


def _unusable(points: Points, metric: str) -> str:
    metrics = ", ".join(list(dict.fromkeys(series.metric for series in points))[:MAX_NAMED])
    whose = f"of {metric!r} " if metric else ""
    reasons = (point.info.get("reason", "") for row in points.values() for point in row)
    why = next((f"; {reason}" for reason in reasons if reason), "")
    return (
        f"its records (of {metrics}) have no number {whose}that a ratio could be taken of and that is known to be "
        f"better higher or lower: name a metric with --metric, and its direction in torchperf.yml{why}"
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
    """Raise :class:`UsageError` if pairs of processes cannot measure the metric of a workload."""
    if metric not in PAIRED:
        msg = f"{metric!r} of a workload cannot be measured in pairs, but {', '.join(PAIRED)} can: use --command"
        raise UsageError(msg)


@dataclass(frozen=True)
class WorkloadProbe:
    """A case and the metrics to compare on it. ``device`` is the device in the names of its series.

    Raises :class:`UsageError` if pairs cannot measure a metric of this case.
    """

    case: Case
    metrics: tuple[str, ...] = (LATENCY,)
    device: str = ""

    def __post_init__(self) -> None:
        for metric in self.metrics:
            check_metric(metric)
            if metric in OF_COMPILED_CODE and not self.case.compiled:
                msg = (
                    f"{self.case.workload} has no {metric} in eager mode: give another --backend or --metric"
                )
                raise UsageError(msg)

    @property
    def name(self) -> str:
        """Unique among the probes of a bisection."""
        return str(self.case)

    @property
    def series(self) -> Sequence[str]:
        """The names of the series of its metrics."""
        return [*map(self._series, self.metrics)]

    def log_ratios(self, pair: Pair) -> Mapping[str, float]:
        """ln(head/base) by series, positive where head is worse; without the metrics that the pair did not yield."""
        ratios = {self._series(metric): pair.worsening(metric) for metric in self.metrics}
        return {series: ratio for series, ratio in ratios.items() if ratio is not None}

    def values(self, pair: Pair) -> Mapping[str, float]:
        """The values of base for the same series, each in its own unit."""
        measured = (metric for metric in self.metrics if pair.worsening(metric) is not None)
        return {self._series(metric): pair.base_value(metric, self.case.batch_size) for metric in measured}

    def _series(self, metric: str) -> str:
        case = self.case
        return str(
            Series("", "", case.workload, case.mode, case.dtype, case.backend, self.device, "", metric)
        )


@dataclass(frozen=True)
class CommandProbe:
    """A shell command that prints a number or v3 records. ``metric`` names the number, or selects records.

    ``rules`` give the directions of metrics, from the configuration.
    """

    command: str
    metric: str = ""
    rules: Mapping[str, Rule] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Unique, because a bisection has at most one command."""
        return "command"

    def costs(self, output: Path) -> Mapping[str, float]:
        """The costs that a run printed, by series, growing as things get worse; raises :class:`ValueError`."""
        return read_command_output(output, self.metric, self.rules)

    @property
    def guessed(self) -> str:
        """The series of a printed number of which lower counts as better, as nothing says what is; else empty."""
        is_known = policy.rule_of_metric(self.metric, self.rules).direction
        return "" if is_known else self.metric or UNNAMED_SERIES

    @property
    def configured(self) -> Mapping[str, str]:
        """The directions of the metrics that may be printed, where the configuration says what their names do not."""
        return {
            name: rule.direction
            for name, rule in self.rules.items()
            if self.metric in ("", name) and rule.direction != direction_of(name)
        }

    def directions(self, output: Path) -> Mapping[str, str]:
        """The better direction of each metric whose records say it themselves; empty if a number was printed."""
        points = points_of_records([output]).points if _number(_last_line(output)) is None else {}
        told = ((series.metric, policy.recorded_direction(row)) for series, row in points.items())
        return {metric: direction for metric, direction in told if direction}

    def resolution(self, output: Path) -> float:
        """How far the logarithm of the printed number may be off, because it ends with some digit; 0 for a count."""
        is_count = policy.rule_of_metric(self.metric, self.rules).kind == "count"
        return 0.0 if is_count else printed_unit(output)


Probe = WorkloadProbe | CommandProbe


NO_NUMBER = (
    "what fails has no number to bisect by; git bisect run finds the commit since which a command fails"
)


@dataclass(frozen=True)
class VerdictProbes:
    """One probe per case, with all its metrics that got worse, and notes on the series that were left out."""

    probes: tuple[WorkloadProbe, ...]
    left_out: tuple[str, ...]


def probes_from_verdicts(judgement: Judgement, known: KnownWorkloads, device: str) -> VerdictProbes:
    """Probes for the series that got worse, or may have, with the workloads ``known`` and on a torch ``device``."""
    metrics: dict[Case, list[str]] = defaultdict(list)
    named: dict[Case, str] = {}
    left_out = []
    for verdict in judgement.worse:
        case = _case(verdict, known, device)
        if isinstance(case, str):
            left_out.append(f"{verdict.series} is not bisected: {case}")
        else:
            named.setdefault(case, verdict.series.device)
            metrics[case].append(bisected_as(verdict.series.metric))
    probes = (
        WorkloadProbe(case, tuple(dict.fromkeys(found)), named[case]) for case, found in metrics.items()
    )
    return VerdictProbes(tuple(probes), tuple(left_out))


def bisected(judgement: Judgement) -> list[Verdict]:
    """The verdicts on what got worse, or may have, and pairs of builds can measure."""
    return [verdict for verdict in judgement.worse if bisected_as(verdict.series.metric)]


def commit_ranges(judgement: Judgement) -> Sequence[CommitEnds]:
    """The commit ranges in which everything that can be bisected got worse; empty if the verdicts do not say.

    Ranges in the repository whose job measured come first, then those in PyTorch; the caller knows which repository
    it bisects. Several ranges of one repository are combined into one that contains them all.
    """
    return commit_ends_of([verdict.evidence.commits for verdict in bisected(judgement)])


def asks_for_clearest(earlier: Judgement, judgement: Judgement) -> bool:
    """Whether ``earlier`` verdicts have the same ranges, and the clearest series of ``judgement`` among the worse."""
    worse = judgement.worse
    clearest = max(worse, key=lambda one: (one.is_red, one.effect.size if one.effect else 0.0), default=None)
    is_asked = clearest is not None and clearest.series in {verdict.series for verdict in earlier.worse}
    return is_asked and commit_ranges(earlier) == commit_ranges(judgement)


def expected_build_variance(judgement: Judgement) -> float:
    """The standard deviation between builds of the same code in the history of the worse series; their largest one."""
    taus = [luck.tau for verdict in judgement.worse if (luck := verdict.evidence.luck)]
    return min(max(MIN_TAU, *taus), MAX_TAU) if taus else USUAL_TAU


MAX_THREADS = 2**10
"""A larger number in a file of verdicts is taken for none: starting so many could bring the machine down."""


def threads_of(judgement: Judgement) -> int | None:
    """The number of CPU threads with which what got worse was measured; None if the verdicts do not say one."""
    counts = {verdict.evidence.threads for verdict in bisected(judgement)}
    threads = counts.pop() if len(counts) == 1 else None
    return threads if threads and threads <= MAX_THREADS else None


def _case(verdict: Verdict, known: KnownWorkloads, device: str) -> Case | str:
    """The case of a verdict, or the reason why it has none."""
    series = verdict.series
    if verdict.verdict == "broken":
        return NO_NUMBER
    if not bisected_as(series.metric):
        return f"{series.metric!r} of a workload cannot be measured in pairs: bisect it with --command"
    if series.model not in known.workloads:
        return f"there is no workload {series.model!r} at the good commit: name its --suite, or bisect by --command"
    suite = Suite((series.model,), (series.mode,), (series.dtype,), (series.backend,))
    if not _runs(series, known):
        return f"{series.model} has no {series.metric} in mode {series.mode!r}, {series.dtype!r} and {series.backend!r}"
    size = verdict.evidence.batch_size
    chosen = size if size and size <= MAX_BATCH_SIZE else None
    return select_cases(Selection([suite], batch_size=chosen), known, device)[0]


def _runs(series: Series, known: KnownWorkloads) -> bool:
    has_metric = series.metric not in OF_COMPILED_CODE or series.backend != "eager"
    has_mode = series.mode in known.workloads[series.model].modes
    return has_metric and has_mode and series.dtype in DTYPES and series.backend in BACKENDS
