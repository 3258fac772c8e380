"""Read the points of each series from files of records."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torchperf_ci.errors import RecordsError
from torchperf_ci.imports.other_tools import parse_results
from torchperf_ci.records.files import SUFFIXES, is_irregular
from torchperf_ci.records.reading import LocatedRecord, is_torchperf_file, read_records
from torchperf_ci.records.record import extra_info_strings
from torchperf_ci.records.schema import LATEST_SECOND, Problem
from torchperf_ci.series.outcomes import without_failed
from torchperf_ci.series.points import (
    Point,
    Points,
    Series,
    comparable_facts,
    kept_info,
    measured_values,
    middle,
    natural,
    run_of,
)

_IDS = {"timestamp": 64, "workflow_id": 64, "run_attempt": 32, "job_id": 64}
"""Width in bits of the database columns, which truncate larger numbers."""


@dataclass(frozen=True)
class RecordedPoints:
    """The points found in a set of files.

    ``records`` counts all valid records, ``duplicates`` those among them that appear more than once. ``files`` are the
    files that hold at least one valid record.
    """

    points: Points
    records: int
    duplicates: int
    problems: Sequence[Problem]
    files: Sequence[Path]

    @property
    def refused(self) -> Sequence[Problem]:
        """The problems of the elements that were not accepted as records."""
        return [problem for problem in self.problems if problem.severity == "refused"]


def points_of_records(paths: Iterable[Path], format_name: str = "") -> RecordedPoints:
    """Read the points of all records in files, and in ``*.json`` and ``*.json.gz`` files anywhere below directories.

    Results of other tools are converted to records; ``format_name`` is the option ``--format``, or empty.

    Hidden files and folders are skipped, because torchperf keeps its own state in ``.torchperf``. So are verdicts and
    other output files that a command may have written beside the records. The points of a series are sorted by time,
    then by path (``run-2`` before ``run-10``), then by position in the file. A record that appears twice with the same
    ids counts once. Raises :class:`RecordsError` for a path that cannot be read.
    """
    points: dict[Series, list[Point]] = defaultdict(list)
    seen: set[str] = set()
    problems: list[Problem] = []
    files: list[Path] = []
    records = duplicates = 0
    for file, folder in _files(paths):
        reading = read_records(
            file, folder, partial(parse_results, format_name=format_name, folder=file.parent)
        )
        if is_torchperf_file(reading):
            continue
        problems += reading.problems
        files += [file] if reading.records else []
        for located in reading.records:
            records += 1
            if _is_repeated(located, seen):
                duplicates += 1
                continue
            try:
                series, point = _point(located.record, file)
            except Exception as error:  # noqa: BLE001  # a bug of ours should cost one record, not all of them
                why = f"cannot be judged, which is a bug of torchperf: {type(error).__name__}: {error}"[:300]
                problems.append(Problem(located.file, located.line, located.path, why, "refused"))
            else:
                points[series].append(point)
    ordered = {
        series: [_capped(point) for point in sorted(row, key=lambda point: point.timestamp)]
        for series, row in points.items()
    }
    return RecordedPoints(without_failed(ordered), records, duplicates, problems, files)


def _is_repeated(located: LocatedRecord, seen: set[str]) -> bool:
    """Whether the same record was seen before.

    A record that names no run is only compared with those of its own file: two runs may measure the same numbers.
    """
    ids = ("timestamp", "head_sha", "workflow_id", "job_id")
    place = "" if any(located.record.get(name) for name in ids) else located.file
    key = f"{place}\0{json.dumps(located.record, sort_keys=True)}"
    is_known = key in seen
    seen.add(key)
    return is_known


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, Path | None]]:
    """Yield each file with the directory it was found in; None for a file that was named by the caller."""
    for path in paths:
        if path.is_dir():
            below = (file for suffix in SUFFIXES for file in path.rglob(f"*{suffix}"))
            files = (file for file in below if file.is_file() or is_irregular(file))
            visible = (file for file in files if "/." not in f"/{file.relative_to(path).as_posix()}")
            for file in sorted(visible, key=lambda file: natural(file.relative_to(path).as_posix())):
                yield file, path
        elif path.exists():
            yield path, None
        else:
            msg = f"{path}: there is no such file or directory; give the one that holds the records"
            raise RecordsError(msg)


def _point(record: Mapping[str, Any], file: Path) -> tuple[Series, Point]:
    """Return the series and the point of a record, derived as the store's view ``torchperf_points`` does."""
    benchmark, model, metric = (record.get(part) or {} for part in ("benchmark", "model", "metric"))
    machine = next(iter(record.get("runners") or []), None) or {}
    about_benchmark, about_metric = _strings(benchmark), _strings(metric)
    series = Series(
        repo=_text(record, "repo"),
        benchmark=_text(benchmark, "name"),
        model=_text(model, "name"),
        mode=_text(benchmark, "mode"),
        dtype=_text(benchmark, "dtype"),
        backend=_text(model, "backend"),
        device=_text(machine, "name") or about_benchmark.get("device", "") or "cpu",
        arch=_text(machine, "type") or about_benchmark.get("arch", "") or _text(machine, "cpu_info"),
        metric=_text(metric, "name"),
    )
    repetitions = measured_values(series.metric, about_metric, metric.get("benchmark_values"))
    ids = {name: int(record.get(name) or 0) % 2**bits for name, bits in _IDS.items()}
    commit, torch = _text(record, "head_sha"), (record.get("dependencies") or {}).get("pytorch") or {}
    return series, Point(
        value=middle(series.metric, repetitions),
        repetitions=repetitions,
        branch=_text(record, "head_branch").removeprefix("refs/heads/"),
        commit=commit,
        **ids,
        fingerprint=comparable_facts(series.metric, _about_machine(machine), about_benchmark, about_metric),
        info=kept_info(about_metric, _text(torch, "sha")),
        run=run_of(ids["timestamp"], commit, ids["workflow_id"], ids["run_attempt"], file.parent.as_posix()),
    )


def _about_machine(machine: Mapping[str, Any]) -> dict[str, str]:
    """Return ``extra_info`` of a machine. If it lists no facts by which to compare, these are its processors."""
    known = _strings(machine)
    if known.get("fingerprint_of"):
        return known
    models = {name: _text(machine, name) for name in ("cpu_info", "gpu_info")}
    counts = {name: str(int(machine.get(name) or 0) or "") for name in ("cpu_count", "gpu_count")}
    return {**known, **models, **counts, "fingerprint_of": ",".join((*models, *counts))}


def _capped(point: Point) -> Point:
    """Return the point with a time that is a date, which one in milliseconds is not."""
    return point if point.timestamp <= LATEST_SECOND else point._replace(timestamp=LATEST_SECOND)


def _strings(part: Mapping[str, Any]) -> dict[str, str]:
    """Return ``extra_info`` of a part of the record with string values, as in the database."""
    return extra_info_strings(part.get("extra_info") or {})


def _text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
