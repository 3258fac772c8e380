"""What may stand in the file of a bisection: it comes out of a cache, and what follows from it is called proven."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, get_args

from torchperf_ci.bisect.reasoning.facts import BatchSize, Build, Failure, Look, Note, Purpose, Reading
from torchperf_ci.culprits.file import check_inside

if TYPE_CHECKING:
    from collections.abc import Mapping

Event = Reading | Build | Failure | BatchSize | Look | Note
KINDS: Mapping[str, type[Event]] = {
    "reading": Reading,
    "build": Build,
    "failure": Failure,
    "batchsize": BatchSize,
    "look": Look,
    "note": Note,
}
"""As a line of the file names them."""

MOST_LOG_RATIO = 50.0
"""e to this is 5e21: no two builds differ so much, and sums of squares of it are still numbers."""
MOST_SECONDS = 1e9
MOST_VALUE = 1e300
LARGEST_BATCH = 2**40
LARGEST_DRAW = 2**31

_ADDED = frozenset({"draw", "draws", "repeated"})
"""Members that older files lack."""


class UnfitEventError(ValueError):
    """Something that no bisection of this plan has written."""


@dataclass
class Reader:
    """Reads the events of one plan in their order: each must follow from those before it.

    ``probes`` are the names that the plan knows, ``last`` is the position of the bad commit; None where it knows none.
    """

    probes: frozenset[str] | None
    last: int | None

    def __post_init__(self) -> None:
        self._built: set[tuple[int, int]] = set()

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> Reader:
        """Of the plan that the file begins with."""
        probes = plan.get("probes")
        return cls(None if probes is None else frozenset(probes), plan.get("suspects"))

    def read(self, entry: Mapping[str, Any]) -> Event:
        """The event that a line holds; raises :class:`UnfitEventError`."""
        if len(entry) != 1:
            _refuse("a line has one event")
        ((kind, members),) = entry.items()
        known = KINDS.get(kind)
        if known is None or not isinstance(members, dict):
            _refuse("there is no such event")
        names = {field.name for field in fields(known)}
        if not names - _ADDED <= {*members} <= names:
            _refuse(f"a {kind} has other members")
        event = known(**_as_written(members))
        self._check(event)
        return event

    def _check(self, event: Event) -> None:
        match event:
            case Reading():
                self._check_reading(event)
            case Build():
                self._check_build(event)
            case Failure():
                self._check_probe(event.probe)
                self._check_position(event.position)
                _check_text(event.why)
            case BatchSize():
                self._check_probe(event.probe)
                if not _is_whole(event.size, 1, LARGEST_BATCH):
                    _refuse("a batch size is a whole number above 0")
            case Note():
                _check_text(event.text)
            case Look():
                self._check_pair(event.base, event.head)
                self._check_look(event.inside)

    def _check_reading(self, event: Reading) -> None:
        self._check_probe(event.probe)
        if event.purpose not in get_args(Purpose):
            _refuse("there is no such purpose")
        _check_draws(event.draws)
        if event.purpose == "control":
            self._check_control(event)
        else:
            self._check_pair(event.base, event.head)
        if not {*zip((event.base, event.head), event.draws, strict=True)} <= self._built:
            _refuse("a build is measured before it is made")
        _check_numbers(event.log_ratios, MOST_LOG_RATIO)
        _check_numbers(event.values, MOST_VALUE)
        if not event.log_ratios or not {*event.values} <= {*event.log_ratios}:
            _refuse("a reading has no numbers, or values of nothing that it reads")
        _check_seconds(event.seconds)

    def _check_build(self, event: Build) -> None:
        self._check_position(event.position)
        if not (isinstance(event.ok, bool) and isinstance(event.repeated, bool)):
            _refuse("a build is made or not, and repeated or not")
        _check_seconds(event.seconds)
        _check_text(event.why)
        _check_draw(event.draw)
        if event.ok:
            self._built.add((event.position, event.draw))

    def _check_look(self, inside: object) -> None:
        if not isinstance(inside, dict):
            _refuse("what was seen inside is an object")
        self._check_probe(inside.get("probe"))
        if inside.get("files") or inside.get("commands"):
            _refuse("files and commands are made anew by each job")
        try:
            check_inside(inside)
        except ValueError as error:
            _refuse(str(error))
        numbers = [
            value for one in inside["moved"] for value in one.values() if isinstance(value, int | float)
        ]
        if not all(_is_number(value, MOST_VALUE) for value in numbers):
            _refuse("a number is none")

    def _check_control(self, event: Reading) -> None:
        if self._check_position(event.base) != self._check_position(event.head) or len({*event.draws}) > 1:
            _refuse("a control is of one build")

    def _check_pair(self, base: object, head: object) -> None:
        if not self._check_position(base) < self._check_position(head):
            _refuse("a pair is an earlier build and a later one")

    def _check_position(self, position: object) -> int:
        if not _is_whole(position, 0, math.inf if self.last is None else self.last):
            _refuse("there is no such build in the range")
        return position

    def _check_probe(self, probe: object) -> None:
        if not isinstance(probe, str) or (self.probes is not None and probe not in self.probes):
            _refuse("there is no such probe")


def _as_written(members: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists alone."""
    draws = members.get("draws")
    return {**members, "draws": tuple(draws)} if isinstance(draws, list) else {**members}


def _check_draws(draws: object) -> None:
    if not isinstance(draws, tuple) or len(draws) != 2:
        _refuse("a pair has two draws")
    for draw in draws:
        _check_draw(draw)


def _check_draw(draw: object) -> None:
    if not _is_whole(draw, 0, LARGEST_DRAW):
        _refuse("there is no such draw")


def _is_whole(value: object, least: float, most: float) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: object, most: float) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most


def _check_numbers(values: object, most: float) -> None:
    if not isinstance(values, dict) or not all(_is_number(value, most) for value in values.values()):
        _refuse("a number is missing, or is none")


def _check_seconds(value: object) -> None:
    if not _is_number(value, MOST_SECONDS) or value < 0:
        _refuse("a time is a number of seconds")


def _check_text(value: object) -> None:
    if not isinstance(value, str):
        _refuse("a reason is text")


def _refuse(why: str) -> NoReturn:
    raise UnfitEventError(why)
