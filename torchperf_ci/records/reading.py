"""Read a records file of any form, lose no good record because of a bad neighbour, and set aside what is refused."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from torchperf_ci.errors import RecordsError, TorchperfError
from torchperf_ci.records.files import (
    MAX_BYTES,
    OverLimitError,
    check_bytes,
    check_values,
    checkpoint,
    open_regular,
    read_regular,
    replace_file,
)
from torchperf_ci.records.parser import Broken, Element, recover, whole
from torchperf_ci.records.schema import Problem, Severity, check_record, path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


_OWN_MEMBERS = ("baselines", "costs", "culprits", "verdicts")
"""One of them is in each of these files, beside its ``version``, and none in a record."""


def is_own_file(reading: RecordsReading) -> bool:
    """Whether a file is verdicts, culprits, costs or a baseline, which no reader of records takes for bad ones."""
    if reading.records or len(reading.refused) != 1:
        return False
    try:
        found = json.loads(reading.refused[0].text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "version" in found and any(name in found for name in _OWN_MEMBERS)


def kind_of_judged(text: str) -> str:
    """``verdicts`` or ``culprits``; empty for another file of torchperf's own."""
    members = json.loads(text)
    return next((kind for kind in ("culprits", "verdicts") if isinstance(members.get(kind), list)), "")


