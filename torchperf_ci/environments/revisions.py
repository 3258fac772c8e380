"""Commits of the user's repository, their worktrees and submodules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError
from torchperf_ci.git import Git, GitError
from torchperf_ci.scratch import refuse_full_disk

_GITLINK = b"160000"


def check_out_submodules(git: Git, known: Path) -> None:
    """Check out the submodules of the worktree that ``git`` is in, recursively; raises :class:`GitError`.

    ``known`` contains the repositories of the submodules that the user's checkout has; their objects are not fetched
    again. Nothing is written there, nor to the user's configuration, as ``git submodule init`` would do.
    """
    # Activate all submodules, not only those of the checkout: an earlier commit may have had others.
    active = replace(git, settings=(*git.settings, ("submodule.active", ".")))
    names = _submodule_names(git)
    for path, sha in _gitlinks(git).items():
        if path not in names:
            continue  # a repository that was added by mistake: .gitmodules has no URL for it
        source = known / names[path]
        local = replace(active, settings=(*active.settings, *_local_settings(git, names[path], source, sha)))
        # Borrow the objects of the source, which must be complete, or else make a shallow clone.
        how = ("--reference", str(source)) if _is_whole(source) else ("--depth", "1")
        local("submodule", "update", "--quiet", "--checkout", *how, "--", path)
        check_out_submodules(replace(git, folder=git.folder / path), source / "modules")


def _local_settings(git: Git, name: str, source: Path, sha: str) -> Sequence[tuple[str, str]]:
    """Settings with which a submodule is cloned from ``source``, and not over the network, if that has the commit."""
    if not _is_whole(source):
        return ()
    try:
        mine = replace(git, folder=source)
        mine("cat-file", "-e", f"{sha}^{{commit}}")
        url = os.fsdecode(mine("config", "remote.origin.url").removesuffix(b"\n"))
    except (GitError, OSError):
        return ()
    return (
        (f"submodule.{name}.url", url),
        (f"url.{source.as_uri()}.insteadOf", url),
        ("protocol.file.allow", "always"),
    )


def _is_whole(source: Path) -> bool:
    """Whether a repository exists and is neither a shallow nor a partial clone."""
    is_partial = any(source.glob("objects/pack/*.promisor"))
    return (source / "objects").is_dir() and not (source / "shallow").exists() and not is_partial


def _gitlinks(git: Git) -> Mapping[str, str]:
    """The paths of submodules in the index, with their commits."""
    entries = (entry.partition(b"\t") for entry in git("ls-files", "--stage", "-z").split(b"\0"))
    return {
        os.fsdecode(path): about.split(b" ")[1].decode()
        for about, _, path in entries
        if about.startswith(_GITLINK)
    }


def _submodule_names(git: Git) -> Mapping[str, str]:
    """The names of the submodules by path."""
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
"""Time limit for checking out a large repository on a slow disk."""
SUBMODULES_SECONDS = 1800.0
"""Time limit for fetching all submodules."""

# The path of one of our worktrees, in its scratch folder.
_OURS = re.compile(r"/torchperf-[^/]+/torchperf-[0-9a-f]{10}$")


@dataclass(frozen=True)
class Revision:
    """A commit of the repository of the checkout ``repo``."""

    repo: Path
    sha: str
    subject: str

    def __str__(self) -> str:
        return f"{self.sha[:10]} {self.subject}".rstrip()


_RANGE = re.compile(r"^\^|\.\.|\^[@!-]")
"""What git takes for several commits, or for commits to leave out."""


def find_revision(name: str, repo: Path) -> tuple[Revision | None, str]:
    """The commit that a SHA, a branch or a tag of ``repo`` names, or None and the reason why there is none.

    Branches that were only fetched are found, too: on a runner, only the commit under test is checked out. Raises
    :class:`UsageError` for the name of a branch and of a tag that are two commits: git would take the tag.
    """
    if why_not := why_no_checkout(repo):
        return None, why_not
    git, why_not = Git.within(ASK_SECONDS, repo), ""
    _check_is_one_commit(name, git)
    for candidate in () if name.startswith("^") else (name, f"origin/{name}"):
        try:
            # A name such as ":/text" takes all that follows it, so "^{commit}" comes after the SHA.
            named = git("rev-parse", "--verify", "--end-of-options", candidate).decode().strip()
            peeled = f"{named}^{{commit}}"
            output = git(
                "log", "-1", "--no-show-signature", "--encoding=UTF-8", "--format=%H %s", peeled, "--"
            )
            sha, _, subject = output.decode(errors="replace").strip().partition(" ")
        except GitError as error:
            why_not = why_not or str(error)
        else:
            return Revision(repo.absolute(), sha, subject.strip()), ""
    if _RANGE.search(name):
        return None, "git reads it as a range or as commits to leave out: name the one commit that you mean"
    if "Needed a single revision" in why_not or "bad revision" in why_not:
        why_not = "git knows no commit of this name"
    advice = UNSHALLOW if is_shallow(git) else "if another clone has it, `git fetch` it first"
    return None, f"{why_not}; {advice}"


UNSHALLOW = (
    "this is a shallow clone, which lacks older commits: give actions/checkout `fetch-depth: 0`, "
    "or run `git fetch --unshallow`"
)


def is_shallow(git: Git) -> bool:
    """Whether the repository lacks commits because it was cloned with a depth."""
    with suppress(GitError):
        return git("rev-parse", "--is-shallow-repository").strip() == b"true"
    return False


def _check_is_one_commit(name: str, git: Git) -> None:
    commits = set()
    for kind in ("heads", "tags"):
        with suppress(GitError):
            commits.add(git("rev-parse", "--verify", "--quiet", f"refs/{kind}/{name}^{{commit}}"))
    if len(commits) > 1:
        msg = f"{name!r} is a branch and a tag, of two commits: write refs/heads/{name} or refs/tags/{name}"
        raise UsageError(msg)


def why_no_checkout(repo: Path) -> str:
    """Why git finds no repository in the folder, and what to do; empty if it finds one."""
    why = f"there is no directory {repo.absolute()}"
    if repo.is_dir():
        try:
            Git.within(ASK_SECONDS, repo)("rev-parse", "--git-dir")
        except GitError as error:
            if "not a git repository" not in str(error):
                return str(error)  # another folder would not help, and what does ends the message
            why = f"{repo.absolute()} is in no git checkout"
        else:
            return ""
    return f"{why}: go to the checkout that has the commits, or name it with --repo"


_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".f90", ".h", ".hpp", ".mm", ".pyx", ".rs")
"""Suffixes of files that have to be compiled."""


def uncompiled_note(old: object, new: object) -> str:
    """Say that two commits which are imported as they are differ in sources that have to be compiled; else empty."""
    if not (isinstance(old, Revision) and isinstance(new, Revision)):
        return ""
    try:
        listed = Git.within(ASK_SECONDS, old.repo)(
            "diff-tree", "-r", "--name-only", "--no-renames", "-z", old.sha, new.sha, "--"
        )
    except GitError:
        return ""
    sources = [name for name in os.fsdecode(listed).split("\0") if name.endswith(_SOURCES)]
    if not sources:
        return ""
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return (
        f"⚠ {sources[0]}{more} changed, and no --build compiles it: what is compiled and imported from elsewhere is "
        "the same for every commit; say with --build how a commit is installed"
    )


def top_of_checkout(repo: Path) -> Path | None:
    """The folder of the checkout that ``repo`` is in, without links; None if it is in none."""
    try:
        top = Git.within(ASK_SECONDS, repo)("rev-parse", "--show-toplevel")
    except GitError:
        return None
    return Path(os.fsdecode(top.removesuffix(b"\n"))).resolve()


@contextmanager
def worktree(revision: Revision, folder: Path) -> Iterator[Path]:
    """Check out a commit below ``folder``, which is a :func:`scratch_folder`, for the duration of the block.

    It includes the submodules if the user's checkout has any. git forgets the worktree however the block ends. The
    checkout, its index, stash and hooks are not involved. Raises :class:`EnvironmentUnderTestError`.
    """
    tree = folder / f"torchperf-{revision.sha[:10]}"
    _forget_leftovers(revision.repo)
    try:
        _check_out(revision, tree)
        yield tree
    finally:
        with suppress(OSError):  # git forgets what is missing, whatever a build has done to the files
            tree.rename(folder / "forgotten")
        _forget(Git.within(CHECKOUT_SECONDS, revision.repo), str(tree))


def _forget(git: Git, tree: str) -> None:
    # --force twice, to remove also a locked worktree: git may have been interrupted while creating it.
    with suppress(GitError):
        git("worktree", "remove", "--force", "--force", tree)


def _forget_leftovers(repo: Path) -> None:
    """Make git forget the worktrees of runs that were killed.

    The worktree of a running process is safe, because its scratch folder exists before git knows of the worktree and
    until after git has forgotten it.
    """
    git = Git.within(ASK_SECONDS, repo)
    with suppress(GitError):
        for line in git("worktree", "list", "--porcelain").splitlines():
            tree = os.fsdecode(line.removeprefix(b"worktree "))
            if _OURS.search(tree) and not Path(tree).parent.exists():
                _forget(git, tree)


def _check_out(revision: Revision, tree: Path) -> None:
    try:
        # Two steps, so that the first, which other processes must not see half done, takes almost no time.
        git = Git.within(ASK_SECONDS, revision.repo)
        git("worktree", "add", "--no-checkout", "--detach", str(tree), revision.sha)
        whole = ("core.sparseCheckout", "false")  # a new worktree has the patterns of a sparse checkout
        Git(tree, Deadline.after(CHECKOUT_SECONDS), [whole])("reset", "--hard", "--quiet")
        asked = git("rev-parse", "--git-dir", "--git-common-dir")  # a linked worktree may have its own
        folders = (git.folder / os.fsdecode(line) / "modules" for line in asked.splitlines())
        if known := next(filter(Path.is_dir, folders), None):
            check_out_submodules(Git.within(SUBMODULES_SECONDS, tree), known)
    except GitError as error:
        msg = f"{revision.sha[:10]} of {revision.repo} cannot be checked out: {error}"
        refuse_full_disk(msg)
        raise EnvironmentUnderTestError(msg) from error
