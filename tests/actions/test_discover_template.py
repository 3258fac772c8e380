"""The template that keeps the suite current, after a user has adapted the lines marked "edit"."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from act_runner import standing_in
from copied import ARCHITECTURES, copied
from github_api import JOB

from torchperf_ci.bench.suite_coverage import _with_models
from torchperf_ci.suite.registry import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Runner

    Git = Callable[..., str]

TEMPLATE = copied("workflows-templates/discover.yml")
SUITE = """\
import torch
from torchperf_ci.suite import Task, workload

@workload("my/negation", "negation", modes=("inference",))
def negation(batch):
    return Task(torch.neg, (torch.ones(batch),))
"""
OF_A_FORK = '{"isCrossRepository": true}\n'
OPENED = '{"isCrossRepository": false, "head": "torchperf-suite"}\n'
# Stands for GitHub's own client, which is on its runners: it knows the open pull requests from a file, and adds to it.
GH = """\
#!/usr/bin/env bash
set -euo pipefail
[[ -n $GH_TOKEN ]]
case "$1 $2" in
  "auth setup-git") ;;
  "pr list") jq --raw-output --slurp "${@: -1}" "$PULLS" ;;
  "pr create") echo "{\\"isCrossRepository\\": false, \\"head\\": \\"$4\\"}" >>"$PULLS" ;;
  *) exit 1 ;;
esac
"""


@pytest.fixture
def pulls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The open pull requests, to those who have GitHub's client."""
    client, pulls = tmp_path / "bin/gh", tmp_path / "pulls"
    client.parent.mkdir()
    client.write_text(GH)
    client.chmod(0o755)
    pulls.write_text(OF_A_FORK)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    return pulls


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    """A repository with the template, a small suite, and one that was found before."""
    folder = tmp_path / "repository"
    files = {
        ".github/workflows/discover.yml": TEMPLATE,
        "benchmarks/my_suite.py": SUITE,
        "benchmarks/discovered.py": _with_models("", ['timm_classifier("test_vit", 160)']),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A suite that is kept current")
    return folder


def test_what_is_new_becomes_a_pull_request(
    runner: Runner, repository: Path, tmp_path: Path, git: Git, pulls: Path
) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    done = replace(runner, caller=repository, folder=tmp_path / "act").run(
        "schedule",
        {},
        "discover",
        "--no-skip-checkout",
        *standing_in([TEMPLATE]),
        *(f"--env={name}={value}" for name, value in (("ORIGIN", repository), ("PULLS", pulls))),
        f"--env=ARTIFACTS={artifacts}",
        f"--secret=GITHUB_TOKEN={JOB}",
    )
    assert done.results == {"discover": "success", "propose": "success"}, done.log
    assert git(repository, "diff", "--name-only", "main", "torchperf-suite") == "benchmarks/discovered.py\n"
    assert "timm==" in git(repository, "log", "-1", "--format=%b", "torchperf-suite")
    found = tmp_path / "discovered.py"
    found.write_text(git(repository, "show", "torchperf-suite:benchmarks/discovered.py"))
    assert "1 of 2 architectures tried run and add something" in done.log
    assert catalogue([found]).suites[str(found)] == ("vision/timm_test_vit", ARCHITECTURES[0])
    assert pulls.read_text() == OF_A_FORK + OPENED


def test_a_pull_request_that_is_open_is_updated_and_not_doubled(
    repository: Path, tmp_path: Path, git: Git, pulls: Path
) -> None:
    steps = yaml.safe_load(TEMPLATE)["jobs"]["propose"]["steps"]
    push, propose = (step["run"] for step in steps if "run" in step)
    for month in ("November", "December"):
        folder, suite = tmp_path / month, tmp_path / "suite/discovered.py"
        suite.parent.mkdir(exist_ok=True)
        suite.write_text(f"MONTH = '{month}'\n")
        git(tmp_path, "clone", "--quiet", str(repository), str(folder))
        environ = {
            **os.environ,
            "RUNNER_TEMP": str(tmp_path),
            "PULLS": str(pulls),
            "GH_TOKEN": JOB,
            "VERSIONS": "timm==1",
            "SUITE": "benchmarks/discovered.py",
            "BRANCH": "torchperf-suite",
        }
        for script in (push, propose):
            subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environ, check=True, timeout=60)
    assert git(repository, "show", "torchperf-suite:benchmarks/discovered.py") == "MONTH = 'December'\n"
    assert git(repository, "rev-list", "--count", "main..torchperf-suite") == "1\n"
    assert pulls.read_text() == OF_A_FORK + OPENED
