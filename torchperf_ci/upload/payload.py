"""Read the record files of a directory, and pack them as one object per file or as few requests to an upload API.

The same records and metadata always give the same bytes, so that repeated uploads are recognized.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_ci.errors import RecordsError, failing_as
from torchperf_ci.identity import MeasuredCommit
from torchperf_ci.imports.other_tools import parse_results
from torchperf_ci.places.place import in_batches
from torchperf_ci.records.files import (
    MAX_BYTES,
    MAX_FILES,
    MAX_UPLOAD,
    MAX_VALUES,
    SUFFIXES,
    count_values,
    mebibytes,
    open_regular,
    read_limited,
)
from torchperf_ci.records.reading import (
    RecordsReading,
    RefusedElement,
    is_torchperf_file,
    kind_of_judged,
    refused_file,
    unreadable_file,
)

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.records.schema import Problem, Severity


@dataclass(frozen=True)
class RecordsFile:
    """A file of records: its name, modification time (Unix seconds), and content."""

    name: str
    timestamp: int
    reading: RecordsReading


@dataclass(frozen=True)
class ResultFile:
    """A file of verdicts or culprits (``kind``), as it was written."""

    kind: str
    text: str


@dataclass(frozen=True)
class RecordsSource:
    """All record files of a directory, a digest of their names and bytes, and verdicts and culprits (``judged``).

    ``unread`` is the number of its files that are not read because of their suffix, ``.jsonl`` or ``.JSON``, and
    ``has_below`` whether files in folders below are named as records; these are not read, either.
    """

    files: tuple[RecordsFile, ...]
    digest: str
    judged: tuple[ResultFile, ...] = ()
    unread: int = 0
    has_below: bool = False

    @property
    def refused(self) -> list[RefusedElement]:
        """The elements that are not valid records, and the files that cannot be read."""
        return [refused for file in self.files for refused in file.reading.refused]

    def problems(self, severity: Severity) -> list[Problem]:
        """Return the problems of this severity, in the order of the files."""
        problems = (problem for file in self.files for problem in file.reading.problems)
        return [problem for problem in problems if problem.severity == severity]

    @property
    def commit(self) -> MeasuredCommit | None:
        """The commit that all records name with its repository and branch; None if they do not, or name several."""
        names = ("repo", "head_branch", "head_sha")
        records = [found.record for file in self.files for found in file.reading.records]
        named = {tuple(str(record.get(name) or "") for name in names) for record in records}
        repo, branch, sha = named.pop() if len(named) == 1 else ("", "", "")
        return MeasuredCommit(repo, branch, sha) if repo and branch and sha else None

    @property
    def is_empty(self) -> bool:
        """Whether there are no records, no refused elements, and no verdicts or culprits."""
        return not self.judged and all(file.reading.is_empty for file in self.files)


def read_source(source: Path, format_name: str = "") -> RecordsSource:
    """Read the ``*.json`` and ``*.json.gz`` files of a folder, or a single such file; a missing folder is empty.

    Results of other tools are converted to records; ``format_name`` is the option ``--format``, or empty.

    Hidden files, baselines and costs are skipped. Unreadable or irregular files, and those beyond the limits, are
    refused. Raises :class:`RecordsError` if ``source`` itself cannot be read.
    """
    folder, paths = (source.parent, iter([source])) if _is_file(source) else (source, _paths(source))
    files, judged, room = [], [], MAX_UPLOAD
    digests = {False: hashlib.sha256(), True: hashlib.sha256()}  # of records, and of verdicts and culprits
    for number, path in enumerate(paths):
        if number == MAX_FILES:
            more = refused_file(str(folder), f"holds more than {MAX_FILES:,} files; the others are left out")
            files.append(RecordsFile(folder.name, 0, more))
            break
        content, timestamp, reading = _read_file(path, folder, room, format_name)
        is_torchperf = is_torchperf_file(reading)
        kind = kind_of_judged(reading.refused[0].text) if is_torchperf else ""
        if is_torchperf and not kind:
            continue
        digests[bool(kind)].update(
            f"{path.name}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content
        )
        if kind:
            judged.append(ResultFile(kind, reading.refused[0].text))
        else:
            files.append(RecordsFile(path.name, timestamp, reading))
        room -= reading.size
    return RecordsSource(
        tuple(files),
        digests[not files].hexdigest(),
        tuple(judged),
        sum(map(_is_unread, source.glob("[!.]*"))),
        any(map(_is_below, source.glob("[!.]*/**/[!.]*"))),
    )


def _is_file(source: Path) -> bool:
    if not source.exists() or source.is_dir():
        return False
    if not source.name.endswith(SUFFIXES):
        msg = f"{source}: is neither a directory nor a file of .json or .json.gz; give what holds the records"
        raise RecordsError(msg)
    return True


def _paths(folder: Path) -> Iterator[Path]:
    with failing_as(RecordsError, f"{folder}: cannot be read: ", "; check its permissions"):
        files = sorted(folder.iterdir()) if folder.exists() else []
    named = (path for path in files if path.name.endswith(SUFFIXES) and not path.name.startswith("."))
    return (path for path in named if path.is_symlink() or not path.is_dir())


def _is_unread(path: Path) -> bool:
    """Whether a file may hold records, but its suffix is in capitals or of JSON lines, as a bisection's state is."""
    named = path.name.lower().endswith((*SUFFIXES, ".jsonl", ".jsonl.gz"))
    return named and not path.name.endswith((*SUFFIXES, "state.jsonl"))


