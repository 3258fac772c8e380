"""Commits of the user's repository, and detached worktrees of them that leave no trace."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK_SECONDS = 30.0
CHECKOUT_SECONDS = 600.0
"""For the files of a large repository on a slow disk."""

# Nothing that the user has set for working by hand may act here: no hook, no clean-up in the background.
_PLAIN = (("core.hooksPath", "/dev/null"), ("gc.auto", "0"), ("maintenance.auto", "false"))


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
    if not repo.is_dir():
        return None, "there is no such directory"
    git, why_not = _git(repo, ASK_SECONDS), ""
    for candidate in (name, f"origin/{name}"):
        try:
            sha = git("rev-parse", "--verify", "--end-of-options", f"{candidate}^{{commit}}").decode().strip()
            subject = (
                git("log", "-1", "--no-show-signature", "--format=%s", sha).decode(errors="replace").strip()
            )
        except GitError as error:
            why_not = why_not or str(error)
        else:
            return Revision(repo.absolute(), sha, subject), ""
    return None, f"{why_not} (a shallow checkout holds one commit only: fetch the others, too)"


@contextmanager
def worktree(revision: Revision) -> Iterator[Path]:
    """The files of a commit in a folder of their own until the block ends, however it ends.

    Neither the user's checkout nor its index, stash and hooks are involved. Raises :class:`EnvironmentUnderTestError`.
    """
    with tempfile.TemporaryDirectory(prefix="torchperf-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder, f"torchperf-{revision.sha[:10]}")
        try:
            _check_out(revision, tree)
            yield tree
        finally:
            # Twice: git locks a worktree while it makes it, and may have been interrupted just then.
            with suppress(GitError):
                _git(revision.repo, ASK_SECONDS)("worktree", "remove", "--force", "--force", str(tree))


def _check_out(revision: Revision, tree: Path) -> None:
    try:
        # In two steps, because the first one, which others must not find half done, then takes no time.
        _git(revision.repo, ASK_SECONDS)(
            "worktree", "add", "--no-checkout", "--detach", str(tree), revision.sha
        )
        _git(tree, CHECKOUT_SECONDS)("reset", "--hard", "--quiet")
    except GitError as error:
        msg = f"{revision.sha[:10]} of {revision.repo} cannot be checked out: {error}"
        raise EnvironmentUnderTestError(msg) from error


def _git(folder: Path, seconds: float) -> Git:
    return Git(folder, Deadline.after(seconds), _PLAIN)
