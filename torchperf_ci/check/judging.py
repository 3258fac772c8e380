"""Judge new points against the past: a verdict for every series, by what kind its metric is."""

from __future__ import annotations

import datetime
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise, takewhile
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.check.numbers import beside_luck, judge_numbers
from torchperf_ci.check.pairing import SeriesPairing, chart_points, commits_around, pair_with_past
from torchperf_ci.metrics import ANCHORED, LATENCY, STATUS, UP, is_positive
from torchperf_ci.series.outcomes import not_measured, outcome_word, passed
from torchperf_ci.series.points import (
    WORKLOAD_CHANGED,
    differing_facts,
    runs_of,
    without_restating,
    workload_changed,
)
from torchperf_ci.series.policy import MetricRule, numbers, rule_of_metric, said_direction, suited
from torchperf_ci.stats.past import MIN_HISTORY
from torchperf_ci.verdicts.evidence import Evidence
from torchperf_ci.verdicts.verdict import Verdict, VerdictWord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.points import Point, Points, Series, SeriesGroup


def rule_of(
    series: Series, old: Sequence[Point], newest: Point, policy: Mapping[str, config.Rule]
) -> MetricRule:
    """The metric's rule, as the values have it; the level of the past tells where a target lies."""
    values = numbers(old)
    level = median(values) if values else None
    rule = rule_of_metric(series.metric, policy, newest.target, level, said_direction([newest]))
    return suited(rule, old, (newest,))


RECENT_COUNTS = 5
"""Runs of the past among which a count has to be unheard of."""


def judge_count(pairing: SeriesPairing, direction: str) -> Verdict:
    """Any step beyond what the last runs of the past have counted is a change, if every new run has made it."""
    past = [point.value for point in pairing.old[-RECENT_COUNTS:] if point.value is not None]
    now = [point.value for point in pairing.new if point.value is not None]
    above, below = min(now) > max(past), max(now) < min(past)
    worse, better = (below, above) if direction == UP else (above, below)
    verdict: VerdictWord = "regressed" if worse else "improved" if better else "unchanged"
    return Verdict(
        pairing.series,
        verdict,
        _count_sentence(past, now, changed=above or below),
        old=past[-1],
        new=now[-1],
        evidence=Evidence(
            commits_around(pairing.old, pairing.new),
            chart_points(pairing) if worse else (),
            others={"history": len(pairing.old), "runs": len({point.run for point in pairing.new})},
        ),
    )


def _count_sentence(past: Sequence[float], now: Sequence[float], *, changed: bool) -> str:
    before = f"{min(past):g}" if min(past) == max(past) else f"{min(past):g} to {max(past):g}"
    return f"{now[-1]:g}; it was {before} before" if changed else f"{before} as before"


RECENT_OUTCOMES = 20
"""Runs of the past that tell whether a case fails now and then."""
FLAPPING = 4
"""Changes between pass and fail among them from which on one more is no news."""


def judge_outcome(series: Series, old: Sequence[Point], new: Sequence[Point]) -> Verdict:
    """Judge the newest outcome. It counts on any machine, but where the machine is another one, that is said.

    A case that could not be measured at all, since it is unsupported there, is missing, not broken.
    """
    now = new[-1]
    known = [point for point in old if passed(point) is not None]
    if passed(now) is None:
        return Verdict(series, "missing", f"there is nothing to measure: {_because(now)}")
    if not known:
        why = "passes" if passed(now) else f"fails: {_because(now)}"
        return Verdict(series, "new", why, new=_shown(now), evidence=Evidence(failing=_runs_failing(new)))
    verdict, why = _compared(known, now)
    return Verdict(
        series,
        verdict,
        why,
        old=_shown(known[-1]),
        new=_shown(now),
        candidate=verdict == "noisy",
        evidence=Evidence(
            commits_around(known, new),
            failing=_runs_failing([*known, *new]),
            others={"history": len(known)},
        ),
    )


def _runs_failing(points: Sequence[Point]) -> int:
    """How many runs in a row have failed, the newest one included."""
    known = (point for point in reversed(points) if passed(point) is not None)
    return len({point.run for point in takewhile(lambda point: not passed(point), known)})


def _shown(point: Point) -> float | None:
    """1 for a pass and 0 for a failure in any repetition, where the record has a number."""
    return None if point.value is None else float(bool(passed(point)))


