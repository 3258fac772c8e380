"""What was measured, and by which job: the fields that an uploader puts under every record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.actions import in_actions
from torchperf_ci.errors import UsageError
from torchperf_ci.upload.checkout import read_checkout
from torchperf_ci.upload.job import Job, JobUnknownError, find_job, synthetic_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.options import UploadOptions

_BY_HAND = "give --repo DIR, or --repo-name, --head-branch and --head-sha"


@dataclass(frozen=True)
class Metadata:
    """The fields of contract v3. ``timestamp`` is None where each file's own time of change holds.

    ``synthetic`` says why ``job_id`` is an id of our own making; it is empty for a real one.
    """

    name: str
    repo: str
    head_branch: str
    head_sha: str
    workflow_id: int
    run_attempt: int
    job_id: int
    timestamp: int | None = None
    synthetic: str = ""

    def fields(self, timestamp: int) -> dict[str, Any]:
        """The fields as a record has them; ``timestamp`` (Unix time in seconds) is for where there is no other."""
        return {
            "timestamp": self.timestamp or timestamp,
            "schema_version": "v3",
            "name": self.name,
            "repo": self.repo,
            "head_branch": self.head_branch,
            "head_sha": self.head_sha,
            "workflow_id": self.workflow_id,
            "run_attempt": self.run_attempt,
            "job_id": self.job_id,
        }


@dataclass(frozen=True)
class Change:
    """A commit on a branch of a repository; ``date`` where its own time is to be the records'."""

    repo: str
    branch: str
    sha: str
    date: int | None = None


@dataclass(frozen=True)
class Run:
    """A job in an attempt of a workflow run."""

    workflow_id: int
    attempt: int
    job: Job
    synthetic: str = ""


def gather(given: UploadOptions, environ: Mapping[str, str], content: str, name: str) -> Metadata:
    """What the flags in ``given`` say, else the job in ``environ``, else the checkout that this runs in.

    Outside of a job the ids are made from the change and from ``content``, a digest of the records: uploading the
    same again is no second run. ``name`` is for where nobody gives one. Raises :class:`UsageError`.
    """
    change = _change(given, environ)
    run = _run_of_job(given, environ) if in_actions(environ) else _run_by_hand(given, change, content, name)
    return Metadata(
        name=given.benchmark_name or run.job.name,
        repo=change.repo,
        head_branch=change.branch,
        head_sha=change.sha,
        workflow_id=run.workflow_id,
        run_attempt=run.attempt,
        job_id=run.job.id,
        timestamp=change.date,
        synthetic=run.synthetic,
    )


def _change(given: UploadOptions, environ: Mapping[str, str]) -> Change:
    repo, branch, sha = given.repo_name, given.head_branch, given.head_sha
    if given.repo:
        if repo or branch or sha:
            msg = "--repo tells repository, branch and commit: leave out --repo-name, --head-branch and --head-sha"
            raise UsageError(msg)
        found = read_checkout(Path(given.repo))
        return Change(found.repo, found.branch, found.sha, found.date)
    if repo and branch and sha:
        return Change(repo, branch, sha)
    if repo:
        msg = "--repo-name needs --head-branch and --head-sha: those of this job or checkout are another repository's"
        raise UsageError(msg)
    if not in_actions(environ):
        return _change_here(branch, sha)
    own = _change_of_job(environ)
    return Change(own.repo, branch or own.branch, sha or own.sha)


def _change_here(branch: str | None, sha: str | None) -> Change:
    if branch or sha:
        msg = f"--head-branch and --head-sha need --repo-name outside of a job; {_BY_HAND}"
        raise UsageError(msg)
    found = read_checkout(Path())
    return Change(found.repo, found.branch, found.sha)


def _change_of_job(environ: Mapping[str, str]) -> Change:
    """A pull request's own head, not the merge commit that its job checks out."""
    try:
        head = _event(environ).get("pull_request", {}).get("head")
        if head:
            return Change(environ["GITHUB_REPOSITORY"], head["ref"], head["sha"])
        return Change(environ["GITHUB_REPOSITORY"], environ["GITHUB_REF"], environ["GITHUB_SHA"])
    except (KeyError, AttributeError, TypeError) as error:
        msg = f"the job does not say what it runs on ({error}); {_BY_HAND}"
        raise UsageError(msg) from None


def _event(environ: Mapping[str, str]) -> dict[str, Any]:
    path = environ.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        event: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"GITHUB_EVENT_PATH={path} cannot be read ({error}); {_BY_HAND}"
        raise UsageError(msg) from None
    return event


def _run_of_job(given: UploadOptions, environ: Mapping[str, str]) -> Run:
    workflow = given.workflow_id or _number(environ, "GITHUB_RUN_ID", "--workflow-id")
    attempt = given.run_attempt or _number(environ, "GITHUB_RUN_ATTEMPT", "--run-attempt")
    name = environ.get("GITHUB_JOB", "")
    if given.job_id:
        return Run(workflow, attempt, Job(given.job_id, name))
    try:
        return Run(workflow, attempt, find_job(environ, workflow, attempt))
    except JobUnknownError as error:
        return Run(workflow, attempt, Job(_job_id_of_ours(workflow, attempt, environ), name), str(error))


def _job_id_of_ours(workflow: int, attempt: int, environ: Mapping[str, str]) -> int:
    """One id a job, since no two jobs have all of these in common; jobs of a matrix have the same name."""
    names = ("GITHUB_JOB", "TORCHPERF_MATRIX", "RUNNER_NAME", "RUNNER_TRACKING_ID")
    return synthetic_id(str(workflow), str(attempt), *(environ.get(name, "") for name in names))


def _run_by_hand(given: UploadOptions, change: Change, content: str, name: str) -> Run:
    own = synthetic_id(change.repo, change.branch, change.sha, content)
    workflow, job = given.workflow_id or own, given.job_id or own
    return Run(
        workflow,
        given.run_attempt or 1,
        Job(job, name),
        "" if given.job_id else "this is no job of GitHub Actions",
    )


def _number(environ: Mapping[str, str], variable: str, flag: str) -> int:
    value = environ.get(variable, "")
    if not value.isdecimal():
        msg = f"the job's {variable} is {value!r}, not a number; give {flag}"
        raise UsageError(msg)
    return int(value)
