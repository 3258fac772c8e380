"""One job's part of the cases: jobs that know nothing of each other, and agree."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench.costs import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case

Shard = tuple[int, int]
"""Its number from 1, and of how many."""


def part(cases: Sequence[Case], shard: Shard, costs: Mapping[str, float] | None = None) -> tuple[Case, ...]:
    """The cases of a shard, in their order; all shards together have each case once.

    Without ``costs`` (seconds by the key of a case) every ``shard[1]``-th case is in it, so that the shards have
    equally many. With them they take about equally long: the longest case left goes to the shard that has least to do
    (longest processing time first; Graham 1969, doi:10.1137/0117039: at most 4/3 of the best there is). A case that is
    not known costs the median of those that are.
    """
    number, of = shard
    if costs is None:
        return tuple(cases[number - 1 :: of])
    chosen = _assigned(_seconds(cases, costs), of)
    return tuple(case for case, owner in zip(cases, chosen, strict=True) if owner == number - 1)


def _seconds(cases: Sequence[Case], costs: Mapping[str, float]) -> list[float]:
    found = [costs.get(key_of(case)) for case in cases]
    known = [seconds for seconds in found if seconds is not None]
    usual = median(known) if known else 1.0
    return [usual if seconds is None else seconds for seconds in found]


def _assigned(seconds: Sequence[float], shards: int) -> list[int]:
    """The shard of each case, from 0. Of equally busy ones that with the fewest cases gets the next, then the first."""
    chosen = [0] * len(seconds)
    busy = [(0.0, 0, shard) for shard in range(shards)]
    for case in sorted(range(len(seconds)), key=lambda case: -seconds[case]):
        total, cases, shard = min(busy)
        busy[shard] = (total + seconds[case], cases + 1, shard)
        chosen[case] = shard
    return chosen
