"""The two builds: opened, asked what they are, and told apart in words."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import literal, one_line
from torchperf_ci.bench import planning
from torchperf_ci.environments.environment import Builder, Environment, opened
from torchperf_ci.environments.repository import Revision
from torchperf_ci.environments.spec import Python, Spec, recognise
from torchperf_ci.errors import EnvironmentUnderTestError, SuiteFileError, UsageError

if TYPE_CHECKING:
    from contextlib import ExitStack

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bench.planning import UnderTest
    from torchperf_ci.config import Config
    from torchperf_ci.options import CompareOptions

SAME_ON_BOTH = (
    "nothing is measured that these commits could change, because no suite is a file whose workloads import their "
    "code: give one with --suite, or say with --build how a commit is installed, such as 'pip install torch .'"
)
UNBUILT = "\nif this repository has to be built before it is imported, say how with --build"


@dataclass(frozen=True)
class ComparedBuild:
    """A build that can be measured. ``words`` say what it is, ``spec`` what it was asked for as."""

    settings: Settings
    under_test: UnderTest
    words: str
    spec: Spec

    @property
    def torch(self) -> str:
        """The version of torch."""
        return str(self.under_test.environment["torch_version"])


def open_builds(
    stack: ExitStack, options: CompareOptions, config: Config
) -> tuple[ComparedBuild, ComparedBuild]:
    """Base and head, which are there until ``stack`` closes.

    Raises :class:`UsageError` for what is no build, where the two see different devices, and where nothing measured
    is theirs; :class:`EnvironmentUnderTestError` for a build that cannot be made, or has no torch; and
    :class:`SuiteFileError`.
    """
    repo = Path(options.repo or ".")
    specs = {
        "base": recognise(options.base or "", repo),
        "head": recognise(options.head or "", repo),
    }
    # The budget is that of the whole comparison here, and not of a process.
    settings = planning.settings(
        config,
        suite=options.suite,
        python=options.python,
        device=options.device,
        timeout=options.timeout,
        threads=options.threads,
    )
    commits = all(isinstance(spec, Revision) for spec in specs.values())
    if commits and not (options.build or settings.files):
        raise UsageError(SAME_ON_BOTH)
    builder = Builder(settings.python, options.build, options.build_timeout or Builder.seconds)
    base, head = (_open(stack, flag, spec, builder, settings) for flag, spec in specs.items())
    if base.settings.device != head.settings.device:
        msg = (
            f"base would be measured on {base.settings.device} and head on {head.settings.device}: "
            "name one that both have with --device"
        )
        raise UsageError(msg)
    return base, head


def _open(stack: ExitStack, flag: str, spec: Spec, builder: Builder, settings: Settings) -> ComparedBuild:
    with literal():
        sys.stderr.write(f"{flag}: {one_line(spec)}\n")  # what follows may take long
    environment = stack.enter_context(opened(spec, builder))
    settings = replace(settings, python=environment.python, path=environment.path)
    try:
        under_test = planning.describe(settings, f"--{flag}" if isinstance(spec, Python) else planning.PYTHON)
    except (EnvironmentUnderTestError, SuiteFileError) as error:
        if isinstance(spec, Python):
            raise
        unbuilt = isinstance(spec, Revision) and builder.command is None
        msg = f"--{flag} {spec}: {error}{UNBUILT if unbuilt else ''}"
        raise type(error)(msg) from error
    settings = under_test.settings(settings)
    return ComparedBuild(settings, under_test, _words(environment, under_test), spec)


def _words(environment: Environment, under_test: UnderTest) -> str:
    facts = under_test.environment
    torch = f"torch {facts['torch_version']} {facts['torch_commit'][:10]}".rstrip()
    return f"{environment.description} ({torch})"
