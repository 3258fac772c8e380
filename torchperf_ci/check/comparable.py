"""New points beside those of the past that they may be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.series.comparability import difference
from torchperf_ci.series.outcome import passed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.series.series import Point, Points, Series


MOST_CHARTED = 40
"""Points of a series that go into the evidence, the newest ones."""
MOST_NEW_CHARTED = 20
"""New points among them: of many, the old level is still to be seen."""
SHOWN_NAMES = 5
"""Facts that are named where machines differ."""


@dataclass(frozen=True)
class Pairing:
    """A series that has new points. ``old`` and ``new`` have one fingerprint and numbers, and are oldest first.

    ``differs`` says in what the past differs, where there is a past and none of it can be compared.
    """

    series: Series
    old: Sequence[Point]
    new: Sequence[Point]
    differs: Sequence[str] = ()

    @property
    def newest(self) -> Point:
        """The last new point."""
        return self.new[-1]


def pair(series: Series, old: Sequence[Point], new: Sequence[Point]) -> Pairing:
    """Set the new points, of which there is at least one with a number, against the comparable ones of the past.

    Where the new ones themselves come from several machines, those of the newest count.
    """
    measured = [point for point in new if point.value is not None]
    facts = measured[-1].fingerprint
    past = [point for point in old if point.value is not None]
    comparable = [point for point in past if point.fingerprint == facts]
    return Pairing(
        series,
        comparable,
        [point for point in measured if point.fingerprint == facts],
        difference(past[-1].fingerprint, facts) if past and not comparable else (),
    )


def several_machines(new: Points) -> str:
    """For a reader: that some new points are not judged, since they are not comparable with the newest ones."""
    found = [differing for row in new.values() if (differing := _differing(row))]
    if not found:
        return ""
    names = sorted(set().union(*found))
    return (
        f"{len(found)} series have new points of several machines or batch sizes, which differ in "
        f"{', '.join(names[:SHOWN_NAMES])}{' and more' if len(names) > SHOWN_NAMES else ''}; of each only those of the "
        "newest machine are judged: check each machine's records by itself"
    )


def _differing(points: Iterable[Point]) -> set[str]:
    """The facts in which points that say anything differ."""
    telling = [point.fingerprint for point in points if point.value is not None or passed(point) is not None]
    return {
        name
        for facts in telling
        for name in {*facts, *telling[-1]}
        if facts.get(name) != telling[-1].get(name)
    }


def of_newest_runs(points: Sequence[Point], count: int) -> list[Point]:
    """The points of the last ``count`` runs."""
    newest = set(list(dict.fromkeys(point.run for point in points))[-count:])
    return [point for point in points if point.run in newest]


def newest_machine(points: Points) -> dict[Series, Sequence[Point]]:
    """Of each series the points that have a number, and are comparable with the last of them."""
    measured = {series: [point for point in row if point.value is not None] for series, row in points.items()}
    return {
        series: [point for point in row if point.fingerprint == row[-1].fingerprint]
        for series, row in measured.items()
        if row
    }


def commits(old: Sequence[Point], new: Sequence[Point]) -> Mapping[str, object]:
    """For the evidence: the last point at the old level, and the first at the new."""
    return {"last_old": _named(old[-1]) if old else None, "first_new": _named(new[0]) if new else None}


def charted(pairing: Pairing) -> Sequence[Mapping[str, object]]:
    """For the evidence: what a chart of the series shows, the old level and the new."""
    points = [*pairing.old[-MOST_CHARTED:], *pairing.new[-MOST_NEW_CHARTED:]]
    return [
        {
            "value": point.value,
            "commit": point.commit or point.info.get("torch", ""),
            "timestamp": point.timestamp,
        }
        for point in points[-MOST_CHARTED:]
    ]


def _named(point: Point) -> Mapping[str, object]:
    named = {"commit": point.commit, "torch": point.info.get("torch", ""), "timestamp": point.timestamp}
    return {name: value for name, value in named.items() if value}
