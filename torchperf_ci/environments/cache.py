"""Environments that are made when they are first asked for, kept while there is room, and compared byte for byte."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from torchperf_ci.environments.revisions import disk_size
from torchperf_ci.errors import EnvironmentUnderTestError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from torchperf_ci.environments.build_environment import BuildEnvironment


CHUNK = 2**28
"""Bytes of a file that are looked at together; few files have more."""

# What says when something was compiled, or has digests of files with paths in them.
_ABOUT = re.compile(r"\.pyc$|(^|/)RECORD$")
# What is imported from the worktree itself, where the package was installed to be edited.
_COMPILED = re.compile(r"\.(so(\.[0-9.]+)?|dylib|pyd)$")


def same_contents(one: BuildEnvironment, other: BuildEnvironment) -> bool:
    """Whether what was built for two environments differs by nothing but the path of the folder that it was built in.

    It is not known to be, where nothing was built.
    """
    files, others = _files(one), _files(other)
    if not files or {*files} != {*others}:
        return False
    return all(_digest(files[name], one) == _digest(others[name], other) for name in files)


def _files(environment: BuildEnvironment) -> dict[str, Path]:
    """What was installed, by its path in the environment, and what was compiled in place."""
    if environment.folder is None:
        return {}
    installed = _below(environment.folder / "env")
    in_place = _below(environment.worktree) if environment.worktree else ()
    return {
        **{name: path for name, path in installed if not _ABOUT.search(name)},
        **{f"worktree/{name}": path for name, path in in_place if _COMPILED.search(name)},
    }


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path


def _digest(path: Path, environment: BuildEnvironment) -> bytes:
    """Of the file's bytes, the folder's path in them left out."""
    own = os.fsencode(environment.folder or "")
    digest = hashlib.blake2b()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part.replace(own, b""))
    return digest.digest()


Build = TypeVar("Build", bound="Hashable")

IN_USE = 3
"""Of the environments, those asked for last, which are never given back: the two that are measured, and one more, most
often the good one, which is needed again and again."""


TRIES = 2
"""Of a build that fails: some fail by chance, of a network or a full machine."""


@dataclass(frozen=True)
class _Held:
    environment: BuildEnvironment
    closing: ExitStack
    size: int


class EnvironmentCache(Generic[Build]):
    """The environments of many builds (commits, nightlies) until the block ends, however it ends.

    ``opened`` makes one, for instance ``partial(environment.opened, builder=…)`` or ``Wheels(…).opened``; it is told
    the number of the ``draw`` where that is not the first one. When all take more than ``limit`` bytes, those that were
    not asked for longest are given back; it is half of what is free on the disk by default.
    """

    def __init__(
        self, opened: Callable[..., AbstractContextManager[BuildEnvironment]], limit: int | None = None
    ) -> None:
        self._opened = opened
        self._limit = shutil.disk_usage(tempfile.gettempdir()).free // 2 if limit is None else limit
        self._held: dict[tuple[Build, int], _Held] = {}  # longest unused first
        self._failures: dict[tuple[Build, int], list[str]] = defaultdict(list)

    def __enter__(self) -> EnvironmentCache[Build]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as all_of_them:
            for held in self._held.values():
                all_of_them.enter_context(held.closing)
            self._held.clear()

    def get(self, build: Build, draw: int = 0) -> BuildEnvironment:
        """The environment of a build, which stays at least until three others were asked for.

        ``draw`` is 0 for the first one that is made of it, and k for the k-th that is made anew. Raises
        :class:`EnvironmentUnderTestError` where it cannot be made, which is tried by two calls and no third.
        """
        key = (build, draw)
        failures = self._failures[key]
        if len(failures) >= TRIES:
            raise EnvironmentUnderTestError(failures[-1])
        if key in self._held:
            self._held[key] = self._held.pop(key)
        else:
            try:
                self._held[key] = self._make(build, draw)
            except EnvironmentUnderTestError as error:
                failures.append(str(error))
                raise
            failures.clear()
            self._make_room()
        return self._held[key].environment

    def is_repeated(self, build: Build, draw: int) -> bool:
        """Whether a draw that was just made installed nothing else than another one of the same build that is there."""
        mine = self._held[build, draw].environment
        others = [held for (one, number), held in self._held.items() if one == build and number != draw]
        return any(same_contents(mine, held.environment) for held in others)

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
