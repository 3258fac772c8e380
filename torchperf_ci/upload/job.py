"""Which job of GitHub Actions this is: its runner does not tell it the id that everybody else knows it by."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from github.WorkflowJob import WorkflowJob

_SECONDS_A_REQUEST = 10
_RETRIES = 2
_DEADLINE = 60.0
_SYNTHETIC_FROM = 2**52
"""Synthetic ids are from here to 2**53: JavaScript holds them exactly, and no job of GitHub's is near."""


@dataclass(frozen=True)
class Job:
    """A job as GitHub's API lists it."""

    id: int
    name: str


class JobUnknownError(Exception):
    """The API did not tell the job; the message is the reason."""


def find_job(environ: Mapping[str, str], workflow: int, attempt: int) -> Job:
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
        for job in _jobs(environ, token, workflow)
        if job.runner_name == runner and job.run_attempt == attempt
    ]
    if not jobs:
        reason = f"GitHub lists no job on the runner {runner!r} in attempt {attempt} of this run"
        raise JobUnknownError(reason)
    # A self-hosted runner may have had several jobs of this run, one after the other.
    latest = max(jobs, key=lambda job: job.started_at)
    return Job(latest.id, latest.name)


def _jobs(environ: Mapping[str, str], token: str, workflow: int) -> list[WorkflowJob]:
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
        return list(_until(_DEADLINE, repository.get_workflow_run(workflow).jobs("latest")))
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
