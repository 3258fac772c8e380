"""Locks as the client of NFS version 4 answers them, where no such file system is mounted."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import IO

_lock = fcntl.flock


def lock_as_on_nfs(file: IO[bytes], operation: int) -> None:
    """Lock a file exclusively only if it is open for writing (flock(2), "NFS details")."""
    if operation & fcntl.LOCK_EX and fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    _lock(file, operation)
