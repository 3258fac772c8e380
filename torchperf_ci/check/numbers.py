"""Judge series of measured numbers together by the gate, and estimate whether build variance explains a change."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf, log, log1p, nan
from operator import mul
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.check.gate_findings import (
    HOPELESS,
    gate_finding,
    gate_numbers,
    is_too_short,
)
from torchperf_ci.check.pairing import chart_points, commits_around, of_newest_runs
from torchperf_ci.document import counted, day_of
from torchperf_ci.metrics import LEAST_AMOUNT
from torchperf_ci.series.run_matrix import log_values, run_matrix
from torchperf_ci.stats.build_variance import estimate_tau
from torchperf_ci.stats.effect import Effect, ratio_of_log, share_of_log
from torchperf_ci.stats.gate import FEWEST_REPETITIONS, Repetitions, judge
from torchperf_ci.stats.past import BASELINE, NEWEST
from torchperf_ci.verdicts.verdict import BuildLuck, CommitRange, Evidence, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.check.pairing import SeriesPairing
    from torchperf_ci.series.points import Point, Series
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.run_matrix import RunMatrix
    from torchperf_ci.stats.build_variance import TauEstimate
    from torchperf_ci.stats.gate import Judged


MOST_NEW = NEWEST
"""Most new runs that are judged, the newest ones."""


def judge_numbers(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    """Judge series that have a past. Ratios and amounts are judged separately, because their noise is unrelated."""
    ratios = [pairing for pairing in pairings if rules[pairing.series].kind == "ratio"]
    amounts = [pairing for pairing in pairings if rules[pairing.series].kind == "amount"]
    return [*_judge_ratios(ratios, rules), *_judge_amounts(amounts, rules)]


def _judge_ratios(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    if not pairings:
        return []
    matrix = _matrix(pairings)
    min_effect = np.array([log1p(rules[pairing.series].min_effect) for pairing in pairings])
    judged = judge(
        log_values(matrix.values),
        min_effect,
        matrix.jobs,
        matrix.groups,
        _repetitions(pairings),
        _worse(pairings, rules),
        matrix.sessions,
    )
    return [
        _ratio_verdict(pairing, judged, row, rules[pairing.series]) for row, pairing in enumerate(pairings)
    ]


def _ratio_verdict(pairing: SeriesPairing, judged: Judged, row: int, rule: MetricRule) -> Verdict:
    verdict = _verdict(pairing, judged, row, rule, ratio_of_log)
    if is_too_short(judged, row, _runs(pairing)):
        old, new = _level(pairing), pairing.newest.value or nan
        return replace(verdict, effect=Effect(new / old, 0.0, inf, 0), old=old, new=new)
    detectable = share_of_log(judged.detectable[row])
    return replace(
        verdict,
        effect=Effect(
            ratio_of_log(judged.change[row]), ratio_of_log(judged.low[row]), ratio_of_log(judged.high[row]), 0
        ),
        noise=share_of_log(judged.sigma[row]),
        detectable=detectable if detectable <= HOPELESS else None,
    )


def _repetitions(pairings: Sequence[SeriesPairing]) -> Repetitions:
    """Return the lowest and highest repetition of each series' newest run."""
    several = [
        pairing.newest.repetitions if len(pairing.newest.repetitions) >= FEWEST_REPETITIONS else (nan,)
        for pairing in pairings
    ]
    lowest, highest = (np.array([choose(values) for values in several]) for choose in (min, max))
    return Repetitions(log_values(lowest), log_values(highest))


