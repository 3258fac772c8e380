"""The actions, run for real by ``act`` on this machine, in a repository that uses them as people do."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from act_runner import HOSTILE, HOSTILE_NAME, Act, Runner

CALLER = Path(__file__).parent / "caller"


@pytest.fixture(scope="session")
def caller(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the project's files, for ``uses: ./…``, and a workflow that calls its actions."""
    copy = tmp_path_factory.mktemp("caller")
    shutil.copytree(project, copy, symlinks=True, dirs_exist_ok=True)
    shutil.copytree(CALLER, copy, dirs_exist_ok=True)
    workflows = copy / ".github" / "workflows"
    workflows.mkdir(exist_ok=True)
    for name in ("benchmarks.yml", "bisects.yml", "checks.yml", "compares.yml", "plans.yml", "uploads.yml"):
        (copy / name).rename(workflows / name)
    git = ("git", "-c", "user.name=caller", "-c", "user.email=caller@localhost", "-c", "commit.gpgsign=false")
    for step in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Benchmarks")):
        subprocess.run([*git, *step], cwd=copy, check=True, timeout=60)
    return copy


@pytest.fixture(scope="session")
def runner(
    caller: Path,
    project: Path,
    torch_environment: Path,
    toolkits: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Runner:
    """What runs workflows."""
    return Runner(caller, project, torch_environment, toolkits, tmp_path_factory.mktemp("act"))


@pytest.fixture(scope="session")
def benchmarks(runner: Runner) -> Act:
    """The caller's workflow that measures."""
    return runner.push("benchmarks")


@dataclass(frozen=True)
class Hostile:
    """The attack's words: free text with line ends, and a name for a file."""

    text: str = HOSTILE
    name: str = HOSTILE_NAME


@pytest.fixture(scope="session")
def hostile() -> Hostile:
    """What the attacker wrote."""
    return Hostile()
