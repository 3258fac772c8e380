"""From options and configuration to the plan of a run."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torchperf_ci.bench import costs
from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.client import Worker, WorkerFailure
from torchperf_ci.bench.process import worker_environment
from torchperf_ci.bench.selection import Grid, Known, Selection, matches
from torchperf_ci.errors import EnvironmentUnderTestError, SuiteFileError, UsageError
from torchperf_ci.machine.devices.base import Seen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.config import Config, Suite
    from torchperf_ci.machine.devices.base import Device

PYTHON = "--python"
DESCRIBE_TIMEOUT = 120.0
"""Seconds for a first ``import torch`` from a cold disk, with room to spare."""


@dataclass(frozen=True)
class UnderTest:
    """The environment under test as its own worker describes it."""

    environment: Mapping[str, Any]
    known: Known
    unavailable: Mapping[str, str]

    @property
    def device(self) -> Device:
        """The backend of the resolved device."""
        return self.settings(Settings("", "")).hardware

    def settings(self, settings: Settings) -> Settings:
        """``settings`` with the resolved device."""
        environment = self.environment
        return replace(
            settings,
            device=environment["device"],
            hip=environment["hip"],
            seen=Seen(**environment["seen"]),
        )


def describe(settings: Settings, flag: str = PYTHON) -> UnderTest:
    """Ask a Python that has torch what it is and what it can run; errors name the ``flag`` that gave it.

    Raises :class:`EnvironmentUnderTestError`, :class:`SuiteFileError`, or :class:`UsageError` for an absent device.
    """
    with tempfile.TemporaryDirectory(prefix="torchperf-") as folder:
        scratch = Path(folder)
        environment = worker_environment(settings, scratch / "cache")
        try:
            with Worker(settings.python, scratch / "worker.log", environment) as worker:
                answer = worker.ask(
                    "describe", DESCRIBE_TIMEOUT, device=settings.device, files=list(settings.files)
                )
        except OSError as error:
            msg = f"{settings.python} does not start: {error.strerror}; give another {flag}"
            raise EnvironmentUnderTestError(msg) from None
        except WorkerFailure as failure:
            raise _explained(failure, settings, flag) from None
    return UnderTest(answer["environment"], Known.of(answer), answer["unavailable"])


def _explained(failure: WorkerFailure, settings: Settings, flag: str) -> Exception:
    python = settings.python
    if failure.reason.startswith("BadSuiteFileError: "):
        return SuiteFileError(failure.reason.removeprefix("BadSuiteFileError: "))
    if failure.status == "unsupported":
        reason = failure.reason.partition(": ")[2]
        return UsageError(f"--device {settings.device}, {flag} {python}: {reason}")
    if "No module named 'torch'" in failure.log:
        msg = f"{python} has no torch: install it there, or give the Python that has it with {flag}"
        return EnvironmentUnderTestError(msg)
    return EnvironmentUnderTestError(f"{flag} {python}: {failure.reason}\n{failure.log}".rstrip())


def selected_workloads(
    suite: Sequence[str], filters: Sequence[str], config: Config, known: Known
) -> list[Mapping[str, Any]]:
    """The catalogue's entries that suites and filters select; all of them where neither is given."""
    patterns = [member for name in suite or ["all"] for member in _members(name, config)]
    names = known.members([_absolute(pattern) for pattern in patterns])
    return [known.workloads[name] for name in names if matches(name, filters)]


def python_under_test(given: str | None, flag: str = PYTHON) -> str:
    """The interpreter's path, this one's if none was given; raises :class:`EnvironmentUnderTestError` if it is none."""
    if given is None:
        return sys.executable
    found = shutil.which(given)
    if found is None:
        msg = f"there is no Python at {given}: give the one that has torch with {flag}"
        raise EnvironmentUnderTestError(msg)
    return str(Path(found).absolute())


def suite_files(names: Sequence[str]) -> tuple[str, ...]:
    """The suite names that are paths of Python files, absolute."""
    return tuple(_absolute(name) for name in names if name.endswith(".py"))


def _absolute(name: str) -> str:
    """A file's suite is called by its absolute path, because a worker need not share the caller's directory."""
    return str(Path(name).absolute()) if name.endswith(".py") else name


class CaseOptions(Protocol):
    """What the commands that choose cases have in common."""

    @property
    def mode(self) -> Sequence[str]: ...
    @property
    def dtype(self) -> Sequence[str]: ...
    @property
    def backend(self) -> Sequence[str]: ...
    @property
    def batch_size(self) -> int | None: ...


def selection(
    options: CaseOptions,
    config: Config,
    suite: Sequence[str],
    filters: Sequence[str],
    shard: tuple[int, int] | None = None,
    costs_file: str | None = None,
) -> Selection:
    """What the options select, with the config's suites by their names; options beat the config.

    Raises :class:`UsageError` for a file of costs that cannot be read: a shard that split otherwise than the rest would
    lose cases.
    """
    names = suite or list(config.suites) or ["quick"]
    return Selection(
        grids=[_grid(name, options, config.suites.get(name)) for name in names],
        filters=filters,
        batch_size=options.batch_size,
        shard=shard or (1, 1),
        costs=costs.read(Path(costs_file)) if costs_file else None,
    )


def _grid(name: str, options: CaseOptions, suite: Suite | None) -> Grid:
    return Grid(
        workloads=[_absolute(member) for member in (suite.workloads if suite else (name,))],
        modes=options.mode or (suite.modes if suite else ("inference",)),
        dtypes=options.dtype or (suite.dtypes if suite else ("fp32",)),
        backends=options.backend or (suite.backends if suite else ("eager",)),
    )


def settings(
    config: Config,
    *,
    python: str | None,
    device: str | None,
    suite: Sequence[str] = (),
    processes: int | None = None,
    target_ci: float | None = None,
    budget: float | None = None,
    timeout: float | None = None,
    threads: int | None = None,
) -> Settings:
    """How to measure, with the defaults of :class:`Settings` where nothing was given."""
    members = [member for name in suite or list(config.suites) for member in _members(name, config)]
    return Settings(
        python=python_under_test(python),
        device=device or "auto",
        files=suite_files(members),
        processes=processes or Settings.processes,
        target_ci=target_ci or Settings.target_ci,
        budget=budget or Settings.budget,
        timeout=timeout or Settings.timeout,
        threads=threads or Settings.threads,
    )


def _members(name: str, config: Config) -> Sequence[str]:
    return config.suites[name].workloads if name in config.suites else (name,)