def _is_below(path: Path) -> bool:
    """Whether a file in a folder below may hold records; traces of profiles, such as a bisection's, do not."""
    return path.name.endswith(SUFFIXES) and not path.name.endswith((".trace.json", ".trace.json.gz"))


def _read_file(path: Path, folder: Path, room: int, format_name: str) -> tuple[bytes, int, RecordsReading]:
    """Return the bytes of a file, its modification time (Unix seconds), and its parsed content."""
    name = str(path)
    if room <= 0:
        reason = f"is left out: an upload has room for {mebibytes(MAX_UPLOAD)}; split it in two"
        return b"", 0, refused_file(name, reason)
    try:
        with open_regular(path, folder) as file:
            content, changed = read_limited(file, MAX_BYTES), os.fstat(file.fileno()).st_mtime
    except OSError as error:
        return b"", 0, unreadable_file(name, error)
    # Archives without times give 1970, or in some time zones the day before, but the column is unsigned.
    return content, max(0, int(changed)), parse_results(content, name, format_name, folder)


CompleteRecord = Mapping[str, Any]
"""A record that has all fields from which its key is made."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_PART_LENGTH = 120
_MAX_PATH_LENGTH = 400
"""Longest repository or branch in a key: 1,024 characters must hold both, and four more parts."""

_MARK = 8
"""Hexadecimal digits that distinguish names which differ only in characters that a key cannot hold."""


def file_key(record: CompleteRecord, file: str) -> str:
    """Return the key ``v3/{repo}/{workflow_id}/{job_id}/{file}`` for the records of one file.

    ``record`` must be complete. Records of ServiceLab have the ids of an experiment and a trial instead.
    """
    workflow = record["workflow_id"] or record["servicelab_experiment_id"]
    job = record["job_id"] or record.get("servicelab_trial_id", 0)
    return "/".join(["v3", _path(record["repo"]), safe(workflow), safe(job), distinct(file)])


def commit_key(record: CompleteRecord, model: str = "", part: int = 1) -> str:
    """Return the key for an upload API: ``v3/{repo}/{branch}/{sha}/{device_type}/benchmark_results[_{model}].json``.

    ``record`` must be complete. Content that is too large for one request continues in ``….part2.json``, and so on.
    """
    branch = str(record["head_branch"]).removeprefix("refs/heads/")
    suffix = f"_{safe(model)}" if model else ""
    number = f".part{part}" if part > 1 else ""
    below = f"{safe(record['head_sha'])}/{safe(device_type(record))}"
    return f"v3/{_path(record['repo'])}/{_path(branch)}/{below}/benchmark_results{suffix}{number}.json"


def device_type(record: CompleteRecord) -> str:
    """Return the hardware by which queries filter: that of the first runner, else that given by the benchmark."""
    first = next(iter(record.get("runners") or []), None) or {}
    about = (record.get("benchmark") or {}).get("extra_info") or {}
    return str(first.get("type") or about.get("arch") or first.get("cpu_info") or "unknown")


def safe(name: object) -> str:
    """Return ``name`` as one part of a key: characters other than letters, digits and ``. _ -`` become ``_``."""
    replaced = _UNSAFE.sub("_", str(name))[:_MAX_PART_LENGTH].lstrip(".")
    return replaced or "_"


def distinct(file: str) -> str:
    """Like :func:`safe`, but append a hash if anything was replaced, so that two files never get the same key."""
    if safe(file) == file:
        return file
    mark = hashlib.sha256(file.encode("utf-8", "surrogateescape")).hexdigest()[:_MARK]
    name, suffix = _split_name(file)
    return f"{safe(name)}-{mark}{suffix}"


def _split_name(file: str) -> tuple[str, str]:
    suffix = next((suffix for suffix in SUFFIXES if file.endswith(suffix)), "")
    return file.removesuffix(suffix), suffix


def _path(name: object) -> str:
    path = "/".join(safe(part) for part in str(name).split("/") if part) or "_"
    return path if len(path) <= _MAX_PATH_LENGTH else distinct(path.replace("/", " "))


API_LIMIT = 6_000_000
"""Most bytes in a request to an upload API: AWS Lambda's limit of "6 MB", read as megabytes, not mebibytes."""
ENVELOPE = 8_192
"""Bytes of it that are reserved for credentials, key and punctuation."""
_ROOM_FOR_RECORDS = API_LIMIT - ENVELOPE


