"""Repositories to set up."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Git = Callable[..., str]

COMMIT = "1" * 40


@dataclass(frozen=True)
class Newcomer:
    """Somebody who calls ``torchperf init`` in the repository ``folder``."""

    folder: Path
    git: Git
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def write(self, name: str, text: str = "") -> None:
        """A file of the repository."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def read(self, name: str) -> str:
        """What a file holds."""
        return (self.folder / name).read_text()

    def init(
        self, *arguments: str, below: str = ".", uses: str = f"octo/torchperf-ci@{COMMIT}"
    ) -> tuple[int, str]:
        """The exit code, and all that was said."""
        self.monkeypatch.chdir(self.folder / below)
        code = main(["init", *(["--uses", uses] if uses else []), *arguments])
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def written(self) -> dict[str, str]:
        """All files that git does not know, by their names."""
        names = self.git(self.folder, "ls-files", "--others", "-z").split("\0")
        return {name: self.read(name) for name in names if name}


@pytest.fixture
def newcomer(
    tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Newcomer:
    """In an empty repository with a remote."""
    folder = tmp_path / "smallnet"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(folder)], check=True, timeout=60)
    git(folder, "remote", "add", "origin", "git@github.com:octo/smallnet.git")
    return Newcomer(folder, git, monkeypatch, capsys)
