"""What is bisected tonight: what got worse between the same commits on the same kind of runner, the largest first.

What is proven goes first. Candidates follow: history alone proves a small regression late or never, and a bisection
begins by measuring both ends again, which clears most of them after a few pairs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil, inf, isfinite, log
from typing import TYPE_CHECKING

from torchperf_ci.metrics import bisected_as
from torchperf_ci.plan.matrix import MOST_JOBS
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.turn import Range
    from torchperf_ci.verdicts.verdict import Verdict

LEAST = 1800
"""Seconds without which no bisection is begun: enough to confirm a regression, and for some steps."""
LONGEST = 18_000
"""Seconds after which one waits for the next night, which goes on from there: GitHub's own runners end a job after six
hours, and a build may be under way."""


@dataclass(frozen=True)
class Regression:
    """What got worse in one range of commits on one kind of runner: confirmed and bisected together."""

    runner: str
    range: Range
    verdicts: tuple[Verdict, ...]

    @property
    def largest(self) -> Verdict:
        """The verdict with the largest change, of those that are proven, if some are."""
        return max(self.verdicts, key=lambda one: (one.is_red, size(one)))

    @property
    def is_proven(self) -> bool:
        """Whether history alone is proof that something regressed."""
        return self.largest.is_red


@dataclass(frozen=True)
class LeftOut:
    """A series that regressed and is not bisected, and why."""

    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Regressions:
    """All that can be bisected, what is proven first, then the largest change; and what is proven and cannot be."""

    all: tuple[Regression, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class Shares:
    """The first regressions, each with ``deadline`` seconds; and those that the budget is too small for."""

    chosen: tuple[Regression, ...]
    deadline: int
    waiting: tuple[Regression, ...]


def regressions(verdicts: Iterable[Verdict], runner_of: Callable[[Series], str]) -> Regressions:
    """What got worse, by runner and range. Ranges that overlap and have other ends are other regressions."""
    found: dict[tuple[str, Range], list[Verdict]] = defaultdict(list)
    left_out: list[LeftOut] = []
    for verdict in verdicts:
        if verdict.verdict != "regressed" and not verdict.candidate:
            continue
        runner, ends = runner_of(verdict.series), turn_of(verdict).range
        if why := _obstacle(verdict, runner, ends):
            left_out += [LeftOut(verdict, why)] if verdict.is_red else []
        elif ends:
            found[runner, ends].append(verdict)
    ordered = sorted(
        (Regression(runner, ends, tuple(group)) for (runner, ends), group in found.items()),
        key=lambda one: (not one.is_proven, -size(one.largest), one.runner, one.range),
    )
    return Regressions(tuple(ordered), tuple(left_out))


def shares(found: Sequence[Regression], budget: float) -> Shares:
    """Divide ``budget`` seconds of machine time.

    As many regressions as get :data:`LEAST` seconds each, at least one, have equal shares of it, up to :data:`LONGEST`.
    """
    fitting = min(len(found), max(1, int(budget // LEAST)), MOST_JOBS)
    deadline = ceil(min(budget / fitting, LONGEST)) if fitting else 0
    return Shares(tuple(found[:fitting]), deadline, tuple(found[fitting:]))


def size(verdict: Verdict) -> float:
    """How large a change is: |ln(new/old)|, with one more of each where there may be none of what is counted."""
    if verdict.effect:
        ratio = verdict.effect.ratio
        return abs(log(ratio)) if 0 < ratio < inf else inf
    if verdict.old is None or verdict.new is None or not (isfinite(verdict.old) and isfinite(verdict.new)):
        return 0.0
    return abs(log((abs(verdict.new) + 1) / (abs(verdict.old) + 1)))


def _obstacle(verdict: Verdict, runner: str, ends: Range | None) -> str:
    """Why a verdict cannot be bisected; empty where it can."""
    if not bisected_as(verdict.series.metric):
        return "pairs of builds do not tell this metric of a workload: bisect it by --command"
    if ends is None:
        return "the evidence names no two commits between which it happened"
    return "" if runner else "no job of torchperf.yml has measured on this machine tonight"
