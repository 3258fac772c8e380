"""Read the points of each series from the store."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import chain, groupby
from operator import lt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torchperf_ci.metrics import STATUS
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.outcomes import without_failed
from torchperf_ci.series.points import (
    KEPT_INFO,
    Point,
    Points,
    Series,
    SeriesGroup,
    comparable_facts,
    kept_info,
    measured_values,
    middle,
    natural,
    run_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.store.client import Store

    Machines = Mapping[str, Mapping[str, str]]
    Facts = Mapping[str, str]


NEWEST_POINTS = 200
"""Points of each series that are judged: half a year of nights, to see changes that came and went."""
_ALL = 2**62
_USED_INFO = (*KEPT_INFO, "anchor", "benchmark_values_exact")


def groups_of_store(store: Store, benchmarks: Collection[str] = ()) -> Sequence[SeriesGroup]:
    """Return the groups of series in the store, of all or of some ``benchmarks``."""
    rows = store.rows(store.statement("groups"), {"benchmarks": list(benchmarks)})
    return [SeriesGroup(*row) for row in rows]


def points_of_store(
    store: Store,
    groups: Collection[SeriesGroup] | None = None,
    *,
    branch: str = "",
    since: int = 0,
    stop: int = 0,
    last: int = 0,
    series: Collection[Series] = (),
    machines: Machines | None = None,
) -> Points:
    """Return the points of each series in ``groups`` (default: all), or only of ``series`` where they are given.

    ``branch`` drops points that are known to be of another branch, ``since`` and ``stop`` (Unix seconds) keep
    ``since`` ≤ t < ``stop``, and ``last`` keeps only that many of the newest points of each series; 0 and the empty
    string drop nothing. A record that was ingested twice counts once. ``machines`` are those that
    :func:`machines_of_group` returns, if they are known already. Raises :class:`StoreError` or
    :class:`StoreUnreachableError`.
    """
    if groups is not None and not groups:
        return {}
    parameters = group_parameters(groups or ()) | {
        "branch": branch,
        "since": since,
        "stop": stop,
        "last": last or _ALL,
    }
    parameters["ids"] = list(
        {each.id for wanted in series for each in (wanted, replace(wanted, metric=STATUS))}
    )
    with store.keep_open():
        if machines is None:
            machines = _machines(store.rows(store.statement("machines"), parameters))
        columns = store.columns(store.statement("newest" if last else "history"), parameters)
    points = _points_of_columns(columns, machines)
    return {wanted: points[wanted] for wanted in series if wanted in points} if series else points


def points_of_runs(
    store: Store,
    group: SeriesGroup,
    times: Sequence[tuple[int, int]],
    known: Mapping[str, Series],
    machines: Machines,
) -> Points:
    """Return what was measured in one or two stretches of time, from their first to their last second.

    Only ``known`` series, by ID, are returned; ``machines`` are those of :func:`machines_of_group`. Raises as
    :func:`points_of_store`.
    """
    (start, end), (other_start, other_end) = times[0], times[-1]
    parameters = group._asdict() | {
        "start": start,
        "end": end,
        "other_start": other_start,
        "other_end": other_end,
    }
    return _points_of_columns(store.columns(store.statement("runs_points"), parameters), machines, known)


def measured_between(store: Store, group: SeriesGroup, branch: str, start: int, stop: int) -> Collection[str]:
    """Return the IDs of the series with a result on ``branch`` at ``start`` ≤ t < ``stop``. Raises as above."""
    parameters = group._asdict() | {"branch": branch, "start": start, "stop": stop}
    return [series_id for (series_id,) in store.rows(store.statement("measured_series"), parameters)]


def machines_of_group(store: Store, group: SeriesGroup) -> Machines:
    """Return the comparable facts of the machines of a group, by the digests of their fingerprints."""
    return _machines(store.rows(store.statement("group_machines"), group._asdict()))


def _machines(rows: Iterable[Sequence[str]]) -> Machines:
    return {digest: json.loads(facts) for digest, facts in rows}


def group_parameters(groups: Collection[SeriesGroup]) -> dict[str, object]:
    """Return the parameters of ``point_filter.sql`` for these groups; none is no filter."""
    columns = zip(*groups, strict=True) if groups else ((),) * 4
    names = ("repos", "benchmarks", "devices", "archs")
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


CASE_COLUMNS = ("batch_size", "threads", "workload_config")
_NAMES = len(Series.__dataclass_fields__)
_NOTHING: Mapping[str, str] = {}


class _Columns(NamedTuple):
    """The columns of ``point_columns.sql`` after the names of the series."""

    series: Sequence[str]
    timestamp: Sequence[int]
    key: Sequence[str]
    workflow_id: Sequence[int]
    run_attempt: Sequence[int]
    job_id: Sequence[int]
    branch: Sequence[str]
    commit: Sequence[str]
    numbers: Sequence[list[float]]
    fingerprint: Sequence[str]
    batch_size: Sequence[str]
    threads: Sequence[str]
    workload_config: Sequence[str]
    metric_info: Sequence[Mapping[str, str]]
    torch: Sequence[str]
    record_id: Sequence[int]


def _points_of_columns(
    all_columns: Sequence[Sequence[Any]], machines: Machines, known: Mapping[str, Series] | None = None
) -> Points:
    """Return the points of all series, or of ``known`` ones by ID, from the columns of ``point_columns.sql``.

    The rows are in no order.
    """
    if not all_columns:
        return {}
    names, columns = all_columns[:_NAMES], _Columns(*all_columns[_NAMES:])
    points = _points(names[-1], columns, machines)
    places: dict[str, list[int]] = defaultdict(list)
    for place, series_id in enumerate(columns.series):
        places[series_id].append(place)
    if known is None:
        known = {one: Series(*(column[some[0]] for column in names)) for one, some in places.items()}
    found = [(known[one], some) for one, some in places.items() if one in known]
    return without_failed(
        {
            series: [points[place] for place in _in_order(some, columns)]
            for series, some in sorted(found, key=lambda item: item[0].names)
        }
    )


def _in_order(places: list[int], columns: _Columns) -> Iterable[int]:
    """Sort the places of rows by time, and drop all but one of a record that was ingested more than once."""
    places = sorted(places, key=columns.timestamp.__getitem__)
    times = [columns.timestamp[place] for place in places]
    if all(map(lt, times, times[1:])):  # nearly always
        return places
    ordered: list[int] = []
    for _, some in groupby(places, key=columns.timestamp.__getitem__):
        tied = list(some)
        ordered += tied if len(tied) == 1 else sorted(tied, key=lambda place: _tie_break(place, columns))
    firsts = {columns.record_id[place]: place for place in reversed(ordered)}
    return [place for place in ordered if firsts[columns.record_id[place]] == place]


def _tie_break(place: int, columns: _Columns) -> tuple[object, ...]:
    return natural(columns.key[place]), [_sortable(column[place]) for column in columns]


def _sortable(value: object) -> object:
    return sorted(value.items()) if isinstance(value, dict) else value


def _points(metrics: Sequence[str], columns: _Columns, machines: Machines) -> Sequence[Point]:
    """Return the point of each row. Points with equal facts share one mapping, which saves most of the memory."""
    infos = [
        {name: info[name] for name in _USED_INFO if name in info} if info else _NOTHING
        for info in columns.metric_info
    ]
    values = _values(metrics, columns.numbers, infos)
    anchors = [info.get("anchor", "") for info in infos]

    @cache
    def facts(metric: str, machine: str, anchor: str, *case: str) -> Mapping[str, str]:
        benchmark = dict(zip(CASE_COLUMNS, case, strict=True))
        return comparable_facts(metric, machines.get(machine, {}), benchmark, {"anchor": anchor})

    @cache
    def point_info(torch: str, info: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
        return kept_info(dict(info), torch)

    case = (columns.batch_size, columns.threads, columns.workload_config)
    return [
        *map(
            Point,
            map(middle, metrics, values),
            values,
            [min(timestamp, LATEST_SECOND) for timestamp in columns.timestamp],
            columns.branch,
            columns.commit,
            columns.workflow_id,
            columns.run_attempt,
            columns.job_id,
            map(facts, metrics, columns.fingerprint, anchors, *case),
            map(point_info, columns.torch, (tuple(info.items()) for info in infos)),
            _runs(columns),
        )
    ]


def _values(
    metrics: Sequence[str], numbers: Sequence[list[float]], infos: Sequence[Mapping[str, str]]
) -> Sequence[tuple[float, ...]]:
    """Return the repetitions of each row, see :func:`measured_values`, which most rows do not need."""
    values = [*map(tuple, numbers)]
    flat = np.fromiter(chain.from_iterable(numbers), np.float64)
    rows = np.repeat(np.arange(len(values)), [*map(len, values)])
    odd = {*rows[~((flat > 0) & (flat < np.inf))].tolist()}
    odd.update(place for place, info in enumerate(infos) if "benchmark_values_exact" in info)
    for place in odd:
        values[place] = measured_values(metrics[place], infos[place], numbers[place])
    return values


def _runs(columns: _Columns) -> Iterator[str]:
    """Yield the name of the run of each row."""
    name_of = cache(run_of)
    rows = zip(
        columns.timestamp, columns.commit, columns.workflow_id, columns.run_attempt, columns.key, strict=True
    )
    for timestamp, commit, workflow_id, attempt, key in rows:
        if workflow_id:
            yield name_of(0, "", workflow_id, attempt, "")
        else:
            yield name_of(timestamp, commit, 0, 0, key.rpartition("/")[0])
