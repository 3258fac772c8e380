"""Which cases a change can touch: those that read a file that it changes, and all of them where nobody knows.

A case is left out only where all is known: its process at base read none of the files that differ, so that at head it
does the same, step for step. Known is what changes the content of a file that only Python reads, and, of PyTorch's own
tree, of operators' sources (:mod:`torchperf_ci.compare.touched_operators`): its process ran none of these operators.
Whatever else changes (a file that is new or gone, what a build or another library reads, a submodule) may touch every
case.
"""

from __future__ import annotations

import os
import unicodedata
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from torchperf_ci.bench.files_read import FilesRead, files_read, unbuilt_devices
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.compare.pytorch_sources import UnknownEffectError
from torchperf_ci.compare.touched_operators import ChangedOperators, changed_operators
from torchperf_ci.console import Progress
from torchperf_ci.deadline import Deadline
from torchperf_ci.document import counted
from torchperf_ci.environments.revisions import ASK_SECONDS, Revision
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError
from torchperf_ci.git import Git, GitError
from torchperf_ci.metrics import LATENCY
from torchperf_ci.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.compare.case_verdicts import SeriesNaming
    from torchperf_ci.compare.compared_builds import ComparedBuild


FOLLOWED = (".py", ".md", ".rst")
"""Endings of files that nothing but Python reads: whatever opens them is seen."""
PLAIN_FILES = ("100644", "100755")
"""How git calls the mode of what is no link and no submodule."""
MOST_NAMED = 3
TWO_COMMITS = "--affected looks at what two commits differ in: give commits with --base and --head"


@dataclass(frozen=True)
class TreeChange:
    """What two commits differ in: paths whose content alone changes, and why anything else may touch every case."""

    contents: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def followed(self) -> tuple[str, ...]:
        """The paths whose readers can be followed."""
        return tuple(path for path in self.contents if PurePosixPath(path).suffix in FOLLOWED)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Why any case may be touched, where nothing is built."""
        known = {*self.followed}
        why = (
            f"{path} changes, and who reads it is not known" for path in self.contents if path not in known
        )
        return (*why, *self.others)


@dataclass(frozen=True)
class AffectedCases:
    """The cases to measure, verdicts on those that are left out, and what a reader must know of the choice."""

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
    """Trace each case at base, and leave out those that nothing of head's can touch.

    ``built`` says that the commits are installed by a build. Raises :class:`UsageError` where not both are commits.
    """
    if not (isinstance(base.spec, Revision) and isinstance(head.spec, Revision)):
        raise UsageError(TWO_COMMITS)
    change = tree_change(base.spec, head.spec)
    try:
        if built and cases:
            readers: Readers | ChangedOperators = _in_build(base, head.spec, change, cases[0], scratch)
        else:
            readers = _in_checkout(base, base.spec.repo, change)
    except UnknownEffectError as unknown:
        return AffectedCases(cases, note=f"everything is measured: {unknown}")
    measured: list[Case] = []
    left_out: list[Verdict] = []
    with closing(Progress(len(cases))) as shown:
        for number, case in enumerate(cases, 1):
            shown.begins(f"what {case} {'runs' if built else 'reads'}")
            try:
                why = readers.by(case, base.settings, scratch / "trace")
            except WorkerFailure as failure:
                why = str(failure)
            if why:
                measured.append(case)
            else:
                left_out.append(Verdict(naming(case, LATENCY), "not-affected", readers.why_not))
            shown.ended(f"{case}: {why or 'not affected'}", number)
    note = f"{counted(len(left_out), 'case')} not measured: {readers.why_not}" if left_out else ""
    return AffectedCases(measured, left_out, note)


@dataclass(frozen=True)
class Readers:
    """Cases that read one of the paths below one of the roots."""

    changed: Sequence[str]
    roots: Sequence[Path]

    @property
    def why_not(self) -> str:
        """The reason why a case is not affected."""
        if not self.changed:
            return "the commits do not differ"
        return f"at base it reads none of the files that change: {_named(self.changed, ', ')}"

    def by(self, case: Case, settings: Settings, scratch: Path) -> str:
        """Why the case may be touched; raises :class:`WorkerFailure`."""
        return why_affected(files_read(case, settings, scratch), self.changed, self.roots)


def _in_checkout(base: ComparedBuild, repo: Path, change: TreeChange) -> Readers:
    if change.unknown:
        raise UnknownEffectError(_named(change.unknown, "; "))
    return Readers(change.followed, [Path(base.settings.path[-1]), _checkout(repo)])


def _in_build(
    base: ComparedBuild, head: Revision, change: TreeChange, case: Case, scratch: Path
) -> ChangedOperators:
    """Raises :class:`UnknownEffectError` where the sources that change are not of PyTorch's operators alone."""
    if change.others or not isinstance(base.spec, Revision):
        raise UnknownEffectError(_named(change.others, "; "))
    try:
        unbuilt = unbuilt_devices(case, base.settings, scratch / "trace")
        return changed_operators(_git(base.spec.repo), base.spec, head, change.contents, unbuilt)
    except (GitError, WorkerFailure) as error:
        raise UnknownEffectError(str(error)) from error


def tree_change(base: Revision, head: Revision) -> TreeChange:
    """From git, which looks for no renames; raises :class:`EnvironmentUnderTestError`."""
    options = ("--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "-z")
    try:
        printed = _git(base.repo)("diff", *options, base.sha, head.sha, "--")
    except GitError as error:
        msg = f"what {base.sha[:10]} and {head.sha[:10]} differ in cannot be told: {error}"
        raise EnvironmentUnderTestError(msg) from error
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
        return "is another kind of file now, or a submodule"
    return ""


def why_affected(read: FilesRead, changed: Iterable[str], roots: Sequence[Path]) -> str:
    """Why a change of these paths below any of the roots may touch a case; empty where it cannot.

    Letters of either case are the same, and composed characters are what they are made of: so file systems see them.
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


def _checkout(repo: Path) -> Path:
    """The top of the user's checkout: a suite file may lie there, which both sides read."""
    try:
        return Path(os.fsdecode(_git(repo)("rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except GitError:  # a repository without any files
        return repo


def _git(repo: Path) -> Git:
    return Git(repo, Deadline.after(ASK_SECONDS))


def _named(names: Sequence[str], between: str) -> str:
    more = len(names) - MOST_NAMED
    return between.join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
