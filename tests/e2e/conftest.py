"""A repository that calls the nightly workflow, and nights in which it runs for real."""

from __future__ import annotations

import os
import shutil
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from act_runner import PROJECT, Act, Runner, standing_in
from github_api import JOB, REPOSITORY, GitHub, Issue, running_github
from nightly_caller import TEMPLATE, git, make_caller
from toolkits import CALLED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Told:
    """What a night left: the jobs' ends, the issues as they were then, and where its artifacts are."""

    act: Act
    issues: Sequence[Issue]
    comments: Sequence[str]
    artifacts: Path


@dataclass
class Nights:
    """A repository with the nightly, its GitHub, and all that a night leaves for the next one.

    ``commits`` are those of the default branch, oldest first.
    """

    runner: Runner
    folder: Path
    github: GitHub
    commits: Sequence[str]
    count: int = field(default=0)

    @property
    def caches(self) -> Path:
        """Where the caches of all nights are, by their keys."""
        return self.folder / "caches"

    def night(self, date: str, commit: str, processes: int = 1) -> Told:
        """Run the whole night of ``date`` (ISO), after ``commit`` was pushed."""
        self.count += 1
        artifacts = self.folder / f"artifacts-{self.count}"
        for folder in (artifacts, self.caches):
            folder.mkdir(exist_ok=True)
        git(self.runner.caller, "reset", "--quiet", "--hard", commit)
        environ = {
            "ARTIFACTS": artifacts,
            "CACHES": self.caches,
            "ORIGIN": self.runner.caller,
            "TORCH": self.runner.torch,
            "LINKED_PIP": "1",
            "PROCESSES": processes,
            "NIGHT": date,
            "REPEATED_PAIRS": "1",
            "GITHUB_API_URL": self.github.url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": 1000 + self.count,
        }
        runner = replace(self.runner, folder=self.folder / f"night-{self.count}")
        act = runner.run(
            "schedule",
            {"schedule": "23 3 * * *", "repository": {"full_name": REPOSITORY, "default_branch": "main"}},
            "nightly",
            "--no-skip-checkout",
            *standing_in(file.read_text() for file in (PROJECT / CALLED, TEMPLATE)),
            *(f"--platform={label}=-self-hosted" for label in ("small-cpu", "lost-cpu")),
            f"--secret=GITHUB_TOKEN={JOB}",
            *(f"--env={name}={value}" for name, value in environ.items()),
        )
        issues = deepcopy(list(self.github.issues.values()))
        comments = [comment.body for comment in self.github.comments.values()]
        return Told(act, issues, comments, artifacts)


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A program that jobs find: a date that the test chooses."""
    programs = tmp_path_factory.mktemp("bin")
    date = programs / "date"
    date.write_text(
        f'#!/bin/sh\nif [ "$*" = "-u +%F" ]; then echo "$NIGHT"; else exec {shutil.which("date")} "$@"; fi\n'
    )
    date.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        yield


@pytest.fixture(scope="module")
def nights(
    project: Path,
    toolkits: Path,
    torch_environment: Path,
    dated: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Nights]:
    """A repository before its first night."""
    folder = tmp_path_factory.mktemp("nights")
    commits = make_caller(folder / "smallnet")
    runner = Runner(folder / "smallnet", project, torch_environment, toolkits, folder)
    with running_github() as github:
        yield Nights(runner, folder, github, commits)
