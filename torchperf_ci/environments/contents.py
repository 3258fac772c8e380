"""Whether two builds of one commit came out the same, byte for byte."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.environments.environment import Environment

CHUNK = 2**28
"""Bytes of a file that are looked at together; few files have more."""

# What says when something was compiled, or has digests of files with paths in them.
_ABOUT = re.compile(r"\.pyc$|(^|/)RECORD$")
# What is imported from the worktree itself, where the package was installed to be edited.
_COMPILED = re.compile(r"\.(so(\.[0-9.]+)?|dylib|pyd)$")


def same_contents(one: Environment, other: Environment) -> bool:
    """Whether what was built for two environments differs by nothing but the path of the folder that it was built in.

    It is not known to be, where nothing was built.
    """
    files, others = _files(one), _files(other)
    if not files or {*files} != {*others}:
        return False
    return all(_digest(files[name], one) == _digest(others[name], other) for name in files)


def _files(environment: Environment) -> dict[str, Path]:
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


def _digest(path: Path, environment: Environment) -> bytes:
    """Of the file's bytes, the folder's path in them left out."""
    own = os.fsencode(environment.folder or "")
    digest = hashlib.blake2b()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part.replace(own, b""))
    return digest.digest()
