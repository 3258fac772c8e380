"""Read regular files only, write files atomically, limit their size, and create torchperf's own folders.

A measured program, or a stranger's job, may put files into a directory that torchperf reads. It must not be able to
choose what is read: a link may point to another process's environment, and a pipe may never end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from torchperf_ci.errors import OutputDirectoryError, failing_as

DEVICES = Path("/dev")
LINK = "it is a link, not a regular file"
_IRREGULAR = "it is no regular file"
_NEVER = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""Do not follow links, wait for the other end of a pipe, or acquire a terminal."""


def open_regular(path: Path, within: Path | None = None) -> IO[bytes]:
    """Open a regular file for reading; the open file itself is checked, so it cannot be swapped after the check.

    ``within`` is a directory above ``path``. It may itself be a link, but nothing below it may. Raises
    :class:`OSError` with a human-readable ``strerror``.
    """
    if within is None:
        return open(path, "rb", opener=_open)  # Path.open has no opener
    folder = _open_folder(within, path.relative_to(within).parts[:-1])
    try:
        return open(path, "rb", opener=lambda _, flags: _open(path.name, flags, folder))
    finally:
        os.close(folder)


def open_journal(path: Path) -> IO[bytes]:
    """Open a regular file for reading and appending, creating it if needed. Raises as :func:`open_regular`."""
    return open(path, "ab+", opener=_open)


def try_lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed or the process ends, however it ends; return False if it is locked already."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_regular(path: Path, limit: int, within: Path | None = None) -> bytes:
    """Return the content of a regular file. Raises :class:`OSError` as :func:`open_regular`, and if it is too large."""
    with open_regular(path, within) as file:
        return read_limited(file, limit)


