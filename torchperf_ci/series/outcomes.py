"""Whether a case passed or failed, and whether other work disturbed its machine during the measurement."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from torchperf_ci.document import counted
from torchperf_ci.metrics import LATENCY, STATUS, is_positive, kind_of
from torchperf_ci.records.record import parsed_json
from torchperf_ci.stats.effect import wide_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.series.points import Point, Points, RunResults, Series, SeriesGroup


_NOTHING_TO_MEASURE = frozenset(("unsupported", "skipped"))
"""Statuses of cases that neither passed nor failed."""
_OUTCOMES = frozenset((0.0, 1.0))


def passed(point: Point) -> bool | None:
    """Whether an outcome is a pass; None where it is unknown, or the metric is not an outcome.

    An outcome is 1 or 0 in each repetition, or a word that starts with ``pass`` if it is one, as in the accuracy of
    TorchInductor's benchmarks.
    """
    words = _outcome_words(point)
    if not _NOTHING_TO_MEASURE.isdisjoint(words):
        return None
    if point.repetitions:
        return min(point.repetitions) == 1 if _OUTCOMES.issuperset(point.repetitions) else None
    return all(word.startswith("pass") for word in words) if words else None


def outcome_word(point: Point) -> str:
    """Return the record's word for the outcome, such as ``oom``."""
    words = _outcome_words(point)
    bad = next((word for word in words if not word.startswith("pass")), None)
    return bad or next(iter(words), {True: "pass", False: "failed", None: "no outcome"}[passed(point)])


def outcomes_of_cases(points: Mapping[Series, Point]) -> Mapping[Series, Point]:
    """Return the outcome of each case of a run: a failure, else its status, else its accuracy."""
    known = [
        (passed(point) is False, series.metric == STATUS, series.case, point)
        for series, point in points.items()
        if series.metric == STATUS or (kind_of(series.metric) == "outcome" and passed(point) is not None)
    ]
    return {case: point for _, _, case, point in sorted(known, key=lambda row: row[:2])}


def outcome_text(point: Point) -> str:
    """Return the word for the outcome, how many repetitions failed where others passed, and the record's reason."""
    text, reason, count = outcome_word(point), point.info.get("reason", ""), len(point.repetitions)
    if 0 < (failed := point.repetitions.count(0)) < count:
        text += f" in {failed} of {count} repetitions"
    return f"{text}: {reason}" if reason else text


def worst_of_runs(points: Iterable[Point]) -> list[Point]:
    """Return one point for each run, oldest first: one that fails, else one that passes, else one that is unknown."""
    worst: dict[str, Point] = {}
    for point in points:
        alike = worst.get(point.run, point), point
        worst[point.run] = min(alike, key=lambda one: (False, True, None).index(passed(one)))
    return list(worst.values())


def results_of_runs(points: Points) -> RunResults:
    """Return one result of each series in each run: the worst outcome of several jobs, else the first result."""
    results: dict[str, dict[Series, Point]] = defaultdict(dict)
    for series, row in points.items():
        for point in worst_of_runs(row) if kind_of(series.metric) == "outcome" else row:
            results[point.run].setdefault(series, point)
    return results


def number_of(series: Series, point: Point) -> float | None:
    """Return the value of a point, or 1 or 0 for an outcome, also one of several repetitions or told as a word.

    A status that is neither a pass nor a failure is none, though it is recorded as 0.
    """
    if kind_of(series.metric) == "outcome" and (fine := passed(point)) is not None:
        return float(fine)
    return None if series.metric == STATUS else point.value


def why_without_number(series: Series, point: Point) -> str:
    """Return in words why a point has no number; empty if it has one."""
    if point.value is not None and number_of(series, point) is not None:
        return ""
    reason = point.info.get("reason", "")
    none = f"no number{' above zero' if is_positive(series.metric) else ''}"
    word = outcome_word(point) if passed(point) is not None or "status" in point.info else none
    return f"{word}: {reason}" if reason else word or series.metric


def not_measured(status: Point) -> Mapping[str, str]:
    """Return the metrics that a passed case has no value for, each with the reason."""
    reasons = parsed_json(status.info.get("not_measured", "{}"))
    return {str(metric): str(why) for metric, why in reasons.items()} if isinstance(reasons, dict) else {}


def why_absent(metric: str, status: Point | None) -> str:
    """Return why a case of this status has no result for a metric; empty if that is unknown."""
    if status is None:
        return ""
    return not_measured(status).get(metric) or ("" if passed(status) else outcome_text(status))


def without_failed(points: Points) -> Points:
    """Remove the values of cases that did not pass in the same run, and give their points the status and its reason.

    Failed benchmarks often report zeros, which must not be taken for measurements.
    """
    failing = {
        (series.case, point.run): point.info
        for series, row in points.items()
        if series.metric == STATUS
        for point in row
        if not passed(point)
    }
    if not failing:
        return points
    return {
        series: row if series.metric == STATUS else [_withheld(series, point, failing) for point in row]
        for series, row in points.items()
    }


def _withheld(series: Series, point: Point, failing: Mapping[tuple[Series, str], Mapping[str, str]]) -> Point:
    if (status := failing.get((series.case, point.run))) is None:
        return point
    return point._replace(value=None, repetitions=(), info={**point.info, **status})


def _outcome_words(point: Point) -> list[str]:
    """Return the status of torchperf's own records, else the values that are not numbers, as words."""
    if "status" in point.info:
        return [point.info["status"]]
    text = point.info.get("benchmark_values", "[]")
    values = parsed_json(text, otherwise=[text])
    return [str(value).lower() for value in (values if isinstance(values, list) else [values])]


DISTURBED_MARK = "⚠ "
"""Prefix of a note that readers must not overlook."""
MAX_DISTURBANCE_LENGTH = 300
"""Characters quoted from a record."""


def disturbances(points: Points) -> Sequence[str]:
    """Return a note for each machine that was disturbed, or whose processes differ widely, on the first such run."""
    runs: dict[tuple[SeriesGroup, str], dict[Series, Point]] = defaultdict(dict)
    for series, row in points.items():
        for point in row:
            if series.metric in (STATUS, LATENCY):
                runs[series.group, point.run][series] = point
    notes: dict[SeriesGroup, list[str]] = defaultdict(list)
    for (group, run), taken in runs.items():
        if words := "; ".join(_disturbances_of_run(taken)):
            notes[group].append(f"run {run}: {words}")
    return [
        f"{DISTURBED_MARK}disturbed during the measurement on {group.machine}, {first}"
        + (f"; and {counted(len(others), 'other run')}" if others else "")
        for group, (first, *others) in notes.items()
    ]


def _disturbances_of_run(taken: Mapping[Series, Point]) -> Iterator[str]:
    cases = [point for series, point in taken.items() if series.metric == STATUS]
    disturbed = [point.info["disturbed"] for point in cases if "disturbed" in point.info]
    if disturbed:
        yield f"{len(disturbed):,} of {counted(len(cases), 'case')}, such as: {disturbed[0][:MAX_DISTURBANCE_LENGTH]}"
    if apart := wide_spread(point.repetitions for series, point in taken.items() if series.metric == LATENCY):
        yield f"processes of a case differ by {apart:.0%}"
