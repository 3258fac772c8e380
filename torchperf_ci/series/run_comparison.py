"""Compare the runs on one kind of machine: two runs series by series, and all runs by the trend of their latencies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from statistics import NormalDist, fmean, geometric_mean, median
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from torchperf_ci.metrics import LATENCY, STATUS, kind_of, rounded
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series import outcomes
from torchperf_ci.series.points import Point, Points, Series, differing_facts, machine_facts, restating
from torchperf_ci.series.policy import rule_of_points
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.newest_runs import SIGMA_EFFICIENCY, past_tails
from torchperf_ci.stats.noise import level_and_sigma
from torchperf_ci.stats.past import MIN_HISTORY, of_current_level

if TYPE_CHECKING:
    from torchperf_ci.config import Rule
    from torchperf_ci.series.level_changes import SeriesHistory
    from torchperf_ci.series.past_values import PastValues


ComparisonWord = Literal["beyond noise", "not comparable", "noise unknown", "within noise"]
"""Whether two runs of a series differ, the most relevant word first."""
_RELEVANCE: Mapping[str, int] = {word: place for place, word in enumerate(get_args(ComparisonWord))}
_TOO_FEW = (
    f"fewer than {MIN_HISTORY} runs on this machine up to the older one are too few to estimate the noise"
)
_NO_RATIO = "values of zero and below have no ratio"
_TAIL = 0.025
"""Probability of each tail outside of a 95% interval."""


@dataclass(frozen=True)
class SeriesComparison:
    """A series in two runs; ``old`` and ``new`` are its values in the metric's unit, None where it has none.

    ``effect`` is the ratio of the values, None where there is none, with its 95% interval, open where the noise is
    unknown. ``worse`` is 1 if a change beyond noise is for the worse, -1 if for the better, 0 if there is none or
    its direction is unknown. ``why`` says why a series is not comparable or its noise unknown, or which words differ.
    """

    series: Series
    old: float | None
    new: float | None
    word: ComparisonWord
    effect: Effect | None = None
    worse: int = 0
    why: str = ""


@dataclass(frozen=True)
class MeanRatio:
    """The geometric mean of new over old of a metric, over the ``n`` series that have it in both runs."""

    metric: str
    ratio: float
    n: int


class _Margin(NamedTuple):
    """How far two runs of a series differ by chance, as log-ratios: ``half`` a 95% interval, and what is ``beyond``
    noise."""

    half: float
    beyond: float


def compare_runs(
    old: Mapping[Series, Point],
    new: Mapping[Series, Point],
    past: Mapping[Series, PastValues],
    policy: Mapping[str, Rule],
) -> list[SeriesComparison]:
    """Return the comparison of all judged series of two runs, the most relevant first.

    ``past`` are the values up to the older run, from which the noise is estimated. A ratio is beyond noise if chance
    alone exceeds it in any of the series in at most one of twenty comparisons (Bonferroni), an amount if the difference
    is one that matters, and any other difference is.
    """
    series = {*old, *new}
    judged = sorted(series - restating(series), key=lambda item: item.names)
    pasts = {
        item: past[item].on_machine(min(old[item], new[item], key=lambda point: point.timestamp).fingerprint)
        for item in judged
        if item in old and item in new and item in past
    }
    margins = _margins(pasts, len(judged))
    compared = [
        _compared(item, old[item], new[item], past.get(item), margins.get(item), policy)
        if item in old and item in new
        else _absent(item, old, new)
        for item in judged
    ]
    return sorted(compared, key=_relevance)


def mean_ratios(compared: Iterable[SeriesComparison]) -> list[MeanRatio]:
    """Return the geometric mean of each metric that has ratios, sorted by metric."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for comparison in compared:
        if comparison.effect:
            ratios[comparison.series.metric].append(comparison.effect.ratio)
    return [MeanRatio(metric, geometric_mean(some), len(some)) for metric, some in sorted(ratios.items())]


def _relevance(compared: SeriesComparison) -> tuple[int, int, float]:
    size = compared.effect.size if compared.effect else 0.0
    return _RELEVANCE[compared.word], -compared.worse, -size


def _absent(series: Series, old: Mapping[Series, Point], new: Mapping[Series, Point]) -> SeriesComparison:
    """Return the comparison of a series that only one of the runs has; its status may say why the other has not."""
    side, run = ("new", new) if series in old else ("base", old)
    reason = outcomes.why_absent(series.metric, run.get(replace(series, metric=STATUS)))
    why = f"{side}: {reason}" if reason else f"not in the {side} run"
    before, now = (
        outcomes.number_of(series, each[series]) if series in each else None for each in (old, new)
    )
    return SeriesComparison(series, before, now, "not comparable", why=why)


