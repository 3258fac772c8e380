"""How the builds of a range are made and what is measured of them, from the options."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench import planning
from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.command_arm import CommandArm, filled_in
from torchperf_ci.bench.selection import matches, select
from torchperf_ci.bisect.measuring.probes import CommandProbe, WorkloadProbe
from torchperf_ci.bisect.measuring.suspicions import luck_expected, probes_of
from torchperf_ci.bisect.telling.levels import Levels, levels_of
from torchperf_ci.environments.builders import Wheels
from torchperf_ci.environments.environment import Builder, opened
from torchperf_ci.errors import EnvironmentUnderTestError, UnknownNameError, UsageError
from torchperf_ci.machine.devices import installed
from torchperf_ci.machine.devices.rocm import Rocm
from torchperf_ci.metrics import LATENCY
from torchperf_ci.stats.build_luck import USUAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torchperf_ci.bench.selection import Known
    from torchperf_ci.bisect.measuring.probes import Probe
    from torchperf_ci.config import Config
    from torchperf_ci.environments.environment import Environment
    from torchperf_ci.environments.repository import Revision
    from torchperf_ci.machine.devices.base import Device
    from torchperf_ci.options import BisectOptions
    from torchperf_ci.verdicts.verdict import Judgement

BUILD_SECONDS = {"worktree": 2.0, "command": 600.0, "wheel": 60.0, "nightly": 60.0}
"""What a build is taken to cost until one has been seen, by builder."""
UNBUILT = "\nif this repository has to be built before it is imported, say how with --build"


@dataclass(frozen=True)
class Setting:
    """What to measure and where.

    ``notes`` say what was asked for and cannot be measured, ``levels`` what series were like before and after, where
    there are verdicts, and ``torch`` which version is there, where commits are imported as they are. ``luck`` is how
    far builds of one code are expected to lie apart.
    """

    probes: tuple[Probe, ...]
    settings: Settings
    device: Device
    notes: tuple[str, ...] = ()
    levels: Mapping[str, Levels] = field(default_factory=dict)
    torch: str = ""
    luck: float = USUAL

    @property
    def machine(self) -> str:
        """What it is measured on, in words."""
        identity = self.device.identity()
        return f"{identity.type} ({identity.name})"


def builder_of(options: BisectOptions) -> str:
    """The kind of builder, by the options that it needs; raises :class:`UsageError` where they do not go together."""
    builder: str = options.builder or ("command" if options.build else "worktree")
    if builder == "command" and not options.build:
        msg = "--builder command needs a shell line that installs a commit: give it with --build"
        raise UsageError(msg)
    if builder in ("wheel", "nightly") and not options.wheels:
        msg = f"--builder {builder} needs to know where the wheels are: say it with --wheels"
        raise UsageError(msg)
    return builder


def check_command(command: str, builder: str) -> None:
    """Raise :class:`UsageError` where a command names what such a builder's builds do not have, before any is made."""
    sha = None if builder == "nightly" else "sha"
    worktree = Path("worktree") if builder in ("worktree", "command") else None
    filled_in(command, CommandArm(Settings("python", "cpu"), sha, worktree, Path()))


def opener(options: BisectOptions, python: str) -> Callable[[Revision], AbstractContextManager[Environment]]:
    """What makes the environment of a commit."""
    seconds = options.build_timeout or Builder.seconds
    if builder_of(options) == "wheel":
        return Wheels(options.wheels or "", python, seconds).opened
    return partial(opened, builder=Builder(python, options.build, seconds))


def resolve(
    options: BisectOptions, config: Config, judgement: Judgement | None, good: Environment
) -> Setting:
    """Ask the good build what it can run, and choose the probes among that.

    Raises :class:`UsageError` where nothing is left to measure, and as :func:`planning.describe` does.
    """
    settings = planning.settings(
        config,
        suite=options.suite,
        python=options.python,
        device=options.device,
        timeout=options.timeout,
        threads=options.threads,
    )
    if options.command:
        probe = CommandProbe(options.command, options.metric or "", config.policy)
        given = options.device
        device = installed("cpu" if given in (None, "auto") else given)
        settings = replace(settings, device=device.torch_type, hip=isinstance(device, Rocm))
        return Setting((probe,), settings, device)
    settings = replace(settings, python=good.python, path=good.path)
    try:
        under_test = planning.describe(settings)
    except EnvironmentUnderTestError as error:
        msg = f"{good.description}: {error}{'' if options.build else UNBUILT}"
        raise EnvironmentUnderTestError(msg) from error
    device = under_test.device
    settings = under_test.settings(settings)
    torch = under_test.environment["torch_version"] if builder_of(options) == "worktree" else ""
    if judgement is not None:
        return _of_verdicts(judgement, Setting((), settings, device, torch=torch), under_test, config)
    _check_workloads(options.workload, under_test.known, good)
    wanted = planning.selection(options, config, options.suite or ["all"], options.workload)
    cases = select(wanted, under_test.known, settings.device)
    metrics = (options.metric or LATENCY,)
    probes = tuple(WorkloadProbe(case, metrics, device.identity().name) for case in cases)
    return Setting(probes, settings, device, torch=torch)


def _check_workloads(patterns: Sequence[str], known: Known, good: Environment) -> None:
    for pattern in patterns:
        if not any(matches(name, [pattern]) for name in known.workloads):
            msg = f"workload of the good build, {good.description},"
            raise UnknownNameError(msg, pattern, known.workloads, "torchperf list")


def _of_verdicts(
    judgement: Judgement, setting: Setting, under_test: planning.UnderTest, config: Config
) -> Setting:
    found = probes_of(judgement, under_test.known, setting.settings.device)
    left_out = tuple(f"{one.series} is not bisected: {one.why}" for one in found.left_out)
    if not found.probes:
        why = "; ".join(left_out or ["nothing is worse in them"])
        msg = f"the verdicts hold nothing that got worse and can be bisected: {why}"
        raise UsageError(msg)
    levels = levels_of(judgement, setting.device.identity(), config.policy)
    return replace(setting, probes=found.probes, notes=left_out, levels=levels, luck=luck_expected(judgement))
