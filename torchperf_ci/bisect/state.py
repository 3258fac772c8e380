"""What a bisection has learnt, kept in a file from which the next job goes on: after a kill, or on another machine."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from torchperf_ci import journal
from torchperf_ci.bisect.events import KINDS, Reader, UnfitEventError
from torchperf_ci.bisect.reasoning.facts import BatchSize, Build, Facts, Failure, Look, Note, Reading
from torchperf_ci.errors import OutputDirectoryError, ResumeError
from torchperf_ci.records.files import open_journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from torchperf_ci.bisect.events import Event

VERSION = 1
"""Of the file. It is an entry of every plan, so that no other version is continued."""

_OTHERWISE = "repeat its options, name another file with --state, or delete this one to start anew"

MOST_BYTES = 32 * 2**20
MOST_EVENTS = 20_000
"""Of a file: more than a week of pairs that take half a minute, of a few hundred bytes each."""

_E = TypeVar("_E", Reading, Build, Failure)
_NAMES = {kind: name for name, kind in KINDS.items()}


class State:
    """The events of one bisection. No other process can open the file until this one closes it, or is gone.

    ``anew`` says why what the file held before was dropped; empty where nothing was.
    """

    def __init__(self, file: IO[bytes], events: list[Event], anew: str = "") -> None:
        self._file, self._events, self.anew = file, events, anew

    @classmethod
    def open(cls, path: Path, plan: Mapping[str, Any], *, forget_others: bool = False) -> State:
        """Start the bisection ``plan`` (of JSON's types) in a new file, or continue it in one that has the same plan.

        What no bisection has written makes way for a new one, and so does one of another plan, if they are to be
        forgotten. Raises :class:`ResumeError` where it is not, and where the file is in use; and
        :class:`OutputDirectoryError` where it cannot be written.
        """
        with _writing(path), ExitStack() as until_read:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = until_read.enter_context(open_journal(path))
            _lock(file)
            events, anew = _known(file, plan, forget_others=forget_others)
            until_read.pop_all()
        return cls(file, events, anew)

    def __enter__(self) -> State:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the file."""
        with suppress(OSError):  # of a line that could not be written, which was said when it was added
            self._file.close()

    @property
    def facts(self) -> Facts:
        """What was measured, built and could not be, in the order in which it was learnt."""
        return Facts(self._every(Reading), self._every(Build), self._every(Failure))

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """Those that were found, by probe."""
        return {event.probe: event.size for event in self._events if isinstance(event, BatchSize)}

    @property
    def looks(self) -> Mapping[tuple[int, int], Mapping[str, Any]]:
        """What was seen inside, by the positions of two builds."""
        return {(event.base, event.head): event.inside for event in self._events if isinstance(event, Look)}

    @property
    def notes(self) -> tuple[str, ...]:
        """The texts of all notes, oldest first."""
        return tuple(event.text for event in self._events if isinstance(event, Note))

    def add(self, event: Event) -> None:
        """Keep ``event``; it is on the disk when this returns. Raises :class:`OutputDirectoryError`."""
        with _writing(Path(self._file.name)):
            if len(self._events) >= MOST_EVENTS or self._file.tell() >= MOST_BYTES:
                raise OSError(errno.EFBIG, "it is full")
            journal.append(self._file, _entry(event))
        self._events.append(event)

    def _every(self, kind: type[_E]) -> tuple[_E, ...]:
        return tuple(event for event in self._events if isinstance(event, kind))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror or error}; name another file with --state"
        raise OutputDirectoryError(msg) from error


def _lock(file: IO[bytes]) -> None:
    """Of the kernel's, which ends with the process however that ends: a file that says so would stay behind."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        msg = f"{file.name} is in use by another bisection: wait for it to end, or name another file with --state"
        raise ResumeError(msg) from error


def _entry(event: Event) -> journal.Entry:
    members = {k: dict(v) if isinstance(v, Mapping) else v for k, v in vars(event).items()}
    return {_NAMES[type(event)]: members}


def _known(file: IO[bytes], plan: Mapping[str, Any], *, forget_others: bool) -> tuple[list[Event], str]:
    """The events that the file holds; or none, after it was emptied, and why."""
    try:
        return _events(file, plan), ""
    except ResumeError as error:
        is_other = isinstance(error, journal.OtherPlanError) and "state" not in error.changed
        if is_other and not forget_others:
            raise
        why = str(error).removesuffix(f"; {_OTHERWISE}")
    file.truncate(0)
    journal.entries(file, {"state": VERSION, **plan}, _OTHERWISE)
    return [], f"{why}: it was dropped, and this bisection starts anew"


def _events(file: IO[bytes], plan: Mapping[str, Any]) -> list[Event]:
    size = os.fstat(file.fileno()).st_size
    if size > MOST_BYTES:
        msg = f"{file.name} holds {size >> 20} MiB, more than any bisection writes; {_OTHERWISE}"
        raise ResumeError(msg)
    entries = journal.entries(file, {"state": VERSION, **plan}, _OTHERWISE)
    if len(entries) > MOST_EVENTS:
        msg = f"{file.name} holds {len(entries)} events, more than any bisection writes; {_OTHERWISE}"
        raise ResumeError(msg)
    reader, events = Reader.of(plan), []
    for number, entry in enumerate(entries, start=2):
        try:
            events.append(reader.read(entry))
        except UnfitEventError as error:
            msg = f"{file.name}:{number}: this is no event of this bisection ({error}); {_OTHERWISE}"
            raise ResumeError(msg) from error
    return events
