"""Git histories made commit by commit, and bisected by calling the command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import cli
from torchperf_ci.bench import user_command
from torchperf_ci.culprits.culprit import read_culprits
from torchperf_ci.git import Git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchperf_ci.culprits.culprit import Bisection

PROGRAM = "cost.sh"
NOISY = "echo $(( {cost}000 + $$ * 7919 % 1000 ))\n"
"""Prints what its commit costs, times a thousand, with a noise of 0.3% where that is a hundred."""


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

    def costs(self, *costs: int | str) -> list[str]:
        """Commits whose program prints these numbers, or is these lines of a shell; the SHAs."""
        return [self.cost(cost, f"Change {number}") for number, cost in enumerate(costs)]

    def cost(self, cost: int | str, message: str, **more: str) -> str:
        """One such commit."""
        line = NOISY.format(cost=cost) if isinstance(cost, int) else f"{cost}\n"
        (self.folder / PROGRAM).write_text(line)
        return self.commit(message, **more)

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


class Bisecting:
    """Calls ``torchperf bisect`` in this process, on a history and with one file for all calls to tell in."""

    def __init__(self, folder: Path, repo: Path) -> None:
        self.out = folder / "culprits.json"
        self.state = folder / "culprits.state.jsonl"
        self.repo = repo

    def arguments(self, *arguments: str, command: str = f"sh {PROGRAM}") -> list[str]:
        measured = ["--command", command] if command else []
        return ["bisect", "--repo", str(self.repo), *measured, "--out", str(self.out), *arguments]

    def code(self, *arguments: str, command: str = f"sh {PROGRAM}") -> int:
        """What it exits with."""
        return cli.main(self.arguments(*arguments, command=command))

    def __call__(self, *arguments: str, command: str = f"sh {PROGRAM}", code: int = 0) -> Bisection:
        """What it finds; it must exit with ``code``."""
        assert self.code(*arguments, command=command) == code
        return read_culprits(self.out)


@pytest.fixture
def bisect(tmp_path: Path, history: History, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Bisecting:
    """What is planted is large, so that few runs a pair are enough.

    git is asked once for the settings of a folder, and not before each call as tests/test_git.py has it.
    """
    monkeypatch.setattr(user_command, "QUADS", 1)
    ask, listings = Git._listing, {}

    def listing(git: Git) -> bytes:
        if git.folder not in listings:
            listings[git.folder] = ask(git)
        return listings[git.folder]

    monkeypatch.setattr(Git, "_listing", listing)
    return Bisecting(tmp_path, history.folder)
