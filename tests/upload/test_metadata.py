from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from torchperf_ci.errors import UsageError
from torchperf_ci.options.storage_commands import UploadOptions
from torchperf_ci.upload.metadata import Metadata, gather_metadata

BY_HAND = {"repo_name": "pytorch/pytorch", "head_branch": "nightly", "head_sha": "be2ad7"}
SHA = "1f" * 20


def gathered(environ: dict[str, str] | None = None, content: str = "digest", **given: Any) -> Metadata:
    return gather_metadata(UploadOptions(**given), environ or {}, content, "torchperf")


def with_event(job: dict[str, str], event: object) -> dict[str, str]:
    Path(job["GITHUB_EVENT_PATH"]).write_text(event if isinstance(event, str) else json.dumps(event))
    return job


def test_of_a_push_the_branch_keeps_its_prefix(job: dict[str, str]) -> None:
    found = gathered(job, job_id=9)
    assert found.fields(1_700_000_000) == {
        "timestamp": 1_700_000_000,
        "schema_version": "v3",
        "name": "measure",
        "repo": "octo/perf",
        "head_branch": "refs/heads/main",
        "head_sha": SHA,
        "workflow_id": 71,
        "run_attempt": 2,
        "job_id": 9,
    }
    assert not found.synthetic


def test_of_a_pull_request_branch_and_commit_are_its_heads(job: dict[str, str]) -> None:
    job["GITHUB_REF"] = "refs/pull/5/merge"
    head = {"ref": "faster", "sha": "2e" * 20}
    found = gathered(with_event(job, {"pull_request": {"head": head, "base": {"ref": "main"}}}), job_id=9)
    assert (found.repo, found.head_branch, found.head_sha) == ("octo/perf", "faster", "2e" * 20)


@pytest.mark.parametrize("event", ["{", "[1]", '{"pull_request": {"head": 3}}'])
def test_an_event_that_says_nothing_is_told(job: dict[str, str], event: str) -> None:
    with pytest.raises(UsageError, match="give --repo DIR, or --repo-name"):
        gathered(with_event(job, event), job_id=9)


def test_flags_beat_the_job(job: dict[str, str]) -> None:
    found = gathered(job, **BY_HAND, workflow_id=1, run_attempt=3, job_id=4, benchmark_name="mine")
    assert (found.repo, found.head_branch, found.head_sha) == ("pytorch/pytorch", "nightly", "be2ad7")
    assert (found.workflow_id, found.run_attempt, found.job_id, found.name) == (1, 3, 4, "mine")


def test_a_job_that_cannot_be_found_gets_an_id_of_our_own_and_the_reason(job: dict[str, str]) -> None:
    found = gathered(job)
    assert 2**52 <= found.job_id < 2**53
    assert found.synthetic == "there is no GITHUB_TOKEN to ask GitHub with"
    assert gathered(job).job_id == found.job_id


@pytest.mark.parametrize(
    "variable", ["GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "TORCHPERF_MATRIX", "RUNNER_NAME"]
)
def test_two_jobs_never_share_an_id_of_our_own(job: dict[str, str], variable: str) -> None:
    assert gathered(job).job_id != gathered({**job, variable: "5"}).job_id


def test_outside_of_a_job_the_ids_follow_from_what_is_uploaded() -> None:
    found, same, other = gathered(**BY_HAND), gathered(**BY_HAND), gathered(content="another", **BY_HAND)
    assert found == same
    assert found.job_id == found.workflow_id != other.job_id
    assert (found.name, found.run_attempt) == ("torchperf", 1)
    assert found.synthetic


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repo": ".", "head_sha": "be2ad7"}, "--repo tells repository, branch and commit"),
        ({"repo_name": "octo/perf"}, "--repo-name needs --head-branch and --head-sha"),
        ({"repo_name": "octo/perf", "head_sha": "be2ad7"}, "--repo-name needs"),
        ({"repo_name": "octo/perf", "head_branch": "main"}, "--repo-name needs"),
        ({"head_sha": "be2ad7"}, "need --repo-name outside of a job"),
        ({"head_branch": "main"}, "need --repo-name outside of a job"),
        ({}, "or say what was measured with --repo-name"),
    ],
)
def test_half_of_a_change_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gathered(**given)


def test_another_repository_never_gets_the_jobs_own_commit(job: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="are another repository's"):
        gathered(job, repo_name="pytorch/pytorch")


@pytest.mark.parametrize(
    ("variable", "flag"), [("GITHUB_RUN_ID", "--workflow-id"), ("GITHUB_RUN_ATTEMPT", "--run-attempt")]
)
def test_a_job_without_numbers_is_told_which_flag_to_give(
    job: dict[str, str], variable: str, flag: str
) -> None:
    with pytest.raises(UsageError, match=f"{variable} is 'x', not a number; give {flag}"):
        gathered({**job, variable: "x"}, job_id=1)
