"""The submodules of a worktree."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchperf_ci.git import Git

_GITLINK = b"160000"


def check_out_submodules(git: Git, known: Path) -> None:
    """Fill the submodules of the worktree that ``git`` is in, and theirs; raises :class:`GitError`.

    ``known`` has the repositories of those that the user's checkout has: what they hold is not fetched again. Nothing
    is written there, nor into the user's configuration, as ``git submodule init`` would.
    """
    # All are wanted, whichever the checkout has: an earlier commit may have had others.
    active = replace(git, settings=(*git.settings, ("submodule.active", ".")))
    names = _names(git)
    for path in _gitlinks(git):
        if path not in names:
            continue  # a repository that was added by mistake: git does not know where it is from, either
        source = known / names[path]
        active("submodule", "update", "--quiet", "--checkout", *_from(source), "--", path)
        check_out_submodules(replace(git, folder=git.folder / path), source / "modules")


def _from(source: Path) -> tuple[str, str]:
    """How to get a submodule: git borrows objects only from a repository that lacks none."""
    whole = (source / "objects").is_dir() and not (source / "shallow").exists()
    return ("--reference", str(source)) if whole else ("--depth", "1")


def _gitlinks(git: Git) -> list[str]:
    """The paths at which the index has a commit of another repository."""
    entries = (entry.partition(b"\t") for entry in git("ls-files", "--stage", "-z").split(b"\0"))
    return [os.fsdecode(path) for about, _, path in entries if about.startswith(_GITLINK)]


def _names(git: Git) -> Mapping[str, str]:
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
