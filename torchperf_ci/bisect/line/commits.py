"""The commits from good to bad in a line, each a child of the one before it, as git alone knows them.

The line runs along the first parents from bad to good. Where good came in by a merge and is no first parent of anything
on that line, it leaves the first parents at that merge, towards good: so good itself is always position 0, whatever is
measured against it holds it, and each step is the difference of one commit to one of its parents.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.bisect.line.commit import Commit
from torchperf_ci.bisect.line.pull_requests import pull_request
from torchperf_ci.bisect.line.reverts import reverted
from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.repository import find_revision, why_no_checkout
from torchperf_ci.errors import UsageError
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SECONDS = 120.0
"""For all that is asked at once about the history of a large repository on a slow disk."""

_FIELDS = ("%H", "%aN", "%cI", "%P", "%s", "%b")


@dataclass(frozen=True)
class Range:
    """The good commit, and all suspects after it, oldest first; the last of them is the bad one."""

    repo: Path
    good: Commit
    suspects: tuple[Commit, ...]

    @property
    def commits(self) -> tuple[Commit, ...]:
        """All of them by their position: 0 is good, the last one bad."""
        return (self.good, *self.suspects)


def read_range(repo: Path, good: str, bad: str) -> Range:
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
        shas = _line(git, first, last)
        if not shas:
            msg = f"--good {good} is not an ancestor of --bad {bad}: {_relation(git, first, last)}"
            raise UsageError(msg)
        return _range(git, shas)


def brought_in(commits: Range, position: int) -> Range | None:
    """What the merge at ``position`` (from 1) added to the commit before it, from where the two sides parted.

    None for what is no merge of two sides, and where the other side has nothing of its own.
    """
    before, merge = commits.commits[position - 1 : position + 1]
    others = set(merge.parents) - {before.sha}
    if len(merge.parents) != 2 or len(others) != 1:
        return None
    (other,) = others
    with _asking(commits.repo) as git:
        parted = _parted(git, before.sha, other)
        shas = _line(git, parted, other) if parted else []
        return _range(git, shas) if shas else None


def path_changes(commits: Range) -> list[frozenset[str]]:
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
        yield Git(repo, Deadline.after(SECONDS))
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


def _line(git: Git, good: str, bad: str) -> list[str]:
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
    parted = _parted(git, good, bad)
    if parted == bad:
        return "good is newer than bad: swap them (where the newer one is the faster one, nothing got slower)"
    if parted:
        return f"they parted at {parted}: start there, with --good {parted[:10]}"
    return "they have no commit in common: name two commits of one history"


def _parted(git: Git, one: str, other: str) -> str | None:
    """Their newest common ancestor, if they have one."""
    try:
        return git("merge-base", one, other).decode().strip()
    except GitError:
        if not git.deadline.left:
            raise
        return None  # which git tells by its exit code only


def _range(git: Git, shas: Iterable[str]) -> Range:
    """The commits of a line, read at once. Whatever a message holds, NUL it cannot: so NUL parts everything."""
    form = "--format=" + "%x00".join(_FIELDS)
    options = ("--no-walk=unsorted", "--stdin", "-z", "--no-show-signature", "--encoding=UTF-8", form)
    told = git("log", *options, stdin="\n".join(shas).encode()).decode(errors="replace").split("\0")[:-1]
    good, *suspects = (_commit(*told[i : i + len(_FIELDS)]) for i in range(0, len(told), len(_FIELDS)))
    return Range(git.folder.absolute(), good, tuple(suspects))


def _commit(sha: str, author: str, date: str, parents: str, subject: str, body: str) -> Commit:
    number, taken_back = pull_request(subject, body), reverted(subject, body)
    return Commit(sha, author, date, subject, number, tuple(parents.split()), taken_back)
