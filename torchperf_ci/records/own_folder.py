"""The folder in which torchperf keeps what is its own: the store, the spool, the journals of runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = ".torchperf"


def make_folder(path: Path) -> None:
    """Make the folder ``path`` with all above it. One of :data:`NAME` on the way ignores itself, as caches do.

    Raises :class:`OSError`.
    """
    path.mkdir(parents=True, exist_ok=True)
    own = next((folder for folder in (path, *path.parents) if folder.name == NAME), None)
    # Nobody's work fails for it: it may be there already, or the disk may be full.
    with suppress(OSError):
        if own:
            with (own / ".gitignore").open("x", encoding="utf-8") as file:
                file.write("# Made by torchperf, for itself.\n*\n")
