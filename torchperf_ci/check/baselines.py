"""Baselines: a small past that is committed beside the code, one for each fingerprint, in one JSON file."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import __version__, json_files
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import UsageError
from torchperf_ci.git import Git, GitError
from torchperf_ci.records.files import replace_file
from torchperf_ci.series.outcomes import passed
from torchperf_ci.series.points import CASE_FACTS, Point, Series, measured_values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.series.points import Points


_HEX_DIGITS = 12


@dataclass(frozen=True)
class BaselineProvenance:
    """Where a baseline comes from. ``date`` is ISO 8601 in UTC, ``by`` whoever made it, ``command`` how."""

    reason: str
    date: str
    by: str
    command: str
    torchperf: str


@dataclass(frozen=True)
class BaselineRow:
    """One series: ``values`` has one number a run, ``facts`` are the case's own part of the fingerprint."""

    series: Series
    facts: Mapping[str, str]
    values: Sequence[float]


@dataclass(frozen=True)
class Baseline:
    """What was measured on machines of which the facts ``machine`` hold, at one ``commit`` and one of PyTorch."""

    machine: Mapping[str, str]
    commit: str
    torch: str
    provenance: BaselineProvenance
    rows: Sequence[BaselineRow]

    @property
    def digest(self) -> str:
        """Equal exactly where ``machine`` is; the same as the fingerprint in records."""
        canonical = json.dumps(dict(self.machine), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:_HEX_DIGITS]

    @property
    def runs(self) -> int:
        """The most runs that any series has."""
        return max(len(row.values) for row in self.rows)


def baselines_of(points: Points, provenance: BaselineProvenance) -> list[Baseline]:
    """A baseline for each machine that measured ``points``; what has neither a number nor an outcome is left out."""
    rows_of_machine: dict[str, list[tuple[Series, list[Point]]]] = defaultdict(list)
    for series, row in points.items():
        for facts, some in _by_facts(row).items():
            rows_of_machine[facts].append((series, some))
    return [_baseline_of_points(rows, provenance) for rows in rows_of_machine.values()]


def updated_baselines(old: Iterable[Baseline], new: Iterable[Baseline]) -> list[Baseline]:
    """``new`` in the place of those with the same fingerprint; in the order of what the machines are."""
    by_digest = {baseline.digest: baseline for baseline in chain(old, new)}
    return sorted(
        by_digest.values(), key=lambda baseline: (sorted(baseline.machine.items()), baseline.digest)
    )


def points_of_baselines(baselines: Iterable[Baseline]) -> Points:
    """The points of all baselines, as if they were history."""
    points: dict[Series, list[Point]] = defaultdict(list)
    for baseline in baselines:
        when = int(datetime.datetime.fromisoformat(baseline.provenance.date).timestamp())
        for row in baseline.rows:
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
                for number, value in enumerate(row.values, start=baseline.runs - len(row.values))
                if measured_values(row.series.metric, {}, [value])
            ]
    return points


def _by_facts(row: Sequence[Point]) -> dict[str, list[Point]]:
    """The points of each machine, those that say anything."""
    by_machine: dict[str, list[Point]] = defaultdict(list)
    for point in row:
        machine = {name: value for name, value in point.fingerprint.items() if name not in CASE_FACTS}
        if point.value is not None or passed(point) is not None:
            by_machine[json.dumps(machine, sort_keys=True)].append(point)
    return by_machine


def _baseline_of_points(
    rows: Sequence[tuple[Series, Sequence[Point]]], provenance: BaselineProvenance
) -> Baseline:
    newest = max((row[-1] for _, row in rows), key=lambda point: point.timestamp)
    machine, _ = _parted(newest.fingerprint)
    return Baseline(
        machine,
        newest.commit,
        newest.info.get("torch", ""),
        provenance,
        [_row_of_points(series, row) for series, row in sorted(rows, key=lambda item: item[0])],
    )


def _row_of_points(series: Series, points: Sequence[Point]) -> BaselineRow:
    """Of several batch sizes the newest counts."""
    _, facts = _parted(points[-1].fingerprint)
    same = [point for point in points if point.fingerprint == points[-1].fingerprint]
    return BaselineRow(series, facts, [_rounded_value(point) for point in same])


def _parted(facts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The machine's facts, and the case's own."""
    own = {name: facts[name] for name in CASE_FACTS if name in facts}
    return {name: value for name, value in facts.items() if name not in own}, own


def _rounded_value(point: Point) -> float:
    """The value to six digits, far below any noise; an outcome told in words as 1 or 0."""
    if point.value is None:
        return float(bool(passed(point)))
    return point.value if point.value.is_integer() else float(f"{point.value:.6g}")


_GIT_SECONDS = 10.0


def provenance(reason: str, command: Sequence[str]) -> BaselineProvenance:
    """The provenance of what is done now: by the user of git, or in a job by whoever started it."""
    return BaselineProvenance(
        reason=reason,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        by=os.environ.get("GITHUB_ACTOR", "") or _git_user(),
        command=shlex.join(command),
        torchperf=__version__,
    )


def _git_user() -> str:
    """As git writes an author; empty where there is no git, or it knows none."""
    name, email = _git_setting("user.name"), _git_setting("user.email")
    return f"{name} <{email}>" if name and email else name or email


def _git_setting(name: str) -> str:
    with suppress(GitError):
        said = Git(Path.cwd(), Deadline.after(_GIT_SECONDS))("config", "--get", name)
        return said.decode(errors="replace").strip()
    return ""


BASELINE_VERSION = 1
BASELINE_SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read."""

BASELINE_FORMAT = json_files.JsonFormat(
    Path(__file__).with_name("baseline.schema.json"), BASELINE_VERSION, UsageError
)


def read_baselines(path: Path) -> list[Baseline]:
    """The baselines of a file. Raises :class:`UsageError` where it cannot be read, or is no such file."""
    return [_baseline(item) for item in BASELINE_FORMAT.read(path, BASELINE_SIZE_LIMIT)["baselines"]]


def write_baselines(path: Path, baselines: Iterable[Baseline]) -> None:
    """Write the file, whole or not at all. Raises :class:`OutputDirectoryError`."""
    body = ",\n".join(_baseline_text(baseline) for baseline in baselines)
    replace_file(path, f'{{\n "version": {BASELINE_VERSION},\n "baselines": [\n{body}\n ]\n}}\n')


def _baseline_text(baseline: Baseline) -> str:
    head = {
        "fingerprint": baseline.digest,
        "commit": baseline.commit,
        "torch": baseline.torch,
        "runs": baseline.runs,
        **asdict(baseline.provenance),
    }
    machine = {"machine": dict(sorted(baseline.machine.items()))}
    series = ",\n".join(f"    {_row_text(row)}" for row in baseline.rows)
    members = "".join(
        f"   {json_files.json_line(name)}: {json_files.json_line(value)},\n"
        for name, value in (head | machine).items()
    )
    return f'  {{\n{members}   "series": [\n{series}\n   ]\n  }}'


def _row_text(row: BaselineRow) -> str:
    facts = {"facts": dict(row.facts)} if row.facts else {}
    return json_files.json_line({**asdict(row.series), **facts, "values": list(row.values)})


def _baseline(item: Mapping[str, Any]) -> Baseline:
    """What is told apart here stands side by side in the file."""
    rows = [{"facts": {}, **row, "series": row} for row in item["series"]]
    return json_files.typed({**item, "provenance": item, "rows": rows}, Baseline)
