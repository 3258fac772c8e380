"""Resolve options and verdicts to a setup: how builds are made, what is measured of them, and the limits."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench import selection
from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.selection import matches, select_cases
from torchperf_ci.bench.user_command import InstalledBuild, filled_in
from torchperf_ci.bisect.probes import (
    CommandProbe,
    WorkloadProbe,
    bisected,
    expected_build_variance,
    probes_from_verdicts,
)
from torchperf_ci.console import say
from torchperf_ci.environments.build_environment import (
    INSTALLED,
    UNBUILT,
    BuildEnvironment,
    Builder,
    check_imports,
    open_environment,
    unused_code_note,
)
from torchperf_ci.environments.wheels import PYTHON, TORCH, CommitWheels, installed_distributions
from torchperf_ci.errors import EnvironmentUnderTestError, SuiteFileError, UnknownNameError, UsageError
from torchperf_ci.machine.devices import installed
from torchperf_ci.machine.devices.amd import Rocm
from torchperf_ci.metrics import LATENCY, UP
from torchperf_ci.series import policy
from torchperf_ci.stats.build_variance import USUAL_TAU

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torchperf_ci.bench.worker.protocol import EnvironmentUnderTest, KnownWorkloads
    from torchperf_ci.bisect.probes import Probe
    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectReading
    from torchperf_ci.config import Config, Rule
    from torchperf_ci.deadline import Deadline
    from torchperf_ci.environments.revisions import Revision
    from torchperf_ci.machine.devices.interface import DeviceIdentity
    from torchperf_ci.options.comparison_commands import BisectOptions
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.verdict import Judgement


@dataclass(frozen=True)
class BisectLimits:
    """Limits on builds and pairs, and on the time of this job; None for no limit.

    Those of earlier jobs count, except for failures that are tried again. A build that is repeated only because its
    environment is gone does not count.
    """

    builds: int | None = None
    pairs: int | None = None
    deadline: Deadline | None = None

    def may_build(self, facts: BisectFacts, more: int = 1) -> bool:
        """Whether ``more`` further builds are allowed; if not, existing builds can still be measured."""
        return not more or self.builds is None or len(facts.builds) + more <= self.builds

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed. Nothing that takes long is begun then: a build may take hours."""
        return self.deadline is not None and not self.deadline.left

    def ended_by(self, facts: BisectFacts) -> str:
        """The option of the limit that has been reached, or ``""``."""
        if self.is_late:
            return "--deadline"
        if self.pairs is not None and len(facts.readings) >= self.pairs:
            return "--max-runs"
        return ""

    def after(self, facts: BisectFacts) -> BisectLimits:
        """The limits that remain for a search that follows one with these ``facts``."""
        return replace(
            self,
            builds=None if self.builds is None else max(self.builds - len(facts.builds), 0),
            pairs=None if self.pairs is None else max(self.pairs - len(facts.readings), 0),
        )


Levels = tuple[float, float]
"""The level of a series before a change and that after it, in its own unit."""


def levels_from_verdicts(
    judgement: Judgement, machine: DeviceIdentity, rules: Mapping[str, Rule], min_effect: float
) -> Mapping[str, Levels]:
    """The levels of series, by name, that are worse by ``min_effect`` in verdicts from this kind of machine.

    Those of others are not comparable. ``rules`` give the directions of metrics, from the configuration.
    """
    found = {}
    for verdict in judgement.verdicts:
        series, old, new = verdict.series, verdict.old or 0.0, verdict.new or 0.0
        direction = policy.rule_of_metric(series.metric, rules).direction
        if (
            direction
            and _is_of(series, machine)
            and min(old, new) > 0
            and (old / new if direction == UP else new / old) >= 1 + min_effect
        ):
            found[str(series)] = (old, new)
    return found


def other_machines(judgement: Judgement, machine: DeviceIdentity) -> tuple[str, ...]:
    """A note if what got worse was measured on other kinds of machines than this one."""
    series = [verdict.series for verdict in bisected(judgement)]
    others = dict.fromkeys(
        f"{one.arch} ({one.device})".lstrip() for one in series if not _is_of(one, machine)
    )
    if not others:
        return ()
    here = f"{machine.type} ({machine.name})"
    return (
        f"⚠ what got worse was measured on {', '.join(others)}, and is bisected on {here} under the same names",
    )


