"""Which commit was measured, and by which job: the fields that an uploader adds to every record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import in_actions
from torchperf_ci.errors import UsageError
from torchperf_ci.identity import (
    JobIdentity,
    MeasuredCommit,
    UnknownIdentityError,
    commit_of_job,
    find_job,
    job_number,
    read_checkout,
)
from torchperf_ci.records.record import synthetic_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.options.keeping_commands import UploadOptions


_NAME_IT = "or say what was measured with --repo-name, --head-branch and --head-sha"
_BY_HAND = "give --repo DIR, or --repo-name, --head-branch and --head-sha"


@dataclass(frozen=True)
class Metadata:
    """The metadata fields of the v3 format. ``timestamp`` is None if each file's modification time applies.

    ``synthetic`` says why ``job_id`` was made up by torchperf; it is empty for a job id of GitHub's.
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

    def fields(self, timestamp: int) -> dict[str, str | int]:
        """Return the fields for a record; ``timestamp`` (Unix seconds) is used if there is no other."""
        own = {name: value for name, value in vars(self).items() if name not in ("timestamp", "synthetic")}
        return {"timestamp": self.timestamp or timestamp, "schema_version": "v3", **own}


@dataclass(frozen=True)
class WorkflowRun:
    """A job in one attempt of a workflow run."""

    workflow_id: int
    attempt: int
    job: JobIdentity
    synthetic: str = ""


def gather_metadata(given: UploadOptions, environ: Mapping[str, str], content: str, name: str) -> Metadata:
    """Return the metadata given by flags, else that of the job in ``environ``, else of the current checkout.

    Outside of a job the ids are derived from the commit and from ``content``, a digest of the records, so that
    uploading the same records again does not make a second run. ``name`` is the default name. Raises
    :class:`UsageError`.
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


def _change(given: UploadOptions, environ: Mapping[str, str]) -> MeasuredCommit:
    repo, branch, sha = given.repo_name, given.head_branch, given.head_sha
    if given.repo:
        if repo or branch or sha:
            msg = "--repo tells repository, branch and commit: leave out --repo-name, --head-branch and --head-sha"
            raise UsageError(msg)
        return _read_checkout(Path(given.repo))
    if repo and branch and sha:
        return MeasuredCommit(repo, branch, sha)
    if repo:
        msg = "--repo-name needs --head-branch and --head-sha: those of this job or checkout are another repository's"
        raise UsageError(msg)
    if not in_actions(environ):
        return _change_here(branch, sha)
    try:
        own = commit_of_job(environ)
    except UnknownIdentityError as error:
        msg = f"{error}; {_BY_HAND}"
        raise UsageError(msg) from None
    return MeasuredCommit(own.repo, branch or own.branch, sha or own.sha)


def _change_here(branch: str | None, sha: str | None) -> MeasuredCommit:
    if branch or sha:
        msg = f"--head-branch and --head-sha need --repo-name outside of a job; {_BY_HAND}"
        raise UsageError(msg)
    return replace(_read_checkout(Path()), date=None)


def _read_checkout(folder: Path) -> MeasuredCommit:
    try:
        return read_checkout(folder)
    except UnknownIdentityError as error:
        msg = f"{error}, {_NAME_IT}"
        raise UsageError(msg) from None


def _run_of_job(given: UploadOptions, environ: Mapping[str, str]) -> WorkflowRun:
    workflow = given.workflow_id or _number(environ, "GITHUB_RUN_ID", "--workflow-id")
    attempt = given.run_attempt or _number(environ, "GITHUB_RUN_ATTEMPT", "--run-attempt")
    name = environ.get("GITHUB_JOB", "")
    if given.job_id:
        return WorkflowRun(workflow, attempt, JobIdentity(given.job_id, name))
    try:
        return WorkflowRun(workflow, attempt, find_job(environ, workflow, attempt))
    except UnknownIdentityError as error:
        return WorkflowRun(
            workflow, attempt, JobIdentity(_job_id_of_ours(workflow, attempt, environ), name), str(error)
        )


def _job_id_of_ours(workflow: int, attempt: int, environ: Mapping[str, str]) -> int:
    """Make up a job id from variables that together differ between jobs; the jobs of a matrix share their name."""
    names = ("GITHUB_JOB", "TORCHPERF_MATRIX", "RUNNER_NAME", "RUNNER_TRACKING_ID")
    return synthetic_id(str(workflow), str(attempt), *(environ.get(name, "") for name in names))


def _run_by_hand(given: UploadOptions, change: MeasuredCommit, content: str, name: str) -> WorkflowRun:
    own = synthetic_id(change.repo, change.branch, change.sha, content)
    workflow, job = given.workflow_id or own, given.job_id or own
    return WorkflowRun(
        workflow,
        given.run_attempt or 1,
        JobIdentity(job, name),
        "" if given.job_id else "this is no job of GitHub Actions",
    )


def _number(environ: Mapping[str, str], variable: str, flag: str) -> int:
    try:
        return job_number(environ, variable)
    except UnknownIdentityError as error:
        msg = f"{error}; give {flag}"
        raise UsageError(msg) from None
