"""The commits or nightlies that are searched, in order: pull requests, reverts, and how suspect each is beforehand.

The line runs along the first parents from bad to good. Where good came in by a merge and is no first parent of anything
on that line, it leaves the first parents at that merge, towards good: so good itself is always position 0, whatever is
measured against it holds it, and each step is the difference of one commit to one of its parents.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.revisions import Revision, find_revision, why_no_checkout
from torchperf_ci.errors import UsageError
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from torchperf_ci.environments.wheels import Nightly


@dataclass(frozen=True)
class Commit:
    """One commit. ``author`` is as ``.mailmap`` has it, ``date`` when it was committed (ISO 8601 with its zone).

    ``reverted`` is the SHA or the subject of a commit that it takes back, if it says so.
    """

    sha: str
    author: str
    date: str
    subject: str
    pull_request: int | None
    parents: tuple[str, ...]
    reverted: str = ""


_SQUASHED = re.compile(r"\(#([0-9]{1,9})\)\Z")
_MERGED = re.compile(r"\AMerge pull request #([0-9]{1,9}) from ")
_RESOLVED = re.compile(r"^Pull Request resolved: https://\S+/pull/([0-9]{1,9})\s*$", re.MULTILINE)


def pull_request_number(subject: str, body: str) -> int | None:
    """What GitHub put at the end of a squashed commit's ``subject`` or into a merge's, else PyTorch's trailer.

    In this order, because a cherry-pick keeps the trailer of the original. A number that is quoted, as in a revert's
    subject, is another commit's.
    """
    for pattern, text in ((_SQUASHED, subject), (_MERGED, subject), (_RESOLVED, body)):
        numbers = pattern.findall(text)
        if numbers:
            return int(numbers[-1])
    return None


_NAMED = re.compile(r"^This reverts commit ([0-9a-f]{7,64})\b", re.MULTILINE)
_QUOTED = re.compile(r'Revert "(.+)"')


def reverted_commit(subject: str, body: str) -> str:
    """The SHA that git and GitHub write into a revert's ``body``, else the subject that its own quotes, else ``""``."""
    if named := _NAMED.search(body):
        return named[1]
    quoted = _QUOTED.match(subject)
    return quoted[1] if quoted else ""


def find_reverts(commits: Sequence[Commit]) -> Mapping[int, int]:
    """For each commit that takes back an earlier one of ``commits``, both by their positions."""
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
    return commit.subject == named or (len(named) >= 7 and commit.sha.startswith(named))


HISTORY_SECONDS = 120.0
"""For all that is asked at once about the history of a large repository on a slow disk."""

_FIELDS = ("%H", "%aN", "%cI", "%P", "%s", "%b")


@dataclass(frozen=True)
class LinearHistory:
    """The good commit, and all suspects after it, oldest first; the last of them is the bad one."""

    repo: Path
    good: Commit
    suspects: tuple[Commit, ...]

    @property
    def commits(self) -> tuple[Commit, ...]:
        """All of them by their position: 0 is good, the last one bad."""
        return (self.good, *self.suspects)


def read_range(repo: Path, good: str, bad: str) -> LinearHistory:
    """The commits between two names (SHAs, branches, tags) of the checkout ``repo``.

    Raises :class:`UsageError` where one of them is unknown, no line of commits leads from good to bad, or the history
    that is here does not reach far enough.
    """
    if why := why_no_checkout(repo):
        msg = f"{why}: go to the checkout whose commits are the suspects, or name it with --repo"
        raise UsageError(msg)
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
    """What the merge at ``position`` (from 1) added to the commit before it, from where the two sides parted.

    None for what is no merge of two sides, and where the other side has nothing of its own.
    """
    before, merge = commits.commits[position - 1 : position + 1]
    others = set(merge.parents) - {before.sha}
    if len(merge.parents) != 2 or len(others) != 1:
        return None
    (other,) = others
    with _asking(commits.repo) as git:
        parted = _common_ancestor(git, before.sha, other)
        shas = _shas_between(git, parted, other) if parted else []
        return _history_of(git, shas) if shas else None


def path_changes(commits: LinearHistory) -> list[frozenset[str]]:
    """The paths that each suspect changed against the commit before it; of a renamed file, both."""
    steps = zip(commits.suspects, commits.commits, strict=False)  # the last commit is before nothing
    asked = "".join(f"{after.sha} {before.sha}\n" for after, before in steps)
    # A path follows a token with a colon, which no commit starts with: so a file named like a commit is no commit.
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
    try:
        yield Git(repo, Deadline.after(HISTORY_SECONDS))
    except GitError as error:
        msg = f"the history of {repo} cannot be read: {error}; see what `git fsck` says there"
        raise UsageError(msg) from error


def _find(git: Git, flag: str, name: str) -> str:
    revision, why_not = find_revision(name, git.folder)
    if revision is None:
        msg = (
            f"--{flag} {name!r} is no commit, branch or tag of {git.folder}: {why_not}; "
            "actions/checkout fetches all of them with `fetch-depth: 0`"
        )
        raise UsageError(msg)
    return revision.sha


