"""A user's repository in which every change that a command leaves behind is detected."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Git = Callable[..., str]


class Checkout:
    """A repository with two commits, work in progress, a stash, and hooks that tell when one runs."""

    def __init__(self, folder: Path, git: Git) -> None:
        self.folder, self._git = folder, git
        git(folder, "init", "--quiet", "--initial-branch=main")
        (folder / "colour.py").write_text("NAME = 'red'\n")
        self.first = self._commit("Say red")
        (folder / "colour.py").write_text("NAME = 'blue'\n")
        self.second = self._commit("Say blue")
        (folder / "colour.py").write_text("NAME = 'stashed'\n")
        git(folder, "stash", "--quiet")
        (folder / "colour.py").write_text("NAME = 'staged'\n")
        git(folder, "add", "colour.py")
        (folder / "colour.py").write_text("NAME = 'changed'\n")
        for name in ("post-checkout", "post-index-change", "reference-transaction"):
            hook = folder / ".git/hooks" / name
            hook.write_text(f"#!/bin/sh\ntouch {folder.parent}/hooked\n")
            hook.chmod(0o755)

    def _commit(self, subject: str) -> str:
        self._git(self.folder, "add", "--all")
        self._git(self.folder, "commit", "--quiet", "--message", subject)
        return self._git(self.folder, "rev-parse", "HEAD").strip()

    def state(self) -> list[str]:
        """All that a user could find changed, and whether a hook ran."""
        hooked = (self.folder.parent / "hooked").exists()
        questions = (
            "status --porcelain",
            "diff",
            "diff --cached",
            "stash list",
            "worktree list",
            "for-each-ref",
        )
        unhooked = ("-c", "core.hooksPath=/dev/null")
        answers = [self._git(self.folder, *unhooked, *question.split()) for question in questions]
        settings = (self.folder / ".git/config").read_text()
        files = sorted(str(path) for path in (self.folder / ".git").rglob("*"))
        return [*answers, settings, *files, f"hooked: {hooked}"]