def _is_of(series: Series, machine: DeviceIdentity) -> bool:
    return series.device == machine.name and series.arch in ("", machine.type)


def moved_under_good(readings: Sequence[BisectReading], levels: Mapping[str, Levels]) -> Mapping[str, float]:
    """The value of each series on the good build, if all of them are at the new level now; else empty."""
    now = {name: _of_good(readings, name) for name in levels}
    known = {name: value for name, value in now.items() if value is not None}
    return known if all(_is_at_new(value, *levels[name]) for name, value in known.items()) else {}


def _is_at_new(value: float, old: float, new: float) -> bool:
    """Whether a value is closer, as a ratio, to the new level than to the old one."""
    return value > 0 and abs(math.log(value / new)) < abs(math.log(value / old))


def _of_good(readings: Sequence[BisectReading], series: str) -> float | None:
    values = [pair.values[series] for pair in readings if pair.base == 0 and series in pair.values]
    return median(values) if values else None


BUILD_SECONDS = {"worktree": 2.0, "command": 600.0, "wheel": 60.0, "nightly": 60.0}
"""The assumed duration of a build, by kind of builder, until one has been timed."""


@dataclass(frozen=True)
class MeasurementSetup:
    """What to measure and where.

    ``notes`` list what was asked for but cannot be measured. ``levels`` are those of the verdicts, if there are any.
    ``versions`` are those of the Python and, if commits are imported without being built, of all distributions that
    count; ``torch`` is then the installed version. ``luck`` is the expected standard deviation, on the log scale,
    between builds of the same code.
    """

    probes: tuple[Probe, ...]
    settings: Settings
    notes: tuple[str, ...] = ()
    levels: Mapping[str, Levels] = field(default_factory=dict)
    torch: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    luck: float = USUAL_TAU

    @property
    def machine(self) -> str:
        """The device, for messages."""
        identity = self.settings.hardware.identity()
        return f"{identity.type} ({identity.name})"


def builder_kind(options: BisectOptions) -> str:
    """The kind of builder that the options ask for; raises :class:`UsageError` if options for it are missing."""
    builder: str = options.builder or ("command" if options.build else "worktree")
    if builder == "command" and not options.build:
        raise UsageError("--builder command needs a shell line that installs a commit: give it with --build")
    if builder in ("wheel", "nightly") and not options.wheels:
        raise UsageError(f"--builder {builder} needs to know where the wheels are: give --wheels")
    return builder


def check_command(command: str, builder: str) -> None:
    """Raise :class:`UsageError` if ``command`` has placeholders that this builder's builds cannot fill."""
    sha = None if builder == "nightly" else "sha"
    worktree = Path("worktree") if builder in ("worktree", "command") else None
    filled_in(command, InstalledBuild(Settings("python", "cpu"), sha, worktree, Path()))


def environment_opener(
    options: BisectOptions, python: str
) -> Callable[[Revision], AbstractContextManager[BuildEnvironment]]:
    """Return a function that opens the environment of a commit."""
    seconds = options.build_timeout
    if builder_kind(options) == "wheel":
        return CommitWheels(options.wheels or "", python, seconds).opened
    return partial(open_environment, builder=Builder(python, options.build, seconds))


_NEWER_SUITE = (
    "\nif the suite file needs what is newer than this commit: it is the same file for all commits, so import that "
    "inside the functions that need it, or give --suite the file as it was then, which `git show` prints"
)


