"""Pack a data branch: what of it is old enough, by which commit, and what becomes of its history."""

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
    """How many files went into which packs."""

    files: int = 0
    packs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _PackedMonth:
    """The packs of a month, the folders of what is in each, the paths that go, and how many of these are new."""

    packs: Mapping[str, bytes]
    folders: Mapping[str, set[str]]
    removed: frozenset[str]
    files: int


@dataclass(frozen=True)
class BranchPacking:
    """The packing of a branch as it is in ``commit``: of all that is of a month before ``first_kept``."""

    repository: DataRepository
    commit: str
    files: Mapping[str, BranchFile]
    first_kept: str

    def prepare(self, committers: Callable[[], set[str]]) -> PackOutcome:
        """Make the commit, if there is anything to pack.

        It is the first one of the branch, without history, where ``committers`` are torchperf alone: packs save nothing
        where the history keeps what is in them. Commits of others stay.
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
        """Of a file that is in a pack as well, the same content goes; other content stays, a conflict for readers."""
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
        """Month → the paths of what is old. One file of a folder is asked: a job's were measured at one time.

        It is the last by its name: of what was judged, that are verdicts, which have times.
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
        """Those of the files that are not too large."""
        blobs = [self.files[path].blob for path in paths]
        self.repository.bring(blobs)
        for path, blob, body in zip(paths, blobs, self.repository.read_all(blobs), strict=True):
            if body is not None:
                yield PlacedObject(path, f"git:{blob}", body)

    def _kept(self, month: str) -> tuple[dict[str, PlacedObject], list[str], list[str]]:
        """What is in the packs of the month, and which of these are sound and which damaged: nobody touches those.

        Compressed, since all of a month may be much.
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
