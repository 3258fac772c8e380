"""What was measured, and by which job: the fields that an uploader puts under every record."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from torchperf_ci.actions import in_actions
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from github.WorkflowJob import WorkflowJob

    from torchperf_ci.options import UploadOptions


_SECONDS_A_REQUEST = 10
_RETRIES = 2
_JOBS_DEADLINE = 60.0
_SYNTHETIC_FROM = 2**52
"""Synthetic ids are from here to 2**53: JavaScript holds them exactly, and no job of GitHub's is near."""


@dataclass(frozen=True)
class UploadJob:
    """A job as GitHub's API lists it."""

    id: int
    name: str


class JobUnknownError(Exception):
    """The API did not tell the job; the message is the reason."""


def find_job(environ: Mapping[str, str], workflow: int, attempt: int) -> UploadJob:
    """The job that runs on this runner now, in this attempt of this run.

    Needs a token that may read actions. Raises :class:`JobUnknownError`.
    """
    token = environ.get("GITHUB_TOKEN", "")
    if not token:
        reason = "there is no GITHUB_TOKEN to ask GitHub with"
        raise JobUnknownError(reason)
    runner = environ.get("RUNNER_NAME", "")
    jobs = [
        job
        for job in _github_jobs(environ, token, workflow)
        if job.runner_name == runner and job.run_attempt == attempt
    ]
    if not jobs:
        reason = f"GitHub lists no job on the runner {runner!r} in attempt {attempt} of this run"
        raise JobUnknownError(reason)
    # A self-hosted runner may have had several jobs of this run, one after the other.
    latest = max(jobs, key=lambda job: job.started_at)
    return UploadJob(latest.id, latest.name)


def _github_jobs(environ: Mapping[str, str], token: str, workflow: int) -> list[WorkflowJob]:
    import requests
    from github import Auth, Github, GithubException
    from urllib3.util import Retry

    # PyGithub's own default waits for as long as an hour where a rate limit is reached.
    retry = Retry(
        _RETRIES, status_forcelist=(500, 502, 503, 504), backoff_factor=0.5, respect_retry_after_header=False
    )
    url = environ.get("GITHUB_API_URL", "https://api.github.com")
    api = Github(
        auth=Auth.Token(token),
        base_url=url,
        timeout=_SECONDS_A_REQUEST,
        retry=retry,
        per_page=100,
        lazy=True,  # nothing is asked about the repository itself
    )
    try:
        repository = api.get_repo(environ["GITHUB_REPOSITORY"])
        return list(_until(_JOBS_DEADLINE, repository.get_workflow_run(workflow).jobs("latest")))
    except GithubException as error:
        reason = f"GitHub answered {error.status}: {error.message}"
    except requests.RequestException as error:
        reason = f"GitHub cannot be reached: {type(error).__name__}"
    finally:
        api.close()
    raise JobUnknownError(reason)


def _until(seconds: float, jobs: Iterable[WorkflowJob]) -> Iterable[WorkflowJob]:
    end = time.monotonic() + seconds
    for job in jobs:
        yield job
        if time.monotonic() > end:
            reason = f"GitHub took more than {seconds:g} s to list the jobs"
            raise JobUnknownError(reason)


def synthetic_id(*parts: str) -> int:
    """An id for what has none at GitHub: always the same for the same ``parts``, and never one of GitHub's."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()
    return _SYNTHETIC_FROM + int.from_bytes(digest[:8], "big") % _SYNTHETIC_FROM


_GIT_DEADLINE = 60.0
_NAME_IT = "or say what was measured with --repo-name, --head-branch and --head-sha"


@dataclass(frozen=True)
class Checkout:
    """A repository (``owner/name``), a branch, a commit, and when it was committed (Unix time in seconds)."""

    repo: str
    branch: str
    sha: str
    date: int


def read_checkout(folder: Path) -> Checkout:
    """Ask git about ``folder``; raises :class:`UsageError` where it cannot tell everything."""
    sha, date = _git(folder, "log", "-1", "--no-show-signature", "--format=%H %ct").split()
    return Checkout(_repository(folder), _checkout_branch(folder), sha, int(date))


def _repository(folder: Path) -> str:
    url = _git(folder, "remote", "get-url", "origin")
    repo = repository_name(url)
    if not repo:
        msg = f"{folder}: its remote 'origin' names no owner/name; set one, {_NAME_IT}"
        raise UsageError(msg)
    return repo


def repository_name(url: str) -> str:
    """``owner/name`` of a remote such as ``https://host/owner/name.git`` or ``git@host:owner/name``, or empty."""
    try:
        path = urlsplit(url).path if "://" in url else url.rpartition(":")[2]
    except ValueError:
        return ""
    parts = [part for part in path.removesuffix("/").removesuffix(".git").split("/") if part]
    return "/".join(parts[-2:]) if len(parts) > 1 else ""


def _checkout_branch(folder: Path) -> str:
    """The branch checked out; of a detached HEAD, as CI checks out, the default branch or another that holds it."""
    current = _git(folder, "branch", "--show-current")
    if current:
        return current
    # What the symbolic references point at, a remote's default branch, comes first.
    form = "--format=%(if)%(symref)%(then)0 %(symref)%(else)1 %(refname)%(end)"
    listed = _git(folder, "for-each-ref", "--contains=HEAD", form, "refs/heads", "refs/remotes").splitlines()
    names = [_short(line.partition(" ")[2]) for line in sorted(listed)]
    if not names:
        msg = f"{folder}: no branch holds the commit that is checked out; fetch its branch, {_NAME_IT}"
        raise UsageError(msg)
    return names[0]