def _shas_between(git: Git, good: str, bad: str) -> list[str]:
    """The line from good to bad, both included; empty where good is no ancestor of bad."""
    listed = git("rev-list", "--ancestry-path", "--parents", f"{good}..{bad}", "--").decode().splitlines()
    parents = {sha: before for sha, *before in map(str.split, listed)}
    if bad not in parents:
        return []
    line = [bad]
    while line[-1] != good:
        line.append(next(sha for sha in parents[line[-1]] if sha in parents or sha == good))
    return line[::-1]


def _relation(git: Git, good: str, bad: str) -> str:
    """How the two lie to each other, as good is no ancestor of bad, and what to do."""
    if git("rev-parse", "--is-shallow-repository").strip() == b"true":
        return (
            "this is a shallow clone, which lacks the commits between them: give actions/checkout `fetch-depth: 0`, "
            "or run `git fetch --unshallow`"
        )
    parted = _common_ancestor(git, good, bad)
    if parted == bad:
        return "good is newer than bad: swap them (where the newer one is the faster one, nothing got slower)"
    if parted:
        return f"they parted at {parted}: start there, with --good {parted[:10]}"
    return "they have no commit in common: name two commits of one history"


def _common_ancestor(git: Git, one: str, other: str) -> str | None:
    """Their newest common ancestor, if they have one."""
    try:
        return git("merge-base", one, other).decode().strip()
    except GitError:
        if not git.deadline.left:
            raise
        return None  # which git tells by its exit code only


def _history_of(git: Git, shas: Iterable[str]) -> LinearHistory:
    """The commits of a line, read at once. Whatever a message holds, NUL it cannot: so NUL parts everything."""
    form = "--format=" + "%x00".join(_FIELDS)
    options = ("--no-walk=unsorted", "--stdin", "-z", "--no-show-signature", "--encoding=UTF-8", form)
    told = git("log", *options, stdin="\n".join(shas).encode()).decode(errors="replace").split("\0")[:-1]
    good, *suspects = (_commit(*told[i : i + len(_FIELDS)]) for i in range(0, len(told), len(_FIELDS)))
    return LinearHistory(git.folder.absolute(), good, tuple(suspects))


def _commit(sha: str, author: str, date: str, parents: str, subject: str, body: str) -> Commit:
    number, taken_back = pull_request_number(subject, body), reverted_commit(subject, body)
    return Commit(sha, author, date, subject, number, tuple(parents.split()), taken_back)


FAVOUR = 10.0
"""How many times as suspect a commit is that changes what the user pointed at."""


def prior_weights(changed: Sequence[frozenset[str]], patterns: Sequence[str]) -> NDArray[np.float64]:
    """The prior probability of each suspect, shape (n,), from the paths that it ``changed``; they sum to 1.

    A pattern is a file, a directory, or a glob that, as in git's pathspecs, lets ``*`` stand for ``/``, too. The others
    keep at least 1 / FAVOUR of an equal share, so that no commit is ever ruled out by its paths. Nothing else counts: a
    revert is as suspect as any other commit.
    """
    favoured = [
        any(_matches_path(path, pattern) for path in paths for pattern in patterns) for paths in changed
    ]
    weight = np.where(np.asarray(favoured, dtype=bool), FAVOUR, 1.0)
    share: NDArray[np.float64] = weight / weight.sum()
    return share


def _matches_path(path: str, pattern: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(pattern)) or fnmatchcase(path, pattern)


Source = TypeVar("Source", bound="Revision | Nightly")


@dataclass(frozen=True)
class BuildSequence(Generic[Source]):
    """``sources`` by position; ``ids`` tell each to a program (a SHA, a version), ``labels`` to a person.

    ``weights`` are those of the suspects, which are all but the first. ``reverts`` are the positions of those that take
    back another one, and of that.
    """

    sources: Sequence[Source]
    ids: Sequence[str]
    labels: Sequence[str]
    weights: NDArray[np.float64]
    reverts: Mapping[int, int] = field(default_factory=dict)


def sequence_of_commits(commits: LinearHistory, paths: Sequence[str]) -> BuildSequence[Revision]:
    """The commits of a range; those that change one of ``paths`` are the more suspect."""
    sources = [Revision(commits.repo, commit.sha, commit.subject) for commit in commits.commits]
    count = len(commits.suspects)
    prior = prior_weights(path_changes(commits), paths) if paths else np.full(count, 1 / count)
    ids, labels = [source.sha for source in sources], [str(source) for source in sources]
    return BuildSequence(sources, ids, labels, prior, find_reverts(commits.commits))


def sequence_of_nightlies(nightlies: Sequence[Nightly]) -> BuildSequence[Nightly]:
    """Dated wheels, oldest first."""
    count = len(nightlies) - 1
    names = [str(nightly) for nightly in nightlies]
    return BuildSequence(
        nightlies, [nightly.version for nightly in nightlies], names, np.full(count, 1 / count)
    )
