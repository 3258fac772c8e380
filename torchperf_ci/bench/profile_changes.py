"""Profiles of two builds, set against each other: what changed by more than profiles of one build differ by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from torchperf_ci.bench.profile_speeds import speeds_of
from torchperf_ci.bench.profiles import KINDS, NOTHING, Cost, total_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bench.profiles import Key, Profile

WORTH_TELLING = 0.01
"""Of all that is of a kind in a step: a smaller change of time is not told, because nobody would look for it."""


@dataclass(frozen=True)
class Row:
    """An operator, kernel or phase before and after; None where it is not.

    ``noise_ms`` is how far two profiles of one build lie apart at most. ``in_time`` and ``in_count`` say of which of
    the two it is sure that they changed.
    """

    key: Key
    old: Cost | None
    new: Cost | None
    noise_ms: float
    in_time: bool
    in_count: bool

    @property
    def change_ms(self) -> float:
        """Milliseconds a step, positive where it got slower."""
        return (self.new.ms if self.new else 0.0) - (self.old.ms if self.old else 0.0)


@dataclass(frozen=True)
class Changes:
    """All ``rows``, those that changed in time first, then those that are only called more or less often, then the
    rest; in each part the largest change of time first. ``graph_breaks`` are the reasons of new ones."""

    rows: tuple[Row, ...]
    graph_breaks: tuple[str, ...]

    @property
    def moved(self) -> tuple[Row, ...]:
        """The rows of which it is sure that they changed."""
        return tuple(row for row in self.rows if row.in_time or row.in_count)


def compare(old: Sequence[Profile], new: Sequence[Profile]) -> Changes:
    """Set profiles of two builds against each other, two or more of each.

    A row has changed where the two sides lie further apart than either is wide, which is to say than two profiles of
    one build do.
    """
    speeds = {kind: speeds_of(kind, old, new) for kind in KINDS}
    least_ms = {kind: WORTH_TELLING * total_ms(kind, (*old, *new)) for kind in KINDS}
    keys = dict.fromkeys(key for profile in (*old, *new) for key in profile.costs)
    rows = [_row(key, old, new, speeds[key.kind], least_ms[key.kind]) for key in keys]
    rows.sort(key=lambda row: (not row.in_time, not row.in_count, -abs(row.change_ms), row.key))
    return Changes(tuple(rows), _new_graph_breaks(old, new))


def _row(
    key: Key, old: Sequence[Profile], new: Sequence[Profile], speeds: Sequence[float], least_ms: float
) -> Row:
    costs = [profile.costs.get(key, NOTHING) for profile in (*old, *new)]
    times = [cost.ms / speed for cost, speed in zip(costs, speeds, strict=True)]
    counts = [cost.count for cost in costs]
    before, after = slice(len(old)), slice(len(old), None)
    row = Row(
        key,
        _mean(times[before], counts[before]),
        _mean(times[after], counts[after]),
        noise_ms=max(_width(times[before]), _width(times[after])),
        in_time=_are_apart(times[before], times[after]),
        in_count=_are_apart(counts[before], counts[after]),
    )
    return row if abs(row.change_ms) >= least_ms else replace(row, in_time=False)


def _mean(times: Sequence[float], counts: Sequence[float]) -> Cost | None:
    return Cost(fmean(times), fmean(counts)) if any(counts) else None


def _width(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _are_apart(old: Sequence[float], new: Sequence[float]) -> bool:
    gap = max(min(new) - max(old), min(old) - max(new))
    return gap > max(_width(old), _width(new))


def _new_graph_breaks(old: Sequence[Profile], new: Sequence[Profile]) -> tuple[str, ...]:
    """The reasons for which every new profile has more of them than any old one, the most frequent first."""
    more = {
        reason: least - most
        for reason in new[0].graph_breaks
        if (least := min(profile.graph_breaks.get(reason, 0) for profile in new))
        > (most := max(profile.graph_breaks.get(reason, 0) for profile in old))
    }
    return tuple(sorted(more, key=lambda reason: (-more[reason], reason)))
