"""The command ``torchperf watch``: check the scheduled runs of a workflow, and keep an issue open until one works."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from operator import attrgetter
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.document import Bold, Code, Column, Document, Link, Paragraph, Piece, Table
from torchperf_ci.errors import UsageError
from torchperf_ci.github import GitHubClient, GitHubRefusedError, github_client, github_server
from torchperf_ci.issues.body import IssueContext
from torchperf_ci.issues.findings import IssueFinding, cause_fingerprint
from torchperf_ci.issues.matching import IssueRules
from torchperf_ci.issues.publishing import NightToPublish, PublishedIssues, publish_issues
from torchperf_ci.issues.tracker import IssueTracker
from torchperf_ci.markdown import to_markdown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from github.WorkflowRun import WorkflowRun

    from torchperf_ci.options.analysis_commands import WatchOptions


_SECONDS = 120.0
"""Most seconds for all requests to GitHub."""


def watch_command(options: WatchOptions) -> int:
    """Check the schedule, and open or close the issue. Missing runs do not make this command fail."""
    now = _now()
    server = github_server(os.environ)
    with github_client(options.repo, os.environ, _SECONDS) as client:
        schedule = read_schedule(client, server, options.workflow, options.branch)
        status = check_schedule(schedule, now, options.within)
        _report_status(schedule, status)
        tonight = _night_to_publish(schedule, status, f"{now:%Y-%m-%d}")
        if options.dry_run:
            _show_draft(tonight)
        else:
            _report_published(publish_issues(IssueTracker(client), tonight))
    return 0


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _night_to_publish(schedule: WorkflowSchedule, status: ScheduleStatus, night: str) -> NightToPublish:
    """Return what to publish on ``night`` (ISO date). One successful run is enough to close the issue."""
    name = cause_fingerprint("nightly", schedule.file)
    findings = []
    if status.missing:
        document = nightly_document(schedule, status)
        findings.append(IssueFinding("nightly", name, (), why=status.why, document=document))
    worked = next((run for run in schedule.runs if run.worked), None)
    again = Link(status.why, worked.url) if worked else status.why
    return NightToPublish(
        findings,
        verdicts=(),
        rules=IssueRules(night, recovered_nights=1, max_per_night=sys.maxsize, kinds=("nightly",)),
        context=lambda _: IssueContext(night),
        resolved={name: ("It runs again: ", again, ".")} if status.state == "ran" else {},
    )


def _report_status(schedule: WorkflowSchedule, status: ScheduleStatus) -> None:
    """Report the status in the log, the summary, the outputs and, if runs are missing, an annotation of the job."""
    line = f"{schedule.file}: {status.why}"
    say(line)
    actions.set_output("ran", str(not status.missing).lower())
    if status.missing:
        actions.annotate([actions.Annotation("error", line, title="No results")])
    blocks = nightly_document(schedule, status).blocks if status.missing else [Paragraph(line)]
    actions.append_summary(to_markdown(Document("", blocks)))


def _show_draft(tonight: NightToPublish) -> None:
    """Print what the issue would say."""
    for finding in tonight.findings:
        say(*to_markdown(finding.document).splitlines() if finding.document else (), out=sys.stdout)
    say("no issue was changed: this is a dry run")


def _report_published(done: PublishedIssues) -> None:
    """Print and output the URL of the issue. Raises :class:`NotDeliveredError` if it could not be published."""
    for word in ("opened", "reopened", "known", "closed"):
        for issue in getattr(done, word):
            actions.set_output("issue-url", issue.url)
            say(f"{word}: {issue.url}")
    for note in (*done.dismissed, *done.notes):
        say(note)
    done.check_published()


def nightly_document(schedule: WorkflowSchedule, status: ScheduleStatus) -> Document:
    """Return the issue's text: the verdict, the next step and the newest runs. It depends on nothing else."""
    why = f": {status.why}. Meanwhile nothing is measured, and a regression goes unseen."
    renewed = (
        "torchperf updates this text, and closes the issue as soon as a scheduled run has delivered results."
    )
    return Document(
        nightly_title(schedule),
        [
            Paragraph((Bold(_HEADLINES[status.state]), " ", Link(Code(schedule.file), schedule.url), why)),
            Paragraph((Bold("Next step:"), " ", *_next_step(schedule, status.state))),
            Table(
                [Column("began"), Column("run"), Column("result")],
                [
                    (to_the_minute(run.began), Link(str(run.number), run.url), _ended(run))
                    for run in schedule.runs
                ],
            ),
            Paragraph(renewed, small=True),
        ],
    )


