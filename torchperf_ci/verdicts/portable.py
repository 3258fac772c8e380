"""The options of a call as words that mean the same in a clone of the repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FILES = ("suite", "config", "wheels")
"""Options that may be paths of this machine."""

_CONFIG = "torchperf.yml"
"""What says which workloads there are, where no option does."""


class Portable(NamedTuple):
    """Words of a command line, and the folder of the clone in which they hold; empty for the clone itself."""

    words: tuple[str, ...]
    folder: str


def portable(options: Mapping[str, object], names: Sequence[str]) -> Portable:
    """Those of the options ``names`` that are given, in this order.

    The clone is of the repository that is measured (``repo``), if it holds all files that are named, else of the one
    that the call was made in. Of a file that is in neither only the name is left.
    """
    here, given = Path.cwd(), Path(str(options.get("repo") or "."))
    measured = _root(given)
    named = [text for name in _FILES for text in _texts(options.get(name))]
    chosen = [*named, *([] if options.get("suite") or options.get("config") else [_CONFIG])]
    files = [_absolute(text) for text in chosen if _is_path(text)]
    home = measured if all(file.is_relative_to(measured) for file in files) else _root(here)
    folder = here if here.is_relative_to(home) else home
    words = [word for name in names for word in _words(name, options.get(name), home, folder)]
    if home != measured:
        words = ["--repo", _in_clone(given, home, folder), *words]
    return Portable(tuple(words), "" if folder == home else folder.relative_to(home).as_posix())


def _words(name: str, value: Any, home: Path, folder: Path) -> Iterator[str]:
    texts = _texts(value)
    if value is True or texts:
        yield f"--{name.replace('_', '-')}"
    for text in texts:
        yield _in_clone(Path(text), home, folder) if name in _FILES and _is_path(text) else text


def _texts(value: Any) -> list[str]:
    if value is None or isinstance(value, bool):
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


def _is_path(text: str) -> bool:
    return "://" not in text and (Path(text).is_absolute() or Path(text).exists())


def _in_clone(path: Path, home: Path, folder: Path) -> str:
    absolute = _absolute(path)
    return Path(os.path.relpath(absolute, folder)).as_posix() if absolute.is_relative_to(home) else path.name


def _root(folder: Path) -> Path:
    """The checkout that a folder is in, or the folder itself."""
    start = _absolute(folder)
    return next((one for one in (start, *start.parents) if (one / ".git").exists()), start)


def _absolute(path: str | Path) -> Path:
    """Without ``..``, and without following links."""
    return Path(os.path.abspath(path))  # noqa: PTH100
