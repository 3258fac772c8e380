"""Find which cases a change can affect: those that read a file that it changes, or all if that is not known.

A case is left out only with certainty: its process at base read none of the files that differ, so at head it does
exactly the same. The effect is known for changed contents of files that only Python reads. In PyTorch itself it is also
known for sources of operators (:mod:`torchperf_ci.compare.touched_operators`): a case that runs none of these operators
is not affected. Any other change (a new or deleted file, a file that a build or another library reads, a submodule) may
affect every case.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from torchperf_ci.bench.process import WorkerConversation, open_worker, prepare
from torchperf_ci.bench.worker.protocol import Compilation, Done, OperatorsRun, Peak, TorchEnvironment
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.compare.pytorch_sources import UnknownEffectError, is_native, is_unbuilt, sources_at
from torchperf_ci.compare.touched_operators import touched_operators
from torchperf_ci.console import Progress
from torchperf_ci.document import counted, first_of
from torchperf_ci.environments.revisions import ASK_SECONDS, Revision, top_of_checkout
from torchperf_ci.errors import EnvironmentUnderTestError, failing_as
from torchperf_ci.git import Git, GitError
from torchperf_ci.metrics import LATENCY
from torchperf_ci.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.compare.case_verdicts import SeriesNaming
    from torchperf_ci.compare.compared_builds import ComparedBuild


HARMLESS_PROGRAMS = frozenset(
    {
        *("as", "c++", "cc", "clang", "clang++", "g++", "gcc", "icpx", "ld", "nvcc", "ptxas", "hipcc"),
        *("ldconfig", "lscpu", "uname", "nvidia-smi", "rocm-smi", "sysctl"),
    }
)
"""Compilers and programs that describe the machine. They read no Python files."""
FORKS = "it forks, and the operators that the child runs are not recorded"
UNKNOWN_BATCH = "which batch size it gets is not known"
SYSTEM = (("/", "bin"), ("/", "opt"), ("/", "sbin"), ("/", "usr"))


@dataclass(frozen=True)
class FilesRead:
    """The paths that Python opened, both as given and with links resolved.

    ``startup`` are those of the paths that run before tracing can start. ``unknown`` lists what could not be traced.
    ``operators`` are the operators that the steps run, without namespace and overload; empty if not requested.
    """

    paths: frozenset[str]
    startup: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    operators: frozenset[str] = frozenset()


def files_read(case: Case, settings: Settings, scratch: Path, *, operators: bool = False) -> FilesRead:
    """Build and run the case as a measurement does, traced from before its suite file is read.

    Raises :class:`WorkerFailure` if the case cannot be measured.
    """
    log = scratch / f"{case.key}.files"
    with open_worker(case, settings, scratch) as worker:
        conversation = WorkerConversation(worker, settings.timeout)
        conversation.ask("begin_file_trace", Done, log=str(log))
        prepare(conversation, case, settings)
        conversation.ask("peak", Peak)
        if case.compiled:
            conversation.ask("compilation", Compilation)
        ran = conversation.ask("operators", OperatorsRun) if operators else OperatorsRun((), ())
        conversation.ask("end_file_trace", Done)
    read = _read(log.read_text("utf-8").splitlines(), operators=operators)
    return replace(read, unknown=(*read.unknown, *ran.unknown), operators=frozenset(ran.operators))


def unbuilt_devices(environment: TorchEnvironment) -> list[str]:
    """Return the names of ATen folders for devices that this torch was not built for."""
    cuda, hip = "cuda" in environment.observed, environment.hip
    built = {"cuda": cuda or hip, "cudnn": cuda, "miopen": hip, "hip": hip, "mps": sys.platform == "darwin"}
    return [name for name, there in built.items() if not there]


def _read(lines: Iterable[str], *, operators: bool) -> FilesRead:
    facts = defaultdict[str, set[str]](set)
    for line in lines:
        kind, value = json.loads(line)
        facts[kind].add(value)
    programs = sorted(program for program in facts["program"] if not _is_harmless(program))
    unknown = [
        *sorted(facts["unseen"]),
        *(f"it starts {name}, whose reads cannot be traced" for name in programs),
        *(FORKS for _ in facts["fork"] if operators),
    ]
    return FilesRead(frozenset(facts["file"]), frozenset(facts["startup"]), tuple(unknown))


def _is_harmless(program: str) -> bool:
    """Whether a program reads no Python.

    A program of a known name counts only without a path or in a system folder, because a repository may have its own
    program of the same name.
    """
    path = Path(program)
    return path.name in HARMLESS_PROGRAMS and (path.name == program or path.parts[:2] in SYSTEM)


FOLLOWED = (".py", ".md", ".rst")
"""Extensions of files that only Python reads, so that tracing sees every reader."""
PLAIN_FILES = ("100644", "100755")
"""Git's modes of regular files, as opposed to links and submodules."""
MAX_NAMED, MAX_OPERATORS_NAMED = 3, 5


