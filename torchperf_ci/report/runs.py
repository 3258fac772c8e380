"""What GitHub knows of a workflow and of the runs that its schedule began."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from torchperf_ci.errors import CredentialsError, NotDeliveredError, TorchperfError, UsageError
from torchperf_ci.report.github import RefusedError
from torchperf_ci.report.schedule import Run, Schedule

if TYPE_CHECKING:
    from github.Workflow import Workflow
    from github.WorkflowRun import WorkflowRun

    from torchperf_ci.report.github import Asking

ARTIFACT = "torchperf-verdicts"
"""What a run leaves that has judged, whatever became of it: the nightly's workflow names it so."""
_RUNS = 20
"""How many are looked at: of each that failed GitHub is asked what it left."""


def read_schedule(ask: Asking, server: str, file: str, branch: str | None) -> Schedule:
    """The workflow in ``file`` and its newest scheduled runs, on ``branch`` where it is given.

    ``server`` is where people look. Raises :class:`UsageError` for an unknown workflow, :class:`CredentialsError` where
    the token may not, and :class:`NotDeliveredError` where GitHub does not.
    """
    try:
        workflow = ask(lambda: ask.repository.get_workflow(file).complete())
        runs = ask(lambda: _newest(workflow, branch))
        name = workflow.path.rpartition("/")[2]
        page = f"{server}/{ask.name}/actions/workflows/{quote(name)}"
        known = tuple(_run(ask, run) for run in runs)
        return Schedule(name, page, workflow.state, workflow.created_at, known)
    except RefusedError as error:
        raise _explained(error, ask.name, file) from error


def _newest(workflow: Workflow, branch: str | None) -> list[WorkflowRun]:
    from github.GithubObject import NotSet

    return list(workflow.get_runs(event="schedule", branch=branch or NotSet).get_page(0))[:_RUNS]


def _run(ask: Asking, run: WorkflowRun) -> Run:
    ended = (run.conclusion or "failure") if run.status == "completed" else ""
    judged = ended not in ("", "success") and _has_judged(ask, run)
    return Run(run.run_number, run.run_started_at or run.created_at, run.html_url, ended, judged)


def _has_judged(ask: Asking, run: WorkflowRun) -> bool:
    return any(artifact.name == ARTIFACT for artifact in ask.all(run.get_artifacts))


def _explained(error: RefusedError, repository: str, file: str) -> TorchperfError:
    if error.status == 404:
        return UsageError(
            f"{repository} has no workflow {file!r}, or the token in GITHUB_TOKEN cannot see it: "
            "it needs `permissions: actions: read`"
        )
    if error.status in (401, 403):
        return CredentialsError(
            f"the token in GITHUB_TOKEN may not look at the runs of {repository}: {error}; "
            "give the job `permissions: actions: read`"
        )
    return NotDeliveredError(f"the runs of {file} in {repository} cannot be listed: {error}")
