"""Turn options and configuration into what a run measures: the environment under test, its settings and its cases."""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.case import Case, Costs, Settings, cases_of_shard, read_costs
from torchperf_ci.bench.process import start_worker
from torchperf_ci.bench.worker.protocol import DescribedWorkload, EnvironmentUnderTest, KnownWorkloads
from torchperf_ci.bench.worker_client import Worker, WorkerFailure
from torchperf_ci.config import Config, Suite
from torchperf_ci.console import say, waiting
from torchperf_ci.errors import EnvironmentUnderTestError, SuiteFileError, UnknownNameError, UsageError
from torchperf_ci.machine.host import usable_cpus
from torchperf_ci.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.options.comparison_commands import BisectOptions, CompareOptions
    from torchperf_ci.options.measurement_commands import RunOptions

    CaseOptions = RunOptions | CompareOptions | BisectOptions


DEVICE_CLASSES = {"cpu": "cpu", "mps": "integrated"}
"""Device classes for default batch sizes. Every other device is an accelerator with its own memory."""


def members_of(
    known: KnownWorkloads, patterns: Iterable[str], configured: Mapping[str, Suite] | None = None
) -> list[str]:
    """Return the names of workloads that the patterns (suites, names or globs) select, in the catalogue's order.

    Raises :class:`UsageError` for a pattern that matches nothing; it may be a misspelled suite of the configuration,
    which are ``configured``, or a workload of one of their files.
    """
    wanted: set[str] = set()
    for pattern in patterns:
        members = known.suites.get(pattern) or [
            name for name in known.workloads if fnmatchcase(name, pattern)
        ]
        if not members and Path(pattern).is_dir():
            raise UsageError(f"{pattern} is a folder: give the paths of the Python files in it")
        if not members:
            raise _unknown(pattern, known, configured or {})
        wanted.update(members)
    return [name for name in known.workloads if name in wanted]


def _unknown(pattern: str, known: KnownWorkloads, configured: Mapping[str, Suite]) -> UsageError:
    names = [*configured, *known.suites, *known.workloads]
    error = UnknownNameError("suite or workload", pattern, names, "torchperf list")
    unread = [
        file for suite in configured.values() for file in suite.files if _absolute(file) not in known.suites
    ]
    if not unread:
        return error
    files = ", ".join(dict.fromkeys(unread))
    return UsageError(
        f"{error}; to choose a workload of {files}, give --filter {pattern} in place of --suite"
    )


@dataclass(frozen=True)
class Selection:
    """The cases of some suites that match a filter and belong to a shard.

    ``batch_size`` None means each workload's default for its mode and device, 0 that it is to be determined. ``shard``
    is (number from 1, number of shards). By their ``costs``, shards take about equally long. ``configured`` are all
    suites of the configuration.
    """

    suites: Sequence[Suite]
    filters: Sequence[str] = ()
    batch_size: int | None = None
    shard: tuple[int, int] = (1, 1)
    costs: Costs = field(default_factory=dict)
    configured: Mapping[str, Suite] = field(default_factory=dict)


NOTHING_IN_SHARD = "shard {}/{} has nothing to measure: there are fewer cases than shards; plan fewer"


def select_cases(selection: Selection, known: KnownWorkloads, device: str) -> tuple[Case, ...]:
    """Return the cases of this shard, each once. Warns of a suite without a case and of filters that pass nothing.

    Raises :class:`UsageError` if the whole selection is empty.
    """
    found = [
        [
            case
            for name in members_of(known, suite.workloads, selection.configured)
            for case in _combinations(suite, known.workloads[name], selection.batch_size, device)
        ]
        for suite in selection.suites
    ]
    cases = [case for case in dict.fromkeys(chain(*found)) if matches(case.workload, selection.filters)]
    if not cases:
        raise UsageError(f"nothing to run: {_why_nothing(selection, known)}")
    for suite, of_suite in zip(selection.suites, found, strict=True):
        if not of_suite and not selection.filters:
            modes = " or ".join(suite.modes)
            say(
                f"⚠ no workload of {', '.join(suite.workloads)} has the mode {modes}: nothing of this suite is run"
            )
    for pattern in selection.filters:
        if not any(matches(case.workload, [pattern]) for case in cases):
            say(f"⚠ no selected workload of these modes matches {pattern!r}; see `torchperf list`")
    return cases_of_shard(cases, selection.shard, selection.costs.get(device, {}))