@dataclass(frozen=True)
class TreeChange:
    """How two commits differ: paths where only the content changes, and why other changes may affect every case."""

    contents: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def followed(self) -> tuple[str, ...]:
        """The paths whose readers can be traced."""
        return tuple(path for path in self.contents if PurePosixPath(path).suffix in FOLLOWED)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Reasons why any case may be affected, if commits are imported without a build."""
        known = {*self.followed}
        why = (f"{path} changes, and what reads it is unknown" for path in self.contents if path not in known)
        return (*why, *self.others)


@dataclass(frozen=True)
class AffectedCases:
    """The cases to measure, verdicts on those left out, and a note for the reader on the choice."""

    cases: Sequence[Case]
    left_out: Sequence[Verdict] = ()
    note: str = ""


def affected_cases(
    cases: Sequence[Case],
    base: ComparedBuild,
    head: ComparedBuild,
    naming: SeriesNaming,
    scratch: Path,
    *,
    built: bool,
) -> AffectedCases:
    """Trace each case at base, and leave out the cases that the change cannot affect.

    Both sides are commits. ``built``: they are installed by a build.
    """
    assert isinstance(base.spec, Revision)
    assert isinstance(head.spec, Revision)
    if not cases:
        return AffectedCases(cases)
    change = tree_change(base.spec, head.spec)
    try:
        if built:
            readers: Readers | ChangedOperators = _in_build(base, head.spec, change)
        else:
            readers = _in_checkout(base, base.spec.repo, change)
    except UnknownEffectError as unknown:
        return AffectedCases(cases, note=f"everything is measured: {unknown}")
    measured: list[Case] = []
    left_out: list[Verdict] = []
    with closing(Progress(len(cases))) as shown:
        for number, case in enumerate(cases, 1):
            shown.begin(f"what {case} {'runs' if built else 'reads'}")
            try:
                why = readers.by(case, base.settings, scratch / "trace") if case.batch_size else UNKNOWN_BATCH
            except WorkerFailure as failure:
                why = str(failure)
            if why:
                measured.append(case)
            else:
                left_out.append(Verdict(naming(case, LATENCY), "not-affected", readers.why_not))
            shown.end(f"{case}: {why or 'not affected'}", number)
    note = f"{counted(len(left_out), 'case')} not measured: {readers.why_not}" if left_out else ""
    return AffectedCases(measured, left_out, note)


@dataclass(frozen=True)
class Readers:
    """A change that affects the cases that read one of the ``changed`` paths below one of the ``roots``."""

    changed: Sequence[str]
    roots: Sequence[Path]

    @property
    def why_not(self) -> str:
        """Why a case is not affected."""
        if not self.changed:
            return "the commits do not differ"
        return f"on base, it reads none of the changed files: {', '.join(first_of(self.changed, MAX_NAMED))}"

    def by(self, case: Case, settings: Settings, scratch: Path) -> str:
        """Return why the case may be affected; empty if it is not. Raises :class:`WorkerFailure`."""
        return why_affected(files_read(case, settings, scratch), self.changed, self.roots)


_TESTS = ("test/", "torch/testing/_internal/")
"""Folders whose Python files a build copies unchanged or ignores."""


@dataclass(frozen=True)
class ChangedOperators:
    """A change that affects the cases that run one of the operators or read one of the ``python`` files.

    ``python`` has changed Python and text files, which a build may install anywhere.
    """

    operators: frozenset[str]
    python: Collection[str] = ()

    @property
    def why_not(self) -> str:
        """Why a case is not affected."""
        if not self.operators:
            return "no file that this build is made from changes"
        names = ", ".join(first_of(sorted(self.operators), MAX_OPERATORS_NAMED))
        return f"on base, it runs none of the operators whose sources changed: {names}"

    def by(self, case: Case, settings: Settings, scratch: Path) -> str:
        """Return why the case may be affected; empty if it is not. Raises :class:`WorkerFailure`."""
        if case.compiled:
            return "compiled code may call kernels without operators"
        files = files_read(case, settings, scratch, operators=True)
        if files.unknown:
            return files.unknown[0]
        if ran := sorted(files.operators & self.operators):
            return f"runs {ran[0]}"
        read = [f"/{path}" for path in files.paths]
        changed = (path for path in sorted(self.python) if any(one.endswith(f"/{path}") for one in read))
        return next((f"reads {path}" for path in changed), "")


def changed_operators(
    git: Git, base: Revision, head: Revision, changed: Sequence[str], unbuilt: Collection[str]
) -> ChangedOperators:
    """Return the operators that the ``changed`` files affect.

    Raises :class:`UnknownEffectError` if that cannot be determined, and :class:`GitError`.
    """
    python = [path for path in changed if _is_followed(path)]
    kernels = [path for path in changed if is_native(path) and not is_unbuilt(path, unbuilt)]
    others = [path for path in changed if path not in {*python, *kernels}]
    if unknown := [path for path in others if not is_unbuilt(path, unbuilt)]:
        raise UnknownEffectError(f"{unknown[0]} changes, and what is built from it is unknown")
    sources = sources_at(git, base.sha, unbuilt)
    for path in others:
        if path.rpartition("/")[2] in sources.included:
            raise UnknownEffectError(f"{path} may be included by what is built")
    if not kernels:
        return ChangedOperators(frozenset(), python)
    texts = [(path, _text(git, base, path), _text(git, head, path)) for path in kernels]
    return ChangedOperators(touched_operators(sources, texts), python)


def _is_followed(path: str) -> bool:
    return path.endswith((".md", ".rst")) or (path.startswith(_TESTS) and path.endswith(".py"))


def _text(git: Git, revision: Revision, path: str) -> str:
    return git("cat-file", "blob", f"{revision.sha}:{path}").decode("utf-8", "replace")


def _in_checkout(base: ComparedBuild, repo: Path, change: TreeChange) -> Readers:
    if change.unknown:
        raise UnknownEffectError("; ".join(first_of(change.unknown, MAX_NAMED)))
    own = top_of_checkout(repo) or repo  # it may contain a suite file that both sides read
    return Readers(change.followed, [Path(base.settings.path[-1]), own])


def _in_build(base: ComparedBuild, head: Revision, change: TreeChange) -> ChangedOperators:
    """Find the changed operators. Raises :class:`UnknownEffectError` if anything but sources of operators changes."""
    if change.others or not isinstance(base.spec, Revision):
        raise UnknownEffectError("; ".join(first_of(change.others, MAX_NAMED)))
    with failing_as(UnknownEffectError, of=GitError):
        git, unbuilt = Git.within(ASK_SECONDS, base.spec.repo), unbuilt_devices(base.under_test.environment)
        return changed_operators(git, base.spec, head, change.contents, unbuilt)


def tree_change(base: Revision, head: Revision) -> TreeChange:
    """Ask git how two commits differ, without detecting renames. Raises :class:`EnvironmentUnderTestError`."""
    options = ("-r", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z")
    unknown = f"what {base.sha[:10]} and {head.sha[:10]} differ in cannot be determined: "
    with failing_as(EnvironmentUnderTestError, unknown, of=GitError):
        # Unlike `git diff`, it does not depend on the user's configuration.
        printed = Git.within(ASK_SECONDS, base.repo)("diff-tree", *options, base.sha, head.sha, "--")
    fields = os.fsdecode(printed).split("\0")[:-1]
    contents: list[str] = []
    others: list[str] = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        if why := _why_other(about):
            others.append(f"{path} {why}")
        else:
            contents.append(path)
    return TreeChange(tuple(contents), tuple(others))


def _why_other(about: str) -> str:
    old, new, _, _, status = about.removeprefix(":").split(" ")
    if status == "A":
        return "is new"
    if status == "D":
        return "is gone"
    if status != "M" or old != new or old not in PLAIN_FILES:
        return "changes its mode, or is a link or a submodule"
    return ""


def why_affected(read: FilesRead, changed: Iterable[str], roots: Sequence[Path]) -> str:
    """Return why a change of these paths below any of the roots may affect a case; empty if it cannot.

    Paths are compared ignoring case and Unicode composition, as some file systems do.
    """
    if read.unknown:
        return read.unknown[0]
    places = {_plain(str(place)) for root in roots for place in (root, root.resolve())}
    for path in read.startup:
        if any(_plain(path).startswith(f"{place}/") for place in places):
            return f"{path} runs before anything can be traced"
    paths = {_plain(path) for path in read.paths}
    nowhere = {path.rpartition("/")[2] for path in paths if not path.startswith("/")}
    for path in map(_plain, changed):
        if any(f"{place}/{path}" in paths for place in places) or path.rpartition("/")[2] in nowhere:
            return f"reads {path}"
    return ""


def _plain(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
