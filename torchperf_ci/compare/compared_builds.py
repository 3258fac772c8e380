"""Open the two builds of a comparison, find which cases they share, and say how to repeat the comparison."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.bench import selection
from torchperf_ci.bench.selection import select_cases
from torchperf_ci.console import say
from torchperf_ci.document import first_of
from torchperf_ci.environments.build_environment import (
    INSTALLED,
    UNBUILT,
    BuildEnvironment,
    Builder,
    BuildSpec,
    Interpreter,
    WheelRequirement,
    check_imports,
    open_environment,
    parse_build_spec,
    unused_code_note,
)
from torchperf_ci.environments.cache import content_digests
from torchperf_ci.environments.revisions import Revision, find_revision, uncompiled_note
from torchperf_ci.environments.wheels import changed_versions, installed_distributions
from torchperf_ci.errors import EnvironmentUnderTestError, SuiteFileError, UsageError, failing_as
from torchperf_ci.identity import uncommitted_note
from torchperf_ci.masking import without_secrets
from torchperf_ci.metrics import STATUS
from torchperf_ci.verdicts.reproduction import RELEASE, portable_options
from torchperf_ci.verdicts.verdict import RepeatOptions, Verdict

if TYPE_CHECKING:
    from contextlib import ExitStack

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.worker.protocol import EnvironmentUnderTest, KnownWorkloads
    from torchperf_ci.compare.case_verdicts import SeriesNaming
    from torchperf_ci.config import Config
    from torchperf_ci.options.comparison_commands import CompareOptions


TWO_COMMITS = "--affected looks at what two commits differ in: give commits with --base and --head"
SAME_ON_BOTH = (
    "nothing is measured that these commits could change, because no suite is a file whose workloads import their "
    "code, and no selected workload needs a library that is in this checkout: give a file with --suite, or say with "
    "--build how a commit is installed, such as 'pip install torch .'"
)


@dataclass(frozen=True)
class ComparedBuild:
    """A build that can be measured.

    ``words`` describes it, ``spec`` is how the user requested it, and ``unread`` says which suite files it cannot
    import and why. ``contents`` are the digests of what was built from a commit.
    """

    settings: Settings
    under_test: EnvironmentUnderTest
    words: str
    spec: BuildSpec
    unread: str = ""
    contents: tuple[str, ...] = ()

    @property
    def torch(self) -> str:
        """The version of torch."""
        return self.under_test.environment.torch_version


def open_builds(
    stack: ExitStack, options: CompareOptions, config: Config
) -> tuple[ComparedBuild, ComparedBuild]:
    """Open base and head, which exist until ``stack`` closes.

    If base cannot import a suite file, for example because it calls a function that only head has, its workloads are
    new.

    Raises :class:`UsageError` if a side is not a build, or not a commit as ``--affected`` needs it, or if the two see
    different devices; :class:`EnvironmentUnderTestError` for a build that cannot be created or has no torch; and
    :class:`SuiteFileError` for a file that head cannot import.
    """
    repo = Path(options.repo)
    specs = {
        "base": _parsed("base", options.base or "", repo),
        "head": _parsed("head", options.head or "", repo),
    }
    if options.affected and not all(isinstance(spec, Revision) for spec in specs.values()):
        raise UsageError(TWO_COMMITS)
    settings = selection.settings_of_options(options, config)
    selection.check_suite_files(settings)
    builder = Builder(settings.python, options.build, options.build_timeout)
    head = _open(stack, "head", specs["head"], builder, settings)
    base = _open(stack, "base", specs["base"], builder, settings, may_lack_files=True)
    if base.settings.device != head.settings.device:
        msg = (
            f"base would be measured on {base.settings.device} and head on {head.settings.device}: "
            "name one that both have with --device"
        )
        raise UsageError(msg)
    return base, head


def _parsed(flag: str, text: str, repo: Path) -> BuildSpec:
    with failing_as(UsageError, f"--{flag}: ", of=UsageError):
        return parse_build_spec(text, repo)


def _open(
    stack: ExitStack,
    flag: str,
    spec: BuildSpec,
    builder: Builder,
    settings: Settings,
    *,
    may_lack_files: bool = False,
) -> ComparedBuild:
    say(f"{flag}: {spec}")  # said first, because opening may take long
    environment = stack.enter_context(open_environment(spec, builder))
    settings = replace(settings, python=environment.python, path=environment.path)
    python_flag = f"--{flag}" if isinstance(spec, Interpreter) else selection.PYTHON_FLAG
    try:
        settings, under_test, unread = _described(settings, python_flag, may_lack_files=may_lack_files)
        if isinstance(spec, Revision):
            check_imports(under_test.imported, environment, spec.repo, settings.files)
    except (EnvironmentUnderTestError, SuiteFileError) as error:
        if isinstance(spec, Interpreter):
            raise
        unbuilt = isinstance(spec, Revision) and builder.command is None
        raise type(error)(f"--{flag} {spec}: {error}{UNBUILT if unbuilt else INSTALLED}") from error
    settings = settings.on(under_test.environment)
    contents = content_digests(environment) if isinstance(spec, Revision) else ()
    return ComparedBuild(settings, under_test, _words(environment, under_test), spec, unread, contents)


def _described(
    settings: Settings, python_flag: str, *, may_lack_files: bool
) -> tuple[Settings, EnvironmentUnderTest, str]:
    """Describe a build. If it may lack suite files, leave out those that it cannot import, and say why of the first."""
    unread = ""
    while True:
        try:
            return settings, selection.describe_environment(settings, python_flag), unread
        except SuiteFileError as error:
            readable = tuple(file for file in settings.files if not str(error).startswith(f"{file}:"))
            if not may_lack_files or readable == settings.files:
                raise
            unread = unread or one_line(error)
            for folder in settings.path:
                unread = unread.replace(f"{folder}/", "")
            settings = replace(settings, files=readable)


def _words(environment: BuildEnvironment, under_test: EnvironmentUnderTest) -> str:
    facts = under_test.environment
    torch = f"torch {facts.torch_version} {facts.torch_commit[:10]}".rstrip()
    return f"{environment.description} ({torch})"


def selected_cases(
    base: ComparedBuild, head: ComparedBuild, options: CompareOptions, config: Config
) -> tuple[Case, ...]:
    """Return the selected cases from the union of both catalogues.

    Raises :class:`UsageError` if there are none, or if none could differ between base and head.
    """
    known = _known_to_either(base.under_test.known, head.under_test.known)
    chosen = selection.selection_of(options, config, options.suite, options.filter, options.shard)
    cases = select_cases(chosen, known, head.settings.device)
    if not cases:
        raise UsageError(selection.NOTHING_IN_SHARD.format(*chosen.shard))
    needed = {package for case in cases for package in known.workloads[case.workload].requires}
    if _are_imported(base, head) and not (options.build or head.settings.files or _has_any(needed, head)):
        raise UsageError(SAME_ON_BOTH)
    return cases


def _are_imported(*builds: ComparedBuild) -> bool:
    return all(isinstance(build.spec, Revision) for build in builds)


def _has_any(packages: set[str], build: ComparedBuild) -> bool:
    """Whether the commit contains one of the packages, such as ``timm`` in a checkout of timm."""
    return any(Path(folder, package).is_dir() for folder in build.settings.path for package in packages)


def are_compiled_anew(base: ComparedBuild, head: ComparedBuild) -> bool:
    """Whether two commits were built, and not only their Python files and other texts differ."""
    return base.contents[1:] != head.contents[1:]


def known_to(build: ComparedBuild, case: Case) -> bool:
    """Whether the build's catalogue has the case's workload."""
    return case.workload in build.under_test.known.workloads


MAX_CHANGES = 8
"""Most packages that differ which a note names."""


def package_note(base: ComparedBuild, head: ComparedBuild) -> str:
    """Say which installed packages besides torch differ, or that two wheels install the same ones; else empty.

    The contents of a wheel may differ from its file name, and a rebuild may keep its version.
    """
    if base.settings.python == head.settings.python:
        return ""
    try:
        installed = [installed_distributions(build.settings.python) for build in (base, head)]
    except EnvironmentUnderTestError:
        return ""
    are_wheels = all(isinstance(build.spec, WheelRequirement) for build in (base, head))
    if are_wheels and base.spec != head.spec and installed[0] == installed[1]:
        return (
            f"both wheels install the same versions, with torch {head.torch}: unless one is a rebuild, whatever "
            "differs is noise"
        )
    changed = {name: ends for name, ends in changed_versions(*installed).items() if name != "torch"}
    if not changed:
        return ""
    named = [f"{name} {old or 'none'} → {new or 'none'}" for name, (old, new) in changed.items()]
    listed = ", ".join(first_of(named, MAX_CHANGES))
    return f"other packages differ between base and head, too: {listed}. A change may come from them"


def notes_on_builds(options: CompareOptions, base: ComparedBuild, head: ComparedBuild) -> list[str]:
    """Return whether and in what else the builds differ, and what of the commits is not measured."""
    same = "base and head are the same build: whatever differs is noise" if base.spec == head.spec else ""
    uncompiled = "" if options.build else uncompiled_note(base.spec, head.spec)
    are_used = options.build or options.affected or not (head.settings.files and _are_imported(base, head))
    unused = "" if are_used else unused_code_note(head.under_test.imported, head.settings.path)
    return [*filter(None, [same, package_note(base, head), unused, uncompiled, _uncommitted(head)])]


def _uncommitted(head: ComparedBuild) -> str:
    """Say that the checkout of head's commit has changes that are not measured; empty if it has none."""
    revision = head.spec
    if not isinstance(revision, Revision) or find_revision("HEAD", revision.repo)[0] != revision:
        return ""
    return uncommitted_note(revision.repo, "which are not measured: head is its commit")