def nightly_title(schedule: WorkflowSchedule) -> str:
    """Return the issue's title, at most 120 characters without markup, which is the same for every reason."""
    return f"No results from the scheduled benchmarks ({schedule.file[:70]})"


_HEADLINES: Mapping[ScheduleState, str] = {
    "absent": "The benchmarks did not run.",
    "failing": "The benchmarks fail.",
    "disabled": "The benchmarks are disabled.",
}


def _next_step(schedule: WorkflowSchedule, state: ScheduleState) -> tuple[Piece, ...]:
    to_the_workflow = ("open ", Link("the workflow", schedule.url), " under ", Bold("Actions"))
    if state == "disabled":
        return (*to_the_workflow, " and choose ", Bold("Enable workflow"), ", or bring its file back.")
    if state == "failing":
        no_runner = "If no runner picked up a job, GitHub canceled it after a day: check whether the runner is online."
        again = Bold("Re-run failed jobs")
        return ("open the newest run below; ", again, f" counts as a new run. {no_runner}")
    late = "Under high load, GitHub may start a scheduled run late or skip it: choose a minute other than 0."
    read = "GitHub reads the schedule from the default branch only, and stops it when the person who last edited its "
    return (
        *to_the_workflow,
        f" and start it by hand. {late} {read}",
        Code("cron"),
        " line leaves the organization.",
    )


def _ended(run: ScheduledRun) -> str:
    return (f"{run.ended}, with verdicts" if run.judged else run.ended) or "in progress"


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
    since = to_the_minute(ended[row - 1].began)
    many = f"its last {row} runs failed, the first of them at {since}"
    return many if row > 1 else f"its last run failed, at {since}"


VERDICTS_ARTIFACT = "torchperf-verdicts"
"""Name of the artifact that a run of the nightly workflow leaves if it has judged, even if it failed later."""
_RUNS = 20
"""How many runs are checked. For each failed one, GitHub is asked for its artifacts."""


def read_schedule(client: GitHubClient, server: str, file: str, branch: str | None) -> WorkflowSchedule:
    """Read the workflow in ``file`` and its newest scheduled runs, on ``branch`` if given.

    ``server`` is GitHub's URL, for links. Raises :class:`UsageError` for an unknown workflow, :class:`CredentialsError`
    if the token lacks permission, and :class:`NotDeliveredError` if GitHub fails.
    """
    from github.GithubObject import NotSet

    try:
        workflow = client.request(lambda: client.repository.get_workflow(file).complete())
        newest_first = workflow.get_runs(event="schedule", branch=branch or NotSet)
        runs = client.request(lambda: list(newest_first.get_page(0)))[:_RUNS]
        name = workflow.path.rpartition("/")[2]
        page = f"{server}/{client.name}/actions/workflows/{quote(name)}"
        known = sorted((_scheduled_run(client, run) for run in runs), key=attrgetter("began"), reverse=True)
        return WorkflowSchedule(name, page, workflow.state, workflow.created_at, tuple(known))
    except GitHubRefusedError as error:
        if error.status == 404:
            msg = (
                f"{client.name} has no workflow {file!r}, or the token in GITHUB_TOKEN cannot see it: "
                "it needs `permissions: actions: read`"
            )
            raise UsageError(msg) from error
        raise error.explained(f"list the runs of {file} in {client.name}", "actions: read") from error


def _scheduled_run(client: GitHubClient, run: WorkflowRun) -> ScheduledRun:
    ended = (run.conclusion or "failure") if run.status == "completed" else ""
    judged = ended not in ("", "success") and any(
        artifact.name == VERDICTS_ARTIFACT for artifact in client.all(run.get_artifacts)
    )
    return ScheduledRun(run.run_number, run.run_started_at or run.created_at, run.html_url, ended, judged)
