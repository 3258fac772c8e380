"""The actions, run for real by ``act`` on this machine, in a repository that uses them as people do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
CALLER = Path(__file__).parent / "caller"
STAND_INS = Path(__file__).parent / "stand_ins"
LABELS = ("ubuntu-24.04", "macos-15")
DEADLINE = 400

HOSTILE = """it's "quoted" $(touch pwned) `touch pwned`; touch pwned # --out=/x
::error::pwned ${{ github.actor }} $HOME \\ %0A"""
HOSTILE_NAME = """it's "quoted" $(touch pwned) `touch pwned`; touch pwned # --dry-run"""


@dataclass(frozen=True)
class Act:
    """What ``act`` reported of a workflow, and the evidence that its jobs left, each in a folder of its own."""

    events: list[dict[str, Any]]
    evidence: Path

    @cached_property
    def results(self) -> dict[str, str]:
        """``success`` or ``failure`` of each job that ran."""
        return {job_of(event): event["jobResult"] for event in self.events if "jobResult" in event}

    def commands(self, job: str, command: str) -> list[dict[str, Any]]:
        """The workflow commands of one kind that the runner took from a job's log and files."""
        return [event for event in self.events if event.get("command") == command and job_of(event) == job]

    def steps(self, job: str) -> dict[str, Any]:
        """The ``steps`` context at the job's end."""
        return json.loads((self.evidence / job / "steps.json").read_text())


def job_of(event: dict[str, Any]) -> str:
    """The job's name, as its folder of evidence has it."""
    return "-".join([event.get("jobID", ""), *event.get("matrix", {}).values()])


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project that a runner downloads to use its actions."""
    copy = tmp_path_factory.mktemp("project")
    for name in ("actions", "torchperf_ci"):
        shutil.copytree(PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".gitignore", "action.yml", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(PROJECT / name, copy)
    return copy


@pytest.fixture(scope="session")
def caller(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the project's files, for ``uses: ./…``, and a workflow that calls its actions."""
    copy = tmp_path_factory.mktemp("caller")
    shutil.copytree(project, copy, dirs_exist_ok=True)
    shutil.copytree(CALLER, copy, dirs_exist_ok=True)
    workflows = copy / ".github" / "workflows"
    workflows.mkdir(parents=True)
    for name in ("benchmarks.yml", "bisects.yml", "checks.yml", "compares.yml", "uploads.yml"):
        (copy / name).rename(workflows / name)
    git = ("git", "-c", "user.name=caller", "-c", "user.email=caller@localhost", "-c", "commit.gpgsign=false")
    for step in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Benchmarks")):
        subprocess.run([*git, *step], cwd=copy, check=True, timeout=60)
    return copy


@dataclass(frozen=True)
class Runner:
    """Runs workflows of the repository ``caller``, by default as after a push whose commit message is an attack."""

    caller: Path
    project: Path
    torch: Path
    folder: Path

    def push(self, workflow: str, *arguments: str) -> Act:
        """Run one workflow to its end; ``arguments`` are further ones for ``act``."""
        return self.run(
            "push", {"head_commit": {"message": HOSTILE, "id": HOSTILE_NAME}}, workflow, *arguments
        )

    def run(self, trigger: str, payload: dict[str, Any], workflow: str, *arguments: str) -> Act:
        """The same after any event."""
        home, evidence = self.folder / workflow / "home", self.folder / workflow / "evidence"
        for folder in (home, evidence):
            folder.mkdir(parents=True)
        event = home / "event.json"
        event.write_text(json.dumps(payload))
        command = [
            *(str(Path(sys.executable).with_name("act")), trigger, "--json", "--eventpath", str(event)),
            f"--workflows=.github/workflows/{workflow}.yml",
            *("--action-cache-path", str(home / "cache"), "--no-cache-server", "--action-offline-mode"),
            *(f"--platform={label}=-self-hosted" for label in LABELS),
            *(f"--env={name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")),
            *(f"--var=EVIDENCE={evidence}", f"--var=TORCH={self.torch}"),
            f"--local-repository=octo/torchperf-ci@v0={self.project}",
            *(f"--local-repository={used}={STAND_INS / folder}" for folder, used in third_parties().items()),
            *arguments,
        ]
        environ = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "STAND_IN_PYTHON": sys.executable}
        done = subprocess.run(
            command,
            cwd=self.caller,
            env=environ,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        (evidence / "act.log").write_text(done.stdout + done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return Act(events, evidence)


def third_parties() -> dict[str, str]:
    """The ``owner/name@sha`` of the actions that ours use, by the name of their stand-ins."""
    action = yaml.safe_load((PROJECT / "action.yml").read_text())
    used = [step["uses"] for step in action["runs"]["steps"] if "uses" in step]
    return {name.partition("@")[0].rpartition("/")[2]: name for name in used}


@pytest.fixture(scope="session")
def runner(
    caller: Path, project: Path, torch_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Runner:
    """What runs workflows."""
    return Runner(caller, project, torch_environment, tmp_path_factory.mktemp("act"))


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
