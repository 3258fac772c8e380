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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from torchperf_ci.errors import InvalidObjectError, UnsafeKeyError
from torchperf_ci.places import place
from torchperf_ci.places.data_repository import COMMITTER, BranchFile, DataRepository
from torchperf_ci.records.files import MAX_BYTES, SUFFIXES, OverLimitError, check_bytes, mebibytes
from torchperf_ci.records.schema import LATEST_SECOND

INDEX = "packed/index"
PACK_BYTES = 256 * 2**20
"""Most bytes of files in one pack, uncompressed; the pack itself is about fifty times smaller."""
_MAX_UNPACKED_BYTES = 2 * PACK_BYTES
_TAGS = "tags"
"""Name of the first member, whose lines are a file's tag, a space and its key."""
_DAMAGED = (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, KeyError, RecursionError)
_PACK = re.compile(r"packed/(\d{4}-\d{2})(\.\d+)?\.tar\.gz")
_TIMESTAMP = re.compile(rb'"timestamp":\s*"?(\d{1,12})\b')


def is_pack(key: str) -> bool:
    """Whether the key is the name of a pack."""
    return bool(_PACK.fullmatch(key))


def month_of_pack(key: str) -> str:
    """Return the month ``YYYY-MM`` in the name of a pack; empty for other keys."""
    match = _PACK.fullmatch(key)
    return match[1] if match else ""


def month_of_content(body: bytes) -> str:
    """Return the month ``YYYY-MM`` (UTC) of the newest ``timestamp`` in records or verdicts; empty without one."""
    seconds = map(int, _TIMESTAMP.findall(place.unpacked(body, MAX_BYTES)))
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


def write_packs(files: Iterable[place.PlacedObject], most: float = 0) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the packs of a month: the content, and the keys of the files in it. Equal files give equal bytes.

    A pack holds at most ``most`` bytes of files, by default :data:`PACK_BYTES`.
    """
    whole = (
        replace(file, body=place.unpacked(file.body, -1)) for file in sorted(files, key=lambda file: file.key)
    )
    for part in place.in_batches(whole, most or PACK_BYTES):
        content = _write_pack(part)
        if len(content) > MAX_BYTES and len(part) > 1:  # raw samples hardly become smaller
            yield from write_packs(part, sum(file.size for file in part) / 2)
            continue
        # The original files are deleted afterwards, so an error here could never be repaired.
        if not all(was == now for was, now in zip(part, read_pack("", content), strict=True)):
            raise AssertionError("a pack does not hold what was put into it")
        yield content, [file.key for file in part]


def _write_pack(files: Sequence[place.PlacedObject]) -> bytes:
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


def read_pack(where: str, content: bytes) -> Iterator[place.PlacedObject]:
    """Yield the files of a pack. Raises :class:`InvalidObjectError` for a damaged pack, possibly after some files."""
    try:
        check_bytes(len(content))
        with gzip.open(io.BytesIO(content)) as stream:
            limited = _LimitedReader(stream)
            with tarfile.open(fileobj=limited, mode="r|") as archive:
                yield from _members(archive)
            while limited.read(2**20):  # to the end, because gzip verifies the checksum there only
                pass
    except OverLimitError as error:
        raise InvalidObjectError(where, str(error)) from error
    except (*_DAMAGED, UnsafeKeyError) as error:
        raise InvalidObjectError(where, f"is named as a pack, and is none or damaged ({error})") from error


def _members(archive: tarfile.TarFile) -> Iterator[place.PlacedObject]:
    tags: dict[str, str] | None = None
    for member in archive:
        if member.issparse():  # whose content is beyond any limit on what is read
            raise ValueError("a file has holes")
        check_bytes(member.size)
        file = archive.extractfile(member)
        body = file.read() if file else b""
        if tags is None:
            lines = (line.partition(" ") for line in body.decode().splitlines())
            tags = {key: tag for tag, _, key in lines}
        else:
            place.check_keys([member.name])
            yield place.PlacedObject(member.name, tags.pop(member.name), body)
    if tags:
        raise ValueError(f"{len(tags)} files are missing")


class _LimitedReader(io.RawIOBase):
    """Reads a decompressed pack, and refuses one that is larger than torchperf ever writes."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = _MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise OverLimitError(f"unpacks to more than {mebibytes(_MAX_UNPACKED_BYTES)}")
        return data


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


@dataclass(frozen=True)
class PackOutcome:
    """The number of files that were packed, and the names of the packs."""

    files: int = 0
    packs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _PackedMonth:
    """One month: its packs, the folders of the files in each, the paths to remove, and the number of new files."""

    packs: Mapping[str, bytes]
    folders: Mapping[str, set[str]]
    removed: frozenset[str]
    files: int


