"""The past values of many series up to a given run, as plain numbers: all that is needed to estimate their noise."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.metrics import kind_of
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.series.points import Point, Series, comparable_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.series.points import SeriesGroup
    from torchperf_ci.store.client import Store

    Facts = Mapping[str, str]


_NAMES = len(Series.__dataclass_fields__)


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
) -> Mapping[Series, PastValues]:
    """Return the newest values of each series in ``group``, equal to those of :func:`points_of_store`.

    ``begun`` holds the time of each series' first point. Most series have ``last`` points since ``since``; the others,
    and those whose values are not plain numbers, are read as a whole. Raises as :func:`points_of_store`.
    """
    found = _plain(store, group, branch=branch, since=since, stop=stop, last=last)
    odd = {series.case for series, past in found.items() if past is None}
    whole = [
        series
        for series, first in begun.items()
        if series.case in odd
        or (first < since and not ((past := found.get(series)) and len(past.values) == last))
    ]
    rest = points_of_store(store, branch=branch, stop=stop, last=last, series=whole) if whole else {}
    plain = {series: past for series, past in found.items() if past}
    return {**plain, **{series: past_of_points(row) for series, row in rest.items()}}


def _plain(
    store: Store, group: SeriesGroup, *, branch: str, since: int, stop: int, last: int
) -> Mapping[Series, PastValues | None]:
    """Return the newest values of each series; None for a series with a value that is not a plain number."""
    asked: dict[str, object] = {f"{name}s": [value] for name, value in group._asdict().items()}
    asked |= {"branch": branch, "since": since, "stop": stop, "ids": []}
    with store.held():
        machines = store.rows(store.statement("machines"), asked)
        content = b"".join(store.stream(store.statement("past"), asked, "JSONCompactEachRow"))
    known = {digest: json.loads(facts) for digest, facts in machines}
    rows: dict[Series, list[_Row]] = defaultdict(list)
    for line in content.splitlines():
        told = json.loads(line)
        series = Series(*told[:_NAMES])
        fingerprint, batch_size, threads, config, is_plain, least, most, *columns = told[_NAMES:]
        case = {"batch_size": batch_size, "threads": threads, "workload_config": config}
        facts = comparable_facts(series.metric, known.get(fingerprint, {}), case, {})
        is_told = kind_of(series.metric) != "outcome" or least == most == 1
        rows[series].append(_Row(bool(is_plain) and is_told, facts, columns))
    return {
        series: _newest(some, last) if all(row.is_plain for row in some) else None
        for series, some in rows.items()
    }


class _Row(NamedTuple):
    """A row of the query. ``columns`` are times, ids, targets, and the lower and upper median of the repetitions."""

    is_plain: bool
    facts: Facts
    columns: Sequence[Sequence[float]]


def _newest(rows: Sequence[_Row], last: int) -> PastValues:
    """Return the newest values over several rows, counting each record once."""
    records = {one[1]: (*one, row.facts) for row in rows for one in zip(*row.columns, strict=True)}
    newest = sorted(records.values())[-last:]
    values = [float(low) if low == high else (low + high) / 2 for *_, low, high, _ in newest]
    telling = [Point(values[place], (values[place],), target=float(newest[place][2])) for place in (0, -1)]
    return PastValues(telling, values, [record[-1] for record in newest])
