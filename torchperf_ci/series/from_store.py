"""Read the points of each series from the store."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

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
    run_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.store.client import Store

    Machines = Mapping[str, Mapping[str, str]]


_ALL = 2**62
_TOLD = (*KEPT_INFO, "anchor", "benchmark_values_exact")


def groups_of_store(store: Store, benchmarks: Collection[str] = (), since: int = 0) -> Sequence[SeriesGroup]:
    """Return the groups of series in the store, of all or of some ``benchmarks``, since ``since`` (Unix seconds)."""
    rows = store.rows(store.statement("groups"), {"benchmarks": list(benchmarks), "since": since})
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
    asked = _asked(groups or ()) | {"branch": branch, "since": since, "stop": stop, "last": last or _ALL}
    asked["ids"] = list({each.id for one in series for each in (one, replace(one, metric=STATUS))})
    with store.held():
        known = machines
        if known is None:
            known = _machines(store.rows(store.statement("machines"), asked))
        lines = list(_lines(store.stream(store.statement("history"), asked, "JSONCompactEachRow")))
    reader = _RowReader(known)
    points = without_failed(dict(map(reader.series, lines)))
    return {one: row for one, row in points.items() if one in series} if series else points


def points_of_runs(
    store: Store,
    group: SeriesGroup,
    times: Sequence[tuple[int, int]],
    known: Mapping[str, Series],
    machines: Machines,
) -> Points:
    """Return what was measured in one or two stretches of time, from their first to their last second.

    ``known`` are the series of ``group`` by their ids, ``machines`` those of :func:`machines_of_group`. Raises as
    :func:`points_of_store`.
    """
    import msgspec

    (start, end), (other_start, other_end) = times[0], times[-1]
    asked = group._asdict() | {
        "start": start,
        "end": end,
        "other_start": other_start,
        "other_end": other_end,
    }
    pieces = store.stream(store.statement("runs_points"), asked, "JSONCompactEachRow")
    reader, found = _RowReader(machines), defaultdict[Series, list[Point]](list)
    for series_id, *columns in msgspec.json.Decoder().decode_lines(b"".join(pieces)):
        if series := known.get(series_id):
            found[series].append(reader.point(series.metric, *columns))
    return without_failed(found)


def machines_of_group(store: Store, group: SeriesGroup) -> Machines:
    """Return the comparable facts of the machines of a group, by the digests of their fingerprints."""
    return _machines(store.rows(store.statement("group_machines"), group._asdict()))


def _machines(rows: Iterable[Sequence[str]]) -> Machines:
    return {digest: json.loads(facts) for digest, facts in rows}


def _asked(groups: Collection[SeriesGroup]) -> dict[str, object]:
    columns = zip(*groups, strict=True) if groups else ((),) * 4
    names = ("repos", "benchmarks", "devices", "archs")
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


_CASE_COLUMNS = ("batch_size", "threads", "workload_config")


class _RowReader:
    """Reads the rows of the query. Points with equal facts share one mapping, which saves most of the memory."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._facts: dict[tuple[str, ...], Mapping[str, str]] = {}
        self._info: dict[object, Mapping[str, str]] = {}

    def series(self, line: bytes) -> tuple[Series, Sequence[Point]]:
        """Parse one row: the names of a series, and its points."""
        import msgspec

        *names, points = msgspec.json.decode(line)
        series = Series(*names)
        return series, [self.point(series.metric, *point) for point in points]

    def point(self, metric: str, timestamp: int, key: str, *columns: Any) -> Point:
        """Parse one point: its columns from its time on."""
        workflow_id, attempt, job_id, branch, commit, values, target, *about = columns
        machine, batch_size, threads, config, info, torch = about
        told = {name: info[name] for name in _TOLD if name in info} if info else {}
        repetitions = measured_values(metric, told, values)
        return Point(
            median(repetitions) if repetitions else None,
            repetitions,
            min(timestamp, LATEST_SECOND),
            branch,
            commit,
            workflow_id,
            attempt,
            job_id,
            float(target),
            self._comparable(metric, machine, (batch_size, threads, config), told.get("anchor", "")),
            self._kept(told, torch),
            run_of(timestamp, commit, workflow_id, attempt, key.rpartition("/")[0]),
        )

    def _comparable(self, metric: str, machine: str, case: tuple[str, ...], anchor: str) -> Mapping[str, str]:
        about = (metric, machine, *case, anchor)
        if about not in self._facts:
            benchmark = dict(zip(_CASE_COLUMNS, case, strict=True))
            self._facts[about] = comparable_facts(
                metric, self._machines.get(machine, {}), benchmark, {"anchor": anchor}
            )
        return self._facts[about]

    def _kept(self, told: Mapping[str, str], torch: str) -> Mapping[str, str]:
        about = (torch, *told.items())
        if about not in self._info:
            self._info[about] = kept_info(told, torch)
        return self._info[about]


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest
