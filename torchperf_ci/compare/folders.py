"""Two directories of records: weaker evidence, because whatever the machine did between two runs is in it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.compare.unpaired import judge_numbers
from torchperf_ci.errors import RecordsError
from torchperf_ci.metrics import STATUS
from torchperf_ci.series import outcome
from torchperf_ci.series.comparability import difference
from torchperf_ci.series.disturbance import disturbances
from torchperf_ci.series.outcome import not_measured, passed
from torchperf_ci.series.policy import suited
from torchperf_ci.series.records import points_of_records
from torchperf_ci.verdicts.verdict import Judgement, Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.compare.question import Policy
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.records import Collected
    from torchperf_ci.series.series import Point, Points, Series

WEAKER = (
    "records of two runs, not pairs: whatever the machine did between them looks like a change of the code; for proof "
    "compare the builds themselves"
)


def holds_records(path: Path) -> bool:
    """Whether there is a file that records come in."""
    return path.is_dir() and any(next(path.rglob(pattern), None) for pattern in ("*.json", "*.json.gz"))


def compare_folders(base: Path, head: Path, policy: Policy) -> Judgement:
    """The verdict on every series that either side has. Raises :class:`RecordsError` for a side without records."""
    old, new = _collected(base), _collected(head)
    among = len(old.points.keys() & new.points.keys())
    judged = partial(_judged, policy=policy, statuses=_statuses(new.points), among=among)
    verdicts = [
        judged(series, old.points.get(series, ()), new.points.get(series, ()))
        for series in dict.fromkeys([*new.points, *old.points])
    ]
    refused = len(old.refused) + len(new.refused)
    left_out = f"{refused} elements of the files are no records and were left out"
    disturbed = [*disturbances(old.points), *disturbances(new.points)]
    notes = [*disturbed, WEAKER, *([left_out] if refused else [])]
    return Judgement("compare", str(base), str(head), verdicts, (), notes)


def _collected(folder: Path) -> Collected:
    collected = points_of_records([folder])
    if not collected.records:
        reason = f": {collected.problems[0]}" if collected.problems else ""
        msg = f"{folder} holds no records{reason}"
        raise RecordsError(msg)
    return collected


def _statuses(points: Points) -> Mapping[Series, Point]:
    """The last status of each case."""
    return {series.case: row[-1] for series, row in points.items() if series.metric == STATUS}


def _judged(
    series: Series,
    old: Sequence[Point],
    new: Sequence[Point],
    policy: Policy,
    statuses: Mapping[Series, Point],
    among: int,
) -> Verdict:
    """``statuses`` are head's, by case; ``among`` is how many series both sides have."""
    if not old:
        return Verdict(series, "new", "base has no such record")
    if not new:
        return Verdict(series, "missing", _absent(series, statuses.get(series.case)))
    if differs := _differences(old, new):
        return Verdict(series, "not-comparable", f"measured under other conditions: {'; '.join(differs[:3])}")
    judged_by = suited(policy.rule(series.metric), old, new)
    if judged_by.kind == "outcome":
        return _judge_outcome(series, old[-1], new[-1])
    before, after = (_measurements(points, judged_by) for points in (old, new))
    if not before or not after:
        side, points = ("head", new) if before else ("base", old)
        return Verdict(series, "missing", f"{side} has no number{_lacking(points[-1], judged_by)}")
    return judge_numbers(series, before, after, judged_by, among)


def _measurements(points: Sequence[Point], judged_by: MetricRule) -> list[float]:
    """All values of one side; of a ratio, zero and less are none."""
    values = (value for point in points for value in point.repetitions)
    return [value for value in values if judged_by.kind != "ratio" or value > 0]


def _lacking(point: Point, judged_by: MetricRule) -> str:
    """Why: the case may have failed, or the harness has reported what is no measurement."""
    if "status" in point.info or "benchmark_values" in point.info:
        return f": {_because(point)}"
    return " above zero" if judged_by.kind == "ratio" else ""


def _absent(series: Series, status: Point | None) -> str:
    """Why head has no such record: the status of the case may tell."""
    if status is None:
        return "head has no such record"
    if not passed(status):
        return f"{STATUS} of its case: {_because(status)}"
    told = not_measured(status).get(series.metric)
    return f"not measured: {told}" if told else "head has no such record"


def _differences(old: Sequence[Point], new: Sequence[Point]) -> list[str]:
    reference = old[0].fingerprint
    return next((found for point in (*old, *new) if (found := difference(reference, point.fingerprint))), [])


def _judge_outcome(series: Series, old: Point, new: Point) -> Verdict:
    word: Word
    before, after = passed(old), passed(new)
    if after is None or before is None:
        return Verdict(
            series, "missing", f"there is nothing to measure: {_because(new if after is None else old)}"
        )
    if before == after:
        word, why = "unchanged", "passes on both" if after else "fails on both"
    elif after:
        word, why = "fixed", f"passes on head, on base {_because(old)}"
    else:
        word, why = "broken", f"passes on base, on head {_because(new)}"
    return Verdict(series, word, why, old=float(before), new=float(after))


def _because(point: Point) -> str:
    reason = point.info.get("reason", "")
    word = outcome.word(point)
    return f"{word}: {reason}" if reason else word
