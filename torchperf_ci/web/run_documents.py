"""The documents of a run, and of the comparison of two runs on one kind of machine."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.metrics import STATUS
from torchperf_ci.series.outcomes import disturbances, outcome_word, passed
from torchperf_ci.series.points import differing_facts, restating
from torchperf_ci.series.policy import rule_of_points
from torchperf_ci.stats.noise import robust_sigma
from torchperf_ci.stats.past import MIN_HISTORY, of_current_level
from torchperf_ci.web.series_document import rounded
from torchperf_ci.web.value_columns import (
    SHOWN_DIGITS,
    ranges,
    short_number,
    value_columns,
    why_without_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.past_values import PastValues
    from torchperf_ci.series.points import Point, Points, Series
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.web.catalogue import RunFacts


@dataclass(frozen=True)
class RunState:
    """The outcomes of a run. ``counts`` are the numbers of cases by status, ``failed`` the cases that did not pass.

    ``not_run`` are the cases that only the previous run has, ``differs`` the facts of the ``machine`` that have changed
    since then.
    """

    machine: Mapping[str, str]
    differs: Sequence[str]
    counts: Mapping[str, int]
    failed: Sequence[Mapping[str, object]]
    not_run: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class ComparedSeries:
    """A series of two runs. ``word`` is *beyond noise*, *within noise*, *noise unknown* or *not comparable*.

    ``series`` is its number. ``ratio`` is head over base, with its 95% interval where the noise is known. ``worse`` is
    1 if the change is for the worse, -1 if for the better, 0 if there is none or its direction is unknown.
    """

    series: int
    base: float | None
    head: float | None
    ratio: float | None
    low: float | None
    high: float | None
    word: str
    worse: int
    why: str


_NORMAL = NormalDist()
_TOO_FEW = (
    f"fewer than {MIN_HISTORY} runs on this machine up to the older one are too few to estimate the noise"
)
RELEVANCE = ("beyond noise", "not comparable", "noise unknown", "within noise")


def run_state(run: RunFacts, previous: RunFacts | None, points: Points) -> RunState:
    """Return the outcomes of a run. ``points`` must include those of both runs."""
    taken, before = _taken(points, run), _taken(points, previous) if previous else {}
    statuses = {series.case: point for series, point in taken.items() if series.metric == STATUS}
    ran = dict.fromkeys(series.case for series in taken)
    words = {case: outcome_word(statuses[case]) if case in statuses else "no status" for case in ran}
    machine = _machine(taken)
    return RunState(
        machine,
        differing_facts(_machine(before), machine) if before else [],
        Counter(words.values()),
        [
            {"name": _case_name(case), "status": words[case], "reason": statuses[case].info.get("reason", "")}
            for case in sorted(statuses)
            if words[case] != "pass"
        ],
        [_case_name(case) for case in sorted({series.case for series in before} - {*ran})],
    )


def run_document(
    run: RunFacts, previous: RunFacts | None, points: Points, numbers: Mapping[Series, int]
) -> dict[str, object]:
    """Return a run: its outcomes, and its values of all series but the statuses, in the order of ``numbers``."""
    taken = _taken(points, run)
    measured = sorted((series for series in taken if series.metric != STATUS), key=numbers.__getitem__)
    return {
        "id": run.id,
        "previous": previous.id if previous else None,
        **vars(run_state(run, previous, points)),
        "notes": disturbances({series: [point] for series, point in taken.items()}),
        "series": ranges(numbers[series] for series in measured),
        "values": value_columns([(series, taken[series]) for series in measured], SHOWN_DIGITS),
        "version": 2,
    }


def compare_document(
    base: RunFacts,
    head: RunFacts,
    points: Points,
    past: Mapping[Series, PastValues],
    policy: Mapping[str, config.Rule],
    numbers: Mapping[Series, int],
) -> dict[str, object]:
    """Return the comparison of two runs on one kind of machine, the most relevant series first.

    ``points`` are those of both; ``past`` are the values up to the older one on its branch, from which the noise is
    estimated.
    """
    old, new = _taken(points, base), _taken(points, head)
    pairs = [
        _Pair(series, old.get(series), new.get(series), past.get(series))
        for series in sorted({*old, *new} - restating({*old, *new}))
    ]
    noise = _noise(pairs)
    rows = [
        _compared(pair, numbers[pair.series], noise.get(pair.series), policy, len(pairs)) for pair in pairs
    ]
    means = _means(pairs, rows)
    rows.sort(
        key=lambda row: (RELEVANCE.index(row.word), -row.worse, -abs(log(row.ratio)) if row.ratio else 0.0)
    )
    return {
        "base": base.id,
        "head": head.id,
        "differs": differing_facts(_machine(old), _machine(new)),
        "means": means,
        "rows": {name: [getattr(row, name) for row in rows] for name in ComparedSeries.__dataclass_fields__},
        "version": 2,
    }


@dataclass(frozen=True)
class _Pair:
    """The points of a series in two runs, None where it is missing, and its past up to the older run."""

    series: Series
    old: Point | None
    new: Point | None
    past: PastValues | None

    @property
    def values(self) -> tuple[float | None, float | None]:
        """The values in both runs."""
        return self.old.value if self.old else None, self.new.value if self.new else None


def _compared(
    pair: _Pair, number: int, noise: float | None, policy: Mapping[str, config.Rule], among: int
) -> ComparedSeries:
    series, (before, now) = pair.series, pair.values
    told = pair.past.telling if pair.past else [point for point in (pair.old, pair.new) if point]
    rule = rule_of_points(series.metric, told, policy)
    why = _why_not_comparable(series, pair.old, pair.new)
    sigma = noise if rule.kind == "ratio" else None
    log_ratio = _log_ratio(before, now) if rule.kind == "ratio" and not why else None
    word, worse = ("not comparable", 0) if why else _word(pair, log_ratio, sigma, rule, among)
    half = None if sigma is None else _NORMAL.inv_cdf(0.975) * sqrt(2) * sigma
    return ComparedSeries(
        number,
        short_number(before, SHOWN_DIGITS),
        short_number(now, SHOWN_DIGITS),
        _ratio(log_ratio, 0),
        _ratio(log_ratio, half and -half),
        _ratio(log_ratio, half),
        word,
        worse,
        _TOO_FEW if word == "noise unknown" else why,
    )


def _ratio(log_ratio: float | None, away: float | None) -> float | None:
    """Return the ratio at an end of its interval; None where the ratio or its noise is unknown."""
    return None if log_ratio is None or away is None else rounded(exp(log_ratio + away))


def _log_ratio(before: float | None, now: float | None) -> float | None:
    return log(now / before) if before and now and before > 0 and now > 0 else None


def _word(
    pair: _Pair, log_ratio: float | None, sigma: float | None, rule: MetricRule, among: int
) -> tuple[str, int]:
    """Return whether a change is beyond noise, in words, and its direction.

    The threshold for ratios is such that chance alone exceeds it in any of ``among`` series in at most one of twenty
    comparisons (Bonferroni). Any difference of counts and outcomes is beyond noise.
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
    """Estimate σ between runs of each series, in log units, from past runs at its current level on the same machine.

    Series with equally many past runs are processed as one array.
    """
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


