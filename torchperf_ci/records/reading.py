"""Read records files of any form; a bad record never costs a good one, and refused text can be quarantined."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torchperf_ci.errors import RecordsError, TorchperfError
from torchperf_ci.records import files
from torchperf_ci.records.parser import Broken, Element, recover, whole
from torchperf_ci.records.record import parsed_json
from torchperf_ci.records.schema import Problem, Severity, check_record, is_text, path_text

_TORCHPERF_MEMBERS = ("baselines", "costs", "culprits", "verdicts")
"""Top-level keys of torchperf's other files, each beside a ``version``; no record has one of them."""


def is_torchperf_file(reading: RecordsReading) -> bool:
    """Whether a file holds verdicts, culprits, costs or a baseline, which must not be reported as bad records.

    One with bytes that are not UTF-8 is damaged, and reported.
    """
    if reading.records or len(reading.refused) != 1 or not is_text(reading.refused[0].text):
        return False
    found = parsed_json(reading.refused[0].text)
    return (
        isinstance(found, dict) and "version" in found and any(name in found for name in _TORCHPERF_MEMBERS)
    )


def kind_of_judged(text: str) -> str:
    """Return ``verdicts`` or ``culprits``; empty for any other file of torchperf's own."""
    members = json.loads(text)
    return next((kind for kind in ("culprits", "verdicts") if isinstance(members.get(kind), list)), "")


_MAX_MESSAGE_LENGTH = 300
"""Characters of an unexpected error that a message quotes."""


@dataclass(frozen=True)
class LocatedRecord:
    """A valid record, where it begins, and its text as it stands in the file.

    ``tool`` names the tool whose results were converted to it; empty where the file holds the record itself.
    """

    record: dict[str, Any]
    file: str
    line: int
    path: str
    text: str
    tool: str = ""


@dataclass(frozen=True)
class RefusedElement:
    """An element that was refused: its text as it stands in the file, and all reasons.

    The text is empty for a file that is refused as a whole, and for the lost end of a truncated one.
    Bytes that are not UTF-8 are kept as lone surrogates in ``text`` (Python's ``surrogateescape``).
    """

    file: str
    line: int
    path: str
    reasons: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class RecordsReading:
    """The content of a file in its order: valid records, refused elements, and the problems of both."""

    records: tuple[LocatedRecord, ...]
    refused: tuple[RefusedElement, ...]
    problems: tuple[Problem, ...]
    limit: str = ""
    """Which limit of :mod:`torchperf_ci.records.files` caused the whole file to be refused."""

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a record nor anything that was refused."""
        return not (self.records or self.refused)

    @property
    def size(self) -> int:
        """Characters of all elements; their size in memory is several times as much."""
        return sum(len(item.text) for item in self.records) + sum(len(item.text) for item in self.refused)


def read_records(
    path: Path, within: Path | None = None, parse: Callable[[bytes, str], RecordsReading] | None = None
) -> RecordsReading:
    """Read a regular file that holds a JSON list, a single JSON object or JSONEachRow, plain or gzipped.

    ``parse`` replaces :func:`parse_records`. Raises :class:`RecordsError` if the file cannot be read, unless it was
    found ``within`` a directory instead of named by the caller: then, like bad content, that is part of the result.
    """
    try:
        content = files.read_regular(path, files.MAX_BYTES, within)
    except OSError as error:
        if within is not None:
            return unreadable_file(str(path), error)
        message = f"{path}: cannot be read: {error.strerror}; check the path and its permissions"
        raise RecordsError(message) from error
    return (parse or parse_records)(content, str(path))


def unreadable_file(name: str, error: OSError) -> RecordsReading:
    """Return the reading of a file in a directory that cannot be read."""
    return refused_file(name, f"cannot be read: {error.strerror}")


def parse_records(content: bytes, name: str) -> RecordsReading:
    """Parse the content of a records file, which messages call ``name``.

    Whatever is wrong with it becomes part of the result, so that one file never stops the others. Only running out of
    memory raises, since it says nothing about the file.
    """
    return guarded(lambda: _parsed(content, name), content, name)


def guarded(parse: Callable[[], RecordsReading], content: bytes, name: str) -> RecordsReading:
    """Return the result of ``parse``; if it fails, a reading that refuses the file ``name`` with the reason."""
    try:
        return parse()
    except files.OverLimitError as error:
        return replace(refused_file(name, str(error)), limit=str(error))
    except (TorchperfError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # a bug of ours; the other files matter more than a traceback
        reason = f"cannot be read, which is a bug of torchperf: {type(error).__name__}: {error}"[
            :_MAX_MESSAGE_LENGTH
        ]
        return refused_file(name, reason, content.decode("utf-8", "surrogateescape"))


def refused_file(name: str, reason: str, text: str = "") -> RecordsReading:
    """Return the reading of a file that is refused as a whole."""
    found = FoundInFile(name)
    found.refuse("$", reason, text)
    return found.reading()


def _parsed(content: bytes, name: str) -> RecordsReading:
    text, damage = text_of(content)
    reader = _PieceSorter(name, text)
    for piece in _pieces(text):
        files.checkpoint()
        reader.take(piece)
    if damage:
        reader.refuse("$", damage, "", reader.line(len(text)))
    return reader.reading("holds no record")


def text_of(content: bytes) -> tuple[str, str | None]:
    """Return the text of a file, decompressed as far as possible, and the damage that ended it early, if any.

    Raises :class:`OverLimitError`.
    """
    files.check_bytes(len(content))
    unpacked, damage = _unpack(content)
    is_utf16 = unpacked.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # PowerShell's `>`
    text = unpacked.decode(*(("utf-16", "replace") if is_utf16 else ("utf-8-sig", "surrogateescape")))
    files.check_values(text)
    return text, damage


class FoundInFile:
    """Collects the records, the refused elements and the problems of one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[LocatedRecord] = []
        self.refused: list[RefusedElement] = []
        self.problems: list[Problem] = []

    def note(self, path: str, reason: str, severity: Severity, line: int = 1) -> None:
        """Add a problem."""
        self.problems.append(Problem(self.file, line, path, reason, severity))

    def refuse(self, path: str, reason: str, text: str, line: int = 1) -> None:
        """Add an element that is refused for one reason."""
        self.note(path, reason, "refused", line)
        problem = reason if path == "$" else f"{path}: {reason}"
        self.refused.append(RefusedElement(self.file, line, path, (problem,), text))

    def reading(self, nothing: str = "") -> RecordsReading:
        """Return what was found; ``nothing`` says that there was neither a record nor a problem."""
        if not (self.records or self.problems):
            self.note("$", nothing, "flag")
        return RecordsReading(tuple(self.records), tuple(self.refused), tuple(self.problems))


