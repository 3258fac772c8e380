"""Every error that a user can meet: one class per kind of failure, each with its exit code."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

EXIT_CODES = """\
exit codes:
  0   done, nothing wrong
  1   something regressed or is broken; with doctor --strict, a check did not pass
  2   usage or configuration error, or something that is needed is missing
  3   some workloads or records failed or were refused, or init skipped existing files; the rest is done and kept
  4   not delivered, or no answer from the store or GitHub; an upload is spooled, and can be resumed
  5   inconclusive
  70  a bug in torchperf
  130 stopped by Ctrl-C, 143 by SIGTERM; prints what is kept and how to continue
"""
"""All exit codes, as the end of ``--help`` explains them."""

_MAX_LISTED = 12
"""Most names that a message lists."""


class TorchperfError(Exception):
    """Base of all errors a user can meet. ``exit_code`` is what the process ends with."""

    exit_code = 2


class UsageError(TorchperfError):
    """The call contradicts itself or names something that does not exist."""


class UnknownNameError(UsageError):
    """A name that is not among the known ones; the message offers the nearest.

    If none is near, the message lists the known names; if these are many, only the command ``listed_by`` that does.
    """

    def __init__(self, what: str, name: str, known: Iterable[str], listed_by: str = "") -> None:
        import difflib  # on use: every command imports this module

        names = sorted({*known})
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.9)
        if not near:
            bare = {name.lstrip("-"): name for name in names}  # that all options have dashes makes none alike
            near = [bare[word] for word in difflib.get_close_matches(name.lstrip("-"), bare, n=3, cutoff=0.5)]
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        elif len(names) <= _MAX_LISTED:
            hint = f"known: {', '.join(names)}"
        else:
            hint = f"there are {len(names)}" + (f"; `{listed_by}` lists them" if listed_by else "")
        super().__init__(f"unknown {what} {name!r}: {hint}")


class ConfigError(TorchperfError):
    """``torchperf.yml`` is malformed. The message starts with ``file:line:``."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")


class RecordsError(TorchperfError):
    """A records file cannot be read at all (missing, unreadable, not text)."""


class SuiteFileError(TorchperfError):
    """A user's suite file does not load in the environment under test."""


class OutputDirectoryError(TorchperfError):
    """The output directory cannot be written, or holds the records of an earlier run."""


class EnvironmentUnderTestError(TorchperfError):
    """The Python under test does not start, or has no torch."""


class ResumeError(TorchperfError):
    """``--resume`` does not fit what the output directory holds."""


class WorkloadsFailedError(TorchperfError):
    """Some workloads failed; everything else was measured and saved."""

    exit_code = 3


class NotRestoredError(TorchperfError):
    """A setting that tuning changed could not be restored; the message names it."""

    exit_code = 3


class RecordsRefusedError(TorchperfError):
    """Some records are not valid and were set aside; the rest was delivered."""

    exit_code = 3


class ConflictError(TorchperfError):
    """Other content already exists under a key; it was not overwritten."""

    exit_code = 3


class NotDeliveredError(TorchperfError):
    """A place could not be reached, or refused; what was to be sent is in the spool."""

    exit_code = 4


class CredentialsError(NotDeliveredError):
    """Credentials for a place are missing or were refused."""


class PlaceUnreadableError(TorchperfError):
    """A place, or one object in it, cannot be read: missing, unreachable or refused."""


class PlaceForbiddenError(PlaceUnreadableError):
    """The credentials in use have no permission to read a place."""


class InvalidObjectError(PlaceUnreadableError):
    """One object of a place cannot be used, because it is a link or too large; the others are not affected."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.reason = reason


class UnsafeKeyError(UsageError):
    """The key of an object is not a relative path of safe characters."""


class StoreError(TorchperfError):
    """The store cannot be opened, or refuses a statement."""


class StoreUnreachableError(NotDeliveredError):
    """The store did not answer within the deadline, or another process holds it; no change is left half done."""


class JsonFileError(TorchperfError):
    """A file of verdicts, culprits, baselines or costs is unreadable or malformed."""


class SystemRefusalError(TorchperfError):
    """The system refuses what every program needs, such as space on a disk, memory or another process."""


_REFUSALS = {
    errno.EACCES, errno.EAGAIN, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE,
    errno.ENOLCK, errno.ENOMEM, errno.ENOSPC, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EROFS, errno.ESTALE,
}  # fmt: skip


@contextmanager
def failing_as(
    kind: Callable[[str], Exception],
    before: str = "",
    after: str = "",
    *,
    of: type[Exception] | tuple[type[Exception], ...] = OSError,
) -> Iterator[None]:
    """Raise ``kind`` for an error in the block, which says why in the words of the system, git or whoever refuses."""
    try:
        yield
    except of as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise kind(f"{before}{why}{after}") from error


@contextmanager
def system_refusals() -> Iterator[None]:
    """Raise :class:`SystemRefusalError` for an error of the system in the block that is no fault of torchperf."""
    try:
        yield
    except OSError as error:
        # No path is named where the working directory is gone, or no directory can hold temporary files.
        is_unnamed = error.errno == errno.ENOENT and error.filename is None
        if error.errno not in _REFUSALS and not is_unnamed:
            raise
        needs = "a working directory, permissions, disk space, memory, open files, processes and file locks"
        raise SystemRefusalError(f"the system refused: {error}; torchperf needs {needs}") from error
