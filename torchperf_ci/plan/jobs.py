"""Plan the jobs of a night: those that measure, one per suite, runner and shard, and those that bisect what regressed.

Regressions are grouped by commit range and kind of runner, the largest first. Proven ones come before candidates:
history alone proves a small regression late or never, and a bisection begins by measuring both ends again, which clears
most false candidates after a few pairs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from math import ceil, isfinite, log
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench.case import Case, Costs
from torchperf_ci.config import Config, Runner, Suite
from torchperf_ci.errors import UnknownNameError, UsageError
from torchperf_ci.metrics import bisected_as
from torchperf_ci.options.measurement_commands import SUITES
from torchperf_ci.records.files import job_folder
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.verdicts.verdict import CommitEnds, Judgement, Verdict, read_verdicts, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchperf_ci.series.points import Series


MAX_NAME_LENGTH = 80
"""Most characters of a name. Artifacts and files add to it, and a file's name has at most 255 bytes."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


def unique_name(used: set[str], *parts: str) -> str:
    """Join ``parts`` to a name of safe characters that is not ``used`` yet in any case; a number makes it new."""
    wanted = _UNSAFE.sub("-", "-".join(parts)).strip("-.")[:MAX_NAME_LENGTH] or "job"
    name, number = wanted, 1
    while name.casefold() in used:
        number += 1
        name = f"{wanted}-{number}"
    used.add(name.casefold())
    return name


MAX_JOBS = 256
"""Most jobs that GitHub creates from one matrix: https://docs.github.com/actions/reference/limits"""
_EXAMPLE = """\
no runners are configured, so nothing can run anywhere; the torchperf.yml of this folder or the file
given with --config has to name them, for example:

  version: 1
  runners:
    cpu: {labels: [ubuntu-24.04], device: cpu}
  suites:
    core: {workloads: [core], runners: [cpu], shards: 2}
"""
_WITHOUT_SUITES = {"core": Suite()}
"""What a nightly run measures if no suite is configured. Its workloads are not used here."""


@dataclass(frozen=True)
class MeasurementJob:
    """A row of the matrix. ``shard`` is ``I/N``, ``labels`` is the value for ``runs-on``.

    ``name`` is unique among the rows, and safe as the name of an artifact and of a folder.
    """

    name: str
    runner: str
    labels: tuple[str, ...]
    device: str
    tune: bool
    suite: str
    shard: str


def jobs_of(config: Config) -> Sequence[MeasurementJob]:
    """Return every job that the configuration asks for, suite by suite.

    Raises :class:`UsageError` if there is no runner, if a suite's name cannot be given on the command line, if it
    refers to a built-in suite that does not exist, or if there are more jobs than GitHub allows.
    """
    if not config.runners:
        raise UsageError(_EXAMPLE.rstrip())
    suites = config.suites or _WITHOUT_SUITES
    for name, suite in suites.items():
        _check_suite(name, suite)
    used: set[str] = set()
    jobs = [
        _job(used, runner, config.runners[runner], name, f"{number}/{suite.shards}")
        for name, suite in suites.items()
        for runner in suite.runners or config.runners
        for number in range(1, suite.shards + 1)
    ]
    if len(jobs) > MAX_JOBS:
        most, _ = Counter(job.suite for job in jobs).most_common(1)[0]
        msg = (
            f"{len(jobs)} jobs exceed GitHub's limit of {MAX_JOBS} per matrix: give fewer shards to suite {most!r}, "
            "which has the most, or plan two files, with --config"
        )
        raise UsageError(msg)
    return jobs


def unused_runners(config: Config) -> Sequence[str]:
    """Return the runners that no suite uses."""
    suites = (config.suites or _WITHOUT_SUITES).values()
    used = {runner for suite in suites for runner in suite.runners or config.runners}
    return [runner for runner in config.runners if runner not in used]


def missing_suites(config: Config) -> Sequence[str]:
    """Return the suite files that do not exist in the current directory, where the jobs look for them, too."""
    members = [member for suite in config.suites.values() for member in suite.workloads]
    return [name for name in members if name.endswith(".py") and not Path(name).is_file()]


def _job(used: set[str], name: str, runner: Runner, suite: str, shard: str) -> MeasurementJob:
    parts = (name, suite) if shard == "1/1" else (name, suite, shard.replace("/", "-of-"))
    unique = unique_name(used, *parts)
    return MeasurementJob(unique, name, runner.labels, runner.device, runner.tune, suite, shard)


def _check_suite(name: str, suite: Suite) -> None:
    """Raise :class:`UsageError` for a name that ``torchperf run --suite`` would split or ignore.

    Raises :class:`UnknownNameError` for a built-in suite that does not exist. Names with a slash are workloads, which
    are not checked, because listing them needs torch.
    """
    if name != name.strip() or not name or "," in name or len(name.splitlines()) != 1:
        msg = f"suites: {name!r} cannot be given to `torchperf run --suite`: use a name without commas and line breaks"
        raise UsageError(msg)
    for wanted in suite.workloads:
        if not any(sign in wanted for sign in "/*?[") and not wanted.endswith(".py") and wanted not in SUITES:
            what = f"suite in suites.{name}.workloads"
            raise UnknownNameError(what, wanted, SUITES, "torchperf list")


NEWEST_RUNS = 5
"""How many of a case's newest runs the median cost is taken over."""
REMEMBERED_SECONDS = 60 * 86_400
"""Age in seconds above which runs are ignored, because a store may hold years."""


def measured_costs(dsn: str, benchmark: str, now: float) -> Costs:
    """Return the seconds of machine time by torch device and case. ``now`` is the time in Unix seconds.

    Raises :class:`StoreError` or :class:`StoreUnreachableError`.
    """
    asked = {"benchmark": benchmark, "since": max(0, int(now - REMEMBERED_SECONDS)), "last": NEWEST_RUNS}
    costs: dict[str, dict[str, float]] = defaultdict(dict)
    with open_existing(dsn) as store:
        for device, workload, mode, dtype, backend, seconds in store.rows(store.statement("costs"), asked):
            costs[device][Case(workload, mode, dtype, backend, 0).cost_key] = median(seconds)
    return costs


def runners_of_series(jobs: Sequence[MeasurementJob], records: Path) -> Callable[[Series], str]:
    """Return a function that names the runner of a series; empty if unknown.

    It is the one that measured the case or, as new metrics have no records yet, one with the same machine; or else the
    only one there is. Known from the artifacts of ``jobs`` below ``records``; some may be missing.
    """
    by_case: dict[Series, str] = {}
    by_machine: dict[tuple[str, str], str] = {}
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
"""Fewest seconds for a bisection to begin: enough to confirm a regression and for some steps."""
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
        msg = f"--records {records}: no such directory: give the one with the jobs' artifacts"
        raise UsageError(msg)
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
    # The series are part of what the bisection keeps, which goes on with those of the first night.
    search = hashlib.sha256(repr((regression.runner, good, bad)).encode()).hexdigest()[:16]
    return BisectionJob(name, job.runner, job.labels, job.device, good, bad, f"{name}.json", deadline, search)
