"""Read and write packs: all record files of a month in one object, each with its key and content.

A pack is ``packed/YYYY-MM.tar.gz``; a month that is too large continues in ``packed/YYYY-MM.2.tar.gz``. The first
member lists the tag that each file had before, so that readers know what they have read already. The others are the
files under their keys, uncompressed: ``tar -xf`` restores them. ``packed/index`` lists the folders that have files in
packs.
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
"""Most bytes of files in one pack, uncompressed; the pack itself is about fifty times smaller."""
_MOST_UNPACKED = 2 * PACK_BYTES
_TAGS = "tags"
"""Name of the first member, whose lines are a file's tag, a space and its key."""
_PACK = re.compile(r"packed/(\d{4}-\d{2})(\.\d+)?\.tar\.gz")
_TIMESTAMP = re.compile(rb'"timestamp":\s*"?(\d{1,12})\b')


def is_pack(key: str) -> bool:
    """Whether the key is the name of a pack."""
    return bool(_PACK.fullmatch(key))


def month_of_pack(key: str) -> str:
    """Return the month ``YYYY-MM`` in the name of a pack; empty for other keys."""
    found = _PACK.fullmatch(key)
    return found[1] if found else ""


def month_of_content(body: bytes) -> str:
    """Return the month ``YYYY-MM`` (UTC) of the newest ``timestamp`` in records or verdicts; empty without one."""
    seconds = map(int, _TIMESTAMP.findall(unpacked(body, MAX_BYTES)))
    newest = max((each for each in seconds if each <= LATEST_SECOND), default=0)
    return f"{datetime.datetime.fromtimestamp(newest, datetime.timezone.utc):%Y-%m}" if newest else ""


QUARTER = 3
"""Months before the current one that are not packed."""


def month_before(day: datetime.date, months: int) -> str:
    """Return the month ``YYYY-MM`` that is ``months`` months before that of ``day``."""
    count = day.year * 12 + day.month - 1 - months
    return f"{count // 12:04d}-{count % 12 + 1:02d}"


def pack_names(month: str) -> Iterator[str]:
    """Yield the keys for the packs of a month, without end."""
    yield f"packed/{month}.tar.gz"
    yield from (f"packed/{month}.{number}.tar.gz" for number in count(2))


def write_packs(files: Iterable[PlacedObject]) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the packs of a month: the content, and the keys of the files in it. Equal files give equal bytes."""
    for part in _parts(sorted(files, key=lambda file: file.key)):
        content = _write_pack(part)
        # The original files are deleted afterwards, so an error here could never be repaired.
        if not all(was == now for was, now in zip(part, read_pack("", content), strict=True)):
            msg = "a pack does not hold what was put into it"
            raise AssertionError(msg)
        yield content, [file.key for file in part]


def _parts(files: Iterable[PlacedObject]) -> Iterator[list[PlacedObject]]:
    """Yield the decompressed files in groups that fit into one pack each."""
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
    """Yield the files of a pack. Raises :class:`UnfitObjectError` for a damaged pack, possibly after some files."""
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
    """Reads a decompressed pack, and refuses one that is larger than torchperf ever writes."""

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
        """Read the rest, because gzip verifies the checksum at the end only."""
        while self.read(2**20):
            pass


def folder_of(key: str) -> str:
    """Return the folder of an object, which holds the files of one job."""
    return key.rpartition("/")[0]


def read_index(content: bytes) -> dict[str, set[str]]:
    """Return the packs that have files of a folder, by folder."""
    packs: dict[str, set[str]] = defaultdict(set)
    for line in content.decode(errors="replace").splitlines():
        pack, _, folder = line.partition(" ")
        if is_pack(pack):
            packs[folder].add(pack)
    return packs


def write_index(packs: Mapping[str, Iterable[str]]) -> bytes:
    """Return the content of the index, from the packs by folder."""
    lines = sorted(f"{pack} {folder}\n" for folder, names in packs.items() for pack in names)
    return "".join(lines).encode()
