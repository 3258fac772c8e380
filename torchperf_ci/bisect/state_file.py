"""The state file of a bisection, which lets a later job resume it, and the validation of its events."""

from __future__ import annotations

import errno
import math
import os
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

import msgspec

from torchperf_ci import json_files
from torchperf_ci.bench.case import AUTO_BATCH
from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectNote,
    BisectReading,
    BuildAttempt,
    ProbeBatchSize,
    ProbeFailure,
    ProfiledStep,
)
from torchperf_ci.errors import OutputDirectoryError, ResumeError, failing_as
from torchperf_ci.records.files import open_journal, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torchperf_ci.culprits.culprit import ProfileChange


@dataclass(frozen=True)
class RetriedFailures:
    """A call tries builds anew: what failed at these positions before no longer counts."""

    positions: tuple[int, ...]


StateEvent = (
    BisectReading | BuildAttempt | ProbeFailure | ProbeBatchSize | ProfiledStep | BisectNote | RetriedFailures
)
KINDS: Mapping[str, type[StateEvent]] = {
    "reading": BisectReading,
    "build": BuildAttempt,
    "failure": ProbeFailure,
    "batchsize": ProbeBatchSize,
    "look": ProfiledStep,
    "note": BisectNote,
    "retry": RetriedFailures,
}
"""The event types by their names in the file."""

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "draw": (0, 2**31),
    "inside": (0, 1e300),
    "log_ratios": (-50, 50),  # e^50 = 5e21 is impossible, and sums of squares of such numbers do not overflow
    "resolution": (-1e300, 1e300),
    "seconds": (0, 1e9),
    "size": (1, 2**40),
    "values": (-1e300, 1e300),
}
"""The smallest and the largest value of the numbers of a member; those of positions come from the plan."""

_ADDED = frozenset(
    {"values", "draw", "draws", "repeated", "head_first", "resolution", "contents", "directions", "missing"}
)
"""Members that older files may lack."""


class InvalidEventError(ValueError):
    """An event that no bisection with this plan can have written."""


class StateReader:
    """Reads and validates the events of one ``plan`` in order; an event may refer only to what earlier events allow."""

    def __init__(self, plan: Mapping[str, object]) -> None:
        probes, last = plan.get("probes"), plan.get("suspects")
        self._probes = {*probes} if isinstance(probes, list) else None
        positions = (0, last if isinstance(last, int) else math.inf)
        self._bounds = {**_BOUNDS, **dict.fromkeys(("position", "positions", "base", "head"), positions)}
        self._built: set[tuple[int, int]] = set()

    def read(self, entry: json_files.JournalEntry) -> StateEvent:
        """Return the event in an entry of the file; raises :class:`InvalidEventError`."""
        if len(entry) != 1:
            _refuse("a line has one event")
        ((kind, members),) = entry.items()
        known = KINDS.get(kind)
        if known is None or not isinstance(members, dict):
            _refuse("there is no such event")
        names = {field.name for field in fields(known)}
        if not names - _ADDED <= {*members} <= names:
            _refuse(f"a {kind} has other members")
        try:
            event = json_files.typed(members, known)
        except ValueError as error:
            _refuse(str(error))
        for name, (low, high) in self._bounds.items():
            if not all(low <= number <= high for number in _numbers(members.get(name))):
                _refuse(f"{name} is out of bounds")
        self._check(event)
        return event

    def _check(self, event: StateEvent) -> None:
        match event:
            case BisectReading():
                self._check_probe(event.probe)
                self._check_reading(event)
            case ProbeFailure():
                self._check_probe(event.probe)
            case ProbeBatchSize():
                self._check_probe(event.probe)
                if self._probes:  # it is called by its size from now on
                    self._probes.add(f"{event.probe.removesuffix(AUTO_BATCH)}{event.size}")
            case ProfiledStep():
                self._check_probe(event.inside.probe)
                if event.inside.files or event.inside.commands:
                    _refuse("files and commands are made anew by each job")
                if event.base >= event.head:
                    _refuse(_NO_PAIR)
            case BuildAttempt(ok=True):
                self._built.add((event.position, event.draw))

    def _check_reading(self, event: BisectReading) -> None:
        if event.purpose == "control":
            if event.base != event.head or event.draws[0] != event.draws[1]:
                _refuse("a control is of one build")
        elif event.base >= event.head:
            _refuse(_NO_PAIR)
        if not {*zip((event.base, event.head), event.draws, strict=True)} <= self._built:
            _refuse("a build is measured before it is made")
        if not event.log_ratios or not {*event.values, *event.resolution} <= {*event.log_ratios}:
            _refuse("a reading has no numbers, or values of nothing that it reads")

    def _check_probe(self, probe: str) -> None:
        if self._probes is not None and probe not in self._probes:
            _refuse("there is no such probe")