def resolve_setup(
    options: BisectOptions,
    config: Config,
    judgement: Judgement | None,
    build_good: Callable[[], BuildEnvironment],
) -> MeasurementSetup:
    """Build the good commit, ask it what it can run, and choose the probes from that; a command needs no build.

    Raises :class:`UsageError` if nothing is left to measure, or for an absent device, and
    :class:`EnvironmentUnderTestError` if the build does not start or cannot import a suite file.
    """
    settings = selection.settings_of_options(options, config)
    if options.command:
        probe = CommandProbe(options.command, options.metric or "", config.policy)
        name = options.device
        device = installed("cpu" if name in (None, "auto") else name)
        settings = replace(settings, device=device.torch_type, hip=isinstance(device, Rocm))
        return MeasurementSetup((probe,), settings, versions=_versions_of(options))
    selection.check_suite_files(settings)
    good = build_good()
    settings = replace(settings, python=good.python, path=good.path)
    try:
        under_test = selection.describe_environment(settings)
        check_imports(under_test.imported, good, Path(options.repo), settings.files)
    except (EnvironmentUnderTestError, SuiteFileError) as error:
        hint = UNBUILT if builder_kind(options) == "worktree" else INSTALLED
        if isinstance(error, SuiteFileError):
            hint += _NEWER_SUITE
        raise EnvironmentUnderTestError(f"on the good build, {good.description}: {error}{hint}") from error
    settings = settings.on(under_test.environment)
    there, torch = under_test.environment, ""
    versions = {PYTHON: ".".join(there.observed[PYTHON].split(".")[:2])}
    if builder_kind(options) == "worktree":
        torch = there.torch_version
        versions |= {TORCH: f"{torch} {there.torch_commit[:10]}".strip(), **there.dependencies}
    setup = MeasurementSetup((), settings, torch=torch, versions=versions)
    if judgement is not None:
        setup = _setup_from_verdicts(judgement, setup, under_test, config, options.min_effect or 0.0)
    else:
        probes = _chosen_probes(options, config, settings, under_test, good)
        setup = replace(setup, probes=probes)
    unused = _unused_code(setup, under_test, good) if builder_kind(options) == "worktree" else ""
    say(*filter(None, [unused]))
    return replace(setup, notes=(*filter(None, [unused]), *setup.notes))


def _versions_of(options: BisectOptions) -> Mapping[str, str]:
    """The versions of ``--python`` and, if a command may use it, of its torch with its commit; those that there are."""
    names = (PYTHON, TORCH) if builder_kind(options) == "worktree" else (PYTHON,)
    with suppress(EnvironmentUnderTestError):  # a command may need no Python
        found = installed_distributions(selection.python_under_test(options.python), *names)
        return {name: f"{one.version} {one.commit[:10]}".strip() for name, one in found.items()}
    return {}


def _unused_code(setup: MeasurementSetup, under_test: EnvironmentUnderTest, good: BuildEnvironment) -> str:
    cases = [probe.case for probe in setup.probes if isinstance(probe, WorkloadProbe)]
    needed = {package for case in cases for package in under_test.known.workloads[case.workload].requires}
    return unused_code_note(under_test.imported, good.path, {TORCH, *needed})


def _chosen_probes(
    options: BisectOptions,
    config: Config,
    settings: Settings,
    under_test: EnvironmentUnderTest,
    good: BuildEnvironment,
) -> tuple[WorkloadProbe, ...]:
    _check_workloads(options.workload, under_test.known, good)
    searched = options.suite or ["all", *settings.files]
    wanted = selection.selection_of(options, config, searched, options.workload)
    cases = select_cases(wanted, under_test.known, settings.device)
    metrics = (options.metric or LATENCY,)
    return tuple(WorkloadProbe(case, metrics, settings.hardware.identity().name) for case in cases)


def _check_workloads(patterns: Sequence[str], known: KnownWorkloads, good: BuildEnvironment) -> None:
    for pattern in patterns:
        if not any(matches(name, [pattern]) for name in known.workloads):
            msg = f"workload of the good build, {good.description},"
            raise UnknownNameError(msg, pattern, known.workloads, "torchperf list")


def _setup_from_verdicts(
    judgement: Judgement,
    setup: MeasurementSetup,
    under_test: EnvironmentUnderTest,
    config: Config,
    min_effect: float,
) -> MeasurementSetup:
    probes = probes_from_verdicts(judgement, under_test.known, setup.settings.device)
    if not probes.probes:
        why = "; ".join(probes.left_out or ["nothing is worse in them"])
        raise UsageError(f"the verdicts contain no regression that can be bisected: {why}")
    machine = setup.settings.hardware.identity()
    levels = levels_from_verdicts(judgement, machine, config.policy, min_effect)
    return replace(
        setup,
        probes=probes.probes,
        notes=(*other_machines(judgement, machine), *probes.left_out),
        levels=levels,
        luck=expected_build_variance(judgement),
    )