def _why_nothing(selection: Selection, known: KnownWorkloads) -> str:
    """Return why a selection has no case, and what would help."""
    found = [members_of(known, suite.workloads, selection.configured) for suite in selection.suites]
    names = [name for name in chain(*found) if matches(name, selection.filters)]
    if names:
        modes = ",".join(sorted({mode for name in names for mode in known.workloads[name].modes}))
        return f"what is selected has only the mode {modes}: give --mode {modes}"
    if all(suite.workloads == ("quick",) for suite in selection.suites):
        advice = "only the suite quick was searched, --suite all has more"
    else:
        advice = "it takes whole names such as 'vision/*'; see `torchperf list`"
    return f"no selected workload passes --filter {','.join(selection.filters)}; {advice}"


def matches(name: str, filters: Sequence[str]) -> bool:
    """Whether a workload's name matches any of the globs in ``filters``; true if there are none."""
    return not filters or any(fnmatchcase(name, pattern) for pattern in filters)


def _combinations(
    suite: Suite, entry: DescribedWorkload, batch_size: int | None, device: str
) -> Iterable[Case]:
    sizes = entry.batch_sizes
    device_class = DEVICE_CLASSES.get(device, "accelerator")
    for mode in suite.modes:
        if mode not in entry.modes:
            continue
        if not sizes:
            size = 1  # the model's batch size is fixed, so a step counts as one sample
        elif batch_size is None:
            size = sizes.get(f"{mode}/{device_class}", sizes[mode])
        else:
            size = batch_size
        for dtype in suite.dtypes:
            for backend in suite.backends:
                yield Case(entry.name, mode, dtype, backend, size, entry.task, entry.origin)


TORCHBENCH = "torchbench:"
"""Prefix of the name of a suite that is the path of a TorchBench checkout."""
PYTHON_FLAG = "--python"
DESCRIBE_TIMEOUT = 120.0
"""Seconds, ample time for a first ``import torch`` from a cold disk."""


def describe_environment(settings: Settings, flag: str = PYTHON_FLAG) -> EnvironmentUnderTest:
    """Start a worker with ``settings.python`` and describe its environment and what it can run.

    Raises :class:`EnvironmentUnderTestError`, :class:`SuiteFileError`, or :class:`UsageError` for an absent device.
    Messages name ``flag``, the option with which the Python was given.
    """
    with described_worker(settings, flag) as (_, under_test):
        return under_test


@contextmanager
def described_worker(
    settings: Settings, flag: str = PYTHON_FLAG
) -> Iterator[tuple[Worker, EnvironmentUnderTest]]:
    """Start a worker for further requests and yield it with the answer of :func:`describe_environment`."""
    check_suite_files(settings)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        try:
            with waiting(f"starting {settings.python}, which imports torch"):
                worker = stack.enter_context(start_worker(settings, folder))
                under_test = worker.ask(
                    "describe",
                    DESCRIBE_TIMEOUT,
                    EnvironmentUnderTest,
                    device=settings.device,
                    files=list(settings.files),
                )
        except OSError as error:
            if error.filename != settings.python:  # it is not the Python's fault
                raise
            msg = f"{settings.python} does not start: {error.strerror}; give another {flag}"
            raise EnvironmentUnderTestError(msg) from None
        except WorkerFailure as failure:
            raise error_of(failure, settings, flag) from None
        yield worker, under_test


def error_of(failure: WorkerFailure, settings: Settings, flag: str = PYTHON_FLAG) -> Exception:
    """Return the user-facing error for a worker that fails because of the given Python, suite or device."""
    python = settings.python
    if failure.reason.startswith("BadSuiteFileError: "):
        return SuiteFileError(failure.reason.removeprefix("BadSuiteFileError: "))
    if failure.status == "unsupported":
        return UsageError(f"--device {settings.device}, {flag} {python}: {failure.reason}")
    if failure.status == "timeout":
        msg = (
            f"{flag} {python}: importing {' and '.join(['torch', *settings.files])} took longer than "
            f"{DESCRIBE_TIMEOUT:.0f} s; leave long work to the functions of workloads\n{failure.log}"
        )
        return EnvironmentUnderTestError(msg.rstrip())
    if "No module named 'torch'" in failure.log:
        msg = f"{python} has no torch: install it there, or give the Python that has it with {flag}"
        return EnvironmentUnderTestError(msg)
    return EnvironmentUnderTestError(f"{flag} {python}: {failure.reason}\n{failure.log}".rstrip())


