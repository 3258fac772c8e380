"""A repository that calls the nightly workflow, and nights in which it runs for real."""

from __future__ import annotations

import os
import shutil
import subprocess
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from act_runner import OURS, PROJECT, Act, Runner, copy_project, standing_in
from github_api import JOB, REPOSITORY, GitHub, Issue, running_github
from nightly_caller import TEMPLATE, git, make_caller

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

CALLED = ".github/workflows/benchmark.yml"


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
    toolkits: Path
    commits: Sequence[str]
    count: int = field(default=0)

    @property
    def caches(self) -> Path:
        """Where the caches of all nights are, by their keys."""
        return self.folder / "caches"

    def night(self, date: str, commit: str) -> Told:
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
            "TOOLKITS": self.toolkits,
            "TORCH": self.runner.torch,
            "NIGHT": date,
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
            f"--local-repository={OURS}={runner.project}",
            *standing_in(file.read_text() for file in (PROJECT / CALLED, TEMPLATE)),
            *(f"--platform={label}=-self-hosted" for label in ("small-cpu", "lost-cpu")),
            f"--secret=GITHUB_TOKEN={JOB}",
            *(f"--env={name}={value}" for name, value in environ.items()),
        )
        issues = deepcopy(list(self.github.issues.values()))
        comments = [comment.body for comment in self.github.comments.values()]
        return Told(act, issues, comments, artifacts)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a runner downloads of torchperf: its actions and the workflow that is called.

    ``act`` does not know ``$/``, which is the same repository at the same commit.
    """
    copy = tmp_path_factory.mktemp("project")
    copy_project(copy)
    called = copy / CALLED
    called.parent.mkdir(parents=True)
    name, _, ref = OURS.partition("@")
    called.write_text(
        "\n".join(
            f"{line.replace('uses: $', f'uses: {name}')}@{ref}" if "uses: $/" in line else line
            for line in (PROJECT / CALLED).read_text().splitlines()
        )
    )
    return copy


@pytest.fixture(scope="module")
def on_the_path(torch_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs that jobs find: a Python like that of PyTorch's, and a date that the test chooses."""
    programs = tmp_path_factory.mktemp("bin")
    date = programs / "date"
    date.write_text(
        f'#!/bin/sh\nif [ "$*" = "-u +%F" ]; then echo "$NIGHT"; else exec {shutil.which("date")} "$@"; fi\n'
    )
    date.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{torch_environment}/bin:{os.environ['PATH']}")
        yield


@pytest.fixture(scope="module")
def toolkits(project: Path, on_the_path: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toolkit as jobs install it, once for all of them: what that costs and does, other tests see."""
    folder = tmp_path_factory.mktemp("toolkits")
    output = folder / "output"
    environ = {**os.environ, "RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(output)}

    def run(script: str, **more: str) -> None:
        command = ["bash", str(project / "actions/setup" / script)]
        subprocess.run(command, env={**environ, **more}, check=True, timeout=600)

    run("find_python.sh")
    python = output.read_text().strip().removeprefix("python=")
    for extra in ("", "store"):
        run("install.sh", PYTHON=python, TORCHPERF_EXTRA=extra)
    return folder


@pytest.fixture(scope="module")
def nights(
    project: Path, toolkits: Path, torch_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nights]:
    """A repository before its first night."""
    folder = tmp_path_factory.mktemp("nights")
    commits = make_caller(folder / "smallnet")
    runner = Runner(folder / "smallnet", project, torch_environment, folder)
    with running_github() as github:
        yield Nights(runner, folder, github, toolkits, commits)
