"""Histories that are made commit by commit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class History:
    """A repository in which every commit changes files of its own, so that all merges succeed."""

    def __init__(self, folder: Path, git: Callable[..., str]) -> None:
        self.folder, self._git, self._commits = folder, git, 0
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        return self._git(self.folder, *arguments).strip()

    def commit(self, message: str, *paths: str, author: str = "Ada <ada@a.invalid>") -> str:
        """Commit a change of ``paths``, or of a file that is named by how many were made before; its SHA."""
        for path in paths or (str(self._commits),):
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(os.fsencode(message))
        self.git("add", "--all")
        return self._committed(
            "commit", "--quiet", "--allow-empty", f"--author={author}", "--message", message
        )

    def merge(self, *others: str, message: str = "Merge") -> str:
        return self._committed("merge", "--quiet", "--no-ff", "--message", message, *others)

    def start(self, branch: str, at: str) -> None:
        """Go on with a new branch from the commit ``at``."""
        self.git("switch", "--quiet", "--create", branch, at)

    def go_to(self, branch: str) -> None:
        self.git("switch", "--quiet", branch)

    def _committed(self, *arguments: str) -> str:
        self.git(*arguments)
        self._commits += 1
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path: Path, git: Callable[..., str]) -> History:
    folder = tmp_path / "repo with a space"
    folder.mkdir()
    return History(folder, git)