def selected_workloads(
    suite: Sequence[str], filters: Sequence[str], config: Config, known: KnownWorkloads
) -> list[DescribedWorkload]:
    """Return the catalogue's entries that suites and filters select; all entries if neither is given.

    This includes workloads that cannot be built here, unlike the suite ``all``. Raises :class:`UsageError` for none.
    """
    patterns = [member for name in suite or ["*"] for member in _suite_members(name, config)]
    names = members_of(known, [_absolute(pattern) for pattern in patterns], config.suites)
    entries = [known.workloads[name] for name in names if matches(name, filters)]
    if not entries:
        msg = f"no selected workload passes --filter {','.join(filters)}; see `torchperf list` without it"
        raise UsageError(msg)
    return entries


def python_under_test(path: str | None, flag: str = PYTHON_FLAG) -> str:
    """Return the path of the interpreter ``path``, by default this one.

    Raises :class:`EnvironmentUnderTestError` if it does not exist.
    """
    if path is None:
        return sys.executable
    executable = shutil.which(path)
    if executable is None:
        msg = f"there is no Python at {path}: give the one that has torch with {flag}"
        raise EnvironmentUnderTestError(msg)
    return str(Path(executable).absolute())


def _absolute(name: str) -> str:
    """Make the path in a suite's name absolute, because a worker may run in another directory than the caller."""
    if name.startswith(TORCHBENCH):
        return f"{TORCHBENCH}{Path(name.removeprefix(TORCHBENCH)).absolute()}"
    return str(Path(name).absolute()) if name.endswith(".py") else name


def selection_of(
    options: CaseOptions,
    config: Config,
    suite: Sequence[str],
    filters: Sequence[str],
    shard: tuple[int, int] | None = None,
    costs_file: str | None = None,
) -> Selection:
    """Return what the options select. Suites may be names from the config; options override the config.

    Raises :class:`UsageError` if the file of costs cannot be read: a shard that divided the cases differently from
    the other shards would lose cases.
    """
    names = suite or list(config.suites) or ["quick"]
    return Selection(
        suites=[_suite(name, options, config) for name in names],
        filters=filters,
        batch_size=options.batch_size,
        shard=shard or (1, 1),
        costs=read_costs(Path(costs_file)) if costs_file else {},
        configured=config.suites,
    )


def _suite(name: str, options: CaseOptions, config: Config) -> Suite:
    suite = config.suites.get(name) or Suite((name,))
    return Suite(
        tuple(map(_absolute, suite.workloads)),
        tuple(options.mode) or suite.modes,
        tuple(options.dtype) or suite.dtypes,
        tuple(options.backend) or suite.backends,
    )


def settings_of(
    config: Config,
    *,
    python: str | None,
    device: str | None,
    suite: Sequence[str] = (),
    timeout: float = Settings.timeout,
    threads: int | None = None,
) -> Settings:
    """Return the settings of a run, with the defaults of :class:`Settings` for what is not given."""
    members = [member for name in suite or list(config.suites) for member in _suite_members(name, config)]
    files = [member for member in members if member.endswith(".py") or member.startswith(TORCHBENCH)]
    return Settings(
        python=python_under_test(python),
        device=device or "auto",
        files=tuple(map(_absolute, files)),
        timeout=timeout,
        threads=threads or Settings.threads,
    )


def settings_of_options(options: CaseOptions, config: Config) -> Settings:
    """Return the settings of a command that measures cases. Warns of more threads than there are CPUs for them."""
    if (options.threads or 1) > (cpus := usable_cpus()):
        say(f"⚠ --threads {options.threads}: CPUs that may be used here: {cpus:g}, so threads will wait")
    return settings_of(
        config,
        suite=options.suite,
        python=options.python,
        device=options.device,
        timeout=options.timeout,
        threads=options.threads,
    )


def check_suite_files(settings: Settings) -> None:
    """Raise :class:`SuiteFileError` for a file that is not there, before anything is built or torch is imported."""
    for file in settings.files:
        if not file.startswith(TORCHBENCH) and not Path(file).is_file():
            msg = f"there is no suite file {file} on this machine, where it has to be even to measure other commits"
            raise SuiteFileError(msg)


def _suite_members(name: str, config: Config) -> Sequence[str]:
    return config.suites[name].workloads if name in config.suites else (name,)
