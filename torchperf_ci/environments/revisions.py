"""Commits of the user's repository, and worktrees of them with their submodules, in folders that leave no trace."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.git import Git, GitError
from torchperf_ci.records.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


PREFIX = "torchperf-"
_OWNER = "owner"


@contextmanager
def scratch_folder(longer: int = 0) -> Iterator[Path]:
    """A new folder where temporary files go (``TMPDIR``), and gone after the block; ``longer`` is for its name.

    Those of runs that were killed go first: builds are large, and a runner may live for years.
    """
    _remove_leftovers(Path(tempfile.gettempdir()))
    prefix = PREFIX + "x" * longer
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name,
        _owning(Path(name)) as folder,
    ):
        yield folder


def disk_size(folder: Path) -> int:
    """The bytes that all files below take on the disk; a file with several names counts once."""
    found = [Path(parent, name).lstat() for parent, _, names in os.walk(folder) for name in names]
    return 512 * sum({status.st_ino: status.st_blocks for status in found}.values())


@contextmanager
def _owning(folder: Path) -> Iterator[Path]:
    """Hold a lock in the folder, which the kernel opens when this process ends, in whatever way."""
    unlocked = folder / "unlocked"
    with unlocked.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(folder / _OWNER)  # nobody sees it before it is locked
        yield folder


def _remove_leftovers(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # where it is locked, or was removed by another process just now
            _remove_leftover(folder)


def _remove_leftover(folder: Path) -> None:
    """Others write there, too: only a folder of this user's with a plain file in it is one of ours."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    with open_regular(folder / _OWNER) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


_GITLINK = b"160000"


def check_out_submodules(git: Git, known: Path) -> None:
    """Fill the submodules of the worktree that ``git`` is in, and theirs; raises :class:`GitError`.

    ``known`` has the repositories of those that the user's checkout has: what they hold is not fetched again. Nothing
    is written there, nor into the user's configuration, as ``git submodule init`` would.
    """
    # All are wanted, whichever the checkout has: an earlier commit may have had others.
    active = replace(git, settings=(*git.settings, ("submodule.active", ".")))
    names = _submodule_names(git)
    for path in _gitlinks(git):
        if path not in names:
            continue  # a repository that was added by mistake: git does not know where it is from, either
        source = known / names[path]
        active("submodule", "update", "--quiet", "--checkout", *_clone_options(source), "--", path)
        check_out_submodules(replace(git, folder=git.folder / path), source / "modules")


def _clone_options(source: Path) -> tuple[str, str]:
    """How to get a submodule: git borrows objects only from a repository that lacks none."""
    whole = (source / "objects").is_dir() and not (source / "shallow").exists()
    return ("--reference", str(source)) if whole else ("--depth", "1")


def _gitlinks(git: Git) -> list[str]:
    """The paths at which the index has a commit of another repository."""
    entries = (entry.partition(b"\t") for entry in git("ls-files", "--stage", "-z").split(b"\0"))
    return [os.fsdecode(path) for about, _, path in entries if about.startswith(_GITLINK)]


def _submodule_names(git: Git) -> Mapping[str, str]:
    """Of the submodules, by their paths."""
    if not (git.folder / ".gitmodules").is_file():
        return {}
    settings = git("config", "--file", ".gitmodules", "--list", "-z").split(b"\0")
    pairs = (os.fsdecode(setting).partition("\n") for setting in settings)
    return {
        value: key.removeprefix("submodule.").removesuffix(".path")
        for key, _, value in pairs
        if key.startswith("submodule.") and key.endswith(".path")
    }


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
    """The files of a commit below ``folder``, which is one of :mod:`torchperf_ci.environments.revisions`.

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
