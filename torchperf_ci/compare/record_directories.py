"""Compare two directories of records. This is weaker evidence than pairs: the machine may change between two runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.document import counted
from torchperf_ci.errors import RecordsError, UsageError
from torchperf_ci.metrics import STATUS, kind_of, last_digit
from torchperf_ci.records.files import SUFFIXES
from torchperf_ci.series.from_records import RecordedPoints, points_of_records
from torchperf_ci.series.outcomes import disturbances, outcome_text, passed, why_absent, worst_of_runs
from torchperf_ci.series.points import (
    WORKLOAD_CHANGED,
    differing_facts,
    machine_facts,
    without_restating,
    workload_changed,
)
from torchperf_ci.series.policy import MetricRule, recorded_direction, suited
from torchperf_ci.stats.effect_estimates import shift_effect
from torchperf_ci.stats.sequential_test import ALPHA
from torchperf_ci.verdicts.verdict import Evidence, Judgement, Verdict, VerdictWord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.compare.case_verdicts import ComparisonPolicy
    from torchperf_ci.series.points import Point, Series
    from torchperf_ci.stats.effect import Effect


MIN_VALUES = 5
"""Fewest values on each side to report a change."""
MIN_VALUES_ALIKE = 3
"""Fewest values on each side that, all alike, show that nothing changed. If head is slower by the smallest change that
matters, three and three are alike by chance in 5%, the ``BETA`` of pairs; two and two in 17%."""


@dataclass(frozen=True)
class _NumbersFinding:
    """Result of comparing two sets of values.

    ``sure``: there is a change. ``apart``: there seems to be one. ``none``: there is none that matters, which takes
    several values on each side, unless they are counts. ``rounded``: the change is sure but for the values' last digit.
    """

    direction: int
    apart: bool
    sure: bool
    none: bool
    effect: Effect | None = None
    rounded: bool = False


def judge_numbers(
    series: Series, old: Sequence[float], new: Sequence[float], rule: MetricRule, among: int
) -> Verdict:
    """Return the verdict on all values of two runs.

    Ratios, whose values are positive, are judged by a rank interval; other metrics have changed if all values of one
    side are beyond those of the other. The series is one of ``among``, which share the probability of a false alarm.
    """
    found = (
        _ratio(_thinned(old), _thinned(new), rule, among, last_digit(series.metric, [*old, *new]))
        if rule.kind == "ratio"
        else _difference(old, new, rule)
    )
    enough = min(len(old), len(new)) >= MIN_VALUES
    worse = found.direction * rule.worse > 0
    word: VerdictWord = "unchanged" if found.none else "noisy"
    if found.sure and enough and rule.direction:
        word = "regressed" if worse else "improved"
    return Verdict(
        series,
        word,
        _why_numbers(found, rule, old, new, enough=enough),
        effect=found.effect,
        old=median(old),
        new=median(new),
        candidate=worse and found.apart and not (found.sure and enough),
        evidence=Evidence(others={"old_values": list(old), "new_values": list(new)}),
    )


MAX_VALUES = 1000
"""Most values per side for the pairwise comparison: some tools repeat a microsecond a hundred thousand times."""


def _thinned(values: Sequence[float]) -> Sequence[float]:
    """Return at most ``MAX_VALUES`` values with the same quantiles."""
    if len(values) <= MAX_VALUES:
        return values
    return [float(value) for value in np.quantile(values, np.linspace(0, 1, MAX_VALUES))]


def _ratio(
    old: Sequence[float], new: Sequence[float], rule: MetricRule, among: int, unit: float
) -> _NumbersFinding:
    before, after = np.log(old), np.log(new)
    rounding = unit / 2 * (1 / median(old) + 1 / median(new))
    strict = shift_effect(before, after, 1 - 2 * ALPHA / among)
    effect, sure = shift_effect(before, after).widened(rounding), strict.widened(rounding)
    most = 1 + rule.min_effect
    large = not 1 / most < effect.ratio < most
    beyond = min(new) > max(old) * most or min(old) > max(new) * most
    is_alike = max(max(new) / min(old), max(old) / min(new)) < most
    return _NumbersFinding(
        direction=int(np.sign(effect.ratio - 1)),
        apart=beyond or (large and not effect.low <= 1 <= effect.high),
        sure=large and not sure.low <= 1 <= sure.high,
        none=_are_several(old, new) and (is_alike or (1 / most < effect.low and effect.high < most)),
        effect=effect,
        rounded=large and not strict.low <= 1 <= strict.high,
    )


def _difference(old: Sequence[float], new: Sequence[float], rule: MetricRule) -> _NumbersFinding:
    """Compare counts, where any difference is a change, or amounts, where only a difference that matters is."""
    least = 0.0 if rule.kind == "count" else max(rule.min_amount, rule.min_effect * abs(median(old)))
    above, below = min(new) - max(old) > least, min(old) - max(new) > least
    changed = above or below
    difference = max(max(new) - min(old), max(old) - min(new))
    if min(len(old), len(new)) >= MIN_VALUES:  # some of them may be off
        difference = abs(median(new) - median(old))
    none = difference <= least and (rule.kind == "count" or _are_several(old, new))
    return _NumbersFinding(int(above) - int(below), apart=changed, sure=changed, none=none)


def _are_several(old: Sequence[float], new: Sequence[float]) -> bool:
    """Whether there are enough values on each side to show how much they vary."""
    return min(len(old), len(new)) >= MIN_VALUES_ALIKE


def _why_numbers(
    found: _NumbersFinding, rule: MetricRule, old: Sequence[float], new: Sequence[float], *, enough: bool
) -> str:
    values = f"{counted(len(old), 'value')} before and {len(new)} now"
    if found.none:
        return f"{values} agree"
    if not found.apart:
        return f"{values} {'vary too much to tell' if _are_several(old, new) else 'do not show how much they vary'}"
    if not rule.direction:
        return f"{values} differ, but nothing says which way is better: give it a direction in the policy"
    if not enough:
        return f"{values} differ; calling that a change takes {MIN_VALUES} on each side"
    if found.sure:
        return f"{values} differ"
    if found.rounded:
        return f"{values} differ, by no more than their last digit may hide: record more digits"
    return f"{values} differ, which may be chance in one of so many series"


WEAKER = (
    "records of two separate runs, not pairs: a change of the machine between them looks like a change of the code; "
    "for proof, compare the builds themselves"
)


ROUNDS = (
    "rounds of one process count as one value, because two processes of the same code differ: measure each side in "
    f"{MIN_VALUES} processes or more, with a file of results from each"
)


def holds_records(path: Path) -> bool:
    """Whether the path is a directory that contains a file of the kind that records are kept in."""
    return path.is_dir() and any(next(path.rglob(f"*{suffix}"), None) for suffix in SUFFIXES)


def compare_directories(base: Path, head: Path, policy: ComparisonPolicy, format_name: str = "") -> Judgement:
    """Return the verdict on every series of either side, except series that only restate another one.

    ``format_name`` is the format of other tools' results if their content does not identify it. Raises
    :class:`RecordsError` for a side without records, and :class:`UsageError` if one contains files of the other.
    """
    old, new = _in_one_repository(_collected(base, format_name), _collected(head, format_name))
    same = ["base and head are the same records"] if old.points == new.points else []
    files = [{file.resolve() for file in side.files} for side in (old, new)]
    if not same and files[0] & files[1]:
        msg = f"--base {base} and --head {head} hold some of the same files: give two folders, neither in the other"
        raise UsageError(msg)
    series_of_both = dict.fromkeys([*without_restating(new.points), *without_restating(old.points)])
    among = sum(series in old.points and series in new.points for series in series_of_both)
    statuses = {series.case: row[-1] for series, row in new.points.items() if series.metric == STATUS}
    judged = partial(_judge_series, policy=policy, statuses=statuses, among=among)
    verdicts = [
        judged(series, old.points.get(series, ()), new.points.get(series, ())) for series in series_of_both
    ]
    refused = len(old.refused) + len(new.refused)
    left_out = f"{refused} elements of the files are not records and were left out"
    disturbed = [*disturbances(old.points), *disturbances(new.points)]
    how = [*_machine_note(old, new), WEAKER, *_rounds_note(old, new)]
    notes = [*disturbed, *same, *how, *([left_out] if refused else [])]
    return Judgement("compare", str(base), str(head), verdicts, (), notes)


def _collected(folder: Path, format_name: str) -> RecordedPoints:
    collected = points_of_records([folder], format_name)
    if not collected.records:
        reason = f": {collected.problems[0]}" if collected.problems else ""
        raise RecordsError(f"{folder} holds no records{reason}")
    return collected


def _rounds_note(old: RecordedPoints, new: RecordedPoints) -> list[str]:
    """How rounds of one process count, if there are any."""
    points = (point for side in (old, new) for row in side.points.values() for point in row)
    return [ROUNDS] if any(len(point.independent) < len(point.repetitions) for point in points) else []


def _machine_note(old: RecordedPoints, new: RecordedPoints) -> list[str]:
    """Why nothing is on both sides, if these are runs of a runner that is another machine each time."""
    base, head = ({series.group.machine for series in side.points} for side in (old, new))
    if not base.isdisjoint(head):
        return []
    measured = f"base on {', '.join(sorted(base))}, head on {', '.join(sorted(head))}"
    return [f"the two were measured on different machines, which are not compared: {measured}"]


def _in_one_repository(old: RecordedPoints, new: RecordedPoints) -> tuple[RecordedPoints, RecordedPoints]:
    """Drop the repository from both sides if one names none, because it was measured by hand and not in a job."""
    repos = [{series.repo for series in side.points} for side in (old, new)]
    if {""} not in repos or max(map(len, repos)) > 1:
        return old, new
    without = [{replace(series, repo=""): row for series, row in side.points.items()} for side in (old, new)]
    return replace(old, points=without[0]), replace(new, points=without[1])


def _judge_series(
    series: Series,
    old: Sequence[Point],
    new: Sequence[Point],
    policy: ComparisonPolicy,
    statuses: Mapping[Series, Point],
    among: int,
) -> Verdict:
    """Judge one series. ``statuses`` are head's last ones, by case; ``among`` series are on both sides."""
    if not old:
        return _new(series, new[-1])
    if not new:
        reason = why_absent(series.metric, statuses.get(series.case))
        return Verdict(series, "missing", f"not measured: {reason}" if reason else "head has no such record")
    judged_by = suited(policy.rule(series.metric, recorded_direction(new)), old, new)
    if judged_by.kind == "outcome":
        return _judge_outcome(series, old, new)
    if differs := _differences(old, new):
        reason = WORKLOAD_CHANGED if workload_changed(differs) else "measured under different conditions"
        return Verdict(series, "not-comparable", f"{reason}: {'; '.join(differs[:3])}")
    before, after = (_measurements(points, judged_by) for points in (old, new))
    if not before or not after:
        side, points = ("head", new) if before else ("base", old)
        return Verdict(series, "missing", f"{side} has no number{_lacking(points[-1], judged_by)}")
    verdict = judge_numbers(series, before, after, judged_by, among)
    how = replace(verdict.evidence, batch_size=new[-1].batch_size, threads=new[-1].threads)
    return replace(verdict, evidence=how)


