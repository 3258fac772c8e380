"""Judge series of measured numbers together by the gate, each in one word and one sentence.

An estimate says whether build variance explains a change.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf, isnan, log, log1p, nan
from operator import mul
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.check.pairing import SeriesPairing, chart_points, commits_around, of_newest_runs
from torchperf_ci.document import change_text, counted, day_of
from torchperf_ci.metrics import DOWN, last_digit
from torchperf_ci.series.run_matrix import RunMatrix, log_values, run_matrix
from torchperf_ci.stats.build_variance import TauEstimate, estimate_tau
from torchperf_ci.stats.creep import creep
from torchperf_ci.stats.effect import Effect, ratio_of_log, share_of_log
from torchperf_ci.stats.gate import MIN_REPETITIONS, GateSide, Judged, Repetitions, judge
from torchperf_ci.stats.noise import compacted
from torchperf_ci.stats.past import BASELINE, MIN_HISTORY, NEWEST
from torchperf_ci.verdicts.verdict import BuildVariance, CommitRange, Evidence, Verdict, VerdictWord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.series.points import Point, Series
    from torchperf_ci.series.policy import MetricRule


TOO_NOISY = 3.0
"""A series that could only show a change larger than this many times ``min_effect`` is too noisy, not unchanged."""
MAX_DETECTABLE = 1.0
"""Relative change from which on ``detectable`` is not reported: a series that only shows a doubling shows nothing."""
_MOST_NOISE = 10.0
"""Largest noise that is told as a number: a single impossible value in the past makes it astronomical."""
MIN_SHOWN_OFFSET = 0.005
"""Smallest offset of a machine that is reported to the reader."""


@dataclass(frozen=True)
class GateFinding:
    """A verdict in one word and one sentence."""

    word: VerdictWord
    why: str
    candidate: bool = False


def gate_finding(
    judged: Judged, row: int, rule: MetricRule, past: int, day: Callable[[int], str]
) -> GateFinding:
    """Return the finding on the series in ``row``, which has ``past`` comparable runs before the new ones.

    ``day`` returns the date of a run, given how many runs came after it.
    """
    if is_too_short(judged, row, past):
        return GateFinding(
            "noisy", f"{counted(past, 'comparable run')} so far; it takes {MIN_HISTORY} to estimate the noise"
        )
    up, down = judged.up, judged.down
    if not rule.direction and (up.proven[row] or down.proven[row]):
        undirected = "changed, but nothing says which way is better: give it a direction in the policy"
        return GateFinding("noisy", undirected)
    if not rule.direction:
        return _unproven(judged, row, rule)
    worse, better = (up, down) if rule.direction == DOWN else (down, up)
    if worse.proven[row]:
        return GateFinding("regressed", _proof(judged, worse, row))
    if worse.candidate[row]:
        doubt = _doubt(judged, worse, row, day) + _offset(judged, row)
        return GateFinding("noisy", doubt, candidate=True)
    if better.proven[row]:
        return GateFinding("improved", _proof(judged, better, row))
    return _unproven(judged, row, rule)


def is_too_short(judged: Judged, row: int, past: int) -> bool:
    """Whether the series in ``row``, with ``past`` comparable runs, has too few to estimate its noise."""
    return past < MIN_HISTORY or isnan(judged.up.rate[row])


def _unproven(judged: Judged, row: int, rule: MetricRule) -> GateFinding:
    """Return "unchanged" if that is certain, or "noisy" if a change that matters may be hidden by noise."""
    low, high, least = judged.low[row], judged.high[row], log1p(rule.min_effect)
    if low > least or high < -least:
        change = change_text(share_of_log(judged.change[row])) if rule.kind == "ratio" else "a change"
        runs = int(judged.runs[row])
        newest = f"the last {runs} runs" if runs > 1 else "the newest run"
        return GateFinding("noisy", f"{change} in {newest}, not proven yet: measure again")
    detectable = share_of_log(judged.detectable[row])
    if rule.kind == "ratio" and detectable > MAX_DETECTABLE:
        noise = share_of_log(judged.sigma[row])
        by = f"{noise:.0%}" if noise <= _MOST_NOISE else f"more than {_MOST_NOISE:.0%}"
        return GateFinding("noisy", f"too noisy to judge: runs vary by {by}")
    if detectable > TOO_NOISY * rule.min_effect:
        change = f"below {detectable:.1%}" if rule.kind == "ratio" else "of three times what matters"
        return GateFinding("noisy", f"too noisy to tell: a change {change} would probably go unseen")
    if low <= 0 <= high:
        return GateFinding("unchanged", f"within the noise{_offset(judged, row)}")
    is_less = "is" if -least < low and high < least else "may be"
    matters = f"the {rule.min_effect:.1%} that matters" if rule.kind == "ratio" else "what matters"
    return GateFinding("unchanged", f"the change {is_less} smaller than {matters}{_offset(judged, row)}")


def _proof(judged: Judged, side: GateSide, row: int) -> str:
    window, history = int(judged.runs[row]), int(judged.history[row])
    newest = f"the last {window} runs" if window > 1 else "the last run"
    return f"{newest} against the {history} before, false-discovery rate {side.rate[row]:.1g}{_offset(judged, row)}"


def _doubt(judged: Judged, side: GateSide, row: int, day: Callable[[int], str]) -> str:
    if judged.runs[row] == 1:
        return "looks worse in the newest run; one run is no proof, so measure again"
    newest = f"looks worse in the last {int(judged.runs[row])} runs"
    if side.nearly[row]:
        return f"{newest}; proven if the next run confirms it"
    runs, ago = side.seen[row].tolist()
    if not runs:
        return f"{newest}; no proof yet, so measure again"
    until = f"so did {runs} runs until {day(ago)}, and it recovered" if ago else ""
    back = until or f"is back where it was {runs} runs before"
    return f"{newest}, but {back}: no proof, so measure again"


def _offset(judged: Judged, row: int) -> str:
    offset = share_of_log(judged.offset[row])
    if abs(offset) < MIN_SHOWN_OFFSET:
        return ""
    return f"; {change_text(offset)}, which the whole job shows, is subtracted"


def judge_numbers(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    """Judge series that have a past. Ratios and amounts are judged separately, because their noise is unrelated."""
    ratios = [pairing for pairing in pairings if rules[pairing.series].kind == "ratio"]
    amounts = [pairing for pairing in pairings if rules[pairing.series].kind == "amount"]
    return [
        *(_judge_ratios(ratios, rules) if ratios else ()),
        *(_judge_amounts(amounts, rules) if amounts else ()),
    ]


def _judge_ratios(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    matrix = _matrix(pairings)
    min_effect = np.array([log1p(rules[pairing.series].min_effect) for pairing in pairings])
    values = log_values(matrix.values)
    judged = judge(
        values,
        min_effect,
        matrix.jobs,
        matrix.groups,
        _repetitions(pairings),
        _worse(pairings, rules),
        matrix.sessions,
    )
    verdicts = [
        _ratio_verdict(pairing, judged, row, rules[pairing.series]) for row, pairing in enumerate(pairings)
    ]
    crept = creep(compacted(values), min_effect)
    is_worse = crept * _worse(pairings, rules) > 0
    return [
        _with_creep(verdict, share_of_log(change)) if worse else verdict
        for verdict, change, worse in zip(verdicts, crept, is_worse, strict=True)
    ]


def _with_creep(verdict: Verdict, share: float) -> Verdict:
    """Return the verdict, with how much the series has become worse by small steps if it is not called worse."""
    if verdict.is_red or verdict.candidate:
        return verdict
    others = {**verdict.evidence.others, "crept": share}
    return replace(verdict, evidence=replace(verdict.evidence, others=others))


def _ratio_verdict(pairing: SeriesPairing, judged: Judged, row: int, rule: MetricRule) -> Verdict:
    verdict = _verdict(pairing, judged, row, rule, ratio_of_log)
    if is_too_short(judged, row, _runs(pairing)):
        old, new = _level(pairing), pairing.newest.value or nan
        return replace(verdict, effect=Effect(new / old, 0.0, inf, 0), old=old, new=new)
    detectable = share_of_log(judged.detectable[row])
    effect = Effect.of_logs(judged.change[row], judged.low[row], judged.high[row], pairs=0)
    rounding = _last_digit(pairing) / 2 * sum(map(ratio_of_log, (-judged.old[row], -judged.new[row])))
    return replace(
        verdict,
        effect=effect.widened(rounding),
        noise=share_of_log(judged.sigma[row]),
        detectable=detectable if detectable <= MAX_DETECTABLE else None,
    )


def _repetitions(pairings: Sequence[SeriesPairing]) -> Repetitions:
    """Return the lowest and highest repetition of each series' newest run."""
    of_run = [
        [value for point in of_newest_runs(pairing.new, 1) for value in point.independent]
        for pairing in pairings
    ]
    several = [values if len(values) >= MIN_REPETITIONS else [nan] for values in of_run]
    lowest, highest = (np.array([choose(values) for values in several]) for choose in (min, max))
    return Repetitions(log_values(lowest), log_values(highest))


