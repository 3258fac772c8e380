"""Temporary folders that are always removed: by the next command, if the one that made them was killed."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchperf_ci.errors import OutputDirectoryError
from torchperf_ci.records.files import open_regular

PREFIX = "torchperf-"
_OWNER = "owner"


@contextmanager
def scratch_folder(longer: int = 0) -> Iterator[Path]:
    """A new folder in the temporary directory (``TMPDIR``), removed after the block; ``longer`` lengthens its name.

    Folders that killed runs left behind are removed first: builds are large, and a runner may live for years.
    """
    temporary = Path(tempfile.gettempdir())
    for left in temporary.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is locked, or another process has just removed it
            _remove_leftover(left)
    prefix = PREFIX + "x" * longer + secrets.token_hex(8)
    try:
        with (
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name,
            _owning(Path(name)) as folder,
        ):
            yield folder
    finally:  # a signal may come when it has just been created, and before anybody knows its name
        for left in temporary.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _owning(folder: Path) -> Iterator[Path]:
    """Hold a lock in the folder, which the kernel releases when this process ends in any way.

    On a file system without locks the folder has no owner, so that a kill leaves it there.
    """
    unlocked = folder / "unlocked"
    with unlocked.open("wb") as lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
            unlocked.rename(folder / _OWNER)  # so that others see it only once it is locked
        yield folder


def _remove_leftover(folder: Path) -> None:
    """Remove the folder if it is one of ours: a folder of this user with an unlocked, regular owner file in it."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    with open_regular(folder / _OWNER) as lock:
        fcntl.flock(
            lock, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # NFS locks no file exclusively that is open for reading
        shutil.rmtree(folder, ignore_errors=True)


def disk_size(folder: Path) -> int:
    """The bytes that all files below ``folder`` take on disk; a file with several hard links counts once."""
    blocks = {}
    for path in (Path(parent, name) for parent, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):  # a server that outlives the build has just removed it
            status = path.lstat()
            blocks[status.st_ino] = status.st_blocks
    return 512 * sum(blocks.values())


FULL_DISK = 2**24
"""Free bytes below which a program may have failed for want of space; some do not say so."""


def is_disk_full(why: str = "") -> bool:
    """Whether the temporary directory is full, or a program failed, as ``why`` says, because some disk was."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    return free < FULL_DISK or "No space left on device" in why


def refuse_full_disk(why: str) -> None:
    """Raise :class:`OutputDirectoryError` if a program failed, as ``why`` says, for want of space for temporary files.

    That says nothing about the commit, which can be built and measured later.
    """
    if is_disk_full(why):
        msg = (
            f"the disk of {tempfile.gettempdir()} is full: free some of it, or set TMPDIR to a folder on another disk: "
            f"{why}"
        )
        raise OutputDirectoryError(msg)
