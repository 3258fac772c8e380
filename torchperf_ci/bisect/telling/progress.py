"""What a person sees meanwhile: the likeliest suspects on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TextIO

from torchperf_ci.actions import in_actions, one_line
from torchperf_ci.bisect.reasoning.facts import Build, Failure, Reading
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.console import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.reasoning.facts import Facts
    from torchperf_ci.bisect.reasoning.question import Measure, Question

Event = Reading | Build | Failure
MOST_SHOWN = 10
"""Suspects on a terminal."""
_BAR = 20
"""Columns of the terminal that certainty takes."""
PURPOSES = {
    "confirm": "is it slower",
    "locate": "where",
    "verify": "is it this one",
    "control": "is the machine steady",
}


class Progress(ABC):
    """Told of each build and pair before, and of everything that is known after. ``names`` are those of the builds."""

    def __init__(self, question: Question, names: Sequence[str]) -> None:
        self._question, self._names = question, [one_line(name) for name in names]
        self._start = time.monotonic()
        self._doing = ""

    def builds(self, position: int) -> None:
        """A build begins, which may take long."""
        self._doing = f"building {self._names[position]}"
        self._begin()

    def measures(self, step: Measure) -> None:
        """A pair begins."""
        self._doing = f"{PURPOSES[step.purpose]}? {self._short(step.head)} against {self._short(step.base)}"
        self._begin()

    def looks_inside(self, base: int, head: int) -> None:
        """Profiles of a culprit begin, which take as long as a few pairs."""
        self._doing = f"what moved inside? {self._short(head)} against {self._short(base)}"
        self._begin()

    @abstractmethod
    def learnt(self, event: Event, facts: Facts) -> None:
        """Something has ended."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal as it was."""

    @abstractmethod
    def _begin(self) -> None: ...

    def _short(self, position: int) -> str:
        return self._names[position].split(" ")[0]

    def _spent(self, facts: Facts) -> str:
        minutes = (time.monotonic() - self._start) / 60
        return f"{len(facts.readings)} pairs, {len(facts.builds)} builds, {minutes:.1f} min"

    def _likeliest(self, facts: Facts) -> list[tuple[int, float]]:
        """Suspects and their probabilities, the likeliest first: of the first search that is still going on."""
        searches = Investigation(self._question, facts).searches
        suspects = searches[0].suspects() if searches else {}
        return sorted(suspects.items(), key=lambda item: -item[1])


class PlainProgress(Progress):
    """One line an event, for a job's log."""

    def __init__(self, question: Question, names: Sequence[str], out: TextIO) -> None:
        super().__init__(question, names)
        self._out = out

    def _begin(self) -> None:
        """Nothing but what takes long, or has no line of its own that says what came of it."""
        if self._doing.startswith(("building", "what moved")):
            self._write(self._doing)

    def learnt(self, event: Event, facts: Facts) -> None:
        suspects, said = self._likeliest(facts), _said(event)
        if suspects:
            position, probability = suspects[0]
            said += f"; {_count(len(suspects))}, likeliest {self._names[position]} ({probability:.0%})"
        self._write(f"[{self._spent(facts)}] {self._doing}: {said}")

    def _write(self, line: str) -> None:
        say(line, out=self._out)

    def close(self) -> None:
        """Nothing: every line is out."""


class LiveProgress(Progress):
    """The odds as bars that move."""

    def __init__(self, question: Question, names: Sequence[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(question, names)
        self._live = Live(console=Console(stderr=True), transient=True)
        self._live.start()
        self._facts: Facts | None = None
        self._said = ""

    def _begin(self) -> None:
        self._live.update(self._picture())

    def learnt(self, event: Event, facts: Facts) -> None:
        self._said, self._facts = _said(event), facts
        self._live.update(self._picture())

    def _picture(self) -> Any:
        """The likeliest commits, whose subjects are cut where room is short, and beneath them what is going on."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True, min_width=6)
        table.add_column(no_wrap=True, min_width=_BAR)
        table.add_column(no_wrap=True, overflow="ellipsis")
        suspects = self._likeliest(self._facts) if self._facts else []
        for position, probability in suspects[:MOST_SHOWN]:
            bar = "█" * max(round(_BAR * probability), 1)
            table.add_row(Text(f"{probability:6.1%}"), Text(bar), Text(self._names[position]))
        if len(suspects) > MOST_SHOWN:
            table.add_row("", "", Text(f"and {len(suspects) - MOST_SHOWN} more"))
        spent = self._spent(self._facts) if self._facts else ""
        said = "; ".join(part for part in (spent, self._said, self._doing) if part)
        return Group(table, Text(one_line(said)))

    def close(self) -> None:
        self._live.stop()


def progress(question: Question, names: Sequence[str]) -> Progress:
    """The one that fits where standard error goes; a job's log is no terminal even where it looks like one."""
    if sys.stderr.isatty() and not in_actions():
        return LiveProgress(question, names)
    return PlainProgress(question, names, sys.stderr)


def _said(event: Event) -> str:
    """What came of it, in a few words."""
    match event:
        case Reading():
            return ", ".join(f"{math.expm1(ratio):+.1%}" for ratio in event.log_ratios.values())
        case Build(repeated=True):
            return f"done in {event.seconds:.0f} s, and the same as before, byte for byte"
        case Build(ok=True):
            return f"done in {event.seconds:.0f} s"
        case Build():
            return f"cannot be built: {_first_line(event.why)}"
        case Failure():
            return f"does not run: {_first_line(event.why)}"


def _first_line(text: str) -> str:
    return one_line(text.strip().partition("\n")[0])


def _count(suspects: int) -> str:
    return f"{suspects} suspects left" if suspects > 1 else "1 suspect left"
