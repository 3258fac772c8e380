"""A run as a document: what ran, on what, and what did not; and two runs of one kind of machine beside each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.metrics import STATUS, name_and_unit
from torchperf_ci.series.outcomes import disturbances, outcome_word, passed
from torchperf_ci.series.points import differing_facts, restating
from torchperf_ci.stats.noise import robust_sigma
from torchperf_ci.stats.past import MIN_HISTORY, of_current_level
from torchperf_ci.web.series_document import rounded, rule_of_series, why_without_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.past_values import PastValues
    from torchperf_ci.series.points import Point, Points, Series
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.web.catalogue import RunFacts


@dataclass(frozen=True)
class MetricValue:
    """What a run measured of one series; ``value`` is None where ``why`` says why there is none."""

    series: str
    metric: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    why: str


@dataclass(frozen=True)
class CaseEntry:
    """One case; ``status`` is its word, ``reason`` what a failure said."""

    name: Mapping[str, str]
    status: str
    reason: str
    values: Sequence[MetricValue]


@dataclass(frozen=True)
class RunDocument:
    """``previous`` is the run before on the same branch and kind of machine, if there is one.

    ``counts`` has the number of cases by status, ``not_run`` the cases of the previous run of which this
    one has nothing, ``differs`` the facts of the machine that are others than then.
    """

    run: RunFacts
    previous: RunFacts | None
    machine: Mapping[str, str]
    differs: Sequence[str]
    notes: Sequence[str]
    counts: Mapping[str, int]
    cases: Sequence[CaseEntry]
    not_run: Sequence[Mapping[str, str]]
    version: int = 1


@dataclass(frozen=True)
class ComparedSeries:
    """One series in both runs. ``word`` is *beyond noise*, *within noise*, *noise unknown* or *not comparable*.

    ``ratio`` is head over base, with its 95% interval where the noise is known. ``worse`` says which way a change goes:
    1 worse, -1 better, 0 where there is none or nobody knows.
    """

    series: str
    name: Mapping[str, str]
    unit: str
    base: float | None
    head: float | None
    ratio: float | None
    low: float | None
    high: float | None
    word: str
    worse: int
    why: str


@dataclass(frozen=True)
class MeanOfMetric:
    """The geometric mean of head over base of a metric, over the ``n`` series that both runs have."""

    metric: str
    ratio: float
    n: int


@dataclass(frozen=True)
class CompareDocument:
    """Two runs of one kind of machine; ``rows`` are in the order in which people want to see them."""

    base: RunFacts
    head: RunFacts
    differs: Sequence[str]
    means: Sequence[MeanOfMetric]
    rows: Sequence[ComparedSeries]
    version: int = 1


_NORMAL = NormalDist()
_TOO_FEW = f"fewer than {MIN_HISTORY} runs on this machine up to the older one tell no noise"
RELEVANCE = ("beyond noise", "not comparable", "noise unknown", "within noise")


def run_document(run: RunFacts, previous: RunFacts | None, points: Points) -> RunDocument:
    """``points`` are those of the group, of both runs at least."""
    taken, before = _taken(points, run), _taken(points, previous) if previous else {}
    cases = [_case(case, row) for case, row in _by_case(taken).items()]
    ran = {series.case for series in taken}
    missing = sorted({series.case for series in before} - ran)
    machine = _machine(taken)
    return RunDocument(
        run,
        previous,
        machine,
        differing_facts(_machine(before), machine) if before else [],
        disturbances({series: [point] for series, point in taken.items()}),
        dict(Counter(case.status for case in cases)),
        sorted(cases, key=lambda case: (case.status == "pass", *case.name.values())),
        [_case_name(case) for case in missing],
    )


def compare_document(
    base: RunFacts,
    head: RunFacts,
    points: Points,
    past: Mapping[Series, PastValues],
    policy: Mapping[str, config.Rule],
) -> CompareDocument:
    """``points`` are those of both runs, ``past`` those up to the older one on its branch, which tell the noise."""
    old, new = _taken(points, base), _taken(points, head)
    pairs = [
        _Pair(series, old.get(series), new.get(series), past.get(series))
        for series in sorted({*old, *new} - restating({*old, *new}))
    ]
    noise = _noise(pairs)
    rows = [_compared(pair, noise.get(pair.series), policy, len(pairs)) for pair in pairs]
    rows.sort(
        key=lambda row: (RELEVANCE.index(row.word), -row.worse, -abs(log(row.ratio)) if row.ratio else 0.0)
    )
    return CompareDocument(base, head, differing_facts(_machine(old), _machine(new)), _means(rows), rows)


@dataclass(frozen=True)
class _Pair:
    """What two runs have of a series, None where one has nothing, and its past up to the older one."""

    series: Series
    old: Point | None
    new: Point | None
    past: PastValues | None

    @property
    def points(self) -> list[Point]:
        """Those there are."""
        return [point for point in (self.old, self.new) if point]

    @property
    def values(self) -> tuple[float | None, float | None]:
        """Both numbers."""
        return self.old.value if self.old else None, self.new.value if self.new else None


def _compared(
    pair: _Pair, noise: float | None, policy: Mapping[str, config.Rule], among: int
) -> ComparedSeries:
    series, (before, now) = pair.series, pair.values
    rule = rule_of_series(series, pair.past.telling if pair.past else pair.points, policy)
    why = _why_not_comparable(series, pair.old, pair.new)
    sigma = noise if rule.kind == "ratio" else None
    log_ratio = _log_ratio(before, now) if rule.kind == "ratio" and not why else None
    word, worse = ("not comparable", 0) if why else _word(pair, log_ratio, sigma, rule, among)
    low, high = _interval(log_ratio, sigma)
    return ComparedSeries(
        series.id,
        {**_case_name(series), "metric": series.metric},
        name_and_unit(series.metric)[1],
        rounded(before),
        rounded(now),
        None if log_ratio is None else rounded(exp(log_ratio)),
        low,
        high,
        word,
        worse,
        f"fewer than {MIN_HISTORY} runs on this machine up to the older one tell no noise"
        if word == "noise unknown"
        else why,
    )


def _interval(log_ratio: float | None, sigma: float | None) -> tuple[float | None, float | None]:
    """95% of the ratio of two runs, each of which has the noise ``sigma``."""
    if log_ratio is None or sigma is None:
        return None, None
    half = _NORMAL.inv_cdf(0.975) * sqrt(2) * sigma
    return rounded(exp(log_ratio - half)), rounded(exp(log_ratio + half))


def _log_ratio(before: float | None, now: float | None) -> float | None:
    return log(now / before) if before and now and before > 0 and now > 0 else None


def _word(
    pair: _Pair, log_ratio: float | None, sigma: float | None, rule: MetricRule, among: int
) -> tuple[str, int]:
    """How a change stands to the noise, and which way it goes.

    A ratio is beyond the noise where chance alone would do so in one of ``among`` series once in twenty comparisons
    (Bonferroni). Of counts and outcomes any difference is.
    """
    before, now = pair.values
    if rule.kind == "ratio":
        if log_ratio is None or sigma is None:
            return "noise unknown", 0
        is_beyond = abs(log_ratio) > _NORMAL.inv_cdf(1 - 0.025 / among) * sqrt(2) * sigma
    else:
        is_beyond = before != now
    if not is_beyond or before is None or now is None:
        return "within noise", 0
    return "beyond noise", rule.worse * (1 if now > before else -1)


def _why_not_comparable(series: Series, old: Point | None, new: Point | None) -> str:
    for side, point in (("base", old), ("new", new)):
        if point is None:
            return f"not in the {side} run"
        if point.value is None and passed(point) is None:
            return f"{side}: {why_without_number(series, point)}"
    if old and new and (differs := differing_facts(old.fingerprint, new.fingerprint)):
        return "; ".join(differs)
    return ""


def _noise(pairs: Iterable[_Pair]) -> dict[Series, float]:
    """Of each series between the runs up to the older one on the same machine, at the level that it was at, as a
    logarithm. Those with as many runs are one array."""
    alike: dict[int, dict[Series, list[float]]] = defaultdict(dict)
    for pair in pairs:
        if pair.old and pair.new and pair.past:
            older = min(pair.old, pair.new, key=lambda point: point.timestamp)
            values = pair.past.on_machine(older.fingerprint)
            alike[len(values)][pair.series] = values
    return {
        series: float(sigma)
        for length, rows in alike.items()
        if length >= MIN_HISTORY
        for series, sigma in zip(rows, robust_sigma(of_current_level(np.log([*rows.values()]))), strict=True)
    }


def _means(rows: Iterable[ComparedSeries]) -> list[MeanOfMetric]:
    ratios: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.ratio:
            ratios[row.name["metric"]].append(log(row.ratio))
    return [
        MeanOfMetric(metric, rounded(exp(sum(logs) / len(logs))) or 1.0, len(logs))
        for metric, logs in sorted(ratios.items())
    ]


def _taken(points: Points, run: RunFacts) -> dict[Series, Point]:
    return {series: point for series, row in points.items() for point in row[::-1] if point.run == run.name}


def _by_case(taken: Mapping[Series, Point]) -> dict[Series, dict[Series, Point]]:
    cases: dict[Series, dict[Series, Point]] = defaultdict(dict)
    for series, point in taken.items():
        cases[series.case][series] = point
    return cases


def _case(case: Series, taken: Mapping[Series, Point]) -> CaseEntry:
    status = next((point for series, point in taken.items() if series.metric == STATUS), None)
    return CaseEntry(
        _case_name(case),
        outcome_word(status) if status else "no status",
        status.info.get("reason", "") if status else "",
        [_value(series, point) for series, point in sorted(taken.items()) if series.metric != STATUS],
    )


def _value(series: Series, point: Point) -> MetricValue:
    return MetricValue(
        series.id,
        series.metric,
        name_and_unit(series.metric)[1],
        rounded(point.value),
        rounded(min(point.repetitions, default=None)),
        rounded(max(point.repetitions, default=None)),
        len(point.repetitions),
        why_without_number(series, point),
    )


def _case_name(case: Series) -> dict[str, str]:
    return {name: getattr(case, name) for name in ("model", "mode", "dtype", "backend")}


def _machine(taken: Mapping[Series, Point]) -> Mapping[str, str]:
    """The facts that most points have in common; those of a case, such as its batch, are not the machine's."""
    counts = Counter(tuple(sorted(point.fingerprint.items())) for point in taken.values())
    return dict(counts.most_common(1)[0][0]) if counts else {}
