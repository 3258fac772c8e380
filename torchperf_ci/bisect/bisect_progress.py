"""Show the plan and expected cost of a bisection, then its progress and the likeliest suspects."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.bisect.measurement_setup import BUILD_SECONDS, BisectLimits, builder_kind
from torchperf_ci.bisect.reasoning import evidence
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.reasoning.proof import MIN_TO_VERIFY
from torchperf_ci.console import is_terminal, say
from torchperf_ci.document import change_text, counted, duration, first_and_last
from torchperf_ci.machine.host import machine_text, read_host
from torchperf_ci.masking import without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.live import Live

    from torchperf_ci.bisect.commits import BuildSequence
    from torchperf_ci.options.comparison_commands import BisectOptions


PAIRS_TO_CONFIRM = 8
"""Expected pairs to confirm that bad is slower, if the noise is a third of the effect."""
PAIRS_TO_HALVE = 2
"""Expected pairs to rule out half of the suspects, at the same noise."""


def estimated_cost(suspects: int, probes: int, build: float, pair: float) -> tuple[int, int, float]:
    """The expected builds and pairs for finding one culprit, and the seconds for all of them, given those of each."""
    halvings = math.ceil(math.log2(suspects + 1))
    builds, pairs = 2 + halvings, (PAIRS_TO_CONFIRM + MIN_TO_VERIFY) * probes + PAIRS_TO_HALVE * halvings
    return builds, pairs, builds * build + pairs * pair


def _expected(suspects: int, probes: int, build: float, pair: float) -> str:
    builds, pairs, seconds = estimated_cost(suspects, probes, build, pair)
    return (
        f"expected: {builds} builds and {pairs} pairs of processes, {duration(seconds)} if a build takes "
        f"{duration(build)} and a pair {duration(pair)}"
    )


def show_plan(sequence: BuildSequence, options: BisectOptions, limits: BisectLimits) -> None:
    """Print on standard error what the bisection will do and may cost; asks for no confirmation."""
    measured = [without_secrets(options.command)] if options.command else options.workload or options.suite
    measured = measured or ["what got worse by the verdicts"]
    guessed = BUILD_SECONDS[builder_kind(options)], evidence.BisectQuestion.pair_seconds
    bounds = {
        "build": limits.builds,
        "pair": limits.pairs,
        "second": round(limits.deadline.left) if limits.deadline else None,
    }
    likelier = int((sequence.weights > sequence.weights.min()).sum())
    by_paths = f", {likelier} of them likelier because of --paths" if options.paths else ""
    lines = [
        f"this machine: {machine_text(read_host())}",
        f"good: {sequence.labels[0]}",
        f"bad:  {sequence.labels[-1]}",
        f"{counted(len(sequence.weights), 'suspect')}{by_paths}; measured: {', '.join(measured)}",
        f"{_expected(len(sequence.weights), len(measured), *guessed)}; these are guesses until both are timed",
        *(f"at most {counted(most, what)}" for what, most in bounds.items() if most is not None),
    ]
    say(*lines)


ProgressEvent = evidence.BisectReading | evidence.BuildAttempt | evidence.ProbeFailure
MAX_SHOWN = 10
"""Maximum number of suspects on a terminal."""
_BAR = 20
"""Width of a probability bar, in columns."""
PURPOSES = {
    "confirm": "is it slower",
    "locate": "where",
    "verify": "is it this one",
    "control": "is the machine steady",
}


class BisectProgress:
    """Shows builds and pairs, and the likeliest suspects: live on a terminal, else as a line when each has ended.

    ``names`` name the builds.
    """

    def __init__(self, question: evidence.BisectQuestion, names: Sequence[str]) -> None:
        self._question, self._names = question, [one_line(name) for name in names]
        self._start = time.monotonic()
        self._activity = self._outcome = ""
        self._facts = evidence.BisectFacts()
        self._is_timed = False
        self._live = _started_live() if is_terminal(sys.stderr) else None

    def begin_build(self, position: int, draw: int = 0) -> None:
        """A build begins; it may take long."""
        self._begin(f"{'rebuilding' if draw else 'building'} {self._names[position]}", in_log=True)

    def begin_pair(self, step: evidence.PlannedPair) -> None:
        """A pair begins."""
        self._begin(
            f"{PURPOSES[step.purpose]}? {self._short_name(step.head)} against {self._short_name(step.base)}"
        )

    def begin_profile(self, base: int, head: int) -> None:
        """Profiling of a culprit begins; it takes as long as a few pairs."""
        self._begin(
            f"what moved inside? {self._short_name(head)} against {self._short_name(base)}", in_log=True
        )

    def end(self, event: ProgressEvent, facts: evidence.BisectFacts) -> None:
        """A build or a pair has ended; once each probe has been measured, the cost can be estimated anew."""
        self._outcome, self._facts = _event_text(event), facts
        if self._live:
            self._live.update(self._view())
        else:
            self._say_end()
        question, probes = self._question, {reading.probe for reading in facts.readings}
        if not self._is_timed and len(probes) == len(question.probes):
            self._is_timed = True
            timed = evidence.build_seconds(question, facts), evidence.pair_seconds(question, facts.readings)
            say(f"{_expected(len(question.weights), len(probes), *timed)}, as timed here")

    def _say_end(self) -> None:
        text, suspects = self._outcome, self._likeliest()
        if suspects:
            position, probability = suspects[0]
            left = counted(len(suspects), "suspect")
            text += f"; {left} left, likeliest {self._names[position]} ({probability:.0%})"
        say(f"[{self._spending()}] {self._activity}: {text}")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live:
            self._live.stop()

    def _begin(self, activity: str, *, in_log: bool = False) -> None:
        """Show what begins; a log gets a line only if it takes long, or gets no line when it ends."""
        self._activity = activity
        if self._live:
            self._live.update(self._view())
        elif in_log:
            say(activity)

    def _short_name(self, position: int) -> str:
        return self._names[position].split(" ")[0]

    def _spending(self) -> str:
        minutes = (time.monotonic() - self._start) / 60
        pairs, builds = counted(len(self._facts.readings), "pair"), counted(len(self._facts.builds), "build")
        return f"{pairs}, {builds}, {minutes:.1f} min"

    def _likeliest(self) -> list[tuple[int, float]]:
        """Suspects and their probabilities in the first unfinished search, the likeliest first."""
        searches = Investigation(self._question, self._facts).searches
        suspects = searches[0].suspects() if searches else {}
        return sorted(suspects.items(), key=lambda item: -item[1])

    def _view(self) -> RenderableType:
        """The likeliest commits, with subjects cut to fit, and the current activity below them."""
        from rich.console import Group
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, min_width=6)
        table.add_column(no_wrap=True, min_width=_BAR)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        suspects = self._likeliest()
        for position, probability in suspects[:MAX_SHOWN]:
            bar = "█" * max(round(_BAR * probability), 1)
            table.add_row(Text(f"{probability:6.1%}"), Text(bar), Text(self._names[position]))
        if len(suspects) > MAX_SHOWN:
            table.add_row("", "", Text(f"and {len(suspects) - MAX_SHOWN} more"))
        text = "; ".join(part for part in (self._spending(), self._outcome, self._activity) if part)
        # A build may take an hour: the spinner shows that the process is alive.
        return Group(table, Spinner("dots", Text(one_line(text))))


def _started_live() -> Live:
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(stderr=True), transient=True)
    live.start()
    return live


def _event_text(event: ProgressEvent) -> str:
    """The outcome of an event in a few words."""
    match event:
        case evidence.BisectReading():
            return ", ".join(change_text(math.expm1(ratio)) for ratio in event.log_ratios.values())
        case evidence.BuildAttempt(repeated=True):
            return f"done in {event.seconds:.0f} s, and the same as before, byte for byte"
        case evidence.BuildAttempt(ok=True):
            return f"done in {event.seconds:.0f} s"
        case evidence.BuildAttempt():
            return f"cannot be built: {one_line(first_and_last(event.why))}"
        case evidence.ProbeFailure():
            return f"does not run: {one_line(first_and_last(event.why))}"
