"""Environments that are made on first use and kept while there is room, and the comparison of two builds' files."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from torchperf_ci.scratch import disk_size

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from torchperf_ci.environments.build_environment import BuildEnvironment


CHUNK = 2**28
"""Bytes of a file that are read at a time; few files are larger."""

# Files that contain compilation times, or digests of files that contain paths.
_ABOUT = re.compile(r"\.pyc$|(^|/)RECORD$")
# Libraries, which are imported from the worktree if the package is an editable install.
_COMPILED = re.compile(r"\.(so(\.[0-9.]+)?|dylib|pyd)$")


# What does not change the layout of compiled code: Python files, other texts, and what pip notes down.
_TEXT = re.compile(r"\.(py|pyi|txt|md|json|toml)$|\.(dist|egg)-info/")


def content_digests(environment: BuildEnvironment) -> tuple[str, ...]:
    """Digests of the Python files and other texts of a build, and of all its other files; empty if nothing was built.

    The path of the build folder does not count.
    """
    folder = environment.folder
    if folder is None or not (folder / "env").is_dir():
        return ()
    in_place = _below(environment.worktree) if environment.worktree else ()
    files = {
        **{name: path for name, path in _below(folder / "env") if not _ABOUT.search(name)},
        **{f"worktree/{name}": path for name, path in in_place if _is_compiled(path)},
    }
    texts, others = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for name, path in sorted(files.items()):
        (texts if _TEXT.search(name) else others).update(os.fsencode(name) + _digest(path, folder))
    return texts.hexdigest(), others.hexdigest()


def _is_compiled(path: Path) -> bool:
    """Whether a file may be a library or a program; a program has no suffix, and scripts do no harm."""
    return bool(_COMPILED.search(path.name)) or os.access(path, os.X_OK)


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path


def _digest(path: Path, folder: Path) -> bytes:
    """A digest of the file's bytes without the path of the build folder."""
    own, digest = os.fsencode(folder), hashlib.blake2b()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part.replace(own, b""))
    return digest.digest()


Build = TypeVar("Build", bound="Hashable")

IN_USE = 3
"""How many of the most recently used environments are never evicted.

They are the two being measured, and one more, most often the good build, which is needed again and again.
"""


@dataclass(frozen=True)
class _Held:
    environment: BuildEnvironment
    closing: ExitStack
    size: int


class EnvironmentCache(AbstractContextManager["EnvironmentCache[Build]"], Generic[Build]):
    """The environments of many builds (commits, nightlies), kept until the block ends.

    ``opened`` opens one, for instance ``partial(open_environment, builder=…)`` or ``CommitWheels(…).opened``; it is
    passed the number of the ``draw`` unless that is 0. If all of them take more than ``limit`` bytes, by default half
    of the free disk space, the least recently used ones are evicted.
    """

    def __init__(
        self, opened: Callable[..., AbstractContextManager[BuildEnvironment]], limit: int | None = None
    ) -> None:
        self._opened = opened
        self._limit = shutil.disk_usage(tempfile.gettempdir()).free // 2 if limit is None else limit
        self._held: dict[tuple[Build, int], _Held] = {}  # least recently used first

    def __exit__(self, *_: object) -> None:
        with ExitStack() as all_of_them:
            for held in self._held.values():
                all_of_them.enter_context(held.closing)
            self._held.clear()

    def get(self, build: Build, draw: int = 0) -> BuildEnvironment:
        """The environment of a build; it is kept at least until three others have been requested.

        ``draw`` is 0 for the first build, and k for the k-th rebuild. Raises :class:`EnvironmentUnderTestError` if it
        cannot be made; the next call tries again, because some builds fail by chance.
        """
        held = self._held.pop((build, draw), None) or self._make(build, draw)
        self._held[build, draw] = held
        self._make_room()
        return held.environment

    def holds(self, build: Build, draw: int = 0) -> bool:
        """Whether an environment exists, so that :meth:`get` makes none."""
        return (build, draw) in self._held

    def try_anew(self, build: Build) -> None:
        """Make an environment of a build again, and remove it; raises :class:`EnvironmentUnderTestError`."""
        with self._opened(build):
            pass

    def is_repeated(self, build: Build, draw: int) -> bool:
        """Whether a draw that was just made is identical to another draw of the same build in the cache."""
        mine = content_digests(self._held[build, draw].environment)
        others = [held for (one, number), held in self._held.items() if one == build and number != draw]
        return bool(mine) and any(content_digests(held.environment) == mine for held in others)

    def _make(self, build: Build, draw: int) -> _Held:
        with ExitStack() as closing:
            environment = closing.enter_context(
                self._opened(build, draw=draw) if draw else self._opened(build)
            )
            taken = disk_size(environment.folder) if environment.folder else 0
            return _Held(environment, closing.pop_all(), taken)

    def _make_room(self) -> None:
        for key in list(self._held)[:-IN_USE]:
            if sum(held.size for held in self._held.values()) <= self._limit:
                return
            self._held.pop(key).closing.close()
