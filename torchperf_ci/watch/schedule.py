"""Check whether a workflow runs as often as scheduled, from its state and runs on GitHub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from torchperf_ci.errors import CredentialsError, NotDeliveredError, TorchperfError, UsageError
from torchperf_ci.github import GitHubRefusedError

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from github.Workflow import Workflow
    from github.WorkflowRun import WorkflowRun

    from torchperf_ci.github import GitHubClient


ScheduleState = Literal["ran", "absent", "failing", "disabled", "unknown"]
"""It worked in time; it did not start; it started and failed; it is disabled; it is too early to tell."""

_DISABLED = {
    "disabled_inactivity": "GitHub disabled it because nothing was committed for 60 days",
    "disabled_manually": "somebody disabled it",
    "disabled_fork": "it is disabled because this repository is a fork",
    "deleted": "its file is no longer on the default branch",
}


@dataclass(frozen=True)
class ScheduledRun:
    """One run of the workflow. ``ended`` is its conclusion, empty while it is running; ``url`` is its page.

    ``judged``: it failed but left verdicts, so it is red because something regressed, and did work.
    """

    number: int
    began: datetime
    url: str
    ended: str = ""
    judged: bool = False

    @property
    def worked(self) -> bool:
        """Whether the run has ended and done its work."""
        return self.ended == "success" or (self.judged and bool(self.ended))


@dataclass(frozen=True)
class WorkflowSchedule:
    """A workflow and its newest scheduled runs, newest first. ``state`` is as reported by GitHub."""

    file: str
    url: str
    state: str
    created: datetime
    runs: tuple[ScheduledRun, ...] = ()


@dataclass(frozen=True)
class ScheduleStatus:
    """The status of a schedule; ``why`` explains it in a sentence without a period."""

    state: ScheduleState
    why: str

    @property
    def missing(self) -> bool:
        """Whether results are missing, so that someone must be told."""
        return self.state in ("absent", "failing", "disabled")


def check_schedule(schedule: WorkflowSchedule, now: datetime, within: timedelta) -> ScheduleStatus:
    """Check whether a run that worked began in the time ``within`` before ``now``.

    A run in progress is neither a failure nor a success; if another run ended in that time, that one counts.
    """
    if schedule.state != "active":
        return ScheduleStatus("disabled", _DISABLED.get(schedule.state, f"GitHub calls it {schedule.state}"))
    recent = [run for run in schedule.runs if run.began >= now - within]
    for run in recent:
        if run.worked:
            return ScheduleStatus("ran", f"run {run.number} of {to_the_minute(run.began)} delivered results")
    failed = [run for run in recent if run.ended]
    if failed:
        return ScheduleStatus("failing", _failed_in_a_row(schedule))
    if recent:
        return ScheduleStatus(
            "unknown", f"run {recent[0].number} of {to_the_minute(recent[0].began)} is in progress"
        )
    if schedule.created >= now - within:
        return ScheduleStatus("unknown", f"it has only existed since {to_the_minute(schedule.created)}")
    if schedule.runs:
        return ScheduleStatus(
            "absent", f"its schedule has started no run since {to_the_minute(schedule.runs[0].began)}"
        )
    return ScheduleStatus("absent", "its schedule has never started a run")


def to_the_minute(moment: datetime) -> str:
    """Format a time like ``2026-11-21 04:17 UTC``."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _failed_in_a_row(schedule: WorkflowSchedule) -> str:
    """Say how many runs in a row failed, as far as the list of runs goes back."""
    ended = [run for run in schedule.runs if run.ended]
    row = next((index for index, run in enumerate(ended) if run.worked), len(ended))
    first = ended[row - 1]
    what = "its last run failed" if row == 1 else f"its last {row} runs failed"
    return (
        f"{what}, the first of them at {to_the_minute(first.began)}"
        if row > 1
        else f"{what}, at {to_the_minute(first.began)}"
    )


VERDICTS_ARTIFACT = "torchperf-verdicts"
"""Name of the artifact that a run of the nightly workflow leaves if it has judged, even if it failed later."""
_RUNS = 20
"""How many runs are checked. For each failed one, GitHub is asked for its artifacts."""


def read_schedule(ask: GitHubClient, server: str, file: str, branch: str | None) -> WorkflowSchedule:
    """Read the workflow in ``file`` and its newest scheduled runs, on ``branch`` if given.

    ``server`` is GitHub's URL, for links. Raises :class:`UsageError` for an unknown workflow, :class:`CredentialsError`
    if the token lacks permission, and :class:`NotDeliveredError` if GitHub fails.
    """
    try:
        workflow = ask(lambda: ask.repository.get_workflow(file).complete())
        runs = ask(lambda: _newest_runs(workflow, branch))
        name = workflow.path.rpartition("/")[2]
        page = f"{server}/{ask.name}/actions/workflows/{quote(name)}"
        known = tuple(_scheduled_run(ask, run) for run in runs)
        return WorkflowSchedule(name, page, workflow.state, workflow.created_at, known)
    except GitHubRefusedError as error:
        raise _explain_refusal(error, ask.name, file) from error


def _newest_runs(workflow: Workflow, branch: str | None) -> list[WorkflowRun]:
    from github.GithubObject import NotSet

    return list(workflow.get_runs(event="schedule", branch=branch or NotSet).get_page(0))[:_RUNS]


def _scheduled_run(ask: GitHubClient, run: WorkflowRun) -> ScheduledRun:
    ended = (run.conclusion or "failure") if run.status == "completed" else ""
    judged = ended not in ("", "success") and _has_judged(ask, run)
    return ScheduledRun(run.run_number, run.run_started_at or run.created_at, run.html_url, ended, judged)


def _has_judged(ask: GitHubClient, run: WorkflowRun) -> bool:
    return any(artifact.name == VERDICTS_ARTIFACT for artifact in ask.all(run.get_artifacts))


def _explain_refusal(error: GitHubRefusedError, repository: str, file: str) -> TorchperfError:
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
