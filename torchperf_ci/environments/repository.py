"""Commits of the user's repository, and detached worktrees of them that leave no trace."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.submodules import check_out_submodules
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK_SECONDS = 30.0
CHECKOUT_SECONDS = 600.0
"""For the files of a large repository on a slow disk."""
SUBMODULES_SECONDS = 1800.0
"""For all that have to be fetched."""

# A worktree of ours in its folder.
_OURS = re.compile(r"/torchperf-[^/]+/torchperf-[0-9a-f]{10}$")


@dataclass(frozen=True)
class Revision:
    """A commit of the repository that ``repo`` is a checkout of."""

    repo: Path
    sha: str
    subject: str

    def __str__(self) -> str:
        return f"{self.sha[:10]} {self.subject}".rstrip()


def find_revision(name: str, repo: Path) -> tuple[Revision | None, str]:
    """The commit that a SHA, a branch or a tag of ``repo`` names, else why there is none.

    A branch that was only fetched is found as well: on a runner, nothing but the commit under test is checked out.
    """
    if why_not := why_no_checkout(repo):
        return None, why_not
    git, why_not = _git(repo, ASK_SECONDS), ""
    for candidate in (name, f"origin/{name}"):
        try:
            sha = git("rev-parse", "--verify", "--end-of-options", f"{candidate}^{{commit}}").decode().strip()
            # The two dashes: a file may be called like a commit.
            told = git("log", "-1", "--no-show-signature", "--format=%s", sha, "--")
            subject = told.decode(errors="replace").strip()
        except GitError as error:
            why_not = why_not or str(error)
        else:
            return Revision(repo.absolute(), sha, subject), ""
    return None, f"{why_not} (a shallow checkout holds one commit only: fetch the others, too)"


def why_no_checkout(repo: Path) -> str:
    """Why git has no commits of the folder; empty where it is in a checkout, or is a repository itself."""
    if not repo.is_dir():
        return f"there is no directory {repo.absolute()}"
    try:
        _git(repo, ASK_SECONDS)("rev-parse", "--git-dir")
    except GitError as error:
        none = "not a git repository" in str(error)
        return f"{repo.absolute()} is in no git checkout" if none else str(error)
    return ""


@contextmanager
def worktree(revision: Revision, folder: Path) -> Iterator[Path]:
    """The files of a commit below ``folder``, which is one of :mod:`torchperf_ci.environments.scratch`.

    Where the user's checkout has submodules, it has them as well. git forgets it when the block ends, however it ends.
    Neither the checkout nor its index, stash and hooks are involved. Raises :class:`EnvironmentUnderTestError`.
    """
    tree = folder / f"torchperf-{revision.sha[:10]}"
    _forget_leftovers(revision.repo)
    try:
        _check_out(revision, tree)
        yield tree
    finally:
        _forget(_git(revision.repo, CHECKOUT_SECONDS), str(tree))


def _forget(git: Git, tree: str) -> None:
    # Twice: git locks a worktree while it makes it, and may have been interrupted just then.
    with suppress(GitError):
        git("worktree", "remove", "--force", "--force", tree)


def _forget_leftovers(repo: Path) -> None:
    """Have git forget the worktrees of runs that were killed.

    A run that goes on has the folder around its worktree from before git hears of it until after git has forgotten it.
    """
    git = _git(repo, ASK_SECONDS)
    with suppress(GitError):
        for line in git("worktree", "list", "--porcelain").splitlines():
            tree = os.fsdecode(line.removeprefix(b"worktree "))
            if _OURS.search(tree) and not Path(tree).parent.exists():
                _forget(git, tree)


def _check_out(revision: Revision, tree: Path) -> None:
    try:
        # In two steps, because the first one, which others must not find half done, then takes no time.
        git = _git(revision.repo, ASK_SECONDS)
        git("worktree", "add", "--no-checkout", "--detach", str(tree), revision.sha)
        _git(tree, CHECKOUT_SECONDS)("reset", "--hard", "--quiet")
        shared = git("rev-parse", "--git-common-dir").removesuffix(b"\n")
        known = revision.repo / os.fsdecode(shared) / "modules"
        if known.is_dir():
            check_out_submodules(_git(tree, SUBMODULES_SECONDS), known)
    except GitError as error:
        msg = f"{revision.sha[:10]} of {revision.repo} cannot be checked out: {error}"
        raise EnvironmentUnderTestError(msg) from error


def _git(folder: Path, seconds: float) -> Git:
    return Git(folder, Deadline.after(seconds))