def _short(ref: str) -> str:
    kind, _, name = ref.removeprefix("refs/").partition("/")
    return name if kind == "heads" else name.partition("/")[2]


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_DEADLINE, check=True)
    except FileNotFoundError:
        msg = f"git is not installed, so {folder} cannot be asked what it holds; install it, {_NAME_IT}"
        raise UsageError(msg) from None
    except subprocess.TimeoutExpired:
        msg = f"{folder}: git did not answer within {_GIT_DEADLINE:g} s; look for a lock or a slow disk, {_NAME_IT}"
        raise UsageError(msg) from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"git ended with {error.returncode}"])[-1]
        reason = reason.removeprefix("fatal: ").removeprefix("error: ")
        msg = f"{folder}: {reason}; name the checkout that was measured with --repo, {_NAME_IT}"
        raise UsageError(msg) from None
    return done.stdout.strip()


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
class UploadedCommit:
    """A commit on a branch of a repository; ``date`` where its own time is to be the records'."""

    repo: str
    branch: str
    sha: str
    date: int | None = None


@dataclass(frozen=True)
class WorkflowRun:
    """A job in an attempt of a workflow run."""

    workflow_id: int
    attempt: int
    job: UploadJob
    synthetic: str = ""


def gather_metadata(given: UploadOptions, environ: Mapping[str, str], content: str, name: str) -> Metadata:
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


def _change(given: UploadOptions, environ: Mapping[str, str]) -> UploadedCommit:
    repo, branch, sha = given.repo_name, given.head_branch, given.head_sha
    if given.repo:
        if repo or branch or sha:
            msg = "--repo tells repository, branch and commit: leave out --repo-name, --head-branch and --head-sha"
            raise UsageError(msg)
        found = read_checkout(Path(given.repo))
        return UploadedCommit(found.repo, found.branch, found.sha, found.date)
    if repo and branch and sha:
        return UploadedCommit(repo, branch, sha)
    if repo:
        msg = "--repo-name needs --head-branch and --head-sha: those of this job or checkout are another repository's"
        raise UsageError(msg)
    if not in_actions(environ):
        return _change_here(branch, sha)
    own = _change_of_job(environ)
    return UploadedCommit(own.repo, branch or own.branch, sha or own.sha)


def _change_here(branch: str | None, sha: str | None) -> UploadedCommit:
    if branch or sha:
        msg = f"--head-branch and --head-sha need --repo-name outside of a job; {_BY_HAND}"
        raise UsageError(msg)
    found = read_checkout(Path())
    return UploadedCommit(found.repo, found.branch, found.sha)


def _change_of_job(environ: Mapping[str, str]) -> UploadedCommit:
    """A pull request's own head, not the merge commit that its job checks out."""
    try:
        head = _event(environ).get("pull_request", {}).get("head")
        if head:
            return UploadedCommit(environ["GITHUB_REPOSITORY"], head["ref"], head["sha"])
        return UploadedCommit(environ["GITHUB_REPOSITORY"], environ["GITHUB_REF"], environ["GITHUB_SHA"])
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


def _run_of_job(given: UploadOptions, environ: Mapping[str, str]) -> WorkflowRun:
    workflow = given.workflow_id or _number(environ, "GITHUB_RUN_ID", "--workflow-id")
    attempt = given.run_attempt or _number(environ, "GITHUB_RUN_ATTEMPT", "--run-attempt")
    name = environ.get("GITHUB_JOB", "")
    if given.job_id:
        return WorkflowRun(workflow, attempt, UploadJob(given.job_id, name))
    try:
        return WorkflowRun(workflow, attempt, find_job(environ, workflow, attempt))
    except JobUnknownError as error:
        return WorkflowRun(
            workflow, attempt, UploadJob(_job_id_of_ours(workflow, attempt, environ), name), str(error)
        )


def _job_id_of_ours(workflow: int, attempt: int, environ: Mapping[str, str]) -> int:
    """One id a job, since no two jobs have all of these in common; jobs of a matrix have the same name."""
    names = ("GITHUB_JOB", "TORCHPERF_MATRIX", "RUNNER_NAME", "RUNNER_TRACKING_ID")
    return synthetic_id(str(workflow), str(attempt), *(environ.get(name, "") for name in names))


def _run_by_hand(given: UploadOptions, change: UploadedCommit, content: str, name: str) -> WorkflowRun:
    own = synthetic_id(change.repo, change.branch, change.sha, content)
    workflow, job = given.workflow_id or own, given.job_id or own
    return WorkflowRun(
        workflow,
        given.run_attempt or 1,
        UploadJob(job, name),
        "" if given.job_id else "this is no job of GitHub Actions",
    )


def _number(environ: Mapping[str, str], variable: str, flag: str) -> int:
    value = environ.get(variable, "")
    if not value.isdecimal():
        msg = f"the job's {variable} is {value!r}, not a number; give {flag}"
        raise UsageError(msg)
    return int(value)