def _because(point: Point) -> str:
    reason = point.info.get("reason", "")
    failed = sum(not value for value in point.repetitions)
    partly = (
        f" in {failed} of {len(point.repetitions)} repetitions" if 0 < failed < len(point.repetitions) else ""
    )
    return f"{outcome_word(point)}{partly}: {reason}" if reason else f"{outcome_word(point)}{partly}"


def _compared(old: Sequence[Point], now: Point) -> tuple[VerdictWord, str]:
    before = old[-1]
    if passed(now) and passed(before):
        return "unchanged", "passes as before"
    if passed(now):
        return "fixed", f"passes again; it failed since {_moment(_failing_since(old))} ({_because(before)})"
    if not passed(before):
        return "unchanged", f"still failing since {_moment(_failing_since(old))}: {_because(now)}"
    if (changes := _changes(old[-RECENT_OUTCOMES:])) >= FLAPPING:
        recent = min(len(old), RECENT_OUTCOMES)
        return "noisy", f"fails now and then, {changes} changes in its last {recent} runs: {_because(now)}"
    return "broken", _because(now) + _moved(before, now)


def _changes(points: Sequence[Point]) -> int:
    return sum(passed(before) != passed(now) for before, now in pairwise(points))


def _failing_since(old: Sequence[Point]) -> Point:
    """The first of the failures that the past ends with."""
    passes = [index for index, point in enumerate(old) if passed(point)]
    return old[passes[-1] + 1 if passes else 0]


def _moved(before: Point, now: Point) -> str:
    differs = differing_facts(before.fingerprint, now.fingerprint)
    return f" (changed, too: {'; '.join(differs[:3])})" if differs else ""


def _moment(point: Point) -> str:
    when = datetime.datetime.fromtimestamp(point.timestamp, datetime.timezone.utc)
    parts = [f"{when:%Y-%m-%d}" if point.timestamp else "", point.commit[:10]]
    return " ".join(part for part in parts if part) or "an earlier run"


def spoken_for(pairings: Iterable[SeriesPairing]) -> set[Series]:
    """The series that take no part in the judgement themselves, since the anchored one of their case can be judged."""
    anchored = (pairing for pairing in pairings if pairing.series.metric == ANCHORED)
    return {
        replace(pairing.series, metric=LATENCY)
        for pairing in anchored
        if len({point.run for point in pairing.old}) >= MIN_HISTORY
    }


def followed(pairings: Iterable[SeriesPairing], verdicts: Iterable[Verdict]) -> Sequence[Verdict]:
    """The verdicts on series that are spoken for, also where their own past is another machine's."""
    speaking = {verdict.series.case: verdict for verdict in verdicts if verdict.series.metric == ANCHORED}
    return [_follow_anchored(pairing, speaking[pairing.series.case]) for pairing in pairings]


def _follow_anchored(pairing: SeriesPairing, anchored: Verdict) -> Verdict:
    return replace(
        anchored,
        series=pairing.series,
        why=f"the anchored series speaks for it: {anchored.why}",
        old=pairing.old[-1].value if pairing.old else None,
        new=pairing.newest.value,
        evidence=replace(anchored.evidence, points=chart_points(pairing) if anchored.evidence.points else ()),
    )


RECENT_RUNS = 5
"""Runs of a group in one of which a series has to be for anybody to miss it."""


def lost_series(old: Points, new: Points, explained: Mapping[Series, str]) -> list[Verdict]:
    """The series of the past that belong to what was measured now, and have no point there.

    ``explained`` tells by case what is wrong with it. The rest may be another shard's.
    """
    measured = {series.group for series in new}
    past = {series: row for series, row in old.items() if series.group in measured}
    recent = _recent_runs(past)
    return [
        missing_verdict(series, explained.get(series.case) or _why_missing(series, new), row)
        for series, row in past.items()
        if series not in new and any(point.run in recent[series.group] for point in row)
    ]


def _why_missing(series: Series, new: Points) -> str:
    """The status of the case may tell."""
    status = new.get(replace(series, metric=STATUS))
    reason = not_measured(status[-1]).get(series.metric, "") if status else ""
    return f"not measured: {reason}" if reason else "not measured in this run"


def missing_verdict(series: Series, why: str, old: Iterable[Point] = ()) -> Verdict:
    """The verdict on a series without a number."""
    past = [point for point in old if point.value is not None]
    return Verdict(
        series,
        "missing",
        why,
        old=past[-1].value if past else None,
        evidence=Evidence(commits_around(past, ()), others={"history": len(past)}),
    )


