"""Read the past values of each series from the store, which are all that its noise needs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter, lt
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.metrics import kind_of
from torchperf_ci.series.from_store import CASE_COLUMNS, points_of_store
from torchperf_ci.series.points import Point, Series, SeriesGroup, comparable_facts
from torchperf_ci.stats.past import BASELINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.series.from_store import Facts, Machines
    from torchperf_ci.store.client import Store

    _Record = tuple[float, float, float, Facts]


@dataclass(frozen=True)
class PastValues:
    """The past values of a series; ``count`` is their number.

    The rule of the series is derived from ``rule_points``: all of its points, or just the first and last.
    ``comparable`` holds the positive values, oldest first, that have the same facts, with these facts.
    """

    rule_points: Sequence[Point]
    count: int
    comparable: Sequence[tuple[Facts, Sequence[float]]]

    def on_machine(self, facts: Facts) -> Sequence[float]:
        """Return the positive values that were measured on the machine with these facts, oldest first."""
        return next((values for measured_on, values in self.comparable if measured_on == facts), ())


def past_of_points(points: Sequence[Point]) -> PastValues:
    """Return the past values of points that are already in memory."""
    facts, values = [point.fingerprint for point in points], [point.value for point in points]
    return PastValues(points, len(points), _comparable(facts, values))


def _comparable(
    facts: Iterable[Facts], values: Iterable[float | None]
) -> Sequence[tuple[Facts, Sequence[float]]]:
    found: list[tuple[Facts, list[float]]] = []
    for known, stretch in groupby(zip(facts, values, strict=True), key=itemgetter(0)):
        positive = [value for _, value in stretch if value and value > 0]
        same = next((row for measured_on, row in found if measured_on == known), None)
        if same is None:
            found.append((known, positive))
        else:
            same.extend(positive)
    return found


def past_of_store(
    store: Store,
    group: SeriesGroup,
    begun: Mapping[Series, int],
    *,
    branch: str,
    since: int,
    stop: int,
    machines: Machines,
) -> Mapping[Series, PastValues]:
    """Return the newest :data:`BASELINE` values of each series in ``group``, as :func:`points_of_store` returns them.

    ``begun`` holds the time of each series' first point. Most series have enough points since ``since``; the others,
    and those whose values are not plain numbers, are read as a whole. ``machines`` are those of
    :func:`machines_of_group`. Raises as :func:`points_of_store`.
    """
    parameters = group._asdict() | {"branch": branch, "since": since, "stop": stop}
    plain_or_none = _plain(store, parameters, {series.id: series for series in begun}, machines)
    odd = {series.case for series, past in plain_or_none.items() if past is None}
    whole = [
        series
        for series, first in begun.items()
        if (odd and series.case in odd)
        or (first < since and not ((past := plain_or_none.get(series)) and past.count == BASELINE))
    ]
    groups = [group] if whole else ()
    rest = points_of_store(
        store, groups, branch=branch, stop=stop, last=BASELINE, series=whole, machines=machines
    )
    plain = {series: past for series, past in plain_or_none.items() if past}
    return {**plain, **{series: past_of_points(row) for series, row in rest.items()}}


def _plain(
    store: Store, parameters: Mapping[str, object], known: Mapping[str, Series], machines: Machines
) -> Mapping[Series, PastValues | None]:
    """Return the newest values of each ``known`` series, by ID; None for a series with a value that is not plain."""
    import msgspec

    content = b"".join(store.stream(store.statement("past"), parameters, "JSONCompactEachRow"))
    decoded = msgspec.json.Decoder().decode_lines(content)
    rows: dict[Series, list[_Row]] = defaultdict(list)
    shared: dict[tuple[str, ...], Facts] = {}
    kinds = {series.metric: kind_of(series.metric) for series in known.values()}
    for series_id, machine, *case, is_plain, least, most, times, ids, lower, upper in decoded:
        if series := known.get(series_id):
            about = (series.metric, machine, *case)
            if about not in shared:
                named = dict(zip(CASE_COLUMNS, case, strict=True))
                shared[about] = comparable_facts(series.metric, machines.get(machine, {}), named, {})
            has_number = kinds[series.metric] != "outcome" or least == most == 1
            rows[series].append(_Row(bool(is_plain) and has_number, shared[about], times, ids, lower, upper))
    return {
        series: _newest(some) if all(row.is_plain for row in some) else None for series, some in rows.items()
    }


class _Row(NamedTuple):
    """A row of the query; ``lower`` and ``upper`` are the lower and upper median of the repetitions.

    Without ids each time stands for itself; without upper medians they are the lower ones.
    """

    is_plain: bool
    facts: Facts
    times: Sequence[int]
    ids: Sequence[int]
    lower: Sequence[float]
    upper: Sequence[float]

    @property
    def values(self) -> Sequence[float]:
        """The median of each record."""
        if not self.upper:
            return self.lower
        return [(low + high) / 2 for low, high in zip(self.lower, self.upper, strict=True)]

    @property
    def is_in_order(self) -> bool:
        """Whether the records are in order, and no two are the same."""
        return not self.ids and all(map(lt, self.times, self.times[1:]))


def _newest(rows: Sequence[_Row]) -> PastValues | None:
    """Return the newest values over several rows, counting each record once; None if their order is unclear."""
    if len(rows) == 1 and rows[0].is_in_order:  # nearly always
        values = [*map(float, rows[0].values[-BASELINE:])]
        comparable: Sequence[tuple[Facts, Sequence[float]]] = [(rows[0].facts, values)]
    elif (records := _sorted_records(rows)) is not None:
        _, _, numbers, facts = zip(*records[-BASELINE:], strict=True)
        values = [*map(float, numbers)]
        comparable = _comparable(facts, values)
    else:
        return None
    rule_points = [Point(values[place], (values[place],)) for place in (0, -1)]
    return PastValues(rule_points, len(values), comparable)


def _sorted_records(rows: Sequence[_Row]) -> list[_Record] | None:
    """Return each record once, by time: its time, id, value and facts.

    None where the rows do not say which records are the same, or which of two at one time is newer.
    """
    records: list[_Record] = [
        record
        for row in rows
        for record in zip(row.times, row.ids or row.times, row.values, repeat(row.facts))
    ]
    if len({record[0] for record in records}) < len(records) and not all(row.ids for row in rows):
        return None
    once = {record[1]: record for record in records}.values()
    by_time = {record[0]: record for record in once}
    return [by_time[time] for time in sorted(by_time)] if len(by_time) == len(once) else None
