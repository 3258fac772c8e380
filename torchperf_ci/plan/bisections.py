"""Plan which regressions are bisected tonight, grouped by commit range and kind of runner, the largest first.

Proven regressions come first, followed by candidates: history alone proves a small regression late or never, and a
bisection begins by measuring both ends again, which clears most false candidates after a few pairs.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, replace
from math import ceil, isfinite, log
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError
from torchperf_ci.metrics import bisected_as
from torchperf_ci.plan.jobs import MAX_JOBS, MeasurementJob, unique_name
from torchperf_ci.records.files import job_folder
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.verdicts.verdict import CommitEnds, Judgement, Verdict, read_verdicts, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.series.points import Series


Machine = tuple[str, str]
"""A device and an architecture, as in series."""


def runners_of_series(jobs: Sequence[MeasurementJob], records: Path) -> Callable[[Series], str]:
    """Return a function that names the runner of a series; empty if unknown.

    It is the one that measured the case or, as new metrics have no records yet, one with the same machine; or else the
    only one there is. Known from the artifacts of ``jobs`` below ``records``; some may be missing.
    """
    by_case: dict[Series, str] = {}
    by_machine: dict[Machine, str] = {}
    for job in jobs:
        folder = job_folder(records, job.name, len(jobs))
        for series in points_of_records([folder]).points if folder.is_dir() else ():
            by_case.setdefault(_case(series), job.runner)
            by_machine.setdefault((series.device, series.arch), job.runner)
    runners = {job.runner for job in jobs}
    only = "".join(runners) if len(runners) == 1 else ""
    return lambda series: by_case.get(_case(series)) or by_machine.get((series.device, series.arch)) or only


def _case(series: Series) -> Series:
    """Return the series without metric, repository and benchmark; new records need not name the latter two."""
    return replace(series, repo="", benchmark="", metric="")


LEAST = 1800
"""Fewest seconds for a bisection to begin: enough to confirm a regression and for some steps, if builds take minutes.
How long they take is unknown here; in a share that the good commit's build exceeds, nothing is measured."""
LONGEST = 18_000
"""Most seconds of a bisection per night; the next night continues it. GitHub's own runners end a job after six hours,
and a build may still be running."""


@dataclass(frozen=True)
class Regression:
    """All that got worse in one commit range on one kind of runner, which is confirmed and bisected together."""

    runner: str
    range: CommitEnds
    verdicts: tuple[Verdict, ...]

    @property
    def largest(self) -> Verdict:
        """The verdict with the largest change, among proven verdicts if there are any."""
        return max(self.verdicts, key=lambda verdict: (verdict.is_red, size_of_change(verdict)))


LeftOut = tuple[Verdict, str]
"""A series that regressed and is not bisected, and why."""


def regressions(
    verdicts: Iterable[Verdict], runner_of: Callable[[Series], str]
) -> tuple[list[Regression], list[LeftOut]]:
    """Group what got worse by runner and range, proven ones and large changes first.

    Ranges that only overlap are separate regressions. What is proven and cannot be bisected is returned apart.
    """
    groups: dict[tuple[str, CommitEnds], list[Verdict]] = defaultdict(list)
    left_out: list[LeftOut] = []
    for verdict in verdicts:
        if verdict.verdict != "regressed" and not verdict.candidate:
            continue
        runner, ends = runner_of(verdict.series), verdict.evidence.commits.range
        if why := _obstacle(verdict, runner, ends):
            left_out += [(verdict, why)] if verdict.is_red else []
        elif ends:
            groups[runner, ends].append(verdict)
    ordered = sorted(
        (Regression(runner, ends, tuple(group)) for (runner, ends), group in groups.items()),
        key=lambda regression: (
            not regression.largest.is_red,
            -size_of_change(regression.largest),
            regression.runner,
            regression.range,
        ),
    )
    return ordered, left_out


def budget_shares(count: int, budget: float) -> tuple[int, int]:
    """Divide ``budget`` seconds of machine time among ``count`` regressions: how many get a share, and its seconds.

    It is shared equally by as many as can have :data:`LEAST` seconds each, but at least one. A share is at most
    :data:`LONGEST` seconds.
    """
    fitting = min(count, max(1, int(budget // LEAST)), MAX_JOBS)
    return fitting, ceil(min(budget / fitting, LONGEST)) if fitting else 0


def size_of_change(verdict: Verdict) -> float:
    """Return the size of a change, |ln(new/old)|. Without a ratio, 1 is added to both values, which may be 0."""
    if verdict.effect:
        return verdict.effect.size
    if verdict.old is None or verdict.new is None or not (isfinite(verdict.old) and isfinite(verdict.new)):
        return 0.0
    return abs(log((abs(verdict.new) + 1) / (abs(verdict.old) + 1)))


def _obstacle(verdict: Verdict, runner: str, ends: CommitEnds | None) -> str:
    """Return why a verdict cannot be bisected; empty if it can."""
    if not bisected_as(verdict.series.metric):
        return "pairs of builds cannot measure this metric of a workload: bisect it with --command"
    if ends is None:
        return "the evidence names no two commits between which it happened"
    return "" if runner else "no job of torchperf.yml has measured on this machine tonight"


_SHOWN = 10
"""Number of digits of a commit in a name."""


@dataclass(frozen=True)
class BisectionJob:
    """A row of the matrix. ``verdicts`` is the name of a file, ``deadline`` is in seconds.

    ``good`` and ``bad`` are the ends of the range. ``name`` is unique among the rows and safe as the name of an
    artifact. ``search`` is the same on every night for the same runner and range, so that a bisection can be continued.
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
    """The jobs with their regressions, the regressions that wait for lack of time, and what cannot be bisected."""

    chosen: Mapping[BisectionJob, Regression]
    waiting: Sequence[Regression]
    left_out: Sequence[LeftOut]


def plan_bisections(
    files: Sequence[Path], jobs: Sequence[MeasurementJob], records: Path, budget: float
) -> BisectionPlan:
    """Plan bisections of the regressions in ``files``, measured by ``jobs``, in ``budget`` seconds of machine time.

    Raises :class:`UsageError`, and :class:`JsonFileError` for a file that is not a verdicts file.
    """
    if not records.is_dir():
        raise UsageError(f"--records {records}: no such directory: give the one with the jobs' artifacts")
    verdicts = [verdict for path in files for verdict in read_verdicts(path).verdicts]
    worse, left_out = regressions(verdicts, runners_of_series(jobs, records))
    fitting, deadline = budget_shares(len(worse), budget)
    kinds = {job.runner: job for job in jobs}
    names: set[str] = set()
    chosen = {
        _bisection_job(regression, kinds[regression.runner], names, deadline): regression
        for regression in worse[:fitting]
    }
    return BisectionPlan(chosen, worse[fitting:], left_out)


def write_bisections(plan: BisectionPlan, folder: Path) -> None:
    """Write each row's verdicts file to ``folder``, which is created if necessary.

    Raises :class:`OutputDirectoryError`.
    """
    for row, regression in plan.chosen.items():
        write_verdicts(folder / row.verdicts, Judgement("plan", row.good, row.bad, regression.verdicts))


def _bisection_job(
    regression: Regression, job: MeasurementJob, names: set[str], deadline: int
) -> BisectionJob:
    good, bad = regression.range
    name = unique_name(names, regression.runner, good[:_SHOWN], bad[:_SHOWN])
    # Without the series: the bisection goes on with those of the first night.
    search = hashlib.sha256(repr((regression.runner, good, bad)).encode()).hexdigest()[:16]
    return BisectionJob(name, job.runner, job.labels, job.device, good, bad, f"{name}.json", deadline, search)
