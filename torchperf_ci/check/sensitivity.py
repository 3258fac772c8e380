"""Estimate from a given past how small a change the gate would detect, and how often it raises false alarms.

For false alarms the gate is replayed over the past: as it was, and with shuffled runs, where every alarm is false.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from math import log1p
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.check.numbers import MAX_DETECTABLE
from torchperf_ci.command_output import print_json
from torchperf_ci.console import print_document, say
from torchperf_ci.document import Column, Document, Note, Table, counted, number_columns, text_of
from torchperf_ci.errors import UsageError
from torchperf_ci.series.points import Points, Series, SeriesGroup, without_restating
from torchperf_ci.series.policy import rule_of_points
from torchperf_ci.series.run_matrix import log_values, newest_machine, run_matrix, sensitivity_of
from torchperf_ci.stats.gate import MIN_REPETITIONS, Repetitions, judge
from torchperf_ci.stats.past import MIN_HISTORY, NEWEST
from torchperf_ci.stats.segmentation import change_points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchperf_ci.check.recorded_past import RecordedPast
    from torchperf_ci.config import Rule
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.run_matrix import SeriesSensitivity
    from torchperf_ci.stats import Floats, Ints


MIN_RUNS = MIN_HISTORY + NEWEST
"""Fewest runs that a past must have for its newest runs to be judged."""
SHUFFLES = 100
"""Shuffled pasts whose newest run is judged; 100 alarms give a rate to within a tenth of itself."""
BLOCK = 10
"""Successive runs that stay together when a past is shuffled, which preserves most of the autocorrelation."""


@dataclass(frozen=True)
class GateInputs:
    """The arguments of :func:`judge` for a whole past; ``repetitions`` have the shape of ``values``, (series, runs)."""

    values: Floats
    min_effect: Floats
    worse: Ints
    jobs: Ints
    groups: Ints
    sessions: Ints
    repetitions: Repetitions

    def picked(self, runs: Ints) -> GateInputs:
        """Return only these runs, in this order."""
        return replace(
            self,
            values=self.values[:, runs],
            jobs=self.jobs[:, runs],
            sessions=self.sessions[:, runs],
            repetitions=Repetitions(*(extreme[:, runs] for extreme in self.repetitions)),
        )


class Alarms(NamedTuple):
    """Counts over ``runs`` judged runs: series judged, candidates, and proven changes, for better or worse."""

    runs: int = 0
    judged: int = 0
    candidates: int = 0
    proven: int = 0


def replayed(past: GateInputs) -> Alarms:
    """Judge each run of the past by the runs before it; real changes count, too."""
    ends = range(MIN_RUNS, past.values.shape[1] + 1)
    return _summed(_alarms(past.picked(np.arange(end))) for end in ends)


def false_alarms(past: GateInputs, shuffles: int = SHUFFLES) -> Alarms:
    """Judge the newest run of pasts whose runs are shuffled in blocks: every alarm there is false.

    All series are shuffled in the same way, so that machine effects on many of them at once are preserved. Steps are
    removed first, since shuffled they would only add noise.
    """
    random = np.random.default_rng(0)
    steps = levels(past.values)
    repetitions = Repetitions(*(extreme - steps for extreme in past.repetitions))
    level = replace(past, values=past.values - steps, repetitions=repetitions)
    orders = (_shuffled(past.values.shape[1], random) for _ in range(shuffles))
    return _summed(_alarms(level.picked(order)) for order in orders)


def levels(values: Floats) -> Floats:
    """Return the level of each run of each series, shape as ``values``: the median of its stable segment."""
    found = np.zeros(values.shape)
    for row, points in enumerate(change_points(values)):
        for begin, end in zip([0, *points], [*points, values.shape[1]], strict=True):
            known = values[row, begin:end][~np.isnan(values[row, begin:end])]
            found[row, begin:end] = np.median(known) if known.size else 0.0
    return found


def _shuffled(runs: int, random: np.random.Generator) -> Ints:
    """Return run numbers in blocks with a random offset and in random order.

    This is a block bootstrap without replacement (Carlstein, *Annals of Statistics* 14, 1986).
    """
    turned = np.roll(np.arange(runs), random.integers(runs))
    blocks = [turned[begin : begin + BLOCK] for begin in range(0, runs, BLOCK)]
    return np.concatenate([blocks[place] for place in random.permutation(len(blocks))])


def _summed(alarms: Iterable[Alarms]) -> Alarms:
    return Alarms(*map(sum, zip(*alarms, strict=True)))


def _alarms(past: GateInputs) -> Alarms:
    newest = Repetitions(*(extreme[:, -1] for extreme in past.repetitions))
    judged = judge(past.values, past.min_effect, past.jobs, past.groups, newest, past.worse, past.sessions)
    return Alarms(
        runs=1,
        judged=int((~np.isnan(judged.up.rate)).sum()),
        candidates=int((judged.up.candidate | judged.down.candidate).sum()),
        proven=int((judged.up.proven | judged.down.proven).sum()),
    )


@dataclass(frozen=True)
class MetricSensitivity:
    """Sensitivity for all series of one metric on one kind of machine; ``judged`` of them have enough past.

    ``noise`` and ``detectable`` are medians over the series, ``worst`` is the largest ``detectable``; None if no
    series has enough past. ``enough`` is the share of all series in which the smallest change that matters is detected.
    """

    group: SeriesGroup
    metric: str
    series: int
    judged: int
    noise: float | None
    detectable: float | None
    worst: float | None
    enough: float


def _metric_sensitivities(sensitivities: Iterable[SeriesSensitivity]) -> list[MetricSensitivity]:
    members: dict[tuple[SeriesGroup, str], list[SeriesSensitivity]] = {}
    for sensitivity in sensitivities:
        members.setdefault((sensitivity.series.group, sensitivity.series.metric), []).append(sensitivity)
    return [_metric_sensitivity(group, metric, series) for (group, metric), series in members.items()]


def _metric_sensitivity(
    group: SeriesGroup, metric: str, series: Sequence[SeriesSensitivity]
) -> MetricSensitivity:
    noises = [row.noise for row in series if row.noise is not None]
    changes = [row.detectable for row in series if row.detectable is not None]
    enough = sum(row.detectable is not None and row.detectable <= row.min_effect for row in series)
    return MetricSensitivity(
        group,
        metric,
        len(series),
        len(changes),
        noise=median(noises) if noises else None,
        detectable=median(changes) if changes else None,
        worst=max(changes, default=None),
        enough=enough / len(series),
    )


MONTH = 30


def calibrate(points: Points, rules: Mapping[Series, MetricRule]) -> tuple[Alarms, Alarms]:
    """Return the alarms in the past as it was, and in the same past shuffled, in which nothing changes.

    Raises :class:`UsageError` if the past is too short.
    """
    matrix = run_matrix(points)
    runs = matrix.values.shape[1]
    if runs < MIN_RUNS:
        raise UsageError(f"the past has {counted(runs, 'run')}, and calibrating takes at least {MIN_RUNS}")
    past = GateInputs(
        values=log_values(matrix.values),
        min_effect=np.array([log1p(rules[series].min_effect) for series in matrix.series]),
        worse=np.array([rules[series].worse for series in matrix.series]),
        jobs=matrix.jobs,
        groups=matrix.groups,
        sessions=matrix.sessions,
        repetitions=Repetitions(
            *(log_values(run_matrix(_extremes(points, extreme)).values) for extreme in (min, max))
        ),
    )
    return replayed(past), false_alarms(past)


def _extremes(points: Points, choose: Callable[[Sequence[float]], float]) -> Points:
    """Replace each value by the lowest or highest of its repetitions; None if there are too few repetitions."""
    return {
        series: [
            point._replace(
                value=choose(point.independent) if len(point.independent) >= MIN_REPETITIONS else None,
            )
            for point in row
        ]
        for series, row in points.items()
    }


_LISTED = 10
_METRIC_COLUMNS = (
    *map(Column, ("benchmark", "machine", "metric")),
    *number_columns("series", "judged", "noise", "detectable", "worst", "sensitive enough"),
)
_SERIES_COLUMNS = (Column("series"), *number_columns("runs", "noise", "detectable", "matters"))


def sensitivity_document(sensitivities: Sequence[SeriesSensitivity]) -> Document:
    """Show the sensitivity. ``detectable`` is the change that becomes a candidate in two runs with 80% probability."""
    known = [series for series in sensitivities if series.detectable is not None]
    worst = sorted(known, key=lambda series: series.detectable or 0.0, reverse=True)[:_LISTED]
    rows = [
        (str(one.series), str(one.history), *map(_percent, (one.noise, one.detectable, one.min_effect)))
        for one in worst
    ]
    return Document(
        f"{len(known):,} of {len(sensitivities):,} series have enough history to estimate their sensitivity",
        [
            Table(_METRIC_COLUMNS, [_metric_row(metric) for metric in _metric_sensitivities(sensitivities)]),
            Table(_SERIES_COLUMNS, rows, "The least sensitive series"),
        ],
    )


def _metric_row(metric: MetricSensitivity) -> tuple[str, ...]:
    return (
        metric.group.benchmark,
        f"{metric.group.device} {metric.group.arch}".strip(),
        metric.metric,
        f"{metric.series:,}",
        f"{metric.judged:,}",
        *map(_percent, (metric.noise, metric.detectable, metric.worst)),
        f"{metric.enough:.0%}",
    )


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.1%}" if share <= MAX_DETECTABLE else f"> {MAX_DETECTABLE:.0%}"


def calibration_document(past: Alarms, shuffled: Alarms) -> Document:
    """Describe the alarms in both pasts in words; improvements and regressions are counted together."""
    replayed = f"{past.runs} runs of the past, each judged by those before it: {_rates(past)}"
    nothing_changed = f"{shuffled.runs} times the same runs in another order, so that nothing has changed"
    false_month = (
        f"{MONTH * shuffled.proven / max(shuffled.runs, 1):.2g} false changes that history alone proves"
    )
    of_these = "better and worse together; only the worse ones fail a job"
    lines = [
        f"{replayed}; real changes are among them.",
        f"{nothing_changed}: {_rates(shuffled)}.",
        f"So a month of {MONTH} nights would have had {false_month}, {of_these}.",
    ]
    return Document(f"{false_month} in a month", [Note(lines)])


def _rates(alarms: Alarms) -> str:
    runs = max(alarms.runs, 1)
    share = alarms.candidates / max(alarms.judged, 1)
    return (
        f"{alarms.candidates / runs:.3g} candidates ({share:.2%} of {alarms.judged / runs:.0f} series) "
        f"and {alarms.proven / runs:.2g} proven changes a run"
    )


def show_sensitivity(past: RecordedPast, policy: Mapping[str, Rule], *, json_output: bool) -> None:
    """Print how small a change the next run would show. Raises :class:`UsageError` if the past has no ratios."""
    sensitivities = sensitivity_of(*_ratios(past, policy))
    if not json_output:
        _show(sensitivity_document(sensitivities))
        return
    suites = [
        {**asdict(metric), "group": metric.group._asdict()} for metric in _metric_sensitivities(sensitivities)
    ]
    print_json({"series": [asdict(sensitivity) for sensitivity in sensitivities], "suites": suites}, indent=1)


def show_calibration(past: RecordedPast, policy: Mapping[str, Rule], *, json_output: bool) -> None:
    """Print how often the gate would have raised an alarm. Raises :class:`UsageError` if the past is too short."""
    points, rules = _ratios(past, policy)
    say(f"judging {len(points):,} series of {past.name} again and again: this takes a while")
    replayed, shuffled = calibrate(points, rules)
    if json_output:
        print_json({"replayed": replayed._asdict(), "shuffled": shuffled._asdict()}, indent=1)
    else:
        _show(calibration_document(replayed, shuffled))


def _ratios(past: RecordedPast, policy: Mapping[str, Rule]) -> tuple[Points, dict[Series, MetricRule]]:
    """Return the series judged by ratios and their rules, limited to points comparable with the newest one."""
    points = newest_machine(without_restating(past.points))
    rules = {series: rule_of_points(series.metric, row, policy, row[-1:]) for series, row in points.items()}
    ratios = {series: row for series, row in points.items() if rules[series].kind == "ratio"}
    if not ratios:
        msg = f"{past.name}: holds no series of numbers above zero; ingest records first, or name another --against"
        raise UsageError(msg)
    return ratios, rules


def _show(document: Document) -> None:
    print_document(document, sys.stdout)
    sys.stdout.flush()
    say(text_of(document.title))
