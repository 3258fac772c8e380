"""Which commit was measured, and by which run: what a checkout, or a job of GitHub Actions, knows of it.

``run`` writes what is known into its records; ``upload`` completes the records that do not say it themselves.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from torchperf_ci.actions import in_actions
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from github.WorkflowJob import WorkflowJob


class UnknownIdentityError(Exception):
    """Neither the checkout, nor the job or GitHub's API tells it; the message is the reason."""


@dataclass(frozen=True)
class MeasuredCommit:
    """A commit on a branch of a repository (``owner/name``).

    ``date`` is when it was committed (Unix seconds), where that is to be the time of its records.
    """

    repo: str
    branch: str
    sha: str
    date: int | None = None


@dataclass(frozen=True)
class JobIdentity:
    """A job as GitHub's API lists it."""

    id: int
    name: str


def identity_fields(checkout: str | None, environ: Mapping[str, str]) -> dict[str, str | int]:
    """The fields of a record that a measurement can fill in by itself; what is not known is left out.

    The commit is that of the ``checkout``, else the job's; the run is the job's. Raises :class:`UsageError` for a
    checkout that does not tell its commit.
    """
    fields = fields_of_job(environ)
    if checkout:
        try:
            fields |= _commit_fields(read_checkout(Path(checkout)))
        except UnknownIdentityError as error:
            raise UsageError(str(error)) from None
    if "workflow_id" in fields:
        with suppress(UnknownIdentityError):
            fields["job_id"] = find_job(environ, int(fields["workflow_id"]), int(fields["run_attempt"])).id
    return fields


def fields_of_job(environ: Mapping[str, str]) -> dict[str, str | int]:
    """What the job's environment says of its commit and its run; empty outside of a job."""
    fields: dict[str, str | int] = {}
    if in_actions(environ):
        with suppress(UnknownIdentityError):
            fields |= _commit_fields(commit_of_job(environ))
        with suppress(UnknownIdentityError):
            workflow, attempt = (
                job_number(environ, name) for name in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")
            )
            fields |= {"workflow_id": workflow, "run_attempt": attempt}
    return fields


def _commit_fields(commit: MeasuredCommit) -> dict[str, str | int]:
    return {"repo": commit.repo, "head_branch": commit.branch, "head_sha": commit.sha}


def commit_of_job(environ: Mapping[str, str]) -> MeasuredCommit:
    """A pull request's own head, not the merge commit that its job checks out.

    Raises :class:`UnknownIdentityError`.
    """
    try:
        head = _event(environ).get("pull_request", {}).get("head")
        if head:
            return MeasuredCommit(environ["GITHUB_REPOSITORY"], head["ref"], head["sha"])
        return MeasuredCommit(environ["GITHUB_REPOSITORY"], environ["GITHUB_REF"], environ["GITHUB_SHA"])
    except (KeyError, AttributeError, TypeError) as error:
        reason = f"the job does not say what it runs on ({error})"
        raise UnknownIdentityError(reason) from None


def _event(environ: Mapping[str, str]) -> dict[str, Any]:
    path = environ.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        event: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"GITHUB_EVENT_PATH={path} cannot be read ({error})"
        raise UnknownIdentityError(reason) from None
    return event


def job_number(environ: Mapping[str, str], variable: str) -> int:
    """A number that every job has in a ``variable``; raises :class:`UnknownIdentityError`."""
    value = environ.get(variable, "")
    if not value.isdecimal():
        reason = f"the job's {variable} is {value!r}, not a number"
        raise UnknownIdentityError(reason)
    return int(value)


_SECONDS_A_REQUEST = 10
_RETRIES = 2
_JOBS_DEADLINE = 60.0


def find_job(environ: Mapping[str, str], workflow: int, attempt: int) -> JobIdentity:
    """The job that runs on this runner now, in this attempt of this run.

    Needs a token that may read actions. Raises :class:`UnknownIdentityError`.
    """
    token = environ.get("GITHUB_TOKEN", "")
    if not token:
        reason = "there is no GITHUB_TOKEN to ask GitHub with"
        raise UnknownIdentityError(reason)
    runner = environ.get("RUNNER_NAME", "")
    jobs = [
        job
        for job in _github_jobs(environ, token, workflow)
        if job.runner_name == runner and job.run_attempt == attempt
    ]
    if not jobs:
        reason = f"GitHub lists no job on the runner {runner!r} in attempt {attempt} of this run"
        raise UnknownIdentityError(reason)
    # A self-hosted runner may have had several jobs of this run, one after the other.
    latest = max(jobs, key=lambda job: job.started_at)
    return JobIdentity(latest.id, latest.name)


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
        repository = api.get_repo(environ.get("GITHUB_REPOSITORY", ""))
        return list(_until(_JOBS_DEADLINE, repository.get_workflow_run(workflow).jobs("latest")))
    except GithubException as error:
        reason = f"GitHub answered {error.status}: {error.message}"
    except requests.RequestException as error:
        reason = f"GitHub cannot be reached: {type(error).__name__}"
    finally:
        api.close()
    raise UnknownIdentityError(reason)


def _until(seconds: float, jobs: Iterable[WorkflowJob]) -> Iterable[WorkflowJob]:
    end = time.monotonic() + seconds
    for job in jobs:
        yield job
        if time.monotonic() > end:
            reason = f"GitHub took more than {seconds:g} s to list the jobs"
            raise UnknownIdentityError(reason)


_GIT_DEADLINE = 60.0


def read_checkout(folder: Path) -> MeasuredCommit:
    """Ask git about ``folder``; raises :class:`UnknownIdentityError` where it cannot tell everything."""
    sha, date = _git(folder, "log", "-1", "--no-show-signature", "--format=%H %ct").split()
    return MeasuredCommit(_repository(folder), _checkout_branch(folder), sha, int(date))


def _repository(folder: Path) -> str:
    url = _git(folder, "remote", "get-url", "origin")
    repo = repository_name(url)
    if not repo:
        reason = f"{folder}: its remote 'origin' names no owner/name; set one"
        raise UnknownIdentityError(reason)
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
        reason = f"{folder}: no branch holds the commit that is checked out; fetch its branch"
        raise UnknownIdentityError(reason)
    return names[0]


def _short(ref: str) -> str:
    kind, _, name = ref.removeprefix("refs/").partition("/")
    return name if kind == "heads" else name.partition("/")[2]


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_DEADLINE, check=True)
    except FileNotFoundError:
        reason = f"git is not installed, so {folder} cannot be asked what it holds; install it"
        raise UnknownIdentityError(reason) from None
    except subprocess.TimeoutExpired:
        reason = f"{folder}: git did not answer within {_GIT_DEADLINE:g} s; look for a lock or a slow disk"
        raise UnknownIdentityError(reason) from None
    except subprocess.CalledProcessError as error:
        told = (error.stderr.strip().splitlines() or [f"git ended with {error.returncode}"])[-1]
        told = told.removeprefix("fatal: ").removeprefix("error: ")
        reason = f"{folder}: {told}; name the checkout that was measured with --repo"
        raise UnknownIdentityError(reason) from None
    return done.stdout.strip()
