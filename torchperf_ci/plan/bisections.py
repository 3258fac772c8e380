"""What is bisected tonight: what got worse between the same commits on the same kind of runner, the largest first.

What is proven goes first. Candidates follow: history alone proves a small regression late or never, and a bisection
begins by measuring both ends again, which clears most of them after a few pairs.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import astuple, dataclass, replace
from math import ceil, inf, isfinite, log
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError
from torchperf_ci.metrics import bisected_as
from torchperf_ci.plan.jobs import MOST_JOBS, UniqueNames
from torchperf_ci.records.files import job_folder
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.verdicts.verdict import Judgement, read_verdicts, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.plan.jobs import MeasurementJob
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.evidence import CommitEnds
    from torchperf_ci.verdicts.verdict import Verdict


Machine = tuple[str, str]
"""A device and an architecture, as series have them."""


@dataclass(frozen=True)
class RunnersOfSeries:
    """The runner of each case that was measured, and of each machine. ``only`` is the runner where there is one."""

    by_case: Mapping[Series, str]
    by_machine: Mapping[Machine, str]
    only: str = ""

    def runner_of(self, series: Series) -> str:
        """The runner whose job measured the series, else one like it; empty where nobody knows."""
        near = self.by_machine.get((series.device, series.arch))
        return self.by_case.get(_case(series)) or near or self.only


def runners_of_series(jobs: Sequence[MeasurementJob], records: Path) -> RunnersOfSeries:
    """Who measured what, of the ``jobs`` whose artifacts lie below ``records``. A job without any tells nothing."""
    by_case: dict[Series, str] = {}
    by_machine: dict[Machine, str] = {}
    for job in jobs:
        folder = job_folder(records, job.name, len(jobs))
        for series in points_of_records([folder]).points if folder.is_dir() else ():
            by_case.setdefault(_case(series), job.runner)
            by_machine.setdefault((series.device, series.arch), job.runner)
    runners = {job.runner for job in jobs}
    return RunnersOfSeries(by_case, by_machine, "".join(runners) if len(runners) == 1 else "")


def _case(series: Series) -> Series:
    """Without what fresh records need not say, and what is the same for all metrics."""
    return replace(series, repo="", benchmark="", metric="")


LEAST = 1800
"""Seconds without which no bisection is begun: enough to confirm a regression, and for some steps."""
LONGEST = 18_000
"""Seconds after which one waits for the next night, which goes on from there: GitHub's own runners end a job after six
hours, and a build may be under way."""


@dataclass(frozen=True)
class Regression:
    """What got worse in one range of commits on one kind of runner: confirmed and bisected together."""

    runner: str
    range: CommitEnds
    verdicts: tuple[Verdict, ...]

    @property
    def largest(self) -> Verdict:
        """The verdict with the largest change, of those that are proven, if some are."""
        return max(self.verdicts, key=lambda one: (one.is_red, size_of_change(one)))

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
class BudgetShares:
    """The first regressions, each with ``deadline`` seconds; and those that the budget is too small for."""

    chosen: tuple[Regression, ...]
    deadline: int
    waiting: tuple[Regression, ...]


def regressions(verdicts: Iterable[Verdict], runner_of: Callable[[Series], str]) -> Regressions:
    """What got worse, by runner and range. Ranges that overlap and have other ends are other regressions."""
    found: dict[tuple[str, CommitEnds], list[Verdict]] = defaultdict(list)
    left_out: list[LeftOut] = []
    for verdict in verdicts:
        if verdict.verdict != "regressed" and not verdict.candidate:
            continue
        runner, ends = runner_of(verdict.series), verdict.evidence.commits.range
        if why := _obstacle(verdict, runner, ends):
            left_out += [LeftOut(verdict, why)] if verdict.is_red else []
        elif ends:
            found[runner, ends].append(verdict)
    ordered = sorted(
        (Regression(runner, ends, tuple(group)) for (runner, ends), group in found.items()),
        key=lambda one: (not one.is_proven, -size_of_change(one.largest), one.runner, one.range),
    )
    return Regressions(tuple(ordered), tuple(left_out))


def budget_shares(found: Sequence[Regression], budget: float) -> BudgetShares:
    """Divide ``budget`` seconds of machine time.

    As many regressions as get :data:`LEAST` seconds each, at least one, have equal shares of it, up to :data:`LONGEST`.
    """
    fitting = min(len(found), max(1, int(budget // LEAST)), MOST_JOBS)
    deadline = ceil(min(budget / fitting, LONGEST)) if fitting else 0
    return BudgetShares(tuple(found[:fitting]), deadline, tuple(found[fitting:]))


def size_of_change(verdict: Verdict) -> float:
    """How large a change is: |ln(new/old)|, with one more of each where there may be none of what is counted."""
    if verdict.effect:
        ratio = verdict.effect.ratio
        return abs(log(ratio)) if 0 < ratio < inf else inf
    if verdict.old is None or verdict.new is None or not (isfinite(verdict.old) and isfinite(verdict.new)):
        return 0.0
    return abs(log((abs(verdict.new) + 1) / (abs(verdict.old) + 1)))


def _obstacle(verdict: Verdict, runner: str, ends: CommitEnds | None) -> str:
    """Why a verdict cannot be bisected; empty where it can."""
    if not bisected_as(verdict.series.metric):
        return "pairs of builds do not tell this metric of a workload: bisect it by --command"
    if ends is None:
        return "the evidence names no two commits between which it happened"
    return "" if runner else "no job of torchperf.yml has measured on this machine tonight"


_SHOWN = 10
"""Digits of a commit in a name."""


@dataclass(frozen=True)
class BisectionJob:
    """A row of the matrix. ``verdicts`` is the name of a file, ``deadline`` are seconds.

    ``good`` and ``bad`` are the ends of the range, ``name`` is no other row's, and safe as the name of an artifact.
    ``search`` is the same for the same question of another night, whose state it may go on from.
    """

    name: str
    runner: str
    labels: tuple[str, ...]
    device: str
    good: str
    bad: str
    verdicts: str
    deadline: int
    search: str


@dataclass(frozen=True)
class BisectionPlan:
    """The rows, each with what it is about; what waits, for want of time; and what cannot be bisected."""

    chosen: Mapping[BisectionJob, Regression]
    waiting: Sequence[Regression]
    left_out: Sequence[LeftOut]


def plan_bisections(
    files: Sequence[Path], jobs: Sequence[MeasurementJob], records: Path, budget: float
) -> BisectionPlan:
    """Plan the bisections of what regressed in ``files``, measured by ``jobs``, in ``budget`` seconds of machine time.

    Raises :class:`UsageError`, and :class:`VerdictsError` for a file that is none.
    """
    if not records.is_dir():
        msg = f"--records {records}: there is no such directory; give the one that the jobs' artifacts are in"
        raise UsageError(msg)
    verdicts = [verdict for path in files for verdict in read_verdicts(path).verdicts]
    found = regressions(verdicts, runners_of_series(jobs, records).runner_of)
    divided = budget_shares(found.all, budget)
    kinds = {job.runner: job for job in jobs}
    names = UniqueNames()
    chosen = {_bisection_job(one, kinds[one.runner], names, divided.deadline): one for one in divided.chosen}
    return BisectionPlan(chosen, divided.waiting, found.left_out)


def write_bisections(plan: BisectionPlan, folder: Path) -> None:
    """Write each row's file of verdicts into ``folder``, which is made if need be.

    Raises :class:`VerdictsError` or :class:`OutputDirectoryError`.
    """
    for row, regression in plan.chosen.items():
        write_verdicts(folder / row.verdicts, Judgement("plan", row.good, row.bad, regression.verdicts))


def _bisection_job(
    regression: Regression, job: MeasurementJob, names: UniqueNames, deadline: int
) -> BisectionJob:
    good, bad = regression.range
    name = names.unique(regression.runner, good[:_SHOWN], bad[:_SHOWN])
    search = _search_key(regression)
    return BisectionJob(name, job.runner, job.labels, job.device, good, bad, f"{name}.json", deadline, search)


def _search_key(regression: Regression) -> str:
    """16 hexadecimal digits of what is asked: where, between which commits, and of which series."""
    asked = [
        (regression.runner, *regression.range),
        *sorted(astuple(one.series) for one in regression.verdicts),
    ]
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
