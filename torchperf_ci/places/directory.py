"""A directory as a place for records: on a laptop, on a shared disk, as an artifact."""

from __future__ import annotations

import os
import secrets
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from torchperf_ci.errors import ConflictError, NotDeliveredError, PlaceUnreadableError, UnfitObjectError
from torchperf_ci.places.place import PutResult, RecordPlace, check_keys, same_content
from torchperf_ci.records.files import MAX_BYTES, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY = "~"
"""Suffix of temporary files; no key can end with it."""


class DirectoryPlace(RecordPlace):
    """One file per object, at the key's path below the directory, which is created by the first put."""

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory)
        self.name = str(directory)

    def put(self, key: str, body: bytes) -> PutResult:
        check_keys([key])
        path = self._root / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return "written" if _create(path, body) else self._compare(path, body)
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            msg = f"{path}: a file stands where a directory is needed, or the other way round; nothing was overwritten"
            raise ConflictError(msg) from error
        except OSError as error:
            msg = f"{path}: cannot be written: {error.strerror}; choose a directory that is writable and has hard links"
            raise NotDeliveredError(msg) from error

    def _compare(self, path: Path, body: bytes) -> PutResult:
        if same_content(body, read_regular(path, MAX_BYTES)):
            return "already there"
        msg = f"{path}: other content is already kept there; it was not overwritten"
        raise ConflictError(msg)

    def keys(self) -> Iterator[str]:
        """Yield all files except git's own. Links to folders are skipped: they may lead out of the directory."""
        if not self._root.is_dir():
            msg = f"{self.name}: there is no such directory"
            raise PlaceUnreadableError(msg)
        yield from sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root, onerror=self._unreadable):
            folders[:] = [name for name in folders if name != ".git"]
            for name in files:
                path = Path(folder, name)
                if not name.endswith(TEMPORARY):
                    yield path.relative_to(self._root).as_posix()

    def _unreadable(self, error: OSError) -> None:
        msg = f"{error.filename}: cannot be read: {error.strerror}"
        raise PlaceUnreadableError(msg) from error

    def get(self, key: str) -> bytes:
        relative = PurePosixPath(key)
        if relative.is_absolute() or ".." in relative.parts:
            msg = f"{key!r} leads out of {self.name}"
            raise PlaceUnreadableError(msg)
        try:
            return read_regular(self._root / relative, MAX_BYTES, self._root)
        except OSError as error:
            raise UnfitObjectError(str(self._root / relative), f"cannot be read: {error.strerror}") from error


def _create(path: Path, body: bytes) -> bool:
    """Create ``path`` with its whole content atomically; return False if it exists.

    Done by a hard link, which unlike renaming fails if the path exists.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True
