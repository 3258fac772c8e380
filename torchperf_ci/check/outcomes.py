"""Series that say pass or fail."""

from __future__ import annotations

import datetime
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from torchperf_ci.check.comparable import commits
from torchperf_ci.series.comparability import difference
from torchperf_ci.series.outcome import passed, word
from torchperf_ci.verdicts.verdict import Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.series.series import Point, Series

RECENT = 20
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
        return Verdict(series, "new", why, new=_shown(now), evidence=_failing(new))
    verdict, why = _compared(known, now)
    return Verdict(
        series,
        verdict,
        why,
        old=_shown(known[-1]),
        new=_shown(now),
        candidate=verdict == "noisy",
        evidence={"history": len(known), **_failing([*known, *new]), **commits(known, new)},
    )


def _failing(points: Sequence[Point]) -> Mapping[str, int]:
    """For the evidence: how many runs in a row have failed, the newest one included; nothing where it did not."""
    told = (point for point in reversed(points) if passed(point) is not None)
    runs = {point.run for point in takewhile(lambda point: not passed(point), told)}
    return {"failing": len(runs)} if runs else {}


def _shown(point: Point) -> float | None:
    """1 for a pass and 0 for a failure in any repetition, where the record has a number."""
    return None if point.value is None else float(bool(passed(point)))


def _because(point: Point) -> str:
    reason = point.info.get("reason", "")
    failed = sum(not value for value in point.repetitions)
    partly = (
        f" in {failed} of {len(point.repetitions)} repetitions" if 0 < failed < len(point.repetitions) else ""
    )
    return f"{word(point)}{partly}: {reason}" if reason else f"{word(point)}{partly}"


def _compared(old: Sequence[Point], now: Point) -> tuple[Word, str]:
    before = old[-1]
    if passed(now) and passed(before):
        return "unchanged", "passes as before"
    if passed(now):
        return "fixed", f"passes again; it failed since {_moment(_failing_since(old))} ({_because(before)})"
    if not passed(before):
        return "unchanged", f"still failing since {_moment(_failing_since(old))}: {_because(now)}"
    if (changes := _changes(old[-RECENT:])) >= FLAPPING:
        recent = min(len(old), RECENT)
        return "noisy", f"fails now and then, {changes} changes in its last {recent} runs: {_because(now)}"
    return "broken", _because(now) + _moved(before, now)


def _changes(points: Sequence[Point]) -> int:
    return sum(passed(one) != passed(other) for one, other in pairwise(points))


def _failing_since(old: Sequence[Point]) -> Point:
    """The first of the failures that the past ends with."""
    passes = [index for index, point in enumerate(old) if passed(point)]
    return old[passes[-1] + 1 if passes else 0]


def _moved(before: Point, now: Point) -> str:
    differs = difference(before.fingerprint, now.fingerprint)
    return f" (the machine changed, too: {'; '.join(differs[:3])})" if differs else ""


def _moment(point: Point) -> str:
    when = datetime.datetime.fromtimestamp(point.timestamp, datetime.timezone.utc)
    parts = [f"{when:%Y-%m-%d}" if point.timestamp else "", point.commit[:10]]
    return " ".join(part for part in parts if part) or "an earlier run"