@dataclass(frozen=True)
class BranchPacking:
    """Packs the files of a branch at ``commit`` that are from months before ``first_kept``."""

    repository: DataRepository
    commit: str
    files: Mapping[str, BranchFile]
    first_kept: str

    def prepare(self, committers: Callable[[], set[str]]) -> PackOutcome:
        """Create the commit, if there is anything to pack.

        If torchperf is the only committer, the commit starts the branch anew: packing would save nothing if the history
        still held the packed files. A history with commits of others is kept.
        """
        months = [self._pack(month, paths) for month, paths in sorted(self._old().items())]
        count = sum(month.files for month in months)
        if not count:
            return PackOutcome()
        packs = {name: content for month in months for name, content in month.packs.items()}
        removed = frozenset().union(*(month.removed for month in months))
        bodies = {**packs, INDEX: self._new_index(months)}
        message = f"Pack {count} record file{'' if count == 1 else 's'}"
        self.repository.commit_instead(
            message, removed - bodies.keys(), bodies, self.commit, keep_history=committers() != {COMMITTER}
        )
        return PackOutcome(count, tuple(packs))

    def _pack(self, month: str, paths: Sequence[str]) -> _PackedMonth:
        """Pack the files of one month.

        A file whose content is in a pack already is removed. One with other content than in the pack stays, so that
        readers report the conflict.
        """
        kept, sound, damaged = self._files_in_packs(month)
        loose = [
            file
            for file in self._read(paths)
            if len(place.unpacked(file.body, MAX_BYTES + 1)) <= MAX_BYTES
            and (file.key not in kept or place.same_content(file.body, kept[file.key].body))
        ]
        if not loose:
            return _PackedMonth({}, {}, frozenset(), 0)
        files = {file.key: file for file in loose} | kept
        packs, of_packs = {}, {}
        names = (name for name in pack_names(month) if name not in damaged)
        for name, (content, keys) in zip(names, write_packs(files.values()), strict=False):
            packs[name], of_packs[name] = content, {folder_of(key) for key in keys}
        return _PackedMonth(packs, of_packs, frozenset(sound).union(file.key for file in loose), len(loose))

    def _new_index(self, months: Iterable[_PackedMonth]) -> bytes:
        content = self.repository.read(self.files[INDEX].blob) if INDEX in self.files else b""
        gone = {path for month in months for path in month.removed}
        folders = {
            folder: {name for name in names if name not in gone}
            for folder, names in read_index(content).items()
        }
        for month in months:
            for name, of_pack in month.folders.items():
                for folder in of_pack:
                    folders.setdefault(folder, set()).add(name)
        lines = sorted(f"{pack} {folder}\n" for folder, names in folders.items() for pack in names)
        return "".join(lines).encode()

    def _old(self) -> dict[str, list[str]]:
        """Return the paths of old files by month.

        Only the last file of each folder is read: the files of a job were measured at one time, and among judged
        results the last file by name is that of the verdicts, which have timestamps.
        """
        folders: dict[str, list[str]] = defaultdict(list)
        for path in filter(self._is_packable, sorted(self.files)):
            folders[folder_of(path)].append(path)
        old: dict[str, list[str]] = defaultdict(list)
        for sample in self._read([paths[-1] for paths in folders.values()]):
            month = month_of_content(sample.body)
            if month and month < self.first_kept:
                old[month] += folders[folder_of(sample.key)]
        return old

    def _is_packable(self, path: str) -> bool:
        is_records = path.endswith(SUFFIXES) and not self.files[path].is_link
        return is_records and not path.startswith("packed/") and not place.key_problem(path)

    def _read(self, paths: Sequence[str]) -> Iterator[place.PlacedObject]:
        """Yield the files that are within the size limit."""
        blobs = [self.files[path].blob for path in paths]
        self.repository.bring(blobs)
        for path, blob, body in zip(paths, blobs, self.repository.read_all(blobs), strict=True):
            if body is not None:
                yield place.PlacedObject(path, f"git:{blob}", body)

    def _files_in_packs(self, month: str) -> tuple[dict[str, place.PlacedObject], list[str], list[str]]:
        """Return the files in the month's packs by key, the intact packs, and the damaged ones, which are left alone.

        The files are compressed, since a whole month may be large.
        """
        kept: dict[str, place.PlacedObject] = {}
        sound, damaged = [], []
        packs = [key for key in self.files if month_of_pack(key) == month]
        for pack in self._read(packs):
            try:
                found = [
                    replace(file, body=gzip.compress(file.body, 1)) for file in read_pack(pack.key, pack.body)
                ]
            except InvalidObjectError:
                damaged.append(pack.key)
            else:
                kept |= {file.key: file for file in found}
                sound.append(pack.key)
        return kept, sound, damaged
