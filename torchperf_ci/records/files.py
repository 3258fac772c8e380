"""Put a file in its place whole, or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci.errors import OutputDirectoryError

if TYPE_CHECKING:
    from pathlib import Path


def replace_file(path: Path, content: str) -> None:
    """Write ``content`` to a temporary file beside ``path`` and rename it: no reader sees half of it.

    Raises :class:`OutputDirectoryError`; an earlier ``path`` is untouched then, and no temporary file is
    left.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write_through(temporary, content.encode("utf-8"))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        message = (
            f"{path}: cannot be written: {error.strerror}; choose a directory that exists and is writable"
        )
        raise OutputDirectoryError(message) from error


def _write_through(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
