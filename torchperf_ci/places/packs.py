"""Packs: the record files of a month as one object, in which each keeps its key and its content.

A pack is ``packed/YYYY-MM.tar.gz``; a month that is too large for one goes on in ``packed/YYYY-MM.2.tar.gz``. Its first
member says of each file what its tag was before, which tells a reader what it has read already. The rest are the files
under their keys, not compressed by themselves: ``tar -xf`` gives them back. ``packed/index`` names the folders that
have files in packs.
"""

from __future__ import annotations

import datetime
import gzip
import io
import re
import tarfile
import zlib
from collections import defaultdict
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from torchperf_ci.errors import UnfitObjectError, UnsafeKeyError
from torchperf_ci.places.place import PlacedObject, check_keys, unpacked
from torchperf_ci.records.files import MAX_BYTES, OverLimitError, check_bytes, mebibytes
from torchperf_ci.records.schema import LATEST_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

INDEX = "packed/index"
PACK_BYTES = 256 * 2**20
"""Of the files in one pack, as they are in it; fifty times what the pack takes."""
_MOST_UNPACKED = 2 * PACK_BYTES
_TAGS = "tags"
"""The name of the first member: lines of a file's tag, a space and its key."""
_PACK = re.compile(r"packed/(\d{4}-\d{2})(\.\d+)?\.tar\.gz")
_TIMESTAMP = re.compile(rb'"timestamp":\s*"?(\d{1,12})\b')


def is_pack(key: str) -> bool:
    """Whether an object is a pack, by its name."""
    return bool(_PACK.fullmatch(key))


def month_of_pack(key: str) -> str:
    """``YYYY-MM`` of a pack's name."""
    found = _PACK.fullmatch(key)
    return found[1] if found else ""


def month_of_content(body: bytes) -> str:
    """``YYYY-MM`` in UTC of the newest ``timestamp`` in records or verdicts; empty where there is none."""
    seconds = map(int, _TIMESTAMP.findall(unpacked(body, MAX_BYTES)))
    newest = max((each for each in seconds if each <= LATEST_SECOND), default=0)
    return f"{datetime.datetime.fromtimestamp(newest, datetime.timezone.utc):%Y-%m}" if newest else ""


QUARTER = 3
"""Months that are left as they are, beside the one that has begun."""


def month_before(day: datetime.date, months: int) -> str:
    """``YYYY-MM`` of so many months before that of ``day``."""
    count = day.year * 12 + day.month - 1 - months
    return f"{count // 12:04d}-{count % 12 + 1:02d}"


def pack_names(month: str) -> Iterator[str]:
    """The keys of the packs of a month, as many as are needed."""
    yield f"packed/{month}.tar.gz"
    yield from (f"packed/{month}.{number}.tar.gz" for number in count(2))


def write_packs(files: Iterable[PlacedObject]) -> Iterator[tuple[bytes, list[str]]]:
    """The packs of a month: content, and the keys of the files in it. The same files make the same bytes."""
    for part in _parts(sorted(files, key=lambda file: file.key)):
        content = _write_pack(part)
        # What they were made of is deleted, so that nobody could mend what went wrong here.
        if not all(was == now for was, now in zip(part, read_pack("", content), strict=True)):
            msg = "a pack does not hold what was put into it"
            raise AssertionError(msg)
        yield content, [file.key for file in part]


def _parts(files: Iterable[PlacedObject]) -> Iterator[list[PlacedObject]]:
    """The files, unpacked, as many at a time as a pack may have."""
    part: list[PlacedObject] = []
    size = 0
    for stored in files:
        file = replace(stored, body=unpacked(stored.body, -1))
        if part and size + file.size > PACK_BYTES:
            yield part
            part, size = [], 0
        part.append(file)
        size += file.size
    if part:
        yield part


def _write_pack(files: Sequence[PlacedObject]) -> bytes:
    buffer = io.BytesIO()
    tags = "".join(f"{file.tag} {file.key}\n" for file in files).encode()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, body in ((_TAGS, tags), *((file.key, file.body) for file in files)):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return buffer.getvalue()


def read_pack(where: str, content: bytes) -> Iterator[PlacedObject]:
    """The files of a pack, one after the other. Raises :class:`UnfitObjectError`, whatever came before it."""
    try:
        check_bytes(len(content))
        with gzip.open(io.BytesIO(content)) as stream:
            limited = _LimitedReader(stream)
            with tarfile.open(fileobj=limited, mode="r|") as archive:
                yield from _members(archive)
            limited.read_to_end()
    except OverLimitError as error:
        raise UnfitObjectError(where, str(error)) from error
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, KeyError, UnsafeKeyError) as error:
        raise UnfitObjectError(where, f"is named as a pack, and is none or damaged ({error})") from error


def _members(archive: tarfile.TarFile) -> Iterator[PlacedObject]:
    tags: dict[str, str] | None = None
    for member in archive:
        check_bytes(member.size)
        file = archive.extractfile(member)
        body = file.read() if file else b""
        if tags is None:
            lines = (line.partition(" ") for line in body.decode().splitlines())
            tags = {key: tag for tag, _, key in lines}
        else:
            check_keys([member.name])
            yield PlacedObject(member.name, tags.pop(member.name), body)
    if tags:
        msg = f"{len(tags)} files are missing"
        raise ValueError(msg)


class _LimitedReader(io.RawIOBase):
    """Reads what a pack unpacks to, and no more of it than a pack of ours has."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = _MOST_UNPACKED

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            msg = f"unpacks to more than {mebibytes(_MOST_UNPACKED)}"
            raise OverLimitError(msg)
        return data

    def read_to_end(self) -> None:
        """Only at its end is the sum of a pack's content checked."""
        while self.read(2**20):
            pass


def folder_of(key: str) -> str:
    """The folder of an object: that of one job, of which all was measured at one time."""
    return key.rpartition("/")[0]


def read_index(content: bytes) -> dict[str, set[str]]:
    """Folder → the packs that have files of it."""
    packs: dict[str, set[str]] = defaultdict(set)
    for line in content.decode(errors="replace").splitlines():
        pack, _, folder = line.partition(" ")
        if is_pack(pack):
            packs[folder].add(pack)
    return packs


def write_index(packs: Mapping[str, Iterable[str]]) -> bytes:
    """The index of packs, by folder."""
    lines = sorted(f"{pack} {folder}\n" for folder, names in packs.items() for pack in names)
    return "".join(lines).encode()
