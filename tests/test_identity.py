"""The commit and the run that a record gets before it is uploaded."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import UsageError
from torchperf_ci.identity import identity_fields

if TYPE_CHECKING:
    from pathlib import Path

JOB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "octo/perf",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_SHA": "1f" * 20,
    "GITHUB_RUN_ID": "71",
    "GITHUB_RUN_ATTEMPT": "2",
}
COMMIT = {"repo": "octo/perf", "head_branch": "refs/heads/main", "head_sha": "1f" * 20}
RUN = {"workflow_id": 71, "run_attempt": 2}


def test_a_job_tells_its_commit_and_its_run_and_no_id_is_made_up() -> None:
    assert identity_fields(None, JOB) == {**COMMIT, **RUN}


def test_outside_of_a_job_nothing_is_made_up() -> None:
    assert identity_fields(None, {**JOB, "GITHUB_ACTIONS": ""}) == {}


def test_what_a_job_does_not_say_is_left_out() -> None:
    assert identity_fields(None, {"GITHUB_ACTIONS": "true"}) == {}
    assert identity_fields(None, {**JOB, "GITHUB_RUN_ID": ""}) == COMMIT
    assert identity_fields(None, {**JOB, "GITHUB_SHA": "x", "GITHUB_EVENT_PATH": "absent"}) == RUN


def test_of_a_pull_request_it_is_its_own_head(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"head": {"ref": "faster", "sha": "2e"}}}))
    found = identity_fields(None, {**JOB, "GITHUB_EVENT_PATH": str(event)})
    assert found == {"repo": "octo/perf", "head_branch": "faster", "head_sha": "2e", **RUN}


OWN, FORK = {"full_name": "octo/perf"}, {"full_name": "stranger/perf"}
THERE = {"repository": {**OWN, "default_branch": "main"}}


def of_event(folder: Path, event: dict[str, object], base: str = "") -> tuple[object, object]:
    (folder / "event.json").write_text(json.dumps(THERE | event))
    job = {**JOB, "GITHUB_EVENT_PATH": str(folder / "event.json"), "GITHUB_BASE_REF": base}
    fields = identity_fields(None, job)
    return fields["head_branch"], fields["head_sha"]


@pytest.mark.parametrize(
    ("source", "branch", "recorded"),
    [
        (FORK, "main", "stranger:main"),
        (FORK, "release/2.9", "stranger:release/2.9"),
        (None, "main", ":main"),  # the fork was deleted
        (FORK, "faster", "faster"),
        (OWN, "main", "main"),
    ],
)
def test_a_forks_branch_is_not_the_repositorys_of_the_same_name(
    tmp_path: Path, source: object, branch: str, recorded: str
) -> None:
    head = {"ref": branch, "sha": "2e", "repo": source}
    assert of_event(tmp_path, {"pull_request": {"head": head}}, "release/2.9") == (recorded, "2e")


@pytest.mark.parametrize(
    ("cause", "source", "branch", "recorded"),
    [
        ("pull_request", FORK, "main", ("stranger:main", "2e")),
        ("pull_request_target", FORK, "faster", ("faster", "2e")),
        ("pull_request", OWN, None, ("2e", "2e")),
        ("push", OWN, "main", (COMMIT["head_branch"], COMMIT["head_sha"])),
    ],
)
def test_what_follows_a_pull_requests_run_is_for_that_pull_request(
    tmp_path: Path, cause: str, source: object, branch: str | None, recorded: tuple[str, str]
) -> None:
    run = {"head_branch": branch, "head_sha": "2e", "head_repository": source, "event": cause}
    event = {"workflow_run": {**run, "html_url": "", "pull_requests": []}}
    assert of_event(tmp_path, event) == recorded


def test_a_checkout_that_is_named_tells_the_commit_and_the_job_the_run(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for command in (
        ["init", "--quiet", "--initial-branch=slower"],
        ["commit", "--quiet", "--allow-empty", "--message=First"],
        ["remote", "add", "origin", "https://localhost/other/library.git"],
    ):
        subprocess.run([*git, *command], check=True, timeout=60)
    sha = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True, timeout=60).strip()
    commit = {"repo": "other/library", "head_branch": "slower", "head_sha": sha}
    assert identity_fields(str(tmp_path), {}) == commit
    assert identity_fields(str(tmp_path), JOB) == {**commit, **RUN}


def test_a_checkout_that_is_named_must_tell_its_commit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a git repository"):
        identity_fields(str(tmp_path), JOB)
