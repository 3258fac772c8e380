"""What a bisection has learnt, kept in a file from which the next job goes on: after a kill, or on another machine."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, get_args

from torchperf_ci import journal
from torchperf_ci.bisect.reasoning.facts import BatchSize, Build, Facts, Failure, Look, Reading
from torchperf_ci.errors import OutputDirectoryError, ResumeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

VERSION = 1
"""Of the file. It is an entry of every plan, so that no other version is continued."""

_OTHERWISE = "repeat its options, name another file with --state, or delete this one to start anew"


@dataclass(frozen=True)
class Note:
    """What a reader of the bisection should know beside its facts."""

    text: str


Event = Reading | Build | Failure | BatchSize | Look | Note
_EVENTS = {event.__name__.lower(): event for event in get_args(Event)}
_E = TypeVar("_E", Reading, Build, Failure)


class State:
    """The events of one bisection. No other process can open the file until this one closes it, or is gone."""

    def __init__(self, file: IO[bytes], events: list[Event]) -> None:
        self._file, self._events = file, events

    @classmethod
    def open(cls, path: Path, plan: Mapping[str, Any]) -> State:
        """Start the bisection ``plan`` (of JSON's types) in a new file, or continue it in one that has the same plan.

        Raises :class:`ResumeError` where the file is in use or holds anything else, which is then left as it is, and
        :class:`OutputDirectoryError` where it cannot be written.
        """
        with _writing(path), ExitStack() as until_read:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = until_read.enter_context(path.open("ab+"))
            _lock(file)
            entries = journal.entries(file, {"state": VERSION, **plan}, _OTHERWISE)
            events = [_event(file, number, entry) for number, entry in enumerate(entries, start=2)]
            until_read.pop_all()
        return cls(file, events)

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
    return {type(event).__name__.lower(): members}


def _event(file: IO[bytes], number: int, entry: journal.Entry) -> Event:
    try:
        ((kind, members),) = entry.items()
        event: Event = _EVENTS[kind](**members)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{file.name}:{number}: this is no event of a bisection; {_OTHERWISE}"
        raise ResumeError(msg) from error
    return event
