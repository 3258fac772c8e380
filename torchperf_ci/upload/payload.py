"""What goes over the wire: one object a file, or as few requests as an upload API takes.

The same records and metadata always make the same bytes, so that a repetition is known as one.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci.upload.keys import commit_key, file_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

API_LIMIT = 6_000_000
"""Bytes of a request's JSON that an upload API takes: AWS Lambda's limit, in the smaller reading of "6 MB"."""
ENVELOPE = 8_192
"""Of these, room for credentials, key and punctuation."""
_ROOM = API_LIMIT - ENVELOPE

Record = dict[str, Any]


@dataclass(frozen=True)
class Payload:
    """One object: its key, its bytes, and how many records they hold."""

    key: str
    body: bytes
    records: int


@dataclass(frozen=True)
class Oversized:
    """A record that no request has room for, and the size that it would have in one, in bytes."""

    record: Record
    size: int


def objects(files: Mapping[str, Sequence[Record]]) -> list[Payload]:
    """One object for the complete records of each file: JSONEachRow, gzipped."""
    return [
        Payload(file_key(records[0], name), _gzipped(_rows(records)), len(records))
        for name, records in files.items()
        if records
    ]


def requests(records: Iterable[Record], model: str = "") -> tuple[list[Payload], list[Oversized]]:
    """The content of each request to an upload API, JSONEachRow: one for each commit and hardware, or more by size."""
    payloads: list[Payload] = []
    oversized: list[Oversized] = []
    for group in _grouped(records, model).values():
        sizes = [_size_in_request(_row(record)) for record in group]
        fitting = [(record, size) for record, size in zip(group, sizes, strict=True) if size <= _ROOM]
        oversized += [
            Oversized(record, size) for record, size in zip(group, sizes, strict=True) if size > _ROOM
        ]
        for part, chunk in enumerate(_chunks(fitting), start=1):
            payloads.append(Payload(commit_key(chunk[0], model, part), _rows(chunk), len(chunk)))
    return payloads, oversized


def _grouped(records: Iterable[Record], model: str) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(commit_key(record, model), []).append(record)
    return groups


def _chunks(sized: Iterable[tuple[Record, int]]) -> Iterator[list[Record]]:
    """The records in their order, in lists that each fit into one request."""
    chunk: list[Record] = []
    used = 0
    for record, size in sized:
        if chunk and used + size > _ROOM:
            yield chunk
            chunk, used = [], 0
        chunk.append(record)
        used += size
    if chunk:
        yield chunk


def _size_in_request(row: str) -> int:
    """Bytes that a row takes inside of the request's JSON, where it is escaped once more, with its line end."""
    return len(json.dumps(row + "\n", ensure_ascii=False).encode()) - len('""')


def _rows(records: Iterable[Record]) -> bytes:
    return "".join(f"{_row(record)}\n" for record in records).encode()


def _row(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)
