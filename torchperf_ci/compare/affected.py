"""Find which cases a change can affect: those that read a file that it changes, or all if that is not known.

A case is left out only with certainty: its process at base read none of the files that differ, so at head it does
exactly the same. The effect is known for changed contents of files that only Python reads, in commits that are imported
without a build. Any other change (a new or deleted file, a file that a build or another library reads, a submodule) may
affect every case.
"""

from __future__ import annotations

import json
import os
import unicodedata
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.process import WorkerConversation, open_worker, prepare
from torchperf_ci.bench.worker.protocol import Compilation, Done, Peak
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.console import Progress
from torchperf_ci.deadline import Deadline
from torchperf_ci.document import counted
from torchperf_ci.environments.revisions import ASK_SECONDS, Revision, top_of_checkout
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError
from torchperf_ci.git import Git, GitError
from torchperf_ci.metrics import LATENCY
from torchperf_ci.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
SYSTEM = (("/", "bin"), ("/", "opt"), ("/", "sbin"), ("/", "usr"))


@dataclass(frozen=True)
class FilesRead:
    """The paths that Python opened, both as given and with links resolved.

    ``startup`` are those of the paths that run before tracing can start. ``unknown`` lists what could not be traced.
    """

    paths: frozenset[str]
    startup: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()


def files_read(case: Case, settings: Settings, scratch: Path) -> FilesRead:
    """Build and run the case as a measurement does, traced from before its suite file is read.

    Raises :class:`WorkerFailure` if the case cannot be measured.
    """
    log = scratch / f"{case.key}.files"
    with open_worker(case, settings, scratch) as worker:
        conversation = WorkerConversation(worker, settings.timeout)
        conversation.ask("begin_file_trace", Done, log=str(log))
        prepare(conversation, replace(case, batch_size=case.batch_size or 1), settings)
        conversation.ask("peak", Peak)
        if case.compiled:
            conversation.ask("compilation", Compilation)
        conversation.ask("end_file_trace", Done)
    return _read(log.read_text("utf-8").splitlines())


def _read(lines: Iterable[str]) -> FilesRead:
    facts: dict[str, set[str]] = {"file": set(), "startup": set(), "program": set(), "unseen": set()}
    for line in lines:
        kind, value = json.loads(line)
        facts[kind].add(value)
    programs = sorted(program for program in facts["program"] if not _is_harmless(program))
    unknown = [*sorted(facts["unseen"]), *(f"it starts {name}, which nobody follows" for name in programs)]
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
MOST_NAMED = 3
BUILT = "what --build makes of the changed files is not known"
TWO_COMMITS = "--affected looks at what two commits differ in: give commits with --base and --head"


@dataclass(frozen=True)
class TreeChange:
    """How two commits differ: paths whose readers can be traced, and why other changes may affect every case."""

    followed: tuple[str, ...]
    unknown: tuple[str, ...] = ()


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

    ``built``: the commits are installed by a build. Raises :class:`UsageError` unless both sides are commits.
    """
    if not (isinstance(base.spec, Revision) and isinstance(head.spec, Revision)):
        raise UsageError(TWO_COMMITS)
    change = tree_change(base.spec, head.spec)
    if built or change.unknown:
        why = BUILT if built else _named(change.unknown, "; ")
        return AffectedCases(cases, note=f"everything is measured: {why}")
    # The checkout may contain a suite file that both sides read.
    roots = [Path(base.settings.path[-1]), top_of_checkout(base.spec.repo) or base.spec.repo]
    why_not = (
        f"on base, it reads none of the changed files: {_named(change.followed, ', ')}"
        if change.followed
        else "the commits do not differ"
    )
    measured: list[Case] = []
    left_out: list[Verdict] = []
    with closing(Progress(len(cases))) as shown:
        for number, case in enumerate(cases, 1):
            shown.begins(f"what {case} reads")
            try:
                read = files_read(case, base.settings, scratch / "trace")
                why = why_affected(read, change.followed, roots)
            except WorkerFailure as failure:
                why = str(failure)
            if why:
                measured.append(case)
            else:
                left_out.append(Verdict(naming(case, LATENCY), "not-affected", why_not))
            shown.ended(f"{case}: {why or 'not affected'}", number)
    note = f"{counted(len(left_out), 'case')} not measured: {why_not}" if left_out else ""
    return AffectedCases(measured, left_out, note)


def tree_change(base: Revision, head: Revision) -> TreeChange:
    """Ask git how two commits differ, without detecting renames. Raises :class:`EnvironmentUnderTestError`."""
    options = ("--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "-z")
    try:
        git = Git(base.repo, Deadline.after(ASK_SECONDS))
        printed = git("diff", *options, base.sha, head.sha, "--")
    except GitError as error:
        msg = f"what {base.sha[:10]} and {head.sha[:10]} differ in cannot be told: {error}"
        raise EnvironmentUnderTestError(msg) from error
    fields = os.fsdecode(printed).split("\0")[:-1]
    whys = {path: _why_unknown(about, path) for about, path in zip(fields[::2], fields[1::2], strict=True)}
    return TreeChange(
        tuple(path for path, why in whys.items() if not why),
        tuple(f"{path} {why}" for path, why in whys.items() if why),
    )


def _why_unknown(about: str, path: str) -> str:
    old, new, _, _, status = about.removeprefix(":").split(" ")
    if status == "A":
        return "is new"
    if status == "D":
        return "is gone"
    if status != "M" or old != new or old not in PLAIN_FILES:
        return "changes its mode, or is a link or a submodule"
    return "" if path.endswith(FOLLOWED) else "changes, and who reads it is not known"


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


def _named(names: Sequence[str], between: str) -> str:
    more = len(names) - MOST_NAMED
    return between.join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
