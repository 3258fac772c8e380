"""Pack a data branch: which files are old enough, the commit that packs them, and whether its history is kept."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.errors import UnfitObjectError
from torchperf_ci.places.data_repository import COMMITTER
from torchperf_ci.places.packs import (
    INDEX,
    folder_of,
    month_of_content,
    month_of_pack,
    pack_names,
    read_index,
    read_pack,
    write_index,
    write_packs,
)
from torchperf_ci.places.place import PlacedObject, is_safe_key, same_content, unpacked
from torchperf_ci.records.files import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.places.data_repository import BranchFile, DataRepository


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
        kept, sound, damaged = self._kept(month)
        loose = [
            file
            for file in self._read(paths)
            if len(unpacked(file.body, MAX_BYTES + 1)) <= MAX_BYTES
            and (file.key not in kept or same_content(file.body, kept[file.key].body))
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
        return write_index(folders)

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
        is_records = path.endswith((".json", ".json.gz")) and not self.files[path].is_link
        return is_records and not path.startswith("packed/") and is_safe_key(path)

    def _read(self, paths: Sequence[str]) -> Iterator[PlacedObject]:
        """Yield the files that are within the size limit."""
        blobs = [self.files[path].blob for path in paths]
        self.repository.bring(blobs)
        for path, blob, body in zip(paths, blobs, self.repository.read_all(blobs), strict=True):
            if body is not None:
                yield PlacedObject(path, f"git:{blob}", body)

    def _kept(self, month: str) -> tuple[dict[str, PlacedObject], list[str], list[str]]:
        """Return the files in the month's packs by key, the intact packs, and the damaged ones, which are left alone.

        The files are compressed, since a whole month may be large.
        """
        kept: dict[str, PlacedObject] = {}
        sound, damaged = [], []
        packs = [key for key in self.files if key.startswith("packed/") and month_of_pack(key) == month]
        for pack in self._read(packs):
            try:
                found = [
                    replace(file, body=gzip.compress(file.body, 1)) for file in read_pack(pack.key, pack.body)
                ]
            except UnfitObjectError:
                damaged.append(pack.key)
            else:
                kept |= {file.key: file for file in found}
                sound.append(pack.key)
        return kept, sound, damaged