@dataclass(frozen=True)
class Payload:
    """One object to send: its key, its bytes, and the number of records in it, 0 for a file of verdicts or culprits."""

    key: str
    body: bytes
    records: int

    @property
    def entries(self) -> int:
        """The number of records, or 1 for a file of verdicts or culprits."""
        return self.records or 1


def pack_objects(files: Mapping[str, Sequence[CompleteRecord]]) -> list[Payload]:
    """Pack the complete records of each file into one object: gzipped JSONEachRow.

    A file becomes several objects if with what completes its records it is beyond the limits of whoever reads it.
    """
    return [
        Payload(file_key(chunk[0], _part_name(name, part)), gzip.compress(_rows(chunk), mtime=0), len(chunk))
        for name, records in files.items()
        for part, chunk in enumerate(
            _chunks((_SizedRecord(each, _share(_row(each))) for each in records), 1), start=1
        )
    ]


def _share(row: str) -> float:
    """Return how much of the limits of an object a row takes: 1 is all."""
    return max((len(row.encode()) + 1) / MAX_BYTES, count_values(row) / MAX_VALUES)


def _part_name(file: str, part: int) -> str:
    """Return a name for a part. No file has its key, which holds a hash of it: a file's name has no slash."""
    name, suffix = _split_name(file)
    return file if part == 1 else f"{name}/part{part}{suffix}"


def pack_requests(
    records: Iterable[CompleteRecord], model: str = "", *, by_job: bool = False
) -> tuple[list[Payload], list[RecordsFile]]:
    """Pack records into requests to an upload API: one per commit and hardware, or several if it is too large.

    ``model`` is the suffix of the keys; with ``by_job``, it is the id of the job that measured the record. The second
    list has the records that fit into no request, each as a file that is refused.
    """
    payloads: list[Payload] = []
    refused: list[RecordsFile] = []
    groups: dict[tuple[str, str], list[CompleteRecord]] = {}
    for record in records:
        suffix = str(record["job_id"]) if by_job else model
        groups.setdefault((commit_key(record, suffix), suffix), []).append(record)
    for (_, suffix), group in groups.items():
        sized = [_SizedRecord(record, _size_in_request(_row(record))) for record in group]
        refused += [_oversized(item) for item in sized if item.size > _ROOM_FOR_RECORDS]
        fitting = (item for item in sized if item.size <= _ROOM_FOR_RECORDS)
        for part, chunk in enumerate(_chunks(fitting, _ROOM_FOR_RECORDS), start=1):
            payloads.append(Payload(commit_key(chunk[0], suffix, part), _rows(chunk), len(chunk)))
    return payloads, refused


def _oversized(item: _SizedRecord) -> RecordsFile:
    reason = f"takes {item.size:.0f} bytes of a request, and an upload API has {API_LIMIT} for all; send it to a bucket"
    name = str(item.record["name"])
    return RecordsFile(name, 0, refused_file(name, reason, json.dumps(item.record)))


def pack_judged(files: Iterable[ResultFile], repo: str, run: int) -> list[Payload]:
    """Pack each distinct file under its own key below ``judged/{repo}/{run}``: one run may bisect several times."""
    texts = {hashlib.sha256(file.text.encode()).hexdigest()[:16]: file for file in files}
    below = f"judged/{_path(repo)}/{safe(run)}"
    return [
        Payload(f"{below}/{file.kind}-{mark}.json", gzip.compress(file.text.encode(), mtime=0), 0)
        for mark, file in texts.items()
    ]


class _SizedRecord(NamedTuple):
    record: CompleteRecord
    size: float


def _chunks(sized: Iterable[_SizedRecord], room: float) -> Iterator[list[CompleteRecord]]:
    """Split the records, in order, into lists whose sizes each fit into ``room``."""
    return ([item.record for item in batch] for batch in in_batches(sized, room))


def _size_in_request(row: str) -> int:
    """Return the bytes of a row with its newline inside the request's JSON, where it is escaped once more."""
    return len(json.dumps(row + "\n", ensure_ascii=False).encode()) - len('""')


def _rows(records: Iterable[CompleteRecord]) -> bytes:
    return "".join(f"{_row(record)}\n" for record in records).encode()


def _row(record: CompleteRecord) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
