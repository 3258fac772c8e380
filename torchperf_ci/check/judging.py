"""New points against the past: a verdict for every series that there is anything to say of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.check.anchored import followed, spoken_for
from torchperf_ci.check.comparable import Pairing, pair
from torchperf_ci.check.counts import judge_count
from torchperf_ci.check.luck import beside_luck
from torchperf_ci.check.missing import lost_series, missing
from torchperf_ci.check.numbers import judge_numbers
from torchperf_ci.check.outcomes import judge_outcome
from torchperf_ci.check.rules import rule_of
from torchperf_ci.metrics import STATUS, is_positive
from torchperf_ci.series.outcome import passed
from torchperf_ci.series.policy import numbers
from torchperf_ci.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Point, Points, Series

SHOWN_DIFFERENCES = 3


def judge_all(old: Points, new: Points, policy: Mapping[str, config.Rule]) -> list[Verdict]:
    """The verdicts on the series of ``new``, and on those of the same jobs that are missing there, in their order."""
    rules = {series: rule_of(series, old.get(series, ()), row[-1], policy) for series, row in new.items()}
    outcomes = [
        judge_outcome(series, old.get(series, ()), row)
        for series, row in new.items()
        if rules[series].kind == "outcome"
    ]
    trouble = _trouble(outcomes, new)
    explained = {
        case: f"{verdict.series.metric} of its case: {verdict.why}" for case, verdict in trouble.items()
    }
    verdicts = [
        missing(verdict.series, explained[verdict.series.case])
        if verdict.verdict == "broken" and verdict is not trouble[verdict.series.case]
        else verdict
        for verdict in outcomes
    ]
    verdicts += lost_series(old, new, explained)
    verdicts += _measured(old, new, rules, explained)
    return sorted(verdicts, key=lambda verdict: verdict.series)


def _trouble(outcomes: Iterable[Verdict], new: Points) -> dict[Series, Verdict]:
    """What is wrong with cases whose numbers are not there, or not to be believed; a status tells before all else."""
    found: dict[Series, Verdict] = {}
    for verdict in sorted(outcomes, key=lambda verdict: verdict.series.metric != STATUS):
        fails = verdict.series.metric == STATUS and not passed(new[verdict.series][-1])
        if fails or verdict.verdict == "broken":
            found.setdefault(verdict.series.case, verdict)
    return found


def _measured(
    old: Points, new: Points, rules: Mapping[Series, MetricRule], explained: Mapping[Series, str]
) -> list[Verdict]:
    """The verdicts on the series of ``new`` that are no outcomes."""
    verdicts: list[Verdict] = []
    pairings: list[Pairing] = []
    for series, row in new.items():
        if rules[series].kind == "outcome":
            continue
        past = old.get(series, ())
        if why := explained.get(series.case) or _no_number(series.metric, row, past, rules[series]):
            verdicts.append(missing(series, why, past))
        else:
            pairings.append(pair(series, past, row))
    return verdicts + _paired(pairings, rules)


def _no_number(metric: str, new: Sequence[Point], old: Sequence[Point], rule: MetricRule) -> str:
    """Why a series has nothing to judge; empty where it has."""
    values = numbers(new)
    if not values:
        return f"the run has no number{' above zero' if is_positive(metric) else ''}"
    if rule.kind == "ratio" and values[-1] <= 0 and old:
        return f"{values[-1]:g} is no measurement of this metric"
    return ""


def _paired(pairings: Sequence[Pairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    comparable = [one for one in pairings if one.old]
    counts = [one for one in comparable if rules[one.series].kind == "count"]
    silent = spoken_for(comparable)
    numbers = [one for one in comparable if one.series not in silent and rules[one.series].kind != "count"]
    judged = beside_luck(judge_numbers(numbers, rules), numbers, rules)
    return [
        *(_without_past(one) for one in pairings if not one.old and one.series not in silent),
        *(judge_count(one, rules[one.series].direction) for one in counts),
        *judged,
        *followed([one for one in pairings if one.series in silent], judged, rules),
    ]


def _without_past(pairing: Pairing) -> Verdict:
    """New, or measured on another machine than ever before."""
    newest = pairing.newest
    if not pairing.differs:
        return Verdict(pairing.series, "new", "there is no past to compare it with", new=newest.value)
    shown = "; ".join(pairing.differs[:SHOWN_DIFFERENCES])
    more = len(pairing.differs) - SHOWN_DIFFERENCES
    why = f"{shown}; and {more} more differences" if more > 0 else shown
    return Verdict(
        pairing.series,
        "not-comparable",
        f"the past differs in {why}",
        new=newest.value,
        evidence={"differs": list(pairing.differs)},
    )
