"""The files of ``torchperf init`` work unchanged: a night and a pull request, measured with the real torch."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from act_runner import Act, Runner, standing_in
from github_api import JOB, REPOSITORY, running_github
from installable_project import torch_shelf, write_project
from toolkits import CALLED

from torchperf_ci.verdicts.verdict import read_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Git = Callable[..., str]

USES = f"octo/torchperf-ci@{'1' * 40}"
WORKLOADS = {"perf/mlp", "perf/attention"}


@dataclass(frozen=True)
class SetUp:
    """A repository that ``torchperf init`` has set up, and its GitHub."""

    runner: Runner
    folder: Path
    api: str

    @property
    def artifacts(self) -> Path:
        """Where the artifacts of its runs are."""
        return self.folder / "artifacts"

    def run(self, trigger: str, workflow: str, payload: dict[str, Any], **more: str) -> Act:
        """One of its workflows, from its beginning to its end; ``more`` is for the environment of its jobs."""
        for name in ("artifacts", "caches"):
            (self.folder / name).mkdir()
        repository = {"id": 1, "full_name": REPOSITORY, "default_branch": "main"}
        environ = {
            "ARTIFACTS": self.artifacts,
            "CACHES": self.folder / "caches",
            "ORIGIN": self.runner.caller,
            "GITHUB_API_URL": self.api,
            "GITHUB_REPOSITORY": REPOSITORY,
            "LINKED_PIP": "1",
            "PROCESSES": "1",
            **more,
        }
        used = [self.runner.workflow(workflow), self.runner.project / CALLED]
        return self.runner.run(
            trigger,
            {**payload, "repository": repository},
            workflow,
            "--no-skip-checkout",
            *standing_in(file.read_text() for file in used),
            f"--local-repository={USES}={self.runner.project}",
            f"--secret=GITHUB_TOKEN={JOB}",
            *(f"--env={name}={value}" for name, value in environ.items()),
        )


@pytest.fixture
def set_up(
    project: Path,
    toolkits: Path,
    torch_environment: Path,
    tmp_path: Path,
    git: Git,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SetUp]:
    """A Python project, installed by a pip that finds torch and nothing else."""
    for name, value in torch_shelf(tmp_path / "shelf", torch_environment).items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "smallnet"
    write_project(folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")
    commit(git, folder)
    installed = next(toolkits.parent.glob("torchperf-*/torchperf"))  # from the wheel, which has the templates
    subprocess.run([installed, "init", "--uses", USES], cwd=folder, check=True, timeout=60)
    with (folder / "torchperf.yml").open("a") as config:
        config.write('policy: {"latency(ms)": {min_effect: 90%}} # what a busy machine settles soon\n')
    commit(git, folder)
    with running_github() as github:
        yield SetUp(
            Runner(folder, project, torch_environment, toolkits, tmp_path / "act"), tmp_path, github.url
        )


def commit(git: Git, folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A change")
    return git(folder, "rev-parse", "HEAD").strip()


def test_the_first_night_measures_keeps_and_judges(set_up: SetUp, git: Git) -> None:
    done = set_up.run("workflow_dispatch", "torchperf-nightly", {"inputs": {}})
    jobs = {"plan": "success", "measure-cpu-main": "success", "check": "success", "report": "success"}
    assert done.results == jobs, done.log
    judged = read_verdicts(set_up.artifacts / "torchperf-verdicts/verdicts.json")
    assert {verdict.verdict for verdict in judged.verdicts} == {"new"}
    assert {verdict.series.model for verdict in judged.verdicts} >= WORKLOADS
    kept = git(set_up.runner.caller, "ls-tree", "-r", "--name-only", "benchmarks").splitlines()
    assert {name.split("/")[0] for name in kept} == {"judged", "v3"}


def test_a_pull_request_is_built_and_compared(set_up: SetUp, git: Git) -> None:
    caller = set_up.runner.caller
    base = git(caller, "rev-parse", "HEAD").strip()
    git(caller, "checkout", "--quiet", "-b", "topic")
    (caller / "smallnet/more.py").write_text("MORE = 1\n")
    head = commit(git, caller)
    event = {
        "number": 7,
        "pull_request": {"number": 7, "head": {"sha": head}, "base": {"sha": base, "ref": "main"}},
    }
    # The workflow leaves open what of its suite is compared and for how long, and the night has measured all of it: a
    # pair of a case is enough. tests/test_console_blocks.py goes on until it can tell.
    workflow = yaml.safe_load(set_up.runner.workflow("torchperf-pull-request").read_text())
    (given,) = (
        step["with"]
        for step in workflow["jobs"]["compare"]["steps"]
        if "/actions/compare@" in step.get("uses", "")
    )
    assert not given.keys() & {"filter", "mode", "device", "dtype", "backend", "budget"}
    case = {"ONE_WORKLOAD": "perf/mlp", "ONE_MODE": "inference", "ONE_PAIR": "1"}
    done = set_up.run("pull_request", "torchperf-pull-request", event, **case)
    assert done.results == {"compare": "success"}, done.log
    judged = read_verdicts(set_up.artifacts / "torchperf-verdicts-1/verdicts.json")
    assert {verdict.series.model for verdict in judged.verdicts} == {"perf/mlp"}
    assert (judged.base[:10], judged.head[:10]) == (base[:10], head[:10])
    assert all(verdict.old and verdict.new for verdict in judged.verdicts)
    assert not judged.red


def test_files_that_pip_cannot_install_are_imported_by_a_night(
    tmp_path: Path, torch_environment: Path, with_pip: str, git: Git
) -> None:
    folder = tmp_path / "scripts"
    (folder / "src/small").mkdir(parents=True)
    (folder / "src/small/__init__.py").write_text("NAME = 'small'\n")
    git(folder, "init", "--quiet")
    subprocess.run([sys.executable, "-m", "torchperf_ci", "init"], cwd=folder, check=True, timeout=60)
    night = yaml.safe_load((folder / ".github/workflows/torchperf-nightly.yml").read_text())
    subprocess.run([with_pip, "-m", "venv", tmp_path / "env"], check=True, timeout=120)
    environ = {
        **os.environ,
        **torch_shelf(tmp_path / "shelf", torch_environment),
        "PATH": f"{tmp_path}/env/bin:{os.environ['PATH']}",
    }
    line = night["jobs"]["night"]["with"]["install"]
    subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=folder, env=environ, check=True, timeout=120)
    question = [tmp_path / "env/bin/python", "-c", "import small; print(small.NAME)"]
    assert subprocess.run(question, cwd=tmp_path, capture_output=True, timeout=60).stdout == b"small\n"