def _worse(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> NDArray[np.int64]:
    return np.array([rules[pairing.series].worse for pairing in pairings])


def _judge_amounts(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    """Judge amounts by passing the gate differences, in units of the smallest that matters, in place of logarithms."""
    matrix = _matrix(pairings)
    ours = [rules[pairing.series] for pairing in pairings]
    min_effect = np.array([log1p(rule.min_effect) for rule in ours])
    least = [
        max(rule.min_amount, rule.min_effect * abs(_level(pairing)))
        for rule, pairing in zip(ours, pairings, strict=True)
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
    old, new = float(restored(judged.old[row])), float(restored(judged.new[row]))
    if finding.word in ("regressed", "improved") and _may_be_rounded(pairing, judged, row, restored):
        why = f"{finding.why}, but the rounding of the values may explain it: record more digits"
        finding = GateFinding("noisy", why, candidate=finding.word == "regressed")
    is_worse = finding.word == "regressed" or finding.candidate
    is_change = is_worse or finding.word == "improved"
    commits = _commit_range(pairing, int(judged.since[row]))
    cause = "it would not be the cause" if finding.candidate else "something else changed"
    same = f"; both levels are of the same commit, so {cause}"
    return Verdict(
        pairing.series,
        finding.word,
        finding.why + (same if is_change and commits.is_one_commit else ""),
        old=old,
        new=new,
        candidate=finding.candidate,
        evidence=Evidence(
            commits,
            chart_points(pairing) if is_worse else (),
            batch_size=pairing.newest.batch_size,
            threads=pairing.newest.threads,
            machine=pairing.machine,
            too_few_runs=is_too_short(judged, row, _runs(pairing)),
            others={
                "history": int(judged.history[row]),
                "window": int(judged.runs[row]),
                "false_discovery_rate": float(min(judged.up.rate[row], judged.down.rate[row])),
                "machine_offset": float(share_of_log(judged.offset[row])),
                "runs": len({point.run for point in pairing.new}),
            },
        ),
    )


def _may_be_rounded(
    pairing: SeriesPairing, judged: Judged, row: int, restored: Callable[[float], float]
) -> bool:
    """Whether the smaller end of a change's interval is no more than one unit of the last digit: half on each side."""
    ends = judged.low[row], judged.high[row]
    smallest = min(ends, key=abs) if mul(*ends) > 0 else judged.change[row]
    old = judged.old[row]
    return abs(restored(old + smallest) - restored(old)) <= _last_digit(pairing)


def _last_digit(pairing: SeriesPairing) -> float:
    points = (*pairing.old, *pairing.new)
    return last_digit(pairing.series.metric, (value for point in points for value in point.repetitions))


def _matrix(pairings: Sequence[SeriesPairing]) -> RunMatrix:
    """Return the matrix whose rows are in the order of ``pairings``."""
    return run_matrix(
        {pairing.series: pairing.old for pairing in pairings},
        {pairing.series: _judged_new(pairing) for pairing in pairings},
    )


def _judged_new(pairing: SeriesPairing) -> list[Point]:
    """Return the points of the new runs that are judged: only the last of them, if there are many."""
    return of_newest_runs(pairing.new, NEWEST)


def _runs(pairing: SeriesPairing) -> int:
    """Return the number of runs in the past."""
    return len({point.run for point in pairing.old})


def _day(pairing: SeriesPairing, ago: int) -> str:
    """Return the date of the run after which the series has ``ago`` more runs."""
    times = list({point.run: point.timestamp for point in (*pairing.old, *_judged_new(pairing))}.values())
    return day_of(times[-1 - ago]) or f"{counted(ago, 'run')} ago"


def _level(pairing: SeriesPairing) -> float:
    return median(point.value or 0.0 for point in pairing.old)


def _commit_range(pairing: SeriesPairing, window: int) -> CommitRange:
    """Return the commits of the last run before the newest ``window`` runs, and of the first of these."""
    points = [*pairing.old, *_judged_new(pairing)]
    new = of_newest_runs(points, window)
    runs = {point.run for point in new}
    return commits_around([point for point in points if point.run not in runs], new)


def with_build_variance(
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
    changed = {run for builds in new.values() for run in builds.runs}
    kinds: dict[object, dict[Series, Sequence[Point]]] = defaultdict(dict)
    for pairing in pairings:
        kinds[pairing.series.group, pairing.series.metric][pairing.series] = pairing.old
    for kind in {(series.group, series.metric) for series in new}:
        # The runs of a change are not evidence that builds differ by as much by luck.
        past = {series: [it for it in row if it.run not in changed] for series, row in kinds[kind].items()}
        for series, estimate in zip(past, _build_variances(past), strict=True):
            if series in new:
                by_series[series] = _with_build_variance(by_series[series], estimate, new[series])
    return list(by_series.values())


class _BuildsCompared(NamedTuple):
    """The newest, worse runs, and how many builds there are before them and among them."""

    runs: set[str]
    old: int
    new: int


def _builds_compared(pairing: SeriesPairing, verdict: Verdict) -> _BuildsCompared | None:
    """Return the builds that a verdict compares; None if the last build is not new, or nothing is worse."""
    if not (verdict.verdict == "regressed" or verdict.candidate) or verdict.effect is None:
        return None
    window = verdict.evidence.others["window"]
    assert isinstance(window, int)
    newest = of_newest_runs([*pairing.old, *_judged_new(pairing)], window)
    runs = {point.run for point in newest}
    before = of_newest_runs([point for point in pairing.old if point.run not in runs], BASELINE)
    old, new = ({point.torch for point in some} - {""} for some in (before, newest))
    is_other = old and newest[-1].torch not in {"", *old}
    return _BuildsCompared(runs, len(old), len(new)) if is_other else None


def _build_variances(past: Mapping[Series, Sequence[Point]]) -> Sequence[TauEstimate]:
    """Estimate the build variance of each series from the past of all series of one kind, which are ratios."""
    numbers = defaultdict(count().__next__, {"": -1})
    numbered = {
        series: [point._replace(value=float(numbers[point.torch])) for point in row]
        for series, row in past.items()
    }
    known = run_matrix(past)
    builds = np.nan_to_num(run_matrix(numbered).values, nan=-1.0)
    before = np.maximum.accumulate(known.sessions, axis=1)[:, :-1]
    is_first = known.sessions > np.pad(before, ((0, 0), (1, 0)), constant_values=-1)
    values = log_values(np.where(is_first, known.values, np.nan))
    return estimate_tau(values, builds.astype(np.int64))


def _with_build_variance(verdict: Verdict, estimate: TauEstimate, builds: _BuildsCompared) -> Verdict:
    ratio = verdict.effect.ratio if verdict.effect else 1.0
    low, high = estimate.quantile(0.025), estimate.quantile(0.975)
    variance = BuildVariance(estimate.tau, low, high, estimate.chance(log(ratio), builds[1:]))
    return replace(
        verdict, why=f"{verdict.why}; {variance}", evidence=replace(verdict.evidence, luck=variance)
    )
