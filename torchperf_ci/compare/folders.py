"""Two directories of records: weaker evidence, because whatever the machine did between two runs is in it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.compare.unpaired import judge_numbers
from torchperf_ci.errors import RecordsError
from torchperf_ci.series import outcome
from torchperf_ci.series.comparability import difference
from torchperf_ci.series.outcome import passed
from torchperf_ci.series.records import points_of_records
from torchperf_ci.verdicts.verdict import Judgement, Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchperf_ci.compare.question import Policy
    from torchperf_ci.series.records import Collected
    from torchperf_ci.series.series import Point, Series

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
    judged = partial(_judged, policy=policy)
    verdicts = [
        judged(series, old.points.get(series, ()), new.points.get(series, ()))
        for series in dict.fromkeys([*new.points, *old.points])
    ]
    refused = len(old.refused) + len(new.refused)
    left_out = f"{refused} elements of the files are no records and were left out"
    return Judgement(
        "compare", str(base), str(head), verdicts, (), [WEAKER, *([left_out] if refused else [])]
    )


def _collected(folder: Path) -> Collected:
    collected = points_of_records([folder])
    if not collected.records:
        reason = f": {collected.problems[0]}" if collected.problems else ""
        msg = f"{folder} holds no records{reason}"
        raise RecordsError(msg)
    return collected


def _judged(series: Series, old: Sequence[Point], new: Sequence[Point], policy: Policy) -> Verdict:
    if not old:
        return Verdict(series, "new", "base has no such record")
    if not new:
        return Verdict(series, "missing", "head has no such record")
    if differs := _differences(old, new):
        return Verdict(series, "not-comparable", f"measured under other conditions: {'; '.join(differs[:3])}")
    judged_by = policy.rule(series.metric)
    if judged_by.kind == "outcome":
        return _judge_outcome(series, old[-1], new[-1])
    before, after = ([value for point in points for value in point.repetitions] for points in (old, new))
    if not before or not after:
        side, points = ("head", new) if before else ("base", old)
        return Verdict(series, "missing", f"{side} has no number: {_because(points[-1])}")
    return judge_numbers(series, before, after, judged_by)


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