def read_limited(file: IO[bytes], limit: int) -> bytes:
    """Return the rest of an open file. Raises :class:`OSError` for more than ``limit`` bytes."""
    content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it holds more than {limit // 2**20} MiB")
    return content


def is_irregular(path: Path) -> bool:
    """Whether the path exists and is neither a regular file nor a directory; a link is irregular, too."""
    with suppress(OSError):
        mode = path.lstat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _open_folder(root: Path, below: tuple[str, ...]) -> int:
    """Return a descriptor of a folder below ``root``, refusing links on the way to it."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for name in below:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
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
        if error.errno == errno.ENXIO:  # a socket, or a pipe with no process at the other end
            raise OSError(error.errno, _IRREGULAR, name) from error
        raise
    if stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, _IRREGULAR, name)


def replace_file(path: Path, content: str) -> None:
    """Write ``content`` to ``path`` atomically, by renaming a temporary file beside it; make missing folders.

    Raises :class:`OutputDirectoryError`; an existing ``path`` is then unchanged, and no temporary file is left.
    """
    with _writing(path):
        replace_by(path, lambda file: file.write(content.encode("utf-8")))


def check_writable(path: Path) -> None:
    """Raise :class:`OutputDirectoryError` if a later :func:`replace_file` would; nothing is created.

    Call it before whatever takes long. Missing directories count as writable if they can be created.
    """
    existing = next((folder for folder in path.absolute().parents if folder.exists()), Path("/"))
    if is_device(path):
        return
    with _writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with TemporaryFile(dir=existing):
            pass


def _writing(path: Path) -> AbstractContextManager[None]:
    advice = "; name a file in a directory that is writable"
    return failing_as(OutputDirectoryError, f"{path}: cannot be written: ", advice)


def is_device(path: Path) -> bool:
    """Whether it is ``/dev/null``, ``/dev/stdout`` or the like, which other programs need as it is."""
    return path.absolute().is_relative_to(DEVICES) and is_irregular(path)


def replace_by(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Like :func:`replace_file`, with the content that ``write`` writes to the open file. Raises :class:`OSError`.

    A device is written to.
    """
    if is_device(path):
        with path.open("wb") as device:
            write(device)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


OWN_FOLDER = ".torchperf"


def make_own_folder(path: Path) -> None:
    """Create the folder ``path`` and its parents; an :data:`OWN_FOLDER` among them gets a .gitignore of its own.

    Raises :class:`OSError`.
    """
    path.mkdir(parents=True, exist_ok=True)
    own = next((folder for folder in (path, *path.parents) if folder.name == OWN_FOLDER), None)
    if own:
        ignore_in_git(own)


def ignore_in_git(folder: Path) -> None:
    """Keep ``git add .`` from adding a folder that torchperf created."""
    # Errors are ignored: the file may exist already, or the disk may be full.
    with suppress(OSError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("# Made by torchperf.\n*\n")


ARTIFACT_PREFIX = "torchperf-records-"
"""Prefix of the names of artifacts with records; the name of the job that measured them follows."""


def job_folder(root: Path, job: str, jobs: int) -> Path:
    """Return the folder below ``root`` that holds the records of ``job``, one of ``jobs`` jobs.

    For a single job it may be ``root`` itself: ``actions/download-artifact`` creates no folder for a single artifact.
    """
    unnamed = jobs == 1 and not any(root.glob(f"{ARTIFACT_PREFIX}*"))
    return root if unnamed else root / f"{ARTIFACT_PREFIX}{job}"


SUFFIXES = (".json", ".json.gz")
"""How the names of files with records end."""
NO_RECORD = f"holds no record (of a folder only {' and '.join(f'*{suffix}' for suffix in SUFFIXES)} are read)"

MAX_BYTES = 64 * 2**20
"""Largest size of one file or object, both compressed and unpacked."""

MAX_VALUES = 4_000_000
"""Most values in one file, counted by punctuation; small values take fifty times the size of their text in memory."""

MAX_ELEMENTS = 100_000
"""Most records in one file, together with the pieces that are not records."""

MAX_FILES = 20_000
"""Most files in one upload."""

MAX_UPLOAD = 256 * 2**20
"""Largest unpacked size of all files of one upload together, which are in memory at once."""

_cpu_end: ContextVar[float | None] = ContextVar("_cpu_end", default=None)


class OverLimitError(Exception):
    """A file exceeds a limit and is refused as a whole; the message is the reason."""


def is_gzip(content: bytes) -> bool:
    """Whether ``content`` starts like a gzip file."""
    return content.startswith(b"\x1f\x8b")


def mebibytes(size: int) -> str:
    """Format a size in bytes as MiB."""
    return f"{size // 2**20} MiB"


@contextmanager
def cpu_limit(cpu_seconds: float) -> Iterator[None]:
    """Make :func:`checkpoint` raise once this thread has used ``cpu_seconds`` of CPU time inside the block.

    CPU time is counted instead of wall time, so that a busy machine never causes records to be refused.
    """
    token = _cpu_end.set(time.thread_time() + cpu_seconds)
    try:
        yield
    finally:
        _cpu_end.reset(token)


def checkpoint() -> None:
    """Raise :class:`OverLimitError` if the time of :func:`cpu_limit` is up; call it in every loop over input."""
    end = _cpu_end.get()
    if end is not None and time.thread_time() > end:
        raise OverLimitError("takes too long to check; split it")


def check_bytes(size: int, what: str = "holds") -> None:
    """Raise :class:`OverLimitError` if ``size`` exceeds :data:`MAX_BYTES`."""
    if size > MAX_BYTES:
        raise OverLimitError(f"{what} more than {mebibytes(MAX_BYTES)}; split it")


def count_values(text: str) -> int:
    """Return about how many values a JSON text has, counted by punctuation."""
    return sum(map(text.count, "[{,"))


def check_values(text: str) -> None:
    """Raise :class:`OverLimitError` for a text whose values would take too much memory, before decoding any."""
    if count_values(text) > MAX_VALUES:
        raise OverLimitError(f"holds more than {MAX_VALUES:,} values; split it")


def check_elements(number: int) -> None:
    """Raise :class:`OverLimitError` if the number of records and other pieces exceeds :data:`MAX_ELEMENTS`."""
    if number > MAX_ELEMENTS:
        raise OverLimitError(f"holds more than {MAX_ELEMENTS:,} records; split it")