def _compared(
    series: Series,
    old: Point,
    new: Point,
    past: PastValues | None,
    margin: _Margin | None,
    policy: Mapping[str, Rule],
) -> SeriesComparison:
    before, now = outcomes.number_of(series, old), outcomes.number_of(series, new)
    if (why := _why_not_comparable(series, old, new)) or before is None or now is None:
        return SeriesComparison(series, before, now, "not comparable", why=why)
    if old.value is None or new.value is None:
        return _compared_words(series, old, new)
    rule = rule_of_points(series.metric, past.rule_points if past else [old, new], policy)
    effect = None
    least = max(rule.min_amount, rule.min_effect * abs(before)) if rule.kind == "amount" else 0.0
    is_beyond = abs(now - before) > least
    has_ratio = before > 0 and now > 0
    if rule.kind == "ratio" and not has_ratio and kind_of(series.metric) != "outcome":
        return SeriesComparison(series, before, now, "not comparable", why=_NO_RATIO)
    if rule.kind == "ratio" and has_ratio:
        log_ratio = log(now / before)
        half = margin.half if margin else inf
        effect = Effect.of_logs(log_ratio, log_ratio - half, log_ratio + half, pairs=0)
        if margin is None:
            return SeriesComparison(series, before, now, "noise unknown", effect, why=_TOO_FEW)
        is_beyond = abs(log_ratio) > margin.beyond
    if not is_beyond:
        return SeriesComparison(series, before, now, "within noise", effect)
    worse = rule.worse * (1 if now > before else -1)
    return SeriesComparison(series, before, now, "beyond noise", effect, worse)


def _compared_words(series: Series, old: Point, new: Point) -> SeriesComparison:
    """Compare outcomes of which at least one is a word without a number, such as ``fail_accuracy``."""
    words = outcomes.outcome_word(old), outcomes.outcome_word(new)
    before, now = outcomes.number_of(series, old), outcomes.number_of(series, new)
    if words[0] == words[1]:
        return SeriesComparison(series, before, now, "within noise")
    worse = bool(outcomes.passed(old)) - bool(outcomes.passed(new))
    return SeriesComparison(series, before, now, "beyond noise", worse=worse, why=" → ".join(words))


def _why_not_comparable(series: Series, old: Point, new: Point) -> str:
    for side, point in (("base", old), ("new", new)):
        if outcomes.number_of(series, point) is None:
            return f"{side}: {outcomes.why_without_number(series, point)}"
    facts = [point.fingerprint for point in (old, new)]
    if kind_of(series.metric) == "outcome" and False in (outcomes.passed(old), outcomes.passed(new)):
        facts = [machine_facts(known) for known in facts]  # a case that fails early knows few of its own
    return "; ".join(differing_facts(*facts))


def _margins(pasts: Mapping[Series, Sequence[float]], compared: int) -> Mapping[Series, _Margin]:
    """Return the margins of the series whose past values are enough, among so many ``compared`` ones."""
    by_metric: dict[str, dict[Series, Sequence[float]]] = defaultdict(dict)
    for series, past in pasts.items():
        if len(past) >= MIN_HISTORY:
            by_metric[series.metric][series] = past
    return {
        series: margin
        for known in by_metric.values()
        for series, margin in zip(known, _margins_of_metric([*known.values()], compared), strict=True)
    }


def _margins_of_metric(pasts: Sequence[Sequence[float]], compared: int) -> Iterator[_Margin]:
    """Yield the margins of series of one metric, which are among so many ``compared`` ones, from their past values.

    The difference of two runs varies by √2 σ. Its tails are learned from the past of the metric, whatever others do, or
    Student's where those are heavier, because a few runs say little about σ.
    """
    values = np.full((len(pasts), max(map(len, pasts))), np.nan)
    for row, past in zip(values, pasts, strict=True):
        row[-len(past) :] = np.log(past)
    values = of_current_level(values)
    level, sigma = level_and_sigma(values)
    tails = past_tails((values - level[:, None]) / sigma[:, None])
    freedom = SIGMA_EFFICIENCY * ((~np.isnan(values)).sum(axis=1) - 1)
    scores = (NormalDist().inv_cdf(1 - _TAIL / share) for share in (1, compared))
    half, beyond = (
        sqrt(2) * sigma * tails.deviation(np.full(len(pasts), score), freedom) for score in scores
    )
    return map(_Margin, half.tolist(), beyond.tolist())


TREND_DAYS = 90
_DAY = 86_400


@dataclass(frozen=True)
class Trend:
    """The geometric mean of latencies by day, each relative to the median of its own series: 1.1 is 10% slower.

    ``n`` counts the series that were measured on each ``day`` (Unix seconds). ``breaks`` are the days from which on at
    least half of them were measured on another machine.
    """

    day: Sequence[int]
    ratio: Sequence[float]
    n: Sequence[int]
    breaks: Sequence[int] = ()


def latency_trend(points: Points, histories: Mapping[Series, SeriesHistory]) -> Trend:
    """Return the trend of the last :data:`TREND_DAYS` days. Several values of a series on a day are their median.

    ``histories`` say when series were measured on another machine.
    Times in milliseconds, which the store caps, are not counted.
    """
    rows = [row for series, row in points.items() if series.metric == LATENCY]
    times = [point.timestamp for row in rows for point in row]
    last = max((time for time in times if time < LATEST_SECOND), default=0)
    days: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        by_day: dict[int, list[float]] = defaultdict(list)
        for point in row:
            if point.value is not None and last - TREND_DAYS * _DAY < point.timestamp <= last:
                by_day[point.timestamp // _DAY * _DAY].append(log(point.value))
        level = median(value for values in by_day.values() for value in values) if by_day else 0.0
        for day, values in by_day.items():
            days[day].append(median(values) - level)
    moves = (
        change for series in histories if series.metric == LATENCY for change in histories[series].machines
    )
    moved = Counter(change.first.timestamp // _DAY * _DAY for change in moves)
    trend = sorted(days.items())
    return Trend(
        [*dict(trend)],
        [rounded(exp(fmean(logs))) for _, logs in trend],
        [len(logs) for _, logs in trend],
        [day for day, logs in trend[1:] if 2 * moved[day] >= len(logs)],
    )