def _recent_runs(points: Points) -> dict[SeriesGroup, set[str]]:
    points_of_group: dict[SeriesGroup, list[Point]] = defaultdict(list)
    for series, row in points.items():
        points_of_group[series.group].extend(row)
    return {group: set(runs_of(row)[-RECENT_RUNS:]) for group, row in points_of_group.items()}


SHOWN_DIFFERENCES = 3


def judge_all(old: Points, new: Points, policy: Mapping[str, config.Rule]) -> list[Verdict]:
    """The verdicts on the series of ``new``, and on those of the same jobs that are missing there, in their order.

    One that only says again what another says has none.
    """
    judged = without_restating(new)
    rules = {series: rule_of(series, old.get(series, ()), row[-1], policy) for series, row in judged.items()}
    outcomes = [
        judge_outcome(series, old.get(series, ()), row)
        for series, row in judged.items()
        if rules[series].kind == "outcome"
    ]
    trouble = _trouble(outcomes, judged)
    explained = {
        case: f"{verdict.series.metric} of its case: {verdict.why}" for case, verdict in trouble.items()
    }
    verdicts = [
        missing_verdict(verdict.series, explained[verdict.series.case])
        if verdict.verdict == "broken" and verdict is not trouble[verdict.series.case]
        else verdict
        for verdict in outcomes
    ]
    verdicts += lost_series(without_restating(old), new, explained)
    verdicts += _judge_measured(old, judged, rules, explained)
    return sorted(verdicts, key=lambda verdict: verdict.series)


def _trouble(outcomes: Iterable[Verdict], new: Points) -> dict[Series, Verdict]:
    """What is wrong with cases whose numbers are not there, or not to be believed; a status tells before all else."""
    trouble: dict[Series, Verdict] = {}
    for verdict in sorted(outcomes, key=lambda verdict: verdict.series.metric != STATUS):
        fails = verdict.series.metric == STATUS and not passed(new[verdict.series][-1])
        if fails or verdict.verdict == "broken":
            trouble.setdefault(verdict.series.case, verdict)
    return trouble


def _judge_measured(
    old: Points, new: Points, rules: Mapping[Series, MetricRule], explained: Mapping[Series, str]
) -> list[Verdict]:
    """The verdicts on the series of ``new`` that are no outcomes."""
    verdicts: list[Verdict] = []
    pairings: list[SeriesPairing] = []
    for series, row in new.items():
        if rules[series].kind == "outcome":
            continue
        past = old.get(series, ())
        if why := explained.get(series.case) or _no_number(series.metric, row, past, rules[series]):
            verdicts.append(missing_verdict(series, why, past))
        else:
            pairings.append(pair_with_past(series, past, row))
    return verdicts + _judge_paired(pairings, rules)


def _no_number(metric: str, new: Sequence[Point], old: Sequence[Point], rule: MetricRule) -> str:
    """Why a series has nothing to judge; empty where it has."""
    values = numbers(new)
    if not values:
        return f"the run has no number{' above zero' if is_positive(metric) else ''}"
    if rule.kind == "ratio" and values[-1] <= 0 and old:
        return f"{values[-1]:g} is no measurement of this metric"
    return ""


def _judge_paired(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    comparable = [pairing for pairing in pairings if pairing.old]
    counts = [pairing for pairing in comparable if rules[pairing.series].kind == "count"]
    silent = spoken_for(comparable)
    numbers = [
        pairing
        for pairing in comparable
        if pairing.series not in silent and rules[pairing.series].kind != "count"
    ]
    judged = beside_luck(judge_numbers(numbers, rules), numbers, rules)
    return [
        *(_without_past(pairing) for pairing in pairings if not pairing.old and pairing.series not in silent),
        *(judge_count(pairing, rules[pairing.series].direction) for pairing in counts),
        *judged,
        *followed([pairing for pairing in pairings if pairing.series in silent], judged),
    ]


def _without_past(pairing: SeriesPairing) -> Verdict:
    """New, or measured on another machine than ever before."""
    newest = pairing.newest
    if not pairing.differs:
        return Verdict(pairing.series, "new", "there is no past to compare it with", new=newest.value)
    shown = "; ".join(pairing.differs[:SHOWN_DIFFERENCES])
    more = len(pairing.differs) - SHOWN_DIFFERENCES
    why = f"{shown}; and {more} more differences" if more > 0 else shown
    said = f"{WORKLOAD_CHANGED}: " if workload_changed(pairing.differs) else "the past differs in "
    return Verdict(
        pairing.series,
        "not-comparable",
        f"{said}{why}",
        new=newest.value,
        evidence=Evidence(others={"differs": list(pairing.differs)}),
    )
