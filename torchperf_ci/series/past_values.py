"""The past values of many series up to a given run, as plain numbers: all that is needed to estimate their noise."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.metrics import kind_of
from torchperf_ci.series.from_store import CASE_COLUMNS, groups_asked, points_of_store
from torchperf_ci.series.points import Point, comparable_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.series.from_store import Machines
    from torchperf_ci.series.points import Series, SeriesGroup
    from torchperf_ci.store.client import Store

    Facts = Mapping[str, str]
    _Record = tuple[float, float, float, float, float, Facts]


_IDS = 1
_FACTS = 1 + len(CASE_COLUMNS)
"""Columns of a row that say what its values are comparable with: the machine and the case."""


@dataclass(frozen=True)
class PastValues:
    """The past values of a series, oldest first, and for each the facts that must be equal for a comparison.

    ``telling`` are the points from which the rule of the series is derived: all of them, or just the first and last.
    """

    telling: Sequence[Point]
    values: Sequence[float | None]
    facts: Sequence[Facts]

    def on_machine(self, facts: Facts) -> list[float]:
        """Return the positive values that were measured on the machine with these facts."""
        return [
            value
            for value, own in zip(self.values, self.facts, strict=True)
            if value and value > 0 and (own is facts or own == facts)
        ]


def past_of_points(points: Sequence[Point]) -> PastValues:
    """Return the past values of points that are already in memory."""
    return PastValues(points, [point.value for point in points], [point.fingerprint for point in points])


def past_of_store(
    store: Store,
    group: SeriesGroup,
    begun: Mapping[Series, int],
    *,
    branch: str,
    since: int,
    stop: int,
    last: int,
    machines: Machines,
) -> Mapping[Series, PastValues]:
    """Return the newest values of each series in ``group``, equal to those of :func:`points_of_store`.

    ``begun`` holds the time of each series' first point. Most series have ``last`` points since ``since``; the others,
    and those whose values are not plain numbers, are read as a whole. ``machines`` are those of
    :func:`machines_of_group`. Raises as :func:`points_of_store`.
    """
    asked = group._asdict() | groups_asked(()) | {"branch": branch, "since": since, "stop": stop, "ids": []}
    found = _plain(store, asked, {series.id: series for series in begun}, machines, last)
    odd = {series.case for series, past in found.items() if past is None}
    whole = [
        series
        for series, first in begun.items()
        if series.case in odd
        or (first < since and not ((past := found.get(series)) and len(past.values) == last))
    ]
    rest = (
        points_of_store(store, branch=branch, stop=stop, last=last, series=whole, machines=machines)
        if whole
        else {}
    )
    plain = {series: past for series, past in found.items() if past}
    return {**plain, **{series: past_of_points(row) for series, row in rest.items()}}


def _plain(
    store: Store, asked: Mapping[str, object], known: Mapping[str, Series], machines: Machines, last: int
) -> Mapping[Series, PastValues | None]:
    """Return the newest values of each ``known`` series, by ID; None for a series with a value that is not plain."""
    import msgspec

    content = b"".join(store.stream(store.statement("past"), asked, "JSONCompactEachRow"))
    rows: dict[Series, list[_Row]] = defaultdict(list)
    shared: dict[tuple[str, ...], Facts] = {}
    for series_id, *told in msgspec.json.Decoder().decode_lines(content):
        if series := known.get(series_id):
            fingerprint, *case = about = told[:_FACTS]
            is_plain, least, most, *columns = told[_FACTS:]
            key = (series.metric, *about)
            if key not in shared:
                named = dict(zip(CASE_COLUMNS, case, strict=True))
                shared[key] = comparable_facts(series.metric, machines.get(fingerprint, {}), named, {})
            is_told = kind_of(series.metric) != "outcome" or least == most == 1
            rows[series].append(_Row(bool(is_plain) and is_told, shared[key], columns))
    return {
        series: _newest(some, last) if all(row.is_plain for row in some) else None
        for series, some in rows.items()
    }


class _Row(NamedTuple):
    """A row of the query. ``columns`` are times, ids, targets, and the lower and upper median of the repetitions.

    Without ids each time stands for itself; without upper medians they are the lower ones.
    """

    is_plain: bool
    facts: Facts
    columns: Sequence[Sequence[float]]

    def records(self) -> Iterator[_Record]:
        """Return one tuple a record."""
        times, ids, targets, lower, upper = self.columns
        return zip(times, ids or times, targets, lower, upper or lower, repeat(self.facts))


def _newest(rows: Sequence[_Row], last: int) -> PastValues | None:
    """Return the newest values over several rows, counting each record once; None where that cannot be told."""
    records = [record for row in rows for record in row.records()]
    if len(rows) > 1 or rows[0].columns[_IDS]:
        if len({record[0] for record in records}) < len(records) and not all(
            row.columns[_IDS] for row in rows
        ):
            return None
        records = [*{record[1]: record for record in records}.values()]
    newest = sorted(records)[-last:]
    values = [float(low) if low == high else (low + high) / 2 for _, _, _, low, high, _ in newest]
    telling = [Point(values[place], (values[place],), target=float(newest[place][2])) for place in (0, -1)]
    return PastValues(telling, values, [record[-1] for record in newest])
