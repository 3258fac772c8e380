"""Workflows, run for real by ``act`` on this machine: jobs are processes, and actions of third parties stand-ins."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from toolkits import OURS

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = Path(__file__).parents[2]
STAND_INS = PROJECT / "tests/actions/stand_ins"
OURS_BY_NAME = ("octo/torchperf-ci@v0", OURS, "OWNER/torchperf-ci@COMMIT")
LABELS = ("ubuntu-24.04", "macos-15")
DEADLINE = 900

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

    @property
    def log(self) -> str:
        """All that ``act`` printed."""
        return (self.evidence / "act.log").read_text()

    def commands(self, job: str, command: str) -> list[dict[str, Any]]:
        """The workflow commands of one kind that the runner took from a job's log and files."""
        return [event for event in self.events if event.get("command") == command and job_of(event) == job]

    def steps(self, job: str) -> dict[str, Any]:
        """The ``steps`` context at the job's end."""
        return json.loads((self.evidence / job / "steps.json").read_text())


def job_of(event: dict[str, Any]) -> str:
    """The job's name, as its folder of evidence has it. Rows of a matrix that have a name are known by that."""
    matrix = event.get("matrix", {})
    values = [matrix["name"]] if "name" in matrix else matrix.values()
    return "-".join([event.get("jobID", ""), *values])


@dataclass(frozen=True)
class Runner:
    """Runs workflows of the repository ``caller``, by default as after a push whose commit message is an attack.

    Jobs find the Python of ``torch`` on the PATH, and with ``toolkits`` the toolkit where they would install it.
    """

    caller: Path
    project: Path
    torch: Path
    toolkits: Path
    folder: Path

    def workflow(self, name: str) -> Path:
        """The file of the one with this name."""
        return self.caller / f".github/workflows/{name}.yml"

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
        pythons = (f"python3.{minor}" for minor in range(10, 15))
        others = [name for name in pythons if not (self.torch / "bin" / name).exists()]
        labels = {*LABELS, *re.findall(r"runs-on: ([\w.-]+)", self.workflow(workflow).read_text())}
        command = [
            *(str(Path(sys.executable).with_name("act")), trigger, "--json", "--eventpath", str(event)),
            f"--workflows=.github/workflows/{workflow}.yml",
            *("--action-cache-path", str(home / "cache"), "--no-cache-server", "--action-offline-mode"),
            *(f"--platform={label}=-self-hosted" for label in labels),
            *(f"--env={name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")),
            *(f"--var=EVIDENCE={evidence}", f"--var=TORCH={self.torch}"),
            *(f"--env=BASH_ENV={self.toolkits}", f"--env=TOOLKITS={self.toolkits.parent}"),
            f"--env=OTHER_PYTHONS={' '.join(others)}",
            *(f"--local-repository={ours}={self.project}" for ours in OURS_BY_NAME),
            *(f"--local-repository={used}={STAND_INS / folder}" for folder, used in third_parties().items()),
            *arguments,
        ]
        # A name that pyenv has without a Python takes longer to fail than a Python to start.
        programs = [folder for folder in os.environ["PATH"].split(":") if not folder.endswith("/shims")]
        path = ":".join([f"{self.torch}/bin", *programs])
        environ = {"HOME": os.environ["HOME"], "PATH": path, "STAND_IN_PYTHON": sys.executable}
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


def standing_in(workflows: Iterable[str]) -> list[str]:
    """The arguments for ``act`` that put stand-ins in the place of what these workflows use of GitHub's actions."""
    used = re.findall(r"uses: (actions/([\w-]+))\S*(@\S+)", "\n".join(workflows))
    return [f"--local-repository={name}{at}={STAND_INS / folder}" for name, folder, at in dict.fromkeys(used)]
