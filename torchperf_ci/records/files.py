"""Read regular files and nothing else; put a file in its place whole, or not at all; the folders that torchperf makes.

Whoever may put files into a directory that is read, a program that is measured or the job of a stranger, must not
choose what is read: a link may lead to another process's environment, and a pipe has no end.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING

from torchperf_ci.errors import OutputDirectoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


LINK = "it is a link, not a regular file"
_IRREGULAR = "it is no regular file"
_NEVER = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Neither follow a link, nor wait for the other end of a pipe, nor get a terminal, nor hand it on."""


def open_regular(path: Path, within: Path | None = None) -> IO[bytes]:
    """Open a regular file for reading; what was opened is looked at, so nobody exchanges it after the look.

    ``within`` is a directory above ``path``, which may itself be a link; nothing below it may. Raises :class:`OSError`
    with a ``strerror`` for people.
    """
    if within is None:
        return open(path, "rb", opener=_open)  # Path.open has no opener
    folder = _open_folder(within, path.relative_to(within).parts[:-1])
    try:
        return open(path, "rb", opener=lambda _, flags: _open(path.name, flags, folder))
    finally:
        os.close(folder)


def open_journal(path: Path) -> IO[bytes]:
    """Open a regular file for reading and appending, new or not. Raises as :func:`open_regular`."""
    return open(path, "ab+", opener=_open)


def read_regular(path: Path, limit: int, within: Path | None = None) -> bytes:
    """All of such a file. Raises :class:`OSError` as :func:`open_regular`, also for more than ``limit`` bytes."""
    with open_regular(path, within) as file:
        return read_limited(file, limit)


def read_limited(file: IO[bytes], limit: int) -> bytes:
    """What is left of a file. Raises :class:`OSError` for more than ``limit`` bytes."""
    content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it holds more than {limit // 2**20} MiB")
    return content


def is_irregular(path: Path) -> bool:
    """Whether something is there that is neither a regular file nor a directory, a link among them."""
    with suppress(OSError):
        mode = path.lstat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _open_folder(root: Path, below: tuple[str, ...]) -> int:
    """A descriptor of a folder below ``root``, on the way to which nothing is a link."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in below:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open(name: str, flags: int, folder: int | None = None) -> int:
    try:
        descriptor = os.open(name, flags | _NEVER, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, LINK, name) from error
        if error.errno == errno.ENXIO:  # a socket, or a pipe without anybody at its other end
            raise OSError(error.errno, _IRREGULAR, name) from error
        raise
    if stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, _IRREGULAR, name)


def replace_file(path: Path, content: str) -> None:
    """Write ``content`` to a temporary file beside ``path`` and rename it: no reader sees half of it.

    Raises :class:`OutputDirectoryError`; an earlier ``path`` is untouched then, and no temporary file is
    left.
    """
    try:
        replace_by(path, lambda file: file.write(content.encode("utf-8")))
    except OSError as error:
        message = (
            f"{path}: cannot be written: {error.strerror}; choose a directory that exists and is writable"
        )
        raise OutputDirectoryError(message) from error


def replace_by(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """The same with what ``write`` writes. Raises :class:`OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # of a process that was killed, or put there by somebody
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


OWN_FOLDER = ".torchperf"


def make_own_folder(path: Path) -> None:
    """Make the folder ``path`` with all above it. One of :data:`OWN_FOLDER` on the way ignores itself, as caches do.

    Raises :class:`OSError`.
    """
    path.mkdir(parents=True, exist_ok=True)
    own = next((folder for folder in (path, *path.parents) if folder.name == OWN_FOLDER), None)
    if own:
        ignore_in_git(own)


def ignore_in_git(folder: Path) -> None:
    """Have ``git add .`` leave a folder out that torchperf has named itself."""
    # Nobody's work fails for it: it may be there already, or the disk may be full.
    with suppress(OSError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("# Made by torchperf.\n*\n")


ARTIFACT_PREFIX = "torchperf-records-"
"""Of an artifact with records, before the name of the job that measured them."""


def job_folder(root: Path, job: str, jobs: int) -> Path:
    """The folder of ``job``, one of so many, below ``root``.

    Of a single job it is ``root`` itself where that has no such folder: ``actions/download-artifact`` makes none where
    it downloads one artifact.
    """
    folder = root / f"{ARTIFACT_PREFIX}{job}"
    return root if jobs == 1 and not folder.is_dir() else folder


MAX_BYTES = 64 * 2**20
"""Of one file or object, as it is stored and as it is unpacked."""

MAX_VALUES = 4_000_000
"""Values in one file, counted by their punctuation; the smallest ones take fifty times their text in memory."""

MAX_ELEMENTS = 100_000
"""Records in one file, and pieces of it that are none."""

MAX_FILES = 20_000
"""Files of one upload."""

MAX_UPLOAD = 256 * 2**20
"""Bytes, unpacked, of all files of one upload, which are in memory together."""

_cpu_end: ContextVar[float | None] = ContextVar("_cpu_end", default=None)


class OverLimitError(Exception):
    """A file is beyond a limit, and refused as a whole; the message is the reason."""


def mebibytes(size: int) -> str:
    """A limit in bytes as people read it."""
    return f"{size // 2**20} MiB"


@contextmanager
def cpu_limit(cpu_seconds: float) -> Iterator[None]:
    """Inside, :func:`checkpoint` raises once this thread has computed for so long.

    Its own time is counted, not that of the clock: a busy machine makes nobody's records refused.
    """
    token = _cpu_end.set(time.thread_time() + cpu_seconds)
    try:
        yield
    finally:
        _cpu_end.reset(token)


def checkpoint() -> None:
    """Raise :class:`OverLimitError` where the time of :func:`cpu_limit` is up; called wherever there is a loop."""
    end = _cpu_end.get()
    if end is not None and time.thread_time() > end:
        msg = "takes too long to check; split it"
        raise OverLimitError(msg)


def check_bytes(size: int, what: str = "holds") -> None:
    """Raise :class:`OverLimitError` for more than a file may have."""
    if size > MAX_BYTES:
        msg = f"{what} more than {mebibytes(MAX_BYTES)}; split it"
        raise OverLimitError(msg)


def check_values(text: str) -> None:
    """Raise :class:`OverLimitError` for a text whose values would take too much memory, before any is made."""
    if sum(map(text.count, "[{,")) > MAX_VALUES:
        msg = f"holds more than {MAX_VALUES:,} values; split it"
        raise OverLimitError(msg)


def check_elements(number: int) -> None:
    """Raise :class:`OverLimitError` for more records, or pieces that are none, than a file may have."""
    if number > MAX_ELEMENTS:
        msg = f"holds more than {MAX_ELEMENTS:,} records; split it"
        raise OverLimitError(msg)
