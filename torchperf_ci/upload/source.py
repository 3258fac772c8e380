"""The directory of record files that is uploaded."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.errors import RecordsError
from torchperf_ci.records.files import open_regular, read_limited
from torchperf_ci.records.limits import MAX_BYTES, MAX_FILES, MAX_UPLOAD, mebibytes
from torchperf_ci.records.own_files import is_own_file
from torchperf_ci.records.reading import Reading, Refused, parse, unread, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.records.problems import Problem, Severity

SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True)
class RecordsFile:
    """One file: its name, when it was last changed (Unix time in seconds), and what it holds."""

    name: str
    timestamp: int
    reading: Reading


@dataclass(frozen=True)
class Source:
    """All files of a directory, and a digest of their names and bytes."""

    files: tuple[RecordsFile, ...]
    digest: str

    @property
    def refused(self) -> list[Refused]:
        """What is no good record."""
        return [refused for file in self.files for refused in file.reading.refused]

    def problems(self, severity: Severity) -> list[Problem]:
        """What is wrong, in the order of the files."""
        problems = (problem for file in self.files for problem in file.reading.problems)
        return [problem for problem in problems if problem.severity == severity]

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a record nor anything that was meant to be one."""
        return not (any(file.reading.records for file in self.files) or self.problems("refused"))


def read_source(folder: Path) -> Source:
    """Read the ``*.json`` and ``*.json.gz`` of ``folder``; a missing folder is empty.

    Hidden files and folders are left out, and so are files of torchperf's own, such as verdicts. A file that cannot be
    read, or is none, is refused, as is what is beyond the limits. Raises :class:`RecordsError` where ``folder`` itself
    cannot be read.
    """
    files, digest, room = [], hashlib.sha256(), MAX_UPLOAD
    for number, path in enumerate(_paths(folder)):
        if number == MAX_FILES:
            more = unread(one_line(folder), f"holds more than {MAX_FILES:,} files; the others are left out")
            files.append(RecordsFile(folder.name, 0, more))
            break
        content, timestamp, reading = _read(path, folder, room)
        if is_own_file(reading):
            continue
        digest.update(f"{path.name}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
        files.append(RecordsFile(path.name, timestamp, reading))
        room -= reading.size
    return Source(tuple(files), digest.hexdigest())


def _paths(folder: Path) -> Iterator[Path]:
    if folder.exists() and not folder.is_dir():
        msg = f"{one_line(folder)}: is no directory; give the one that holds the record files"
        raise RecordsError(msg)
    try:
        found = sorted(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        msg = f"{one_line(folder)}: cannot be read: {error.strerror}; check its permissions"
        raise RecordsError(msg) from error
    named = (path for path in found if path.name.endswith(SUFFIXES) and not path.name.startswith("."))
    return (path for path in named if path.is_symlink() or not path.is_dir())


def _read(path: Path, folder: Path, room: int) -> tuple[bytes, int, Reading]:
    """The content of a file, when it was changed, and what it holds."""
    name = one_line(path)
    if room <= 0:
        reason = f"is left out: an upload has room for {mebibytes(MAX_UPLOAD)}; make it two"
        return b"", 0, unread(name, reason)
    try:
        with open_regular(path, folder) as file:
            content, changed = read_limited(file, MAX_BYTES), os.fstat(file.fileno()).st_mtime
    except OSError as error:
        return b"", 0, unreadable(name, error)
    # Archives that forget times say 1970, or the day before it elsewhere on earth; the column has no sign.
    return content, max(0, int(changed)), parse(content, name)
