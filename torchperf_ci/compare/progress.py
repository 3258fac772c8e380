"""What a person sees meanwhile: a bar of the budget on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TextIO

from torchperf_ci.actions import in_actions, one_line
from torchperf_ci.console import progress_bar, say

if TYPE_CHECKING:
    from torchperf_ci.compare.trial import ComparedCase


class Progress(ABC):
    """Told of each pair before and after."""

    def __init__(self, cases: int, budget: float) -> None:
        self._cases, self._budget = cases, budget
        self._start = time.monotonic()
        self._done: set[int] = set()

    @abstractmethod
    def starts(self, compared: ComparedCase) -> None:
        """A pair of the case begins."""

    def ends(self, compared: ComparedCase) -> None:
        """It has ended."""
        if compared.settled or compared.failed:
            self._done.add(id(compared))
        self._show(f"{len(self._done)} of {self._cases} settled", one_line(_said(compared)))

    @abstractmethod
    def _show(self, settled: str, said: str) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal as it was."""

    def _elapsed(self) -> float:
        return min(time.monotonic() - self._start, self._budget)


class PlainProgress(Progress):
    """One line a pair, for a job's log."""

    def __init__(self, cases: int, budget: float, out: TextIO) -> None:
        super().__init__(cases, budget)
        self._out = out

    def starts(self, compared: ComparedCase) -> None:
        """Nothing: the line that says what it gave says more."""

    def _show(self, settled: str, said: str) -> None:
        say(f"[{self._elapsed():.0f} of {self._budget:.0f} s, {settled}] {said}", out=self._out)

    def close(self) -> None:
        """Nothing: every line is out."""


class BarProgress(Progress):
    """The budget as a bar."""

    def __init__(self, cases: int, budget: float) -> None:
        super().__init__(cases, budget)
        self._bar = progress_bar(counted=False)
        self._task = self._bar.add_task("", total=budget)
        self._bar.start()

    def starts(self, compared: ComparedCase) -> None:
        self._bar.update(self._task, completed=self._elapsed(), description=one_line(compared.case))

    def _show(self, settled: str, said: str) -> None:
        self._bar.update(self._task, completed=self._elapsed(), description=f"{settled}; {said}")

    def close(self) -> None:
        self._bar.stop()


def progress(cases: int, budget: float) -> Progress:
    """The one that fits where standard error goes; a job's log is no terminal even where it looks like one."""
    if sys.stderr.isatty() and not in_actions():
        return BarProgress(cases, budget)
    return PlainProgress(cases, budget, sys.stderr)


def _said(compared: ComparedCase) -> str:
    if compared.failed or not compared.pairs:
        words = [f"{side} {outcome.status}" for side, outcome in compared.alone.items() if not outcome.passed]
        return f"{compared.case}: {', '.join(words) or 'the pair failed'}"
    number, change = len(compared.pairs), math.expm1(compared.pairs[-1].log_ratio)
    return f"{compared.case}: pair {number}, {change:+.1%}{', settled' if compared.settled else ''}"
