"""Series of measured numbers, all of them judged together by the gate."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import partial
from math import inf, log1p, nan
from operator import mul
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.check.comparable import charted, commits, of_newest_runs
from torchperf_ci.check.finding import HOPELESS, evidence, finding, is_too_short
from torchperf_ci.check.logs import log_values, ratio, share
from torchperf_ci.metrics import LEAST_AMOUNT
from torchperf_ci.series.matrix import Matrix, matrix
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.past import NEWEST
from torchperf_ci.stats.single_run import FEWEST_REPETITIONS, Repetitions
from torchperf_ci.verdicts.verdict import Verdict
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.check.comparable import Pairing
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Series
    from torchperf_ci.stats.gate import Judged

MOST_NEW = NEWEST
"""Of more new runs than these only the newest are judged."""


def judge_numbers(pairings: Sequence[Pairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    """Judge series that have a past. Ratios and amounts are two families: their noise has nothing in common."""
    ratios = [one for one in pairings if rules[one.series].kind == "ratio"]
    amounts = [one for one in pairings if rules[one.series].kind == "amount"]
    return [*_judge_ratios(ratios, rules), *_judge_amounts(amounts, rules)]


def _judge_ratios(pairings: Sequence[Pairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    if not pairings:
        return []
    found = _matrix(pairings)
    min_effect = np.array([log1p(rules[one.series].min_effect) for one in pairings])
    judged = judge(
        log_values(found.values),
        min_effect,
        found.jobs,
        found.groups,
        _repetitions(pairings),
        _worse(pairings, rules),
        found.sittings,
    )
    return [_ratio_verdict(one, judged, row, rules[one.series]) for row, one in enumerate(pairings)]


def _ratio_verdict(pairing: Pairing, judged: Judged, row: int, rule: MetricRule) -> Verdict:
    verdict = _verdict(pairing, judged, row, rule, ratio)
    if is_too_short(judged, row, _runs(pairing)):
        old, new = _level(pairing), pairing.newest.value or nan
        return replace(verdict, effect=Effect(new / old, 0.0, inf, 0), old=old, new=new)
    detectable = share(judged.detectable[row])
    return replace(
        verdict,
        effect=Effect(ratio(judged.change[row]), ratio(judged.low[row]), ratio(judged.high[row]), 0),
        noise=share(judged.sigma[row]),
        detectable=detectable if detectable <= HOPELESS else None,
    )


def _repetitions(pairings: Sequence[Pairing]) -> Repetitions:
    """What the processes of the newest run have measured."""
    several = [
        one.newest.repetitions if len(one.newest.repetitions) >= FEWEST_REPETITIONS else (nan,)
        for one in pairings
    ]
    lowest, highest = (np.array([choose(values) for values in several]) for choose in (min, max))
    return Repetitions(log_values(lowest), log_values(highest))


def _worse(pairings: Sequence[Pairing], rules: Mapping[Series, MetricRule]) -> NDArray[np.int64]:
    return np.array([rules[one.series].worse for one in pairings])


def _judge_amounts(pairings: Sequence[Pairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    """Differences are given to the gate as multiples of the smallest that matters, as if they were logarithms."""
    if not pairings:
        return []
    found = _matrix(pairings)
    min_effect = np.array([log1p(rules[one.series].min_effect) for one in pairings])
    least = [max(LEAST_AMOUNT, rules[one.series].min_effect * abs(_level(one))) for one in pairings]
    units = np.array(least) / min_effect
    judged = judge(
        found.values / units[:, None],
        min_effect,
        worse=_worse(pairings, rules),
        sittings=found.sittings,
    )
    return [
        _verdict(one, judged, row, rules[one.series], partial(mul, units[row]))
        for row, one in enumerate(pairings)
    ]


def _verdict(
    pairing: Pairing, judged: Judged, row: int, rule: MetricRule, restored: Callable[[float], float]
) -> Verdict:
    """``restored`` makes the gate's numbers the metric's own again."""
    said = finding(judged, row, rule, _runs(pairing), partial(_day, pairing))
    return Verdict(
        pairing.series,
        said.word,
        said.why,
        old=float(restored(judged.old[row])),
        new=float(restored(judged.new[row])),
        candidate=said.candidate,
        evidence={
            **evidence(judged, row),
            **_turn(pairing, int(judged.runs[row])),
            **({"points": charted(pairing)} if said.is_worse else {}),
        },
    )


def _matrix(pairings: Sequence[Pairing]) -> Matrix:
    """The rows are in the order of ``pairings``."""
    return matrix(
        {one.series: one.old for one in pairings},
        {one.series: of_newest_runs(one.new, MOST_NEW) for one in pairings},
    )


def _runs(pairing: Pairing) -> int:
    """How many runs the past has."""
    return len({point.run for point in pairing.old})


def _day(pairing: Pairing, ago: int) -> str:
    """When the run was that so many runs of the series came after."""
    times = list({point.run: point.timestamp for point in (*pairing.old, *pairing.new)}.values())
    if not times[-1 - ago]:
        return f"{counted(ago, 'run')} ago"
    return f"{datetime.datetime.fromtimestamp(times[-1 - ago], datetime.timezone.utc):%Y-%m-%d}"


def _level(pairing: Pairing) -> float:
    return median(point.value or 0.0 for point in pairing.old)


def _turn(pairing: Pairing, window: int) -> Mapping[str, object]:
    """Between which commits the change is, if it is one: the window's runs are the new ones."""
    points = [*pairing.old, *pairing.new]
    new = of_newest_runs(points, window)
    runs = {point.run for point in new}
    old = [point for point in points if point.run not in runs]
    return {"runs": len({point.run for point in pairing.new}), **commits(old, new)}