def _worse(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> NDArray[np.int64]:
    return np.array([rules[pairing.series].worse for pairing in pairings])


def _judge_amounts(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    """Judge amounts by passing the gate differences, in units of the smallest that matters, in place of logarithms."""
    if not pairings:
        return []
    matrix = _matrix(pairings)
    min_effect = np.array([log1p(rules[pairing.series].min_effect) for pairing in pairings])
    least = [
        max(LEAST_AMOUNT, rules[pairing.series].min_effect * abs(_level(pairing))) for pairing in pairings
    ]
    units = np.array(least) / min_effect
    judged = judge(
        matrix.values / units[:, None],
        min_effect,
        worse=_worse(pairings, rules),
        sessions=matrix.sessions,
    )
    return [
        _verdict(pairing, judged, row, rules[pairing.series], partial(mul, units[row]))
        for row, pairing in enumerate(pairings)
    ]


def _verdict(
    pairing: SeriesPairing, judged: Judged, row: int, rule: MetricRule, restored: Callable[[float], float]
) -> Verdict:
    """Return the verdict for a row. ``restored`` converts the gate's numbers to the metric's unit."""
    finding = gate_finding(judged, row, rule, _runs(pairing), partial(_day, pairing))
    return Verdict(
        pairing.series,
        finding.word,
        finding.why,
        old=float(restored(judged.old[row])),
        new=float(restored(judged.new[row])),
        candidate=finding.candidate,
        evidence=Evidence(
            _commit_range(pairing, int(judged.runs[row])),
            chart_points(pairing) if finding.is_worse else (),
            others={**gate_numbers(judged, row), "runs": len({point.run for point in pairing.new})},
        ),
    )


def _matrix(pairings: Sequence[SeriesPairing]) -> RunMatrix:
    """Return the matrix whose rows are in the order of ``pairings``."""
    return run_matrix(
        {pairing.series: pairing.old for pairing in pairings},
        {pairing.series: of_newest_runs(pairing.new, MOST_NEW) for pairing in pairings},
    )


def _runs(pairing: SeriesPairing) -> int:
    """Return the number of runs in the past."""
    return len({point.run for point in pairing.old})


def _day(pairing: SeriesPairing, ago: int) -> str:
    """Return the date of the run after which the series has ``ago`` more runs."""
    times = list({point.run: point.timestamp for point in (*pairing.old, *pairing.new)}.values())
    return day_of(times[-1 - ago]) or f"{counted(ago, 'run')} ago"


def _level(pairing: SeriesPairing) -> float:
    return median(point.value or 0.0 for point in pairing.old)


def _commit_range(pairing: SeriesPairing, window: int) -> CommitRange:
    """Return the commits between which a change would lie, if the last ``window`` runs are the new ones."""
    points = [*pairing.old, *pairing.new]
    new = of_newest_runs(points, window)
    runs = {point.run for point in new}
    old = [point for point in points if point.run not in runs]
    return commits_around(old, new)


def beside_luck(
    verdicts: Sequence[Verdict], pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]
) -> Sequence[Verdict]:
    """Return the verdicts, with build variance added where a ratio is or looks worse since another build of PyTorch.

    The addition says how likely the variation between builds alone causes such a change.
    """
    by_series = {verdict.series: verdict for verdict in verdicts}
    new = {
        pairing.series: builds
        for pairing in pairings
        if rules[pairing.series].kind == "ratio"
        and (builds := _builds_compared(pairing, by_series[pairing.series]))
    }
    kinds: dict[object, dict[Series, Sequence[Point]]] = defaultdict(dict)
    for pairing in pairings:
        kinds[pairing.series.group, pairing.series.metric][pairing.series] = pairing.old
    for kind in {(series.group, series.metric) for series in new}:
        for series, luck in zip(kinds[kind], _luck(kinds[kind]), strict=True):
            if series in new:
                by_series[series] = _with_build_luck(by_series[series], luck, new[series])
    return list(by_series.values())


def _builds_compared(pairing: SeriesPairing, verdict: Verdict) -> tuple[int, int] | None:
    """Return the number of builds in the past and in the newest, worse runs; None if the last build is not new."""
    if not (verdict.verdict == "regressed" or verdict.candidate) or verdict.effect is None:
        return None
    window = verdict.evidence.others["window"]
    assert isinstance(window, int)
    newest = of_newest_runs([*pairing.old, *pairing.new], window)
    runs = {point.run for point in newest}
    before = of_newest_runs([point for point in pairing.old if point.run not in runs], BASELINE)
    old, new = ({point.torch for point in some} - {""} for some in (before, newest))
    is_other = old and newest[-1].torch not in {"", *old}
    return (len(old), len(new)) if is_other else None


def _luck(past: Mapping[Series, Sequence[Point]]) -> Sequence[TauEstimate]:
    """Estimate the build variance of each series from the past of all series of one kind, which are ratios."""
    numbers = defaultdict(count().__next__, {"": -1})
    numbered = {
        series: [point._replace(value=float(numbers[point.torch])) for point in row]
        for series, row in past.items()
    }
    known = run_matrix(past)
    builds = np.nan_to_num(run_matrix(numbered).values, nan=-1.0)
    values = log_values(np.where(_is_first(known.sessions), known.values, np.nan))
    return estimate_tau(values, builds.astype(np.int64))


def _is_first(sessions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each run is the first one of its session, by row."""
    firsts = np.zeros(sessions.shape, dtype=bool)
    for row, session in zip(firsts, sessions, strict=True):
        row[np.unique(session, return_index=True)[1]] = True
    return firsts


def _with_build_luck(verdict: Verdict, luck: TauEstimate, builds: tuple[int, int]) -> Verdict:
    ratio = verdict.effect.ratio if verdict.effect else 1.0
    low, high = luck.quantile(0.025), luck.quantile(0.975)
    build_luck = BuildLuck(luck.tau, low, high, luck.chance(log(ratio), builds))
    return replace(
        verdict, why=f"{verdict.why}; {build_luck}", evidence=replace(verdict.evidence, luck=build_luck)
    )