_NO_PAIR = "a pair is an earlier build and a later one"


def _numbers(member: object) -> Iterator[float]:
    """Yield all numbers in a JSON value."""
    if isinstance(member, int | float):
        yield member
    if isinstance(member, dict):
        member = [*member.values()]
    for item in member if isinstance(member, list) else ():
        yield from _numbers(item)


def _refuse(why: str) -> NoReturn:
    raise InvalidEventError(why)


STATE_VERSION = 1
"""The version of the file format. It is part of every plan, so that a file of another version is never resumed."""

_OTHERWISE = "repeat its options, name another file with --state, or delete this one to start anew"

_BEGIN = b'{"plan": {'

MAX_BYTES = 32 * 2**20
MAX_EVENTS = 20_000
"""Limits of a state file: more than a week of pairs of half a minute each, at a few hundred bytes per event."""

_NAMES = {kind: name for name, kind in KINDS.items()}


class StateFile(AbstractContextManager["StateFile"]):
    """The events of one bisection, in a file that is locked against other processes while it is open.

    ``anew`` says why the previous contents of the file were dropped, or is empty.
    """

    def __init__(self, file: IO[bytes], events: list[StateEvent], anew: str = "") -> None:
        self._file, self._events, self.anew = file, events, anew

    @classmethod
    def open(cls, path: Path, plan: Mapping[str, object], *, forget_others: bool = False) -> StateFile:
        """Start the bisection ``plan`` (JSON types only) in a new file, or resume it from a file with the same plan.

        Contents that are not valid are dropped, and with ``forget_others`` so are those of another plan. Without it,
        another plan raises :class:`ResumeError`, as does a file in use; a file that cannot be written raises
        :class:`OutputDirectoryError`.
        """
        with _writing(path), ExitStack() as until_read:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = until_read.enter_context(open_journal(path))
            if not try_lock(file):
                msg = f"{path} is in use by another bisection: wait for it to end, or name another file with --state"
                raise ResumeError(msg)
            events, anew = _events_or_anew(file, plan, forget_others=forget_others)
            until_read.pop_all()
        return cls(file, events, anew)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file for other processes."""
        with suppress(OSError):  # from an event that could not be written; add() has reported it
            self._file.close()

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self._file.name)

    @property
    def facts(self) -> BisectFacts:
        """All readings, build attempts and probe failures that count, in the order in which they happened."""
        counted: list[StateEvent] = []
        for event in self._events:
            if isinstance(event, RetriedFailures):
                counted = [*_before_retry(counted, {*event.positions})]
            else:
                counted.append(event)
        return BisectFacts(
            tuple(event for event in counted if isinstance(event, BisectReading)),
            tuple(event for event in counted if isinstance(event, BuildAttempt)),
            tuple(event for event in counted if isinstance(event, ProbeFailure)),
        )

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The batch sizes that were found, by probe."""
        return {event.probe: event.size for event in self._events if isinstance(event, ProbeBatchSize)}

    @property
    def profiles(self) -> Mapping[tuple[int, int], ProfileChange]:
        """What profiles have shown, by the positions of their two builds."""
        return {
            (event.base, event.head): event.inside
            for event in self._events
            if isinstance(event, ProfiledStep)
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """The texts of all notes, oldest first."""
        return tuple(event.text for event in self._events if isinstance(event, BisectNote))

    def add(self, event: StateEvent) -> None:
        """Append ``event``, and return once it is on disk. Raises :class:`OutputDirectoryError`."""
        with _writing(self.path):
            if len(self._events) >= MAX_EVENTS or self._file.tell() >= MAX_BYTES:
                raise OSError(errno.EFBIG, "it is full")
            json_files.append_entry(self._file, {_NAMES[type(event)]: msgspec.to_builtins(event)})
        self._events.append(event)

    def retry_failures(self) -> None:
        """Make what failed after the last successful build no longer count, but each position only once.

        The network may have been down. A commit after whose failure another one was built is itself to blame.
        """
        latest: set[int] = set()
        retried: set[int] = set()
        for event in self._events:
            match event:
                case BuildAttempt(ok=True):
                    if (
                        event.position or event.draw
                    ):  # good is built again to see whether anything can be built
                        latest.clear()
                case BuildAttempt() | ProbeFailure():
                    latest.add(event.position)
                case RetriedFailures():
                    retried |= {*event.positions}
        if latest - retried:
            self.add(RetriedFailures(tuple(sorted(latest - retried))))


def _before_retry(events: Iterable[StateEvent], retried: set[int]) -> Iterator[StateEvent]:
    """What still counts of earlier ``events``; a step is not proven as a whole if commits inside it are tried again."""
    for event in events:
        match event:
            case BuildAttempt(ok=False) | ProbeFailure() if event.position in retried:
                continue
            case BisectReading(purpose="verify") if retried.intersection(range(event.base + 1, event.head)):
                yield replace(event, purpose="locate")
            case _:
                yield event


def _writing(path: Path) -> AbstractContextManager[None]:
    before, after = f"{path}: cannot be written: ", "; name another file with --state"
    return failing_as(OutputDirectoryError, before, after)


def _events_or_anew(
    file: IO[bytes], plan: Mapping[str, object], *, forget_others: bool
) -> tuple[list[StateEvent], str]:
    """The events in the file and ``""``; or, after emptying the file, no events and the reason."""
    try:
        return _events(file, plan), ""
    except ResumeError as error:
        is_other = isinstance(error, json_files.OtherPlanError) and "state" not in error.changed
        if (is_other or not _is_state(file)) and not forget_others:
            raise
        why = str(error).removesuffix(f"; {_OTHERWISE}")
    file.truncate(0)
    json_files.read_entries(file, {"state": STATE_VERSION, **plan}, _OTHERWISE)
    return [], f"{why}: it was dropped, and this bisection starts anew"


def _is_state(file: IO[bytes]) -> bool:
    """Whether the file begins as states do, however it goes on; else it is somebody's own, named by mistake."""
    file.seek(0)
    return file.read(len(_BEGIN)) == _BEGIN


def _events(file: IO[bytes], plan: Mapping[str, object]) -> list[StateEvent]:
    size = os.fstat(file.fileno()).st_size
    if size > MAX_BYTES:
        raise ResumeError(f"{file.name} holds {size >> 20} MiB, more than any bisection writes; {_OTHERWISE}")
    entries = json_files.read_entries(file, {"state": STATE_VERSION, **plan}, _OTHERWISE)
    if len(entries) > MAX_EVENTS:
        msg = f"{file.name} holds {len(entries)} events, more than any bisection writes; {_OTHERWISE}"
        raise ResumeError(msg)
    reader, events = StateReader(plan), []
    for number, entry in enumerate(entries, start=2):
        before = f"{file.name}:{number}: this is no event of this bisection ("
        with failing_as(ResumeError, before, f"); {_OTHERWISE}", of=InvalidEventError):
            events.append(reader.read(entry))
    return events