class _PieceSorter(FoundInFile):
    """Sorts the pieces of one text, which come in their order."""

    def __init__(self, file: str, text: str) -> None:
        super().__init__(file)
        self._text = text
        self._counted = 0, 1

    def take(self, piece: Element | Broken) -> None:
        text = self._text[piece.start : piece.end]
        if isinstance(piece, Broken):
            self.refuse(piece.path, piece.reason, text, self.line(piece.at))
            return
        line, findings = self.line(piece.start), check_record(piece.value)
        for finding in findings:
            self.note(piece.path + path_text(finding.steps), finding.reason, finding.severity, line)
        reasons = tuple(
            f"{piece.path}{path_text(finding.steps)}: {finding.reason}"
            for finding in findings
            if finding.severity == "refused"
        )
        if isinstance(piece.value, dict) and not reasons:
            self.records.append(LocatedRecord(piece.value, self.file, line, piece.path, text))
        else:
            self.refused.append(RefusedElement(self.file, line, piece.path, reasons, text))

    def line(self, position: int) -> int:
        """Return the line of ``position``, counted from that of the previous call: pieces come in order."""
        before, line = self._counted
        self._counted = position, line + self._text.count("\n", before, position)
        return self._counted[1]


def _pieces(text: str) -> list[Element | Broken]:
    try:
        return list[Element | Broken](whole(text))
    except (ValueError, RecursionError):
        return recover(text)


def _unpack(content: bytes) -> tuple[bytes | bytearray, str | None]:
    """Return the content, decompressed as far as possible, and the damage that ended it early, if any.

    Raises :class:`OverLimitError`.
    """
    if not files.is_gzip(content):
        return content, None
    unpacked = bytearray()
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        try:
            # read() would discard what precedes the damage; read1() returns it piece by piece.
            while piece := packed.read1():
                unpacked += piece
                files.check_bytes(len(unpacked), "unpacks to")
        except (EOFError, OSError, zlib.error) as error:
            return unpacked, f"the gzip data is damaged or cut off ({error}); records may be missing"
    return unpacked, None


def add_to_quarantine(path: Path, refused: Iterable[RefusedElement]) -> None:
    """Append ``refused`` to the quarantine file at ``path``: JSONEachRow with the fields of :class:`RefusedElement`.

    Elements that are in the file already are not added again. Without new elements the file is not touched or
    created. Raises :class:`OutputDirectoryError` or :class:`RecordsError`, leaving the file unchanged.
    """
    kept = _quarantined_lines(path)
    known = set(kept)
    # JSON escaped to ASCII preserves bytes that are not UTF-8.
    added = [
        line for line in dict.fromkeys(json.dumps(asdict(item)) for item in refused) if line not in known
    ]
    if added:
        files.replace_file(path, "".join(f"{line}\n" for line in [*kept, *added]))


def _quarantined_lines(path: Path) -> list[str]:
    try:
        with files.open_regular(path) as file:
            return [line for line in file.read().decode().split("\n") if line]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"{path}: the earlier quarantine cannot be read: {error}; move it away, or name another file"
        )
        raise RecordsError(message) from error
