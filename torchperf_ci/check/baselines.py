"""Baselines: small histories that are committed with the code, one per fingerprint and commit, in one JSON file."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from torchperf_ci import __version__, json_files
from torchperf_ci.git import Git, GitError
from torchperf_ci.metrics import kind_of, rounded
from torchperf_ci.records.files import replace_file
from torchperf_ci.series.outcomes import number_of, passed
from torchperf_ci.series.points import (
    CASE_FACTS,
    Point,
    Points,
    Series,
    machine_facts,
    measured_values,
    middle,
    runs_of,
)

_HEX_DIGITS = 12


@dataclass(frozen=True)
class BaselineRow:
    """One series: ``values`` has one number per run, ``facts`` are the case's part of the fingerprint."""

    series: Series
    facts: Mapping[str, str]
    values: Sequence[float]


@dataclass(frozen=True)
class Baseline:
    """What was measured on machines with the facts ``machine``, at one ``commit`` and one commit of PyTorch.

    ``by`` is who created it, ``command`` how, ``date`` when, in ISO 8601 and UTC.
    """

    commit: str
    torch: str
    reason: str
    date: str
    by: str
    command: str
    torchperf: str
    machine: Mapping[str, str]
    series: Sequence[BaselineRow]

    @property
    def digest(self) -> str:
        """Digest of ``machine``, computed like the fingerprint in records."""
        canonical = json.dumps(dict(self.machine), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:_HEX_DIGITS]

    @property
    def runs(self) -> int:
        """The largest number of runs of any series."""
        return max(len(row.values) for row in self.series)


