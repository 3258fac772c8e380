"""Every error that a user can meet: one class a failure, each with its exit code and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


_MOST_TOLD = 12
"""Names that a message tells at most."""


class TorchperfError(Exception):
    """Base of all errors a user can meet. ``exit_code`` is what the process ends with."""

    exit_code = 2


class UsageError(TorchperfError):
    """The call contradicts itself or names something that does not exist."""


class UnknownNameError(UsageError):
    """A name that is not among the known ones; the message offers the nearest.

    Where none is near, few are told, and of many the number, and what lists them (``listed_by``, a command).
    """

    def __init__(self, what: str, name: str, known: Iterable[str], listed_by: str = "") -> None:
        import difflib  # on use: every command imports this module

        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        elif len(names) <= _MOST_TOLD:
            hint = f"known: {', '.join(names)}"
        else:
            hint = f"none of {len(names)}" + (f"; `{listed_by}` lists them" if listed_by else "")
        super().__init__(f"unknown {what} {name!r}: {hint}")


class ConfigError(TorchperfError):
    """``torchperf.yml`` is malformed. The message starts with ``file:line:``."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")


class SetupFileError(TorchperfError):
    """A file of ``torchperf init`` cannot be written."""


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
    """Some workloads failed; everything else is measured and kept."""

    exit_code = 3


class NotRestoredError(TorchperfError):
    """Something that tuning changed on the machine did not come back; the message names it."""

    exit_code = 3


class RecordsRefusedError(TorchperfError):
    """Some records are not valid and were set aside; the rest is delivered."""

    exit_code = 3


class ConflictError(TorchperfError):
    """Different content is already kept under a key; it was not overwritten."""

    exit_code = 3


class NotDeliveredError(TorchperfError):
    """A place could not be reached or refused within the deadline; what was to be sent is spooled."""

    exit_code = 4


class CredentialsError(NotDeliveredError):
    """No credentials could be had for a place, or they are refused."""


class PlaceUnreadableError(TorchperfError):
    """A place, or one object in it, cannot be read: missing, unreachable or refused."""


class PlaceForbiddenError(PlaceUnreadableError):
    """The credentials in use may not read a place."""


class UnfitObjectError(PlaceUnreadableError):
    """One object of a place is none that is read: it is a link, or too large. The others are as good as ever."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.reason = reason


class UnsafeKeyError(UsageError):
    """The key of an object is no relative path of safe characters."""


class StoreError(TorchperfError):
    """The store cannot be opened, or refuses what was asked of it."""


class StoreUnreachableError(NotDeliveredError):
    """The store did not answer within its deadline, or another process holds it; nothing in it is half done."""


class VerdictsError(TorchperfError):
    """A file of verdicts cannot be read or is none, or its directory cannot be made."""


class CulpritsError(TorchperfError):
    """A file of culprits cannot be read or is none, or its directory cannot be made."""
