"""From ``torchperf.yml`` to the jobs that measure: one a suite, runner and shard."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci import config
from torchperf_ci.errors import UnknownNameError, UsageError
from torchperf_ci.plan.naming import Names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MOST_JOBS = 256
"""That GitHub makes of one matrix: https://docs.github.com/actions/reference/limits"""
_EXAMPLE = """\
no runners are configured, so nothing can run anywhere; write into torchperf.yml, for example:

  version: 1
  runners:
    cpu: {labels: [ubuntu-24.04], device: cpu}
  suites:
    core: {workloads: [core], runners: [cpu], shards: 2}
"""
SUITES = ("quick", "core", "operators", "all")
"""The built-in ones, which the suite itself names, too: but it needs torch, and a plan is made without."""
_WITHOUT_SUITES = {"quick": config.Suite()}
"""What ``torchperf run`` measures where no suite is configured; its workloads are not looked at here."""


@dataclass(frozen=True)
class Job:
    """A row of the matrix. ``shard`` is ``I/N``, ``labels`` are what ``runs-on`` takes.

    ``name`` is no other row's, and safe as the name of an artifact and of a folder.
    """

    name: str
    runner: str
    labels: tuple[str, ...]
    device: str
    tune: bool
    suite: str
    shard: str


def jobs_of(given: config.Config) -> Sequence[Job]:
    """Every job that ``given`` asks for, suite by suite.

    Raises :class:`UsageError` where there is no runner, a suite cannot be asked for by its name or is of a built-in one
    that does not exist, or GitHub would not make so many jobs.
    """
    if not given.runners:
        raise UsageError(_EXAMPLE.rstrip())
    suites = given.suites or _WITHOUT_SUITES
    for name, suite in suites.items():
        _check_name(name)
        _check_workloads(name, suite)
    names = Names()
    jobs = [
        _job(names, (runner, given.runners[runner]), name, (number, suite.shards))
        for name, suite in suites.items()
        for runner in suite.runners or given.runners
        for number in range(1, suite.shards + 1)
    ]
    if len(jobs) > MOST_JOBS:
        msg = f"{len(jobs)} jobs are more than the {MOST_JOBS} that GitHub makes of a matrix: {_largest(suites, given)}"
        raise UsageError(msg)
    return jobs


def unused_runners(given: config.Config) -> Sequence[str]:
    """The runners that no suite names."""
    suites = (given.suites or _WITHOUT_SUITES).values()
    used = {runner for suite in suites for runner in suite.runners or given.runners}
    return [runner for runner in given.runners if runner not in used]


def matrix(rows: Iterable[Any]) -> Mapping[str, Any]:
    """Dataclasses as what ``strategy.matrix`` takes."""
    return {"include": [asdict(row) for row in rows]}


def _job(names: Names, runner: tuple[str, config.Runner], suite: str, shard: tuple[int, int]) -> Job:
    name, kind = runner
    number, of = shard
    parts = (name, suite, f"{number}-of-{of}") if of > 1 else (name, suite)
    return Job(names.unique(*parts), name, kind.labels, kind.device, kind.tune, suite, f"{number}/{of}")


def _check_name(suite: str) -> None:
    """Refuse a name that ``torchperf run --suite`` would take for several, or for none."""
    if suite != suite.strip() or not suite or "," in suite or len(suite.splitlines()) != 1:
        msg = f"suites: {suite!r} cannot be given to `torchperf run --suite`: take a name without commas and line ends"
        raise UsageError(msg)


def _check_workloads(name: str, suite: config.Suite) -> None:
    """Refuse a built-in suite that does not exist. Workloads have a slash in their names; only torch knows them all.

    Raises :class:`UnknownNameError`.
    """
    for wanted in suite.workloads:
        if not any(sign in wanted for sign in "/*?[") and not wanted.endswith(".py") and wanted not in SUITES:
            what = f"suite in suites.{name}.workloads"
            raise UnknownNameError(what, wanted, SUITES, "torchperf list")


def _largest(suites: Mapping[str, config.Suite], given: config.Config) -> str:
    """What to do about too many jobs."""
    jobs = {name: suite.shards * len(suite.runners or given.runners) for name, suite in suites.items()}
    name = max(jobs, key=lambda one: jobs[one])
    return f"give fewer shards to suite {name!r}, which has {jobs[name]}, or plan two files, with --config"
