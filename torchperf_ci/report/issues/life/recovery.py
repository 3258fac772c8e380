"""Is a series back where it was? Pure: from a row of an issue and tonight's verdict of the same series."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from torchperf_ci.metrics import MIN_EFFECT
from torchperf_ci.report.issues.causes.points import level_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.report.issues.causes.finding import Row
    from torchperf_ci.verdicts.verdict import Verdict

QUARTER = 0.25
"""The share of a change that may be left where it is called back."""
HALF = 0.5
"""The share of a change from which on it is there, or there again."""
NOISES = 2.0
"""Standard deviations between runs that a level may lie off."""
MIN_LOG_EFFECT = log(1 + MIN_EFFECT)
"""The smallest change beyond an accepted level that is news: ln of the default policy's 3%."""
_SILENT = ("not-comparable", "missing")
"""Verdicts that say nothing about a level."""


def has_levels(row: Row) -> bool:
    """Whether a row says from where to where it went."""
    return row.old is not None and row.new is not None and row.old != row.new


def left(row: Row, now: float) -> float | None:
    """How much of the row's change is there at the level ``now``: 0 at the old level, 1 at the regressed one.

    Measured in logarithms, and along a line where a level is 0 or less, as counts may be. None where the row has no two
    levels.
    """
    if row.old is None or row.new is None or row.old == row.new:
        return None
    if min(row.old, row.new, now) > 0:
        return log(now / row.old) / log(row.new / row.old)
    return (now - row.old) / (row.new - row.old)


def is_back(row: Row, verdicts: Iterable[Verdict]) -> bool | None:
    """Whether the change is gone, by all of tonight's verdicts of the series; None where they say nothing about that.

    Gone is what leaves at most a quarter of the change, or at most what noise explains, and always less than half.
    """
    return _all(_slow_is_back(row, verdict) for verdict in verdicts)


def passes(verdicts: Iterable[Verdict]) -> bool | None:
    """Whether a case that failed passes again, by all of tonight's verdicts; None where they do not say."""
    return _all(map(_passes, verdicts))


def is_there(row: Row, verdict: Verdict) -> bool:
    """Whether tonight's regression is that of the row again: at least half of the way to its regressed level."""
    if not verdict.is_red:
        return False
    now = level_of(verdict)
    share = left(row, now) if now is not None else None
    if share is not None:
        return share >= HALF
    if row.effect is None or verdict.effect is None or min(row.effect.ratio, verdict.effect.ratio) <= 0:
        return True
    whole = log(row.effect.ratio)
    return whole == 0 or log(verdict.effect.ratio) / whole >= HALF


def is_beyond(row: Row, verdict: Verdict) -> bool:
    """Whether tonight's regression goes further than the row's new level, which somebody lives with.

    Further by more than half of that change or 3%, whichever is less, and by more than noise explains.
    """
    now = level_of(verdict)
    share = left(row, now) if now is not None else None
    if share is None or not verdict.is_red:
        return False
    size = _size(row)
    least = max(min(HALF, MIN_LOG_EFFECT / size), NOISES * _noise(row, verdict)) if size else HALF
    return share - 1 > least


def _slow_is_back(row: Row, verdict: Verdict) -> bool | None:
    if verdict.is_red:
        return False
    now = level_of(verdict)
    if verdict.verdict in _SILENT or now is None:
        return None
    share = left(row, now)
    if share is None:  # only a step back can be told
        return True if verdict.verdict == "improved" else None
    return share < HALF and share <= max(QUARTER, NOISES * _noise(row, verdict))


def _passes(verdict: Verdict) -> bool | None:
    if verdict.is_red:
        return False
    if verdict.verdict in _SILENT or verdict.new is None:
        return None
    return verdict.new >= 1


def _all(told: Iterable[bool | None]) -> bool | None:
    known = [one for one in told if one is not None]
    return all(known) if known else None


def _noise(row: Row, verdict: Verdict) -> float:
    """The standard deviation between runs as a share of the row's change."""
    size = _size(row)
    return (verdict.noise or 0.0) / size if size else 0.0


def _size(row: Row) -> float | None:
    """|ln(new/old)|; None where there are no such logarithms."""
    if row.old is None or row.new is None or min(row.old, row.new) <= 0 or row.old == row.new:
        return None
    return abs(log(row.new / row.old))
