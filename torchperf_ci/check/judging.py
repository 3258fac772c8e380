"""Judge new points against the past: return a verdict for every series, depending on the kind of its metric."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, takewhile
from math import inf
from typing import TYPE_CHECKING

from torchperf_ci.check.missing_series import lost_series, missing_verdict
from torchperf_ci.check.numbers import judge_numbers, with_build_variance
from torchperf_ci.check.pairing import SeriesPairing, chart_points, commits_around, pair_with_past
from torchperf_ci.document import day_of, first_of, range_text
from torchperf_ci.metrics import ANCHORED, LATENCY, STATUS, is_positive, kind_of
from torchperf_ci.series.outcomes import outcome_text, passed, worst_of_runs
from torchperf_ci.series.points import (
    WORKLOAD_CHANGED,
    differing_facts,
    machine_facts,
    restating,
    without_restating,
    workload_changed,
)
from torchperf_ci.series.policy import MetricRule, numbers, rule_of_points, suited
from torchperf_ci.stats.gate import SINGLE_RUN_HISTORY
from torchperf_ci.stats.past import MIN_HISTORY
from torchperf_ci.verdicts.verdict import Evidence, Verdict, VerdictWord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.config import Rule
    from torchperf_ci.series.points import Point, Points, Series


RECENT_COUNTS = 5
"""How many of the last runs a new count is compared with, and how many runs say that it or an outcome has changed."""
RECENT_FLICKER = 40
"""How many of the last runs are used to see whether a count comes and goes."""
RUNS_TO_SETTLE = 3
"""How many runs in a row a count that comes and goes has to stay to have changed, and one that changed to be back."""


def judge_count(pairing: SeriesPairing, rule: MetricRule) -> Verdict:
    """Judge a count: it has changed if all runs since a recent one are outside the range of the runs before.

    Some nights after a change thus say the same, and continue its bisection. A count that has come and gone before, or
    has too short a past to tell, has to stay for :data:`RUNS_TO_SETTLE` runs; until then it is a candidate. An accuracy
    that is 0 now is a failure, which proves itself.
    """
    points = [*pairing.old, *pairing.new]
    values = numbers(points)
    begin, change = _last_change(points, len(pairing.old), rule)
    word, why = change, ""
    comes_and_goes = _comes_and_goes(values[:begin], values[begin:])
    may_come_and_go = begin < SINGLE_RUN_HISTORY and kind_of(pairing.series.metric) == "count"
    if comes_and_goes or may_come_and_go:
        begin_of_stay = max(0, min(begin, len(values) - RUNS_TO_SETTLE))
        stay = _beyond(values[:begin_of_stay], values[begin_of_stay:], rule)
        if stay != "unchanged":
            word, begin = stay, begin_of_stay
        elif change != "unchanged":
            often = f", but it came and went in the last {RECENT_FLICKER} runs"
            few = f"; after fewer than {SINGLE_RUN_HISTORY} runs, {RUNS_TO_SETTLE} in a row are proof"
            word, why = "noisy", often if comes_and_goes else few
    before = _compared(values[:begin])
    runs = len({point.run for point in points[begin:]})
    new = range_text(values[begin:]) + (f" in the last {runs} runs" if runs > 1 else "")
    return Verdict(
        pairing.series,
        word,
        f"{range_text(before)}, as before"
        if word == "unchanged"
        else f"{new}, previously {range_text(before)}{why}",
        old=before[-1],
        new=values[-1],
        candidate=word == "noisy" and change == "regressed",
        evidence=Evidence(
            commits_around(points[:begin], points[begin:]),
            chart_points(pairing) if "regressed" in (word, change) else (),
            batch_size=pairing.newest.batch_size,
            threads=pairing.newest.threads,
            machine=pairing.machine,
            others={"history": len(pairing.old), "runs": len({point.run for point in pairing.new})},
        ),
    )


def _last_change(points: Sequence[Point], past: int, rule: MetricRule) -> tuple[int, VerdictWord]:
    """Return from which run on they are worse or better than before: the first new one, one of the past's last, or
    a later new one."""
    values = numbers(points)
    recent = range(past - 1, max(past - RECENT_COUNTS, 0), -1)
    for begin in (past, *recent, *range(past + 1, len(points))):
        is_of_one_run = points[begin - 1].run == points[begin].run
        word = _beyond(values[:begin], values[begin:], rule)
        if word != "unchanged" and not is_of_one_run:
            return begin, word
    return past, "unchanged"


def _beyond(past: Sequence[float], now: Sequence[float], rule: MetricRule) -> VerdictWord:
    """Return whether all new counts are worse, or better, than the last ones of the past, if there are any."""
    recent = _compared(past)
    above, below = min(now) > max(recent, default=inf), max(now) < min(recent, default=-inf)
    return rule.word(above=above, below=below) or "unchanged"


def _compared(past: Sequence[float]) -> Sequence[float]:
    """Return the last counts of the past, to which new ones are compared; fewer if it changed only once, or is back.

    Such a count does not flicker: what made it worse is fixed, and may be back a few nights later.
    """
    flickers = _changes(past[-RECENT_FLICKER:]) > 2
    return past[-(RECENT_COUNTS if flickers else RUNS_TO_SETTLE) :]


def _changes(values: Iterable[float | bool | None]) -> int:
    return sum(before != after for before, after in pairwise(values))


def _comes_and_goes(past: Sequence[float], now: Sequence[float]) -> bool:
    """Whether counts such as the new ones were among the last of the past, which changed there and back."""
    recent = past[-RECENT_FLICKER:]
    return min(recent) <= min(now) and max(now) <= max(recent) and _changes(recent) > 1


RECENT_OUTCOMES = 20
"""How many of the last runs are used to see whether a case fails intermittently."""
FLAPPING = 4
"""Number of changes between pass and fail among these runs from which on a failure counts as intermittent."""


def judge_outcome(series: Series, old: Sequence[Point], new: Sequence[Point]) -> Verdict:
    """Judge the newest outcome. Outcomes are compared across machines, which is mentioned, unless these take turns.

    A case that is unsupported or skipped, so that there was nothing to measure, is missing, not broken, and a candidate
    if it has passed lately. One that several jobs of a run have measured fails if it fails in any of them.
    """
    new = worst_of_runs(new)
    now = new[-1]
    if passed(now) is None:
        return _judge_unmeasured(series, [*_unless_in_turns(worst_of_runs(old), now), *new])
    known = [point for point in worst_of_runs(old) if passed(point) is not None]
    how = Evidence(failing=_runs_failing(new), batch_size=now.batch_size, threads=now.threads)
    if not known:
        why = "passes" if passed(now) else f"fails: {outcome_text(now)}"
        return Verdict(series, "new", why, new=_outcome_value(now), evidence=how)
    known = _unless_in_turns(known, now)
    outcomes = [*known, *(point for point in new if passed(point) is not None)]
    failing = _runs_failing(outcomes)
    begin = len(outcomes) - failing if failing else len(known)
    before, after = outcomes[:begin], outcomes[begin:]
    verdict, why = _judge_failures(before, after, len(known)) if failing else _judge_pass(known)
    return Verdict(
        series,
        verdict,
        why,
        old=_outcome_value((known if verdict == "unchanged" else before)[-1]),
        new=_outcome_value(now),
        candidate=verdict == "noisy" and not passed(now),
        evidence=replace(
            how, commits=commits_around(before, after), failing=failing, others={"history": len(known)}
        ),
    )


def _judge_unmeasured(series: Series, runs: Sequence[Point]) -> Verdict:
    """Judge a case that the last of the ``runs``, with one point each, found nothing to measure in."""
    since = [*takewhile(lambda point: not passed(point), reversed(runs))][::-1]
    before, why = runs[: -len(since)], f"nothing to measure: {outcome_text(runs[-1])}"
    if not before or len(since) > RECENT_COUNTS:
        return Verdict(series, "missing", why)
    why += f"; last passed: {_day_and_commit(before[-1])}"
    evidence = Evidence(commits_around(before, since))
    return Verdict(series, "missing", why, old=1.0, candidate=True, evidence=evidence)


def _unless_in_turns(old: list[Point], now: Point) -> list[Point]:
    """Return the outcomes on the machine of ``now`` if it has lately taken turns with others, else all.

    A case that fails early knows few facts of its own, so only those of the machine count.
    """
    here = machine_facts(now.fingerprint)
    is_own = [machine_facts(point.fingerprint) == here for point in old]
    if any(own and not after for own, after in pairwise(is_own[-RECENT_OUTCOMES:])):
        return [point for point, own in zip(old, is_own, strict=True) if own]
    return old


def _runs_failing(points: Sequence[Point]) -> int:
    """Return how many consecutive runs, with one point each, have failed, up to and including the newest one."""
    known = (point for point in reversed(points) if passed(point) is not None)
    return len([*takewhile(lambda point: not passed(point), known)])


def _outcome_value(point: Point) -> float:
    """Return 1 for a pass, also one in words, and 0 for a failure in any repetition."""
    return float(bool(passed(point)))


def _judge_failures(before: Sequence[Point], failures: Sequence[Point], past: int) -> tuple[VerdictWord, str]:
    """Judge the failures in a row, up to the newest run, by the runs before them; ``past`` of all these are not new."""
    first, now = failures[0], failures[-1]
    since = f"still failing since {_day_and_commit(first)}: " if past > len(before) else ""
    if past - len(before) >= RECENT_COUNTS or not before:
        return "unchanged", since + outcome_text(now)
    if intermittent := _intermittent(before):
        return "noisy", f"{intermittent}: {outcome_text(now)}"
    differs = differing_facts(*(machine_facts(point.fingerprint) for point in (before[-1], first)))
    moved = f" (also changed: {'; '.join(differs[:3])})" if differs else ""
    return "broken", since + outcome_text(now) + moved


def _judge_pass(old: Sequence[Point]) -> tuple[VerdictWord, str]:
    """Judge a run that passed by those before."""
    if not (failing := _runs_failing(old)):
        return "unchanged", "passes as before"
    if intermittent := _intermittent(old):
        return "noisy", f"passes, but {intermittent}"
    why = f"passes again after failing since {_day_and_commit(old[-failing])} ({outcome_text(old[-1])})"
    return "fixed", why


def _intermittent(old: Sequence[Point]) -> str:
    """Say how often a case has changed sides in its last runs; empty if that is not often."""
    recent = old[-RECENT_OUTCOMES:]
    changes = _changes(map(passed, recent))
    many = f"fails intermittently, {changes} changes in its last {len(recent)} runs"
    return many if changes >= FLAPPING else ""


def _day_and_commit(point: Point) -> str:
    return " ".join(filter(None, (day_of(point.timestamp), point.commit[:10]))) or "an earlier run"


def judged_by_anchor(pairings: Iterable[SeriesPairing]) -> set[Series]:
    """Return latency series that are not judged themselves because the anchored series of their case can be judged."""
    anchored = (pairing for pairing in pairings if pairing.series.metric == ANCHORED)
    return {
        replace(pairing.series, metric=LATENCY)
        for pairing in anchored
        if len({point.run for point in pairing.old}) >= MIN_HISTORY
    }


def _follow_anchored(pairing: SeriesPairing, anchored: Verdict) -> Verdict:
    """Return the verdict for a series from that of its anchored series, even if its own past is of another machine."""
    return replace(
        anchored,
        series=pairing.series,
        why=f"follows the anchored series: {anchored.why}",
        old=pairing.old[-1].value if pairing.old else None,
        new=pairing.newest.value,
        evidence=replace(anchored.evidence, points=chart_points(pairing) if anchored.evidence.points else ()),
    )


SHOWN_DIFFERENCES = 3


def judge_all(old: Points, new: Points, policy: Mapping[str, Rule]) -> list[Verdict]:
    """Return the verdicts on all series of ``new``, and on the missing series of the same groups, sorted by series.

    A series that only restates another one gets no verdict, unless it is the only one with a past yet.
    """
    known = {series for series, row in old.items() if len(row) >= MIN_HISTORY}
    again = restating(new) & (restating(known) | (new.keys() - known))
    judged = {series: row for series, row in new.items() if series not in again}
    rules = {
        series: rule_of_points(series.metric, old.get(series, ()), policy, row[-1:])
        for series, row in judged.items()
    }
    outcomes = [
        judge_outcome(series, old.get(series, ()), row)
        for series, row in judged.items()
        if rules[series].kind == "outcome"
    ]
    case_failures = _case_failures(outcomes)
    explained = {
        case: f"{verdict.series.metric} of its case: {verdict.why}" for case, verdict in case_failures.items()
    }
    verdicts = [
        missing_verdict(verdict.series, explained[verdict.series.case])
        if verdict.verdict == "broken" and verdict is not case_failures[verdict.series.case]
        else verdict
        for verdict in outcomes
    ]
    verdicts += lost_series(without_restating(old), new, explained)
    verdicts += _judge_measured(old, judged, rules, explained)
    return sorted(verdicts, key=lambda verdict: verdict.series)


def _case_failures(outcomes: Iterable[Verdict]) -> dict[Series, Verdict]:
    """Return, by case, the verdict on what makes its numbers missing or unreliable; a status takes precedence."""
    case_failures: dict[Series, Verdict] = {}
    for verdict in sorted(outcomes, key=lambda verdict: verdict.series.metric != STATUS):
        fails = verdict.series.metric == STATUS and not verdict.new
        if fails or verdict.verdict == "broken":
            case_failures.setdefault(verdict.series.case, verdict)
    return case_failures


def _judge_measured(
    old: Points, new: Points, rules: Mapping[Series, MetricRule], explained: Mapping[Series, str]
) -> list[Verdict]:
    """Return the verdicts on those series of ``new`` that are not outcomes."""
    verdicts: list[Verdict] = []
    pairings: list[SeriesPairing] = []
    for series, row in new.items():
        if rules[series].kind == "outcome":
            continue
        past = old.get(series, ())
        pairing = pair_with_past(series, past, row) if numbers(row) else None
        what = "number above zero" if is_positive(series.metric) else "number"
        if why := explained.get(series.case) or ("" if pairing else f"the run has no {what}"):
            verdicts.append(missing_verdict(series, why, past))
        elif pairing:
            pairings.append(pairing)
    suited_rules = {
        pairing.series: suited(rules[pairing.series], pairing.old, pairing.new) for pairing in pairings
    }
    valid = [_with_valid_values(pairing, suited_rules[pairing.series]) for pairing in pairings]
    return verdicts + _judge_paired(valid, suited_rules)


def _with_valid_values(pairing: SeriesPairing, rule: MetricRule) -> SeriesPairing:
    """Return the pairing; that of a ratio without zero and negative values, which are no measurements of one."""
    if rule.kind != "ratio" or not pairing.old:
        return pairing
    old, new = (
        [point for point in points if (point.value or 0.0) > 0] for points in (pairing.old, pairing.new)
    )
    return replace(pairing, old=old, new=new)


def _judge_paired(pairings: Sequence[SeriesPairing], rules: Mapping[Series, MetricRule]) -> list[Verdict]:
    following = judged_by_anchor(pairing for pairing in pairings if pairing.old)
    own = [pairing for pairing in pairings if pairing.series not in following]
    comparable = [pairing for pairing in own if pairing.old]
    counts = [pairing for pairing in comparable if rules[pairing.series].kind == "count"]
    numbers = [pairing for pairing in comparable if rules[pairing.series].kind != "count"]
    judged = with_build_variance(judge_numbers(numbers, rules), numbers, rules)
    anchored = {verdict.series.case: verdict for verdict in judged if verdict.series.metric == ANCHORED}
    return [
        *(_without_past(pairing) for pairing in own if not pairing.old),
        *(judge_count(pairing, rules[pairing.series]) for pairing in counts),
        *judged,
        *(
            _follow_anchored(pairing, anchored[pairing.series.case])
            for pairing in pairings
            if pairing.series in following
        ),
    ]


def _without_past(pairing: SeriesPairing) -> Verdict:
    """Return the verdict on a series without a comparable past: it is new, or measured under new conditions."""
    newest = pairing.newest
    if not pairing.elsewhere:
        return Verdict(pairing.series, "new", "no earlier run to compare it with", new=newest.value)
    differs = differing_facts(pairing.elsewhere[-1].fingerprint, newest.fingerprint)
    why = "; ".join(first_of(differs, SHOWN_DIFFERENCES, "more differences"))
    intro = f"{WORKLOAD_CHANGED}: " if workload_changed(differs) else "earlier runs differ in "
    return Verdict(
        pairing.series,
        "not-comparable",
        f"{intro}{why}",
        new=newest.value,
        evidence=Evidence(commits_around(pairing.elsewhere[:1], pairing.new), others={"differs": differs}),
    )