def _means(pairs: Iterable[_Pair], rows: Iterable[ComparedSeries]) -> list[dict[str, object]]:
    """Return the geometric mean of head over base of each metric, over the ``n`` series that both runs have."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for pair, row in zip(pairs, rows, strict=True):
        if row.ratio:
            ratios[pair.series.metric].append(log(row.ratio))
    return [
        {"metric": metric, "ratio": rounded(exp(fmean(logs))), "n": len(logs)}
        for metric, logs in sorted(ratios.items())
    ]


def _taken(points: Points, run: RunFacts) -> dict[Series, Point]:
    return {series: point for series, row in points.items() for point in row[::-1] if point.run == run.name}


def _case_name(case: Series) -> dict[str, str]:
    return {name: getattr(case, name) for name in ("model", "mode", "dtype", "backend")}


def _machine(taken: Mapping[Series, Point]) -> Mapping[str, str]:
    """Return the most frequent fingerprint; facts of single cases, such as a batch size, are not the machine's."""
    shared = {id(point.fingerprint): point.fingerprint for point in taken.values()}
    keys = {place: tuple(sorted(facts.items())) for place, facts in shared.items()}
    counts = Counter(keys[id(point.fingerprint)] for point in taken.values())
    return dict(counts.most_common(1)[0][0]) if counts else {}
