"""The commits or nightlies to search, in order: their pull requests, reverts, submodules and prior probabilities.

The history is linearized by following first parents from bad to good. If good was merged in and is not on the
first-parent line, the history leaves that line at the merge, towards good. So good is always position 0, every build
that is measured against it contains it, and each step is the difference between a commit and one of its parents.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.actions import one_line
from torchperf_ci.environments.revisions import (
    UNSHALLOW,
    Revision,
    find_revision,
    is_shallow,
    why_no_checkout,
)
from torchperf_ci.environments.wheels import Nightly
from torchperf_ci.errors import UsageError, failing_as
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Commit:
    """One commit. ``author`` is resolved by ``.mailmap``; ``date`` is the commit date in ISO 8601 with its time zone.

    ``title`` is that of its pull request, without the number. ``reverted`` is the SHA, subject or title of the commit
    that this one reverts, or empty.
    """

    sha: str
    author: str
    date: str
    subject: str
    pull_request: int | None
    parents: tuple[str, ...]
    reverted: str = ""
    title: str = ""


_SQUASHED = re.compile(r"\(#([0-9]{1,9})\)\Z")
_MERGED = re.compile(r"\AMerge pull request #([0-9]{1,9}) from ")
_RESOLVED = re.compile(r"^Pull Request resolved: https://\S+/pull/([0-9]{1,9})\s*$", re.MULTILINE)


def pull_request_number(subject: str, body: str) -> int | None:
    """The number that GitHub writes into the ``subject`` of a squash or merge commit, else that of PyTorch's trailer.

    The subject comes first because a cherry-pick keeps the trailer of the original. A quoted number, as in the
    subject of a revert, belongs to another commit and is ignored.
    """
    for pattern, text in ((_SQUASHED, subject), (_MERGED, subject), (_RESOLVED, body)):
        numbers = pattern.findall(text)
        if numbers:
            return int(numbers[-1])
    return None


def pull_request_title(subject: str, body: str) -> str:
    """The title that GitHub writes below the ``subject`` of a merge, and before the number in that of a squash."""
    return body.partition("\n")[0] if _MERGED.match(subject) else _SQUASHED.sub("", subject).rstrip()


_NAMED = re.compile(r"^This reverts commit ([0-9a-f]{7,64})\b", re.MULTILINE)
_QUOTED = re.compile(r'(?:Revert|Back out) "(.+)"')


def reverted_commit(subject: str, body: str) -> str:
    """The SHA in the ``body`` that git and GitHub write for a revert, else the quoted subject, else ``""``.

    What is taken back at Meta and exported from there, as to PyTorch, is called ``Back out "…"``.
    """
    if named := _NAMED.search(body):
        return named[1]
    quoted = _QUOTED.match(subject)
    return quoted[1] if quoted else ""


def find_reverts(commits: Sequence[Commit]) -> Mapping[int, int]:
    """Map the position of each revert to the position of the earlier commit in ``commits`` that it reverts."""
    found = {}
    for position, commit in enumerate(commits):
        if commit.reverted:
            earlier = (
                place for place in range(position - 1, -1, -1) if _is_named(commits[place], commit.reverted)
            )
            if (place := next(earlier, None)) is not None:
                found[position] = place
    return found


def _is_named(commit: Commit, named: str) -> bool:
    return named in (commit.subject, commit.title) or (len(named) >= 7 and commit.sha.startswith(named))


HISTORY_SECONDS = 120.0
"""Time limit for one group of git queries; enough for a large repository on a slow disk."""

_FIELDS = ("%H", "%aN", "%cI", "%P", "%s", "%b")


@dataclass(frozen=True)
class LinearHistory:
    """The good commit and all suspects after it, oldest first; the last suspect is the bad commit."""

    repo: Path
    good: Commit
    suspects: tuple[Commit, ...]

    @property
    def commits(self) -> tuple[Commit, ...]:
        """All commits by position: 0 is good, the last one is bad."""
        return (self.good, *self.suspects)


def read_range(repo: Path, good: str, bad: str) -> LinearHistory:
    """Read the commits between two names (SHAs, branches, tags) in the checkout ``repo``.

    Raises :class:`UsageError` if a name is unknown, good is not an ancestor of bad, or the clone does not contain
    enough history.
    """
    if why := why_no_checkout(repo):
        raise UsageError(why)
    with _asking(repo) as git:
        first, last = _find(git, "good", good), _find(git, "bad", bad)
        if first == last:
            msg = f"--good {good} and --bad {bad} are the same commit, {first[:10]}: there is nothing between them"
            raise UsageError(msg)
        shas = _shas_between(git, first, last)
        if not shas:
            msg = f"--good {good} is not an ancestor of --bad {bad}: {_relation(git, first, last)}"
            raise UsageError(msg)
        return _history_of(git, shas)


def brought_in(commits: LinearHistory, position: int) -> LinearHistory | None:
    """The commits that the merge at ``position`` (from 1) added to the commit before it, starting at their merge base.

    None if it added none. Raises :class:`UsageError` if they are no single range.
    """
    before, merge = commits.commits[position - 1 : position + 1]
    others = sorted({*merge.parents} - {before.sha})
    if not others:
        return None
    if len(others) > 1:
        msg = f"it merges {len(others)} branches at once: search each with --bad {' or '.join(others)}"
        raise UsageError(msg)
    with _asking(commits.repo) as git:
        parted = _common_ancestor(git, before.sha, others[0])
        if parted is None:
            msg = UNSHALLOW if is_shallow(git) else "they have no commit in common with those before it"
            raise UsageError(msg)
        shas = _shas_between(git, parted, others[0])
        return _history_of(git, shas) if shas else None


def path_changes(commits: LinearHistory) -> list[frozenset[str]]:
    """The paths that each suspect changed against the commit before it; for a renamed file, both names."""
    steps = zip(commits.suspects, commits.commits, strict=False)  # the last commit precedes no suspect
    asked = "".join(f"{after.sha} {before.sha}\n" for after, before in steps)
    # A token that starts with a colon precedes each path, so a file named like a SHA is not taken for a commit.
    options = ("--stdin", "-r", "-z", "--raw", "--no-renames")
    with _asking(commits.repo) as git:
        tokens = iter(os.fsdecode(git("diff-tree", *options, stdin=asked.encode())).split("\0"))
    changed: dict[str, set[str]] = {commit.sha: set() for commit in commits.suspects}
    paths: set[str] = set()
    for token in tokens:
        if token.startswith(":"):
            paths.add(next(tokens))
        elif token:
            paths = changed[token]
    return [frozenset(paths) for paths in changed.values()]


@contextmanager
def _asking(repo: Path) -> Iterator[Git]:
    before, after = f"the history of {repo} cannot be read: ", "; see what `git fsck` says there"
    with failing_as(UsageError, before, after, of=GitError):
        yield Git.within(HISTORY_SECONDS, repo)


def _find(git: Git, flag: str, name: str) -> str:
    revision, why_not = find_revision(name, git.folder)
    if revision is None:
        raise UsageError(f"--{flag} {name!r} is not a commit, branch or tag of {git.folder}: {why_not}")
    return revision.sha


def _shas_between(git: Git, good: str, bad: str) -> list[str]:
    """The SHAs from good to bad, both included; empty if good is not an ancestor of bad."""
    listed = git("rev-list", "--ancestry-path", "--parents", f"{good}..{bad}", "--").decode().splitlines()
    parents = {sha: before for sha, *before in map(str.split, listed)}
    if bad not in parents:
        return []
    line = [bad]
    while line[-1] != good:
        line.append(next(sha for sha in parents[line[-1]] if sha in parents or sha == good))
    return line[::-1]


def _relation(git: Git, good: str, bad: str) -> str:
    """Describe how the two commits are related, given that good is not an ancestor of bad, and what to do."""
    parted = _common_ancestor(git, good, bad)
    if parted == bad:
        return "good is newer than bad: swap them (where the newer one is the faster one, nothing got slower)"
    if is_shallow(git):
        return UNSHALLOW
    if parted:
        return f"they parted at {parted}: start there, with --good {parted[:10]}"
    return "they have no commit in common: name two commits of one history"


def _common_ancestor(git: Git, one: str, other: str) -> str | None:
    """The merge base of two commits, or None if they have no common ancestor."""
    try:
        return git("merge-base", one, other).decode().strip()
    except GitError:
        if not git.deadline.left:
            raise
        return None  # git reports a missing merge base only by its exit code


def _history_of(git: Git, shas: Iterable[str]) -> LinearHistory:
    """Read all commits of a line with one git command. Fields are separated by NUL, which no message contains."""
    form = "--format=" + "%x00".join(_FIELDS)
    options = ("--no-walk=unsorted", "--stdin", "-z", "--no-show-signature", "--encoding=UTF-8", form)
    log = git("log", *options, stdin="\n".join(shas).encode()).decode(errors="replace").split("\0")[:-1]
    good, *suspects = (_commit(*log[i : i + len(_FIELDS)]) for i in range(0, len(log), len(_FIELDS)))
    return LinearHistory(git.folder.absolute(), good, tuple(suspects))


def _commit(sha: str, author: str, date: str, parents: str, subject: str, body: str) -> Commit:
    number, title = pull_request_number(subject, body), pull_request_title(subject, body)
    return Commit(
        sha, author, date, subject, number, tuple(parents.split()), reverted_commit(title, body), title
    )


_GITLINK = "160000"
SUBMODULE_SECONDS = 30.0


def submodule_notes(repo: Path, before: str, sha: str) -> tuple[str, ...]:
    """One note for each submodule that the commit moves; none if the commit cannot be read.

    ``before`` is the commit before it in the range, which is one of its parents.
    """
    options = ("-r", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z")
    try:
        fields = Git.within(SUBMODULE_SECONDS, repo)("diff-tree", *options, before, sha, "--").split(b"\0")
    except GitError:
        return ()
    notes = []
    for about, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _ = about.decode().removeprefix(":").split(" ")
        if old_mode == new_mode == _GITLINK:
            name = one_line(os.fsdecode(path))
            notes.append(f"{sha[:10]} moves the submodule {name} from {old[:10]} to {new[:10]}")
    return tuple(notes)


FAVOUR = 10.0
"""How many times more suspect a commit is if it changes one of the paths that the user named."""


def prior_weights(changed: Sequence[frozenset[str]], patterns: Sequence[str]) -> NDArray[np.float64]:
    """The prior probability of each suspect, shape (n,), from the paths that it ``changed``; they sum to 1.

    A pattern is a file, a directory, or a glob in which ``*`` also matches ``/``, as in git's pathspecs. Suspects
    that match none keep at least 1 / FAVOUR of an equal share, so that paths never rule out a commit. Nothing else
    counts: a revert is as suspect as any other commit.
    """
    favoured = [
        any(_matches_path(path, pattern) for path in paths for pattern in patterns) for paths in changed
    ]
    weight = np.where(np.asarray(favoured, dtype=bool), FAVOUR, 1.0)
    share: NDArray[np.float64] = weight / weight.sum()
    return share


def _matches_path(path: str, pattern: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(pattern)) or fnmatchcase(path, pattern)


BuildSource = Revision | Nightly
"""What a build is made from."""


@dataclass(frozen=True)
class BuildSequence:
    """The builds to search, by position.

    ``weights`` are the prior probabilities of the suspects, which are all sources but the first. ``reverts`` maps the
    position of each revert to that of the commit it reverts.
    """

    sources: Sequence[BuildSource]
    weights: NDArray[np.float64]
    reverts: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def ids(self) -> Sequence[str]:
        """What identifies the builds for programs: a SHA or a version."""
        return [source.sha if isinstance(source, Revision) else source.version for source in self.sources]

    @cached_property
    def labels(self) -> Sequence[str]:
        """The names of the builds for people."""
        return [str(source) for source in self.sources]


def sequence_of_commits(commits: LinearHistory, paths: Sequence[str]) -> BuildSequence:
    """The commits of a range; those that change one of ``paths`` get a higher prior probability."""
    sources = [Revision(commits.repo, commit.sha, commit.subject) for commit in commits.commits]
    prior = prior_weights(path_changes(commits), paths) if paths else uniform(len(commits.suspects))
    return BuildSequence(sources, prior, find_reverts(commits.commits))


def uniform(suspects: int) -> NDArray[np.float64]:
    """The same prior probability for each of so many suspects."""
    return np.full(suspects, 1 / suspects)
