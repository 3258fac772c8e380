"""Keep what was refused, so that it can be mended and read again."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from torchperf_ci.errors import RecordsError
from torchperf_ci.records.files import open_regular, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchperf_ci.records.reading import Refused


def quarantine(path: Path, refused: Iterable[Refused]) -> None:
    """Add ``refused`` to the quarantine file at ``path``, JSONEachRow with the fields of :class:`Refused`.

    What the file already holds stays, and is not added twice. Nothing refused leaves it as it is, or absent.
    Raises :class:`OutputDirectoryError` or :class:`RecordsError`, with the file as it was.
    """
    kept = _lines(path)
    known = set(kept)
    # Escaped to ASCII, so that bytes which are not UTF-8 come back from the file as they were.
    added = [
        line for line in dict.fromkeys(json.dumps(asdict(item)) for item in refused) if line not in known
    ]
    if added:
        replace_file(path, "".join(f"{line}\n" for line in [*kept, *added]))


def _lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as file:
            return [line for line in file.read().decode().split("\n") if line]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"{path}: the earlier quarantine cannot be read: {error}; move it away, or name another file"
        )
        raise RecordsError(message) from error
