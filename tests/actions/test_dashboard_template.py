"""The template of the dashboard, after a user has adapted the lines marked "edit"."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from act_runner import standing_in
from copied import copied
from dashboard_nights import put_nights

from torchperf_ci import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Runner

    Git = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the template, and three nights on its data branch, which has a file that is refused, too."""
    folder = tmp_path / "repository"
    workflows = folder / ".github/workflows"
    workflows.mkdir(parents=True)
    (workflows / "dashboard.yml").write_text(copied("workflows-templates/dashboard.yml"))
    (folder / "torchperf.yml").write_text("version: 1\nupload: {branch: benchmarks}\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A dashboard")
    put_nights(tmp_path / "records", 0, 3)
    monkeypatch.chdir(tmp_path)
    to = f"branch:benchmarks@{folder}"
    measured = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "0" * 40)
    assert cli.main(["upload", "records", "--to", to, *measured, "--spool", "spool"]) == 0
    git(folder, "worktree", "add", "--quiet", str(tmp_path / "data"), "benchmarks")
    (tmp_path / "data/by_somebody_else.json").write_text("[{}]")
    git(tmp_path / "data", "add", "--all")
    git(tmp_path / "data", "commit", "--quiet", "--message", "No record")
    return folder


def test_what_the_data_branch_has_is_published(runner: Runner, repository: Path, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    done = replace(runner, caller=repository, folder=tmp_path / "act").run(
        "schedule",
        {},
        "dashboard",
        "--no-skip-checkout",
        *standing_in([copied("workflows-templates/dashboard.yml")]),
        f"--env=ORIGIN={repository}",
        f"--env=ARTIFACTS={artifacts}",
    )
    assert done.results == {"build": "success", "publish": "success"}, done.log
    overview = json.loads((artifacts / "published/data/overview.json").read_text())
    assert overview["sentence"] == "No regression is open; 2 machines have too few runs to be judged."
    assert (artifacts / "published/series/index.html").exists()
    assert "by_somebody_else.json:1: $[0]: metric is missing" in done.log