def _new(series: Series, point: Point) -> Verdict:
    """Return the verdict on a series that only head has, which also reports a failure there."""
    if kind_of(series.metric) == "outcome" and passed(point) is False:
        why = f"fails, and base has no such record: {outcome_text(point)}"
        return Verdict(series, "new", why, new=0.0, evidence=Evidence(failing=1))
    return Verdict(series, "new", "base has no such record", new=point.value)


def _measurements(points: Sequence[Point], judged_by: MetricRule) -> list[float]:
    """Return all valid values of one side, one for each process; for a ratio only positive ones."""
    values = (value for point in points for value in point.independent)
    return [value for value in values if judged_by.kind != "ratio" or value > 0]


def _lacking(point: Point, judged_by: MetricRule) -> str:
    """Return why there is no number: the case failed, or the harness reported invalid values."""
    if "status" in point.info or "benchmark_values" in point.info:
        return f": {outcome_text(point)}"
    return " above zero" if judged_by.kind == "ratio" else ""


def _differences(old: Sequence[Point], new: Sequence[Point]) -> list[str]:
    found = (differing_facts(old[0].fingerprint, point.fingerprint) for point in (*old, *new))
    return next(filter(None, found), [])


def _judge_outcome(series: Series, base: Sequence[Point], head: Sequence[Point]) -> Verdict:
    """Judge the last outcome of each side, whatever its conditions: a case that fails early knows few of its own."""
    word: VerdictWord
    old, new = _last_outcome(base), _last_outcome(head)
    before, after = passed(old), passed(new)
    if after is None or before is None:
        why = f"nothing to measure: {outcome_text(new if after is None else old)}"
        return Verdict(series, "missing", why, candidate=bool(before))
    if before == after:
        word, why = "unchanged", "passes on both" if after else "fails on both"
    elif after:
        word, why = "fixed", f"passes on head, but not on base: {outcome_text(old)}"
    else:
        word, why = "broken", f"passes on base, but not on head: {outcome_text(new)}"
    moved = differing_facts(*(machine_facts(point.fingerprint) for point in (old, new)))
    also = f" (also changed: {'; '.join(moved[:3])})" if moved and before != after else ""
    why += also + _mixed("base", base) + _mixed("head", head)
    return Verdict(series, word, why, old=float(before), new=float(after))


def _last_outcome(points: Sequence[Point]) -> Point:
    """Return the worst outcome of the last run, which may be of several jobs."""
    return worst_of_runs(point for point in points if point.run == points[-1].run)[0]


def _mixed(side: str, points: Sequence[Point]) -> str:
    """Return in how many of its records a side fails if it does not in all of them."""
    failing = sum(passed(point) is False for point in points)
    return f"; {side} fails in {failing} of its {len(points)} records" if 0 < failing < len(points) else ""
