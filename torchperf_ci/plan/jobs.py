"""Plan the measurement jobs of ``torchperf.yml``, one per suite, runner and shard, and read what cases have cost."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from torchperf_ci.bench.case import Case, Costs
from torchperf_ci.bench.selection import TORCHBENCH
from torchperf_ci.config import Config, Runner, Suite
from torchperf_ci.errors import UnknownNameError, UsageError
from torchperf_ci.options.measurement_commands import SUITES
from torchperf_ci.store.migrations import open_existing

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
        for runner in dict.fromkeys(suite.runners or config.runners)
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


def _overlapping(config: Config) -> Iterator[tuple[tuple[str, Suite], tuple[str, Suite]]]:
    """Yield each two suites that have a mode, a dtype, a backend and a runner in common."""
    for one, other in combinations(config.suites.items(), 2):
        of_one, of_other = (
            (suite.modes, suite.dtypes, suite.backends, suite.runners or config.runners)
            for _, suite in (one, other)
        )
        if not any(set(a).isdisjoint(b) for a, b in zip(of_one, of_other, strict=True)):
            yield one, other


def repeated_workloads(config: Config) -> Iterator[str]:
    """Yield a sentence for each two suites that name the same workloads for the same cases on the same runner."""
    for (first, one), (second, other) in _overlapping(config):
        if named := [name for name in one.workloads if name in other.workloads]:
            yield f"the suites {first!r} and {second!r} both measure {', '.join(named)}: twice the time for the same"


def missing_suites(config: Config) -> Sequence[str]:
    """Return the suite files that do not exist in the current directory, where the jobs look for them, too."""
    return [name for suite in config.suites.values() for name in suite.files if not Path(name).is_file()]


_DECORATOR = re.compile(r"""^@(?:\w+\.)*workload\(\s*["']([^"']+)["']""", re.MULTILINE)


def refuse_shared_names(config: Config) -> None:
    """Raise :class:`UsageError` if two suites' files give a workload of the same cases the same name, spelled out.

    Each job reads the files of its own suite only, so none would notice, and the results would be of one series.
    """
    for (_, one), (_, other) in _overlapping(config):
        theirs = {name: file for file in other.files for name in _names_in(Path(file))}
        for file in one.files:
            for name in _names_in(Path(file)):
                if name in theirs and not Path(theirs[name]).samefile(file):
                    msg = (
                        f"{file} and {theirs[name]} both define the workload {name!r}, and the results of both would "
                        "be taken for one benchmark's: give one of them another name"
                    )
                    raise UsageError(msg)


def _names_in(file: Path) -> Sequence[str]:
    return _DECORATOR.findall(file.read_text("utf-8", "replace")) if file.is_file() else ()


def matrix(rows: Iterable[Any]) -> Mapping[str, object]:
    """Convert dataclasses to the value for ``strategy.matrix``."""
    return {"include": [asdict(row) for row in rows]}


def _job(used: set[str], name: str, runner: Runner, suite: str, shard: str) -> MeasurementJob:
    parts = (name, suite) if shard == "1/1" else (name, suite, shard.replace("/", "-of-"))
    unique = unique_name(used, *parts)
    return MeasurementJob(unique, name, runner.labels, runner.device, runner.tune, suite, shard)


def _check_suite(name: str, suite: Suite) -> None:
    """Raise :class:`UsageError` for a name that ``torchperf run --suite`` would split or ignore.

    Raises :class:`UnknownNameError` for a built-in suite that does not exist. Names with a slash are workloads, which
    are not checked, because listing them needs torch; neither are paths.
    """
    if name != name.strip() or not name or "," in name or len(name.splitlines()) != 1:
        msg = f"suites: {name!r} cannot be given to `torchperf run --suite`: use a name without commas and line breaks"
        raise UsageError(msg)
    for wanted in suite.workloads:
        is_path = wanted.endswith(".py") or wanted.startswith(TORCHBENCH)
        if not any(sign in wanted for sign in "/*?[") and not is_path and wanted not in SUITES:
            raise UnknownNameError(f"suite in suites.{name}.workloads", wanted, SUITES, "torchperf list")


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
