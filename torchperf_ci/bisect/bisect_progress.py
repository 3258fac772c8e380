"""What a person sees: what a bisection is going to cost, and then the likeliest suspects."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from torchperf_ci.actions import literal, one_line
from torchperf_ci.bisect.measurement_setup import BUILD_SECONDS, builder_kind
from torchperf_ci.bisect.reasoning.evidence import BisectQuestion, BisectReading, BuildAttempt, ProbeFailure
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.reasoning.proof import FEWEST_TO_VERIFY
from torchperf_ci.console import is_terminal, say
from torchperf_ci.document import duration
from torchperf_ci.machine.host import machine_text, read_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.commits import BuildSequence
    from torchperf_ci.bisect.measurement_setup import BisectLimits
    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, PlannedPair
    from torchperf_ci.options.building_commands import BisectOptions


PAIRS_TO_CONFIRM = 8
"""Pairs until it is clear that bad is slower, at a noise of a third of the effect."""
PAIRS_TO_HALVE = 2
"""Pairs until half of the suspects are ruled out, at the same noise."""


@dataclass(frozen=True)
class ExpectedCost:
    """Builds, pairs, and seconds for all of them."""

    builds: int
    pairs: int
    seconds: float


def estimated_cost(suspects: int, probes: int, build_seconds: float) -> ExpectedCost:
    """For one culprit."""
    halvings = math.ceil(math.log2(suspects + 1))
    builds, pairs = 2 + halvings, (PAIRS_TO_CONFIRM + FEWEST_TO_VERIFY) * probes + PAIRS_TO_HALVE * halvings
    return ExpectedCost(builds, pairs, builds * build_seconds + pairs * BisectQuestion.pair_seconds)


def show_plan(sequence: BuildSequence[Any], options: BisectOptions, limits: BisectLimits) -> None:
    """Say on standard error what will be done, before anything is; nothing is asked."""
    measured = [options.command] if options.command else options.workload or options.suite
    measured = measured or ["what got worse by the verdicts"]
    build = BUILD_SECONDS[builder_kind(options)]
    cost = estimated_cost(len(sequence.weights), len(measured), build)
    bounds = {
        "builds": limits.builds,
        "pairs": limits.pairs,
        "seconds": limits.deadline and round(limits.deadline.left),
    }
    expected_cost = (
        f"expected: {cost.builds} builds and {cost.pairs} pairs of processes, {duration(cost.seconds)} if a build "
        f"takes {duration(build)} and a pair {duration(BisectQuestion.pair_seconds)}"
    )
    lines = [
        f"this machine: {machine_text(read_host())}",
        f"good: {sequence.labels[0]}",
        f"bad:  {sequence.labels[-1]}",
        f"{_count_suspects(len(sequence.weights))}; measured: {', '.join(measured)}",
        expected_cost,
        *(f"at most {most} {what}" for what, most in bounds.items() if most is not None),
    ]
    with literal():
        sys.stderr.writelines(f"{one_line(text)}\n" for text in lines)


def _count_suspects(suspects: int) -> str:
    return f"{suspects} suspects" if suspects > 1 else "1 suspect"


ProgressEvent = BisectReading | BuildAttempt | ProbeFailure
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


class BisectProgress(ABC):
    """Told of each build and pair before, and of everything that is known after. ``names`` are those of the builds."""

    def __init__(self, question: BisectQuestion, names: Sequence[str]) -> None:
        self._question, self._names = question, [one_line(name) for name in names]
        self._start = time.monotonic()
        self._doing = ""

    def builds(self, position: int) -> None:
        """A build begins, which may take long."""
        self._doing = f"building {self._names[position]}"
        self._begin()

    def measures(self, step: PlannedPair) -> None:
        """A pair begins."""
        self._doing = f"{PURPOSES[step.purpose]}? {self._short(step.head)} against {self._short(step.base)}"
        self._begin()

    def profiles(self, base: int, head: int) -> None:
        """Profiles of a culprit begin, which take as long as a few pairs."""
        self._doing = f"what moved inside? {self._short(head)} against {self._short(base)}"
        self._begin()

    @abstractmethod
    def learnt(self, event: ProgressEvent, facts: BisectFacts) -> None:
        """Something has ended."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal as it was."""

    @abstractmethod
    def _begin(self) -> None: ...

    def _short(self, position: int) -> str:
        return self._names[position].split(" ")[0]

    def _spent(self, facts: BisectFacts) -> str:
        minutes = (time.monotonic() - self._start) / 60
        return f"{len(facts.readings)} pairs, {len(facts.builds)} builds, {minutes:.1f} min"

    def _likeliest(self, facts: BisectFacts) -> list[tuple[int, float]]:
        """Suspects and their probabilities, the likeliest first: of the first search that is still going on."""
        searches = Investigation(self._question, facts).searches
        suspects = searches[0].suspects() if searches else {}
        return sorted(suspects.items(), key=lambda item: -item[1])


