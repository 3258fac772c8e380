"""Say which commits of a submodule a culprit brought in, where the checkout has them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.deadline import Deadline
from torchperf_ci.document import counted
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_GITLINK = "160000"
_SECONDS = 30.0
MOST_COMMITS = 20
"""Most commits of a submodule that are listed."""
_SUBJECT_LENGTH = 100


def submodule_notes(repo: Path, sha: str) -> tuple[str, ...]:
    """One note for each submodule that the commit moves; none if the commit cannot be read."""
    try:
        moves = list(_moves(Git(repo, Deadline.after(_SECONDS)), sha))
    except GitError:
        return ()
    return tuple(_note(repo, sha, path, old, new) for path, old, new in moves)


def _moves(git: Git, sha: str) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each submodule that the commit moves, and its commits before and after."""
    options = ("-r", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z")
    fields = git("diff-tree", *options, f"{sha}^1", sha, "--").split(b"\0")
    for about, path in zip(fields[::2], fields[1::2], strict=False):
        before, after, old, new, _ = about.decode().removeprefix(":").split(" ")
        if before == after == _GITLINK:
            yield os.fsdecode(path), old, new


def _note(repo: Path, sha: str, path: str, old: str, new: str) -> str:
    moved = f"{sha[:10]} moves the submodule {one_line(path)} from {old[:10]} to {new[:10]}"
    commits = _commits_between(repo / path, old, new)
    if commits is None:
        return f"{moved}; git submodule update --init brings the commits between them"
    if not commits:
        return f"{moved}, which has no commit that the former lacks"
    listed = "; ".join(one_line(commit)[:_SUBJECT_LENGTH] for commit in commits[:MOST_COMMITS])
    more = f"; and {len(commits) - MOST_COMMITS} more" if len(commits) > MOST_COMMITS else ""
    return f"{moved}, {counted(len(commits), 'commit')}: {listed}{more}"


def _commits_between(folder: Path, old: str, new: str) -> list[str] | None:
    """Return short hash and subject of each commit, the newest first; None if the submodule does not have them."""
    if not (folder / ".git").exists():
        return None
    options = ("-z", "--no-show-signature", "--encoding=UTF-8", "--format=%h %s")
    try:
        listed = Git(folder, Deadline.after(_SECONDS))("log", *options, f"{old}..{new}", "--")
    except GitError:
        return None
    return listed.decode(errors="replace").split("\0")[:-1]
