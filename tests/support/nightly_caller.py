"""A repository that calls the nightly workflow: somebody went through the lines of the template marked "edit"."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from copied import copied
from planted_changes import Revert, quadratic
from slowed_repository import make_repository

PROJECT = Path(__file__).parents[2]
TEMPLATE = PROJECT / "workflows-templates/nightly.yml"
FILES = PROJECT / "tests/e2e/caller"
CHANGES = {1: quadratic(), 2: Revert()}
COMMITS = 2
SLOW, MENDED = 1, 3
"""Where among its commits the one is that is slow, and the one that mends it."""


def make_caller(folder: Path) -> tuple[str, ...]:
    """Make a repository with the template, in which one commit is slow, and one mends that.

    All commits from the template on, oldest first. Up to the slow one, one of two kinds of runners is lost.
    """
    repository = make_repository(folder, CHANGES, COMMITS)
    git(folder, "reset", "--quiet", "--hard", repository.shas[0])
    workflow, config = folder / ".github/workflows/nightly.yml", folder / "torchperf.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(copied("workflows-templates/nightly.yml"))
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    text = config.read_text()
    config.write_text(text.replace("runners:\n", "runners:\n  lost: {labels: [lost-cpu], device: cpu}\n"))
    commit(folder, "Measure every night")
    _, slow, mended = repository.shas
    git(folder, "cherry-pick", slow)
    config.write_text(text)
    commit(folder, "Measure on one kind of runner")
    git(folder, "cherry-pick", mended)
    return tuple(git(folder, "rev-list", "--reverse", f"{repository.shas[0]}..HEAD").split())


def commit(folder: Path, subject: str) -> None:
    """Commit all that is in ``folder``."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", subject)


def git(folder: Path, *arguments: str) -> str:
    """What git prints, without the settings of whoever runs the tests."""
    own = ("-c", "user.name=smallnet", "-c", "user.email=smallnet@localhost", "-c", "commit.gpgsign=false")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *own, *arguments]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