_GZIP_MAGIC = b"\x1f\x8b"
_TOLD = 300
"""Characters that a message has of an error that nobody foresaw."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LocatedRecord:
    """A good record, where it begins, and its text as it stands in the file.

    ``tool`` is the one of whose results it was made; empty where the file holds the record itself.
    """

    record: dict[str, Any]
    file: str
    line: int
    path: str
    text: str
    tool: str = ""


@dataclass(frozen=True)
class RefusedElement:
    """An element that is no good record: its text as it stands in the file, and every reason.

    Bytes that are not UTF-8 are lone surrogates in ``text`` (Python's ``surrogateescape``): nothing is lost.
    """

    file: str
    line: int
    path: str
    reasons: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class RecordsReading:
    """All that a file holds, in its order: good records, refused elements, and the problems of both."""

    records: tuple[LocatedRecord, ...]
    refused: tuple[RefusedElement, ...]
    problems: tuple[Problem, ...]
    limit: str = ""
    """Of the limits of :mod:`torchperf_ci.records.files`, that which made a file be refused as a whole."""

    @property
    def size(self) -> int:
        """Characters of all that it holds: what it takes in memory is some times as much."""
        return sum(len(item.text) for item in self.records) + sum(len(item.text) for item in self.refused)


def read_records(
    path: Path, within: Path | None = None, parse: Callable[[bytes, str], RecordsReading] | None = None
) -> RecordsReading:
    """Read a JSON list, one JSON object or JSONEachRow, plain or gzipped. It must be a regular file.

    ``parse`` is what reads its content, in place of :func:`parse_records`. Raises :class:`RecordsError` where the file
    itself cannot be read; whatever it holds ends in the result. So does a file that cannot be read of those ``within``
    a directory, which nobody has named.
    """
    try:
        content = read_regular(path, MAX_BYTES, within)
    except OSError as error:
        if within is not None:
            return unreadable_file(str(path), error)
        message = f"{path}: cannot be read: {error.strerror}; check the path and its permissions"
        raise RecordsError(message) from error
    return (parse or parse_records)(content, str(path))


def unreadable_file(name: str, error: OSError) -> RecordsReading:
    """What there is of a file of a directory that cannot be read."""
    return refused_file(name, f"cannot be read: {error.strerror}")


def parse_records(content: bytes, name: str) -> RecordsReading:
    """Read the content of a records file, which messages call ``name``.

    Whatever is wrong with it ends in the result: no file stops those that are read beside it. Only memory that runs out
    says nothing about the file.
    """
    return guarded(lambda: _parsed(content, name), content, name)


def guarded(parse: Callable[[], RecordsReading], content: bytes, name: str) -> RecordsReading:
    """What ``parse`` makes of the ``content`` of the file ``name``, or why that is refused."""
    try:
        return parse()
    except OverLimitError as error:
        return replace(refused_file(name, str(error)), limit=str(error))
    except (TorchperfError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # a bug of ours, and the others' records are worth more than a traceback
        reason = f"cannot be read, which is a bug of torchperf: {type(error).__name__}: {error}"[:_TOLD]
        text = content.decode("utf-8", "surrogateescape")
        return replace(refused_file(name, reason), refused=(RefusedElement(name, 1, "$", (reason,), text),))


def refused_file(name: str, reason: str) -> RecordsReading:
    """What there is of a file that is refused as a whole. Its text stays where it is."""
    return RecordsReading((), (), (Problem(name, 1, "$", reason, "refused"),))


def _parsed(content: bytes, name: str) -> RecordsReading:
    text, damage = text_of(content)
    reader = _PieceSorter(name, text)
    for piece in _pieces(text):
        checkpoint()
        reader.take(piece)
    if damage:
        reader.note(len(text), "$", damage, "refused")
    if not (reader.records or reader.problems):
        reader.note(len(text), "$", "holds no record", "flag")
    return RecordsReading(tuple(reader.records), tuple(reader.refused), tuple(reader.problems))


def text_of(content: bytes) -> tuple[str, str | None]:
    """The text of a file, unpacked as far as it goes, and what ended it early. Raises :class:`OverLimitError`."""
    check_bytes(len(content))
    unpacked, damage = _unpack(content)
    begin = len(_BYTE_ORDER_MARK) if unpacked.startswith(_BYTE_ORDER_MARK) else 0
    text = str(memoryview(unpacked)[begin:], "utf-8", "surrogateescape")
    check_values(text)
    return text, damage


class _PieceSorter:
    """Sorts the pieces of one text into records, refused elements and problems."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._counted = 0, 1
        self.records: list[LocatedRecord] = []
        self.refused: list[RefusedElement] = []
        self.problems: list[Problem] = []

    def take(self, piece: Element | Broken) -> None:
        if isinstance(piece, Broken):
            self.note(piece.at, piece.path, piece.reason, "refused")
            self._refuse(piece, (piece.reason,))
        else:
            self._take_element(piece)

    def note(self, position: int, path: str, reason: str, severity: Severity) -> None:
        self.problems.append(Problem(self._file, self._line(position), path, reason, severity))

    def _take_element(self, element: Element) -> None:
        findings = check_record(element.value)
        for finding in findings:
            self.note(
                element.start, element.path + path_text(finding.steps), finding.reason, finding.severity
            )
        reasons = tuple(
            f"{element.path}{path_text(finding.steps)}: {finding.reason}"
            for finding in findings
            if finding.severity == "refused"
        )
        if isinstance(element.value, dict) and not reasons:
            text = self._text[element.start : element.end]
            self.records.append(
                LocatedRecord(element.value, self._file, self._line(element.start), element.path, text)
            )
        else:
            self._refuse(element, reasons)

    def _refuse(self, piece: Element | Broken, reasons: tuple[str, ...]) -> None:
        text = self._text[piece.start : piece.end]
        if text:
            self.refused.append(
                RefusedElement(self._file, self._line(piece.start), piece.path, reasons, text)
            )

    def _line(self, position: int) -> int:
        """Counted on from where it was asked for last, which is near: pieces come in their order."""
        before, line = self._counted
        first, last = sorted((before, position))
        passed = self._text.count("\n", first, last)
        self._counted = position, line + (passed if position >= before else -passed)
        return self._counted[1]


def _pieces(text: str) -> list[Element | Broken]:
    try:
        return list[Element | Broken](whole(text))
    except (ValueError, RecursionError):
        return recover(text)


def _unpack(content: bytes) -> tuple[bytes | bytearray, str | None]:
    """Return the content, unzipped as far as it goes, and what ended it early. Raises :class:`OverLimitError`."""
    if not content.startswith(_GZIP_MAGIC):
        return content, None
    unpacked = bytearray()
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        try:
            # read() would drop what came before the damage; read1() hands it out piece by piece.
            while piece := packed.read1():
                unpacked += piece
                check_bytes(len(unpacked), "unpacks to")
        except (EOFError, OSError, zlib.error) as error:
            return unpacked, f"the gzip data is damaged or cut off ({error}); records may be missing"
    return unpacked, None


def add_to_quarantine(path: Path, refused: Iterable[RefusedElement]) -> None:
    """Add ``refused`` to the quarantine file at ``path``, JSONEachRow with the fields of :class:`Refused`.

    What the file already holds stays, and is not added twice. Nothing refused leaves it as it is, or absent.
    Raises :class:`OutputDirectoryError` or :class:`RecordsError`, with the file as it was.
    """
    kept = _quarantined_lines(path)
    known = set(kept)
    # Escaped to ASCII, so that bytes which are not UTF-8 come back from the file as they were.
    added = [
        line for line in dict.fromkeys(json.dumps(asdict(item)) for item in refused) if line not in known
    ]
    if added:
        replace_file(path, "".join(f"{line}\n" for line in [*kept, *added]))


def _quarantined_lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as file:
            return [line for line in file.read().decode().split("\n") if line]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"{path}: the earlier quarantine cannot be read: {error}; move it away, or name another file"
        )
        raise RecordsError(message) from error
