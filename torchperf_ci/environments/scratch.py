"""The folder that all of one environment lies in."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.records.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "torchperf-"
_OWNER = "owner"


@contextmanager
def scratch(longer: int = 0) -> Iterator[Path]:
    """A new folder where temporary files go (``TMPDIR``), and gone after the block; ``longer`` is for its name.

    Those of runs that were killed go first: builds are large, and a runner may live for years.
    """
    _remove_leftovers(Path(tempfile.gettempdir()))
    prefix = PREFIX + "x" * longer
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name,
        _owning(Path(name)) as folder,
    ):
        yield folder


def size(folder: Path) -> int:
    """The bytes that all files below take on the disk; a file with several names counts once."""
    found = [Path(parent, name).lstat() for parent, _, names in os.walk(folder) for name in names]
    return 512 * sum({status.st_ino: status.st_blocks for status in found}.values())


@contextmanager
def _owning(folder: Path) -> Iterator[Path]:
    """Hold a lock in the folder, which the kernel opens when this process ends, in whatever way."""
    unlocked = folder / "unlocked"
    with unlocked.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(folder / _OWNER)  # nobody sees it before it is locked
        yield folder


def _remove_leftovers(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # where it is locked, or was removed by another process just now
            _remove_leftover(folder)


def _remove_leftover(folder: Path) -> None:
    """Others write there, too: only a folder of this user's with a plain file in it is one of ours."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    with open_regular(folder / _OWNER) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