def one_sided_verdict(case: Case, base: ComparedBuild, head: ComparedBuild, naming: SeriesNaming) -> Verdict:
    """Return the verdict on a case whose workload only one side has."""
    series = naming(case, STATUS)
    if known_to(head, case):
        why_not = f", and cannot import all suite files: {base.unread}" if base.unread else ""
        return Verdict(series, "new", f"base has no such workload{why_not}")
    return Verdict(series, "missing", "head has no such workload")


def _known_to_either(base: KnownWorkloads, head: KnownWorkloads) -> KnownWorkloads:
    """Return the union of two catalogues, in the order of head's suites."""
    suites = {
        name: list(dict.fromkeys([*head.suites.get(name, ()), *base.suites.get(name, ())]))
        for name in {**head.suites, **base.suites}
    }
    return replace(head, workloads={**base.workloads, **head.workloads}, suites=suites)


_REPEATED_OPTIONS = ("config", "suite", "build", "device", "batch_size", "threads", "min_effect")


def how_to_repeat(options: CompareOptions, base: ComparedBuild, head: ComparedBuild) -> RepeatOptions | None:
    """Return the options to repeat the comparison in a clone; None if a side is a build that nobody else has."""
    old, new = _named(base), _named(head)
    if not (old and new) or old == new:
        return None
    build = without_secrets(options.build) if options.build else None
    words, folder = portable_options({**vars(options), "build": build}, _REPEATED_OPTIONS)
    imported = isinstance(head.spec, Revision) and not build
    return RepeatOptions(old, new, words, folder, head.torch if imported else "")


def _named(side: ComparedBuild) -> str:
    """Return the commit or release with which ``compare`` can name this side elsewhere; empty if it is neither."""
    if isinstance(side.spec, Revision):
        return side.spec.sha
    if isinstance(side.spec, WheelRequirement) and re.fullmatch(
        rf"torch=={RELEASE.pattern}", side.spec.requirement
    ):
        return side.spec.requirement
    version = side.torch.partition("+")[0]
    return f"torch=={version}" if RELEASE.fullmatch(version) else ""
