"""The template of the watchdog, after a user has adapted the lines marked "edit"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from act_runner import standing_in
from copied import copied
from github_api import JOB, LOGINS, REPOSITORY, GitHub, Workflow, running_github

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Runner

    Git = Callable[..., str]


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub's REST API."""
    with running_github() as server:
        yield server


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    """A repository with the template."""
    folder = tmp_path / "repository"
    workflows = folder / ".github/workflows"
    workflows.mkdir(parents=True)
    (workflows / "watchdog.yml").write_text(copied("workflows-templates/watchdog.yml"))
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A watchdog")
    return folder


def test_a_nightly_that_does_not_run_is_an_issue_and_an_annotation_and_the_watchdog_is_green(
    runner: Runner, repository: Path, tmp_path: Path, github: GitHub
) -> None:
    github.workflows["nightly.yml"] = Workflow(state="disabled_inactivity")
    done = replace(runner, caller=repository, folder=tmp_path / "act").run(
        "schedule",
        {},
        "watchdog",
        *standing_in([copied("workflows-templates/watchdog.yml")]),
        f"--env=GITHUB_API_URL={github.url}",
        f"--env=GITHUB_REPOSITORY={REPOSITORY}",
        f"--secret=GITHUB_TOKEN={JOB}",
    )
    assert done.results == {"watch": "success"}, done.log
    (issue,) = github.issues.values()
    assert (issue.login, issue.labels) == (LOGINS[JOB], ["torchperf"])
    assert "nothing was committed for 60 days" in issue.body
    (error,) = done.commands("watch", "error")
    assert "nightly.yml: GitHub disabled it" in error["raw"]