class PlainBisectProgress(BisectProgress):
    """One line an event, for a job's log."""

    def __init__(self, question: BisectQuestion, names: Sequence[str], out: TextIO) -> None:
        super().__init__(question, names)
        self._out = out

    def _begin(self) -> None:
        """Nothing but what takes long, or has no line of its own that says what came of it."""
        if self._doing.startswith(("building", "what moved")):
            self._write(self._doing)

    def learnt(self, event: ProgressEvent, facts: BisectFacts) -> None:
        suspects, text = self._likeliest(facts), _event_text(event)
        if suspects:
            position, probability = suspects[0]
            text += (
                f"; {_suspects_left(len(suspects))}, likeliest {self._names[position]} ({probability:.0%})"
            )
        self._write(f"[{self._spent(facts)}] {self._doing}: {text}")

    def _write(self, line: str) -> None:
        say(line, out=self._out)

    def close(self) -> None:
        """Nothing: every line is out."""


class LiveBisectProgress(BisectProgress):
    """The odds as bars that move."""

    def __init__(self, question: BisectQuestion, names: Sequence[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(question, names)
        self._live = Live(console=Console(stderr=True), transient=True)
        self._live.start()
        self._facts: BisectFacts | None = None
        self._said = ""

    def _begin(self) -> None:
        self._live.update(self._picture())

    def learnt(self, event: ProgressEvent, facts: BisectFacts) -> None:
        self._said, self._facts = _event_text(event), facts
        self._live.update(self._picture())

    def _picture(self) -> Any:
        """The likeliest commits, whose subjects are cut where room is short, and beneath them what is going on."""
        from rich.console import Group
        from rich.spinner import Spinner
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
        text = "; ".join(part for part in (spent, self._said, self._doing) if part)
        return Group(table, Spinner("dots", Text(one_line(text))))  # a build may take an hour

    def close(self) -> None:
        self._live.stop()


def open_progress(question: BisectQuestion, names: Sequence[str]) -> BisectProgress:
    """The one that fits where standard error goes."""
    if is_terminal(sys.stderr):
        return LiveBisectProgress(question, names)
    return PlainBisectProgress(question, names, sys.stderr)


def _event_text(event: ProgressEvent) -> str:
    """What came of it, in a few words."""
    match event:
        case BisectReading():
            return ", ".join(f"{math.expm1(ratio):+.1%}" for ratio in event.log_ratios.values())
        case BuildAttempt(repeated=True):
            return f"done in {event.seconds:.0f} s, and the same as before, byte for byte"
        case BuildAttempt(ok=True):
            return f"done in {event.seconds:.0f} s"
        case BuildAttempt():
            return f"cannot be built: {_first_line(event.why)}"
        case ProbeFailure():
            return f"does not run: {_first_line(event.why)}"


def _first_line(text: str) -> str:
    return one_line(text.strip().partition("\n")[0])


def _suspects_left(suspects: int) -> str:
    return f"{suspects} suspects left" if suspects > 1 else "1 suspect left"