def baselines_of(points: Points, provenance: Mapping[str, str]) -> list[Baseline]:
    """Return a baseline for each machine and each commit of its runs, oldest first.

    Points without a number and without an outcome are left out.
    """
    points_of_run: dict[tuple[str, str], list[tuple[Series, Point]]] = defaultdict(list)
    for series, row in points.items():
        for point in row:
            if number_of(series, point) is not None:
                machine = json.dumps(machine_facts(point.fingerprint), sort_keys=True)
                points_of_run[point.run, machine].append((series, point))
    oldest_first = runs_of(point for row in points.values() for point in row)
    rows: dict[tuple[str, str, str], dict[Series, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for (_, machine), measured in sorted(points_of_run.items(), key=lambda it: oldest_first.index(it[0][0])):
        commit, torch = max((point.commit, point.torch) for _, point in measured)
        for series, point in measured:
            rows[machine, commit, torch][series].append(point)
    return [
        Baseline(commit, torch, **provenance, machine=json.loads(machine), series=_rows_of_points(row))
        for (machine, commit, torch), row in rows.items()
    ]


def updated_baselines(old: Iterable[Baseline], new: Sequence[Baseline]) -> list[Baseline]:
    """Replace what ``old`` has of the machines in ``new``; the result is sorted by machine, then oldest first.

    Machines without facts, and anchored series, have the same fingerprint everywhere: device and architecture tell
    them apart.
    """
    renewed = {(baseline.digest, *_hardware(row)) for baseline in new for row in baseline.series}
    kept = [
        replace(baseline, series=rows)
        for baseline in old
        if (rows := [row for row in baseline.series if (baseline.digest, *_hardware(row)) not in renewed])
    ]
    return sorted([*kept, *new], key=lambda baseline: (sorted(baseline.machine.items()), baseline.date))


def _hardware(row: BaselineRow) -> tuple[str, str]:
    return row.series.device, row.series.arch


def points_of_baselines(baselines: Iterable[Baseline]) -> Points:
    """Return the points of all baselines, in the form of recorded history: oldest first."""
    points: dict[Series, list[Point]] = defaultdict(list)
    runs: Counter[str] = Counter()
    for baseline in sorted(baselines, key=attrgetter("date")):
        runs[baseline.digest] += baseline.runs
        when = int(datetime.datetime.fromisoformat(baseline.date).timestamp())
        for row in baseline.series:
            facts = {**baseline.machine, **row.facts}
            points[row.series] += [
                Point(
                    value,
                    (value,),
                    timestamp=when,
                    commit=baseline.commit,
                    fingerprint=facts,
                    info={"torch": baseline.torch} if baseline.torch else {},
                    run=f"{baseline.digest} {number}",
                )
                for number, value in enumerate(row.values, start=runs[baseline.digest] - len(row.values))
                if measured_values(row.series.metric, {}, [value])
            ]
    return points


def _rows_of_points(points: Points) -> list[BaselineRow]:
    return [_row_of_points(series, points[series]) for series in sorted(points)]


def _row_of_points(series: Series, points: Sequence[Point]) -> BaselineRow:
    """Return the row of a series. If batch sizes differ, only the points with the newest one count, and all outcomes.

    Several numbers of one run are judged by their median, and several outcomes by the worst.
    """
    newest, is_outcome = points[-1].fingerprint, kind_of(series.metric) == "outcome"
    facts = {name: newest[name] for name in CASE_FACTS if name in newest}
    numbers_of_run: dict[str, list[float]] = defaultdict(list)
    for point in points:
        if point.fingerprint == newest or (is_outcome and passed(point) is not None):
            numbers_of_run[point.run].append(number_of(series, point) or 0.0)
    merge = min if is_outcome else partial(middle, series.metric)
    return BaselineRow(
        series, facts, [_rounded(merge(numbers) or 0.0) for numbers in numbers_of_run.values()]
    )


def _rounded(number: float) -> float:
    return number if number.is_integer() else rounded(number)


_GIT_SECONDS = 10.0


def provenance(reason: str, command: Sequence[str]) -> dict[str, str]:
    """Return the provenance of a baseline created now, by git's user or, in a job, by the user who started it."""
    return {
        "reason": reason,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "by": os.environ.get("GITHUB_ACTOR") or _git_user(),
        "command": shlex.join(command),
        "torchperf": __version__,
    }


def _git_user() -> str:
    """Return the user in git's author format; empty if git is missing or not configured."""
    output = b""
    with suppress(GitError):
        output = Git.within(_GIT_SECONDS, Path.cwd())("config", "--get-regexp", r"^user\.(name|email)$")
    known = dict(line.split(" ", 1) for line in output.decode(errors="replace").splitlines() if " " in line)
    name, email = known.get("user.name", ""), known.get("user.email", "")
    return f"{name} <{email}>" if name and email else name or email


BASELINE_VERSION = 1
BASELINE_FORMAT = json_files.JsonFormat(Path(__file__).with_name("baseline.schema.json"), BASELINE_VERSION)


def read_baselines(path: Path) -> list[Baseline]:
    """Return the baselines in a file. Raises :class:`JsonFileError` if it cannot be read or is not a baseline file."""
    return [_baseline(item) for item in BASELINE_FORMAT.read(path)["baselines"]]


def write_baselines(path: Path, baselines: Iterable[Baseline]) -> None:
    """Write the file atomically. Raises :class:`OutputDirectoryError`."""
    body = ",\n".join(_baseline_text(baseline) for baseline in baselines)
    replace_file(path, f'{{\n "version": {BASELINE_VERSION},\n "baselines": [\n{body}\n ]\n}}\n')


def _baseline_text(baseline: Baseline) -> str:
    about = {name: value for name, value in vars(baseline).items() if name != "series"}
    head = {"fingerprint": baseline.digest, "commit": "", "torch": "", "runs": baseline.runs}  # their order
    machine = {"machine": dict(sorted(baseline.machine.items()))}
    series = ",\n".join(f"    {_row_text(row)}" for row in baseline.series)
    members = "".join(
        f"   {json_files.json_line(name)}: {json_files.json_line(value)},\n"
        for name, value in {**head, **about, **machine}.items()
    )
    return f'  {{\n{members}   "series": [\n{series}\n   ]\n  }}'


def _row_text(row: BaselineRow) -> str:
    facts = {"facts": dict(row.facts)} if row.facts else {}
    return json_files.json_line({**asdict(row.series), **facts, "values": list(row.values)})


def _baseline(item: Mapping[str, Any]) -> Baseline:
    """Convert an item of the file, in which the names of a series are not nested."""
    rows = [{"facts": {}, **row, "series": row} for row in item["series"]]
    return json_files.typed({**item, "series": rows}, Baseline)
