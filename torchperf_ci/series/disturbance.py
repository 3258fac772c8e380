"""What records say of the machine that they were taken on: was it left alone?"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from torchperf_ci.metrics import LATENCY, STATUS
from torchperf_ci.stats.spread import wide
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.series.series import Group, Point, Points, Series

MARK = "⚠ "
"""How a note begins that a reader must not overlook."""
MOST = 5
"""Runs that are named."""
LONGEST = 300
"""Characters of what a record says."""


def disturbances(points: Points) -> Sequence[str]:
    """A note for each machine and run that was disturbed, or whose processes lie far apart."""
    runs: dict[tuple[Group, str], dict[Series, Point]] = defaultdict(dict)
    for series, row in points.items():
        for point in row:
            if series.metric in (STATUS, LATENCY):
                runs[series.group, point.run][series] = point
    notes = [
        f"{MARK}disturbed while this was measured on {_machine(group)}, run {run}: {words}"
        for (group, run), taken in runs.items()
        if (words := "; ".join(_found(taken)))
    ]
    more = len(notes) - MOST
    return [
        *notes[:MOST],
        *(
            [f"{MARK}{counted(more, 'more run was', 'more runs were')} disturbed while measuring"]
            if more > 0
            else []
        ),
    ]


def _found(taken: Mapping[Series, Point]) -> Iterator[str]:
    cases = [point for series, point in taken.items() if series.metric == STATUS]
    said = [point.info["disturbed"] for point in cases if "disturbed" in point.info]
    if said:
        yield f"{len(said)} of {counted(len(cases), 'case')}, such as: {said[0][:LONGEST]}"
    if apart := wide(point.repetitions for series, point in taken.items() if series.metric == LATENCY):
        yield f"processes of a case differ by {apart:.0%}"


def _machine(group: Group) -> str:
    return f"{group.device} ({group.arch})" if group.arch else group.device
