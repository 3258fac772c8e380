"""Which commit was measured, as GitHub tells the job: what an artifact says of it is not asked."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.options import ReportOptions


_RUN_URL = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}"
_BY_HAND = "give --pull-request and --head-sha"


@dataclass(frozen=True)
class Measured:
    """A commit, where it lies, and the pull requests that are said to be of it; empty where that is not known.

    ``run_url`` is the page of the run that measured, and ``workflow`` the file of its workflow.
    """

    sha: str = ""
    repository: str = ""
    branch: str = ""
    pull_requests: tuple[int, ...] = ()
    run_url: str = ""
    workflow: str = ""


def measured(options: ReportOptions, environ: Mapping[str, str]) -> Measured:
    """What the options say, else the event that the job runs for.

    That is the pull request itself, or the end of the run that measured (``workflow_run``), whose list of pull requests
    is empty where they come from forks. The event's commit counts also where an option names the pull request: who
    takes its number from an artifact has it checked. Raises :class:`UsageError`.
    """
    event = _event(environ)
    try:
        found = _of_run(event) if "workflow_run" in event else _of_pull_request(event, environ)
    except (AttributeError, KeyError, TypeError) as error:
        msg = f"GITHUB_EVENT_PATH does not hold what GitHub writes there ({error!r}); {_BY_HAND}"
        raise UsageError(msg) from None
    if options.head_sha not in (None, found.sha):  # another commit, of which the event says nothing
        found = Measured(run_url=found.run_url, workflow=found.workflow)
    number = options.pull_request
    return replace(
        found,
        sha=options.head_sha or found.sha,
        repository=options.head_repository or found.repository,
        branch=options.head_branch or found.branch,
        pull_requests=(number,) if number else found.pull_requests,
    )


def run_url(environ: Mapping[str, str]) -> str:
    """The page of the run that this is; empty outside a job."""
    return _RUN_URL.format_map(environ) if "GITHUB_RUN_ID" in environ else ""


def _of_run(event: Mapping[str, Any]) -> Measured:
    run = event["workflow_run"]
    repository = run.get("head_repository") or {}  # null where the fork is gone
    here = event["repository"][
        "id"
    ]  # in a fork, the run's pull requests are those of the upstream repository
    return Measured(
        run["head_sha"],
        repository.get("full_name", ""),
        run["head_branch"] or "",
        tuple(pull["number"] for pull in run["pull_requests"] if pull["base"]["repo"]["id"] == here),
        run["html_url"],
        _file(run.get("path") or ""),
    )


def _of_pull_request(event: Mapping[str, Any], environ: Mapping[str, str]) -> Measured:
    url = run_url(environ)
    workflow = _file("/".join(environ.get("GITHUB_WORKFLOW_REF", "").split("/")[2:]))  # after owner and name
    if "pull_request" not in event:
        return Measured(run_url=url, workflow=workflow)
    pull = event["pull_request"]
    head = pull["head"]
    repository = head["repo"] or {}
    return Measured(
        head["sha"], repository.get("full_name", ""), head["ref"], (pull["number"],), url, workflow
    )


def _file(path: str) -> str:
    """A workflow's path less the ``@`` and the branch that GitHub may add."""
    return path.partition("@")[0]


def _event(environ: Mapping[str, str]) -> dict[str, Any]:
    path = environ.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"GITHUB_EVENT_PATH={path} cannot be read ({error}); {_BY_HAND}"
        raise UsageError(msg) from None
    return event if isinstance(event, dict) else {}
