"""The directory of record files that is uploaded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.errors import RecordsError
from torchperf_ci.records.reading import Reading, Refused, parse

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
    """Read the ``*.json`` and ``*.json.gz`` of ``folder``, hidden files and folders aside; a missing folder is empty.

    Raises :class:`RecordsError` for what cannot be read.
    """
    files, digest = [], hashlib.sha256()
    for path in _paths(folder):
        content, timestamp = _read(path)
        digest.update(f"{path.name}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
        files.append(RecordsFile(path.name, timestamp, parse(content, one_line(path))))
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
    return (p for p in found if p.name.endswith(SUFFIXES) and not p.name.startswith(".") and p.is_file())


def _read(path: Path) -> tuple[bytes, int]:
    try:
        return path.read_bytes(), int(path.stat().st_mtime)
    except OSError as error:
        msg = f"{one_line(path)}: cannot be read: {error.strerror}; check its permissions"
        raise RecordsError(msg) from error
