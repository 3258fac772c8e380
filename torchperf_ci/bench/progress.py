"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TextIO

from torchperf_ci.actions import in_actions, one_line
from torchperf_ci.console import progress_bar, say

if TYPE_CHECKING:
    from torchperf_ci.bench.process import Outcome


class Progress(ABC):
    """Told of each process and pair before and after; ``total`` is the number of both of the run."""

    def __init__(self, total: int) -> None:
        self._total = total

    @abstractmethod
    def starts(self, step: object) -> None:
        """It begins; ``step`` is shown as a string."""

    @abstractmethod
    def ends(self, step: object, outcome: Outcome, done: int) -> None:
        """It has ended; ``done`` of them, skipped ones included, are behind the run."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal as it was."""


class PlainProgress(Progress):
    """One line a process or pair, with the time left, for a job's log."""

    def __init__(self, total: int, out: TextIO) -> None:
        super().__init__(total)
        self._out = out
        self._start = time.monotonic()

    def starts(self, step: object) -> None:
        """Nothing: the line that says how it ended says more."""

    def ends(self, step: object, outcome: Outcome, done: int) -> None:
        left = (time.monotonic() - self._start) / done * (self._total - done)
        say(f"[{done}/{self._total}, {_clock(left)} left] {step}: {_word(outcome)}", out=self._out)

    def close(self) -> None:
        """Nothing: every line is out."""


class BarProgress(Progress):
    """A bar with the time left, for a terminal."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._bar = progress_bar(counted=True)
        self._task = self._bar.add_task("", total=total)
        self._bar.start()

    def starts(self, step: object) -> None:
        self._bar.update(self._task, description=one_line(step))

    def ends(self, step: object, outcome: Outcome, done: int) -> None:
        self._bar.update(self._task, completed=done)
        if not outcome.passed:
            self._bar.console.print(one_line(f"{step}: {_word(outcome)}"), markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()


def progress(total: int) -> Progress:
    """The one that fits where standard error goes; a job's log is no terminal even where it looks like one."""
    return (
        BarProgress(total) if sys.stderr.isatty() and not in_actions() else PlainProgress(total, sys.stderr)
    )


def _word(outcome: Outcome) -> str:
    if not outcome.passed:
        return f"{outcome.status}: {outcome.reason}"
    return f"pass in {outcome.seconds:.1f} s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
