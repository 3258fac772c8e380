"""Show the plan and expected cost of a bisection, then its progress and the likeliest suspects."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from torchperf_ci.actions import one_line
from torchperf_ci.bisect.measurement_setup import BUILD_SECONDS, BisectLimits, builder_kind
from torchperf_ci.bisect.reasoning.evidence import BisectQuestion, BisectReading, BuildAttempt, ProbeFailure
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.reasoning.proof import FEWEST_TO_VERIFY
from torchperf_ci.console import is_terminal, say
from torchperf_ci.document import change_text, counted, duration
from torchperf_ci.machine.host import machine_text, read_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.commits import BuildSequence
    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, PlannedPair
    from torchperf_ci.options.comparison_commands import BisectOptions


PAIRS_TO_CONFIRM = 8
"""Expected pairs to confirm that bad is slower, if the noise is a third of the effect."""
PAIRS_TO_HALVE = 2
"""Expected pairs to rule out half of the suspects, at the same noise."""


@dataclass(frozen=True)
class ExpectedCost:
    """Expected builds and pairs, and the seconds for all of them."""

    builds: int
    pairs: int
    seconds: float


def estimated_cost(suspects: int, probes: int, build_seconds: float) -> ExpectedCost:
    """The expected cost of finding one culprit."""
    halvings = math.ceil(math.log2(suspects + 1))
    builds, pairs = 2 + halvings, (PAIRS_TO_CONFIRM + FEWEST_TO_VERIFY) * probes + PAIRS_TO_HALVE * halvings
    return ExpectedCost(builds, pairs, builds * build_seconds + pairs * BisectQuestion.pair_seconds)


def show_plan(sequence: BuildSequence[Any], options: BisectOptions, limits: BisectLimits) -> None:
    """Print on standard error what the bisection will do and may cost; asks for no confirmation."""
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
        f"{counted(len(sequence.weights), 'suspect')}; measured: {', '.join(measured)}",
        expected_cost,
        *(f"at most {most} {what}" for what, most in bounds.items() if most is not None),
    ]
    say(*lines)


ProgressEvent = BisectReading | BuildAttempt | ProbeFailure
MOST_SHOWN = 10
"""Maximum number of suspects on a terminal."""
_BAR = 20
"""Width of a probability bar, in columns."""
PURPOSES = {
    "confirm": "is it slower",
    "locate": "where",
    "verify": "is it this one",
    "control": "is the machine steady",
}


class BisectProgress(ABC):
    """Shows each build and pair when it begins, and what is known when it ends. ``names`` name the builds."""

    def __init__(self, question: BisectQuestion, names: Sequence[str]) -> None:
        self._question, self._names = question, [one_line(name) for name in names]
        self._start = time.monotonic()
        self._doing = ""

    def builds(self, position: int) -> None:
        """A build begins; it may take long."""
        self._doing = f"building {self._names[position]}"
        self._begin()

    def measures(self, step: PlannedPair) -> None:
        """A pair begins."""
        self._doing = f"{PURPOSES[step.purpose]}? {self._short(step.head)} against {self._short(step.base)}"
        self._begin()

    def profiles(self, base: int, head: int) -> None:
        """Profiling of a culprit begins; it takes as long as a few pairs."""
        self._doing = f"what moved inside? {self._short(head)} against {self._short(base)}"
        self._begin()

    @abstractmethod
    def learnt(self, event: ProgressEvent, facts: BisectFacts) -> None:
        """A build or a pair has ended."""

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
        """Suspects and their probabilities in the first unfinished search, the likeliest first."""
        searches = Investigation(self._question, facts).searches
        suspects = searches[0].suspects() if searches else {}
        return sorted(suspects.items(), key=lambda item: -item[1])


class PlainBisectProgress(BisectProgress):
    """Prints one line per event, for the log of a job."""

    def __init__(self, question: BisectQuestion, names: Sequence[str], out: TextIO) -> None:
        super().__init__(question, names)
        self._out = out

    def _begin(self) -> None:
        """Print only what takes long or gets no line of its own when it ends."""
        if self._doing.startswith(("building", "what moved")):
            self._write(self._doing)

    def learnt(self, event: ProgressEvent, facts: BisectFacts) -> None:
        suspects, text = self._likeliest(facts), _event_text(event)
        if suspects:
            position, probability = suspects[0]
            left = counted(len(suspects), "suspect")
            text += f"; {left} left, likeliest {self._names[position]} ({probability:.0%})"
        self._write(f"[{self._spent(facts)}] {self._doing}: {text}")

    def _write(self, line: str) -> None:
        say(line, out=self._out)

    def close(self) -> None:
        """Do nothing: every line has been written."""


class LiveBisectProgress(BisectProgress):
    """Shows the probabilities as live bars on a terminal."""

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
        """The likeliest commits, with subjects cut to fit, and the current activity below them."""
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
        # A build may take an hour: the spinner shows that the process is alive.
        return Group(table, Spinner("dots", Text(one_line(text))))

    def close(self) -> None:
        self._live.stop()


def open_progress(question: BisectQuestion, names: Sequence[str]) -> BisectProgress:
    """The progress display that suits standard error: live on a terminal, else plain lines."""
    if is_terminal(sys.stderr):
        return LiveBisectProgress(question, names)
    return PlainBisectProgress(question, names, sys.stderr)


def _event_text(event: ProgressEvent) -> str:
    """The outcome of an event in a few words."""
    match event:
        case BisectReading():
            return ", ".join(change_text(math.expm1(ratio)) for ratio in event.log_ratios.values())
        case BuildAttempt(repeated=True):
            return f"done in {event.seconds:.0f} s, and the same as before, byte for byte"
        case BuildAttempt(ok=True):
            return f"done in {event.seconds:.0f} s"
        case BuildAttempt():
            return f"cannot be built: {_ends(event.why)}"
        case ProbeFailure():
            return f"does not run: {_ends(event.why)}"


def _ends(text: str) -> str:
    """The first line, which says what failed, and the last one, which mostly says why."""
    lines = text.strip().splitlines()
    return one_line(" ".join(dict.fromkeys([*lines[:1], *lines[-1:]])))
