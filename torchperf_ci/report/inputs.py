"""Inputs of a report: the files of verdicts and culprits, and the measured commit from the job's event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.culprits.culprit import read_culprits
from torchperf_ci.errors import UsageError
from torchperf_ci.identity import UnknownIdentityError, read_event, run_url
from torchperf_ci.verdicts.verdict import read_verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.culprits.culprit import Bisection
    from torchperf_ci.identity import EventPullRequest, EventRepository, EventRun
    from torchperf_ci.options.analysis_commands import ReportOptions
    from torchperf_ci.verdicts.verdict import Judgement, Verdict


@dataclass(frozen=True)
class ReportInputs:
    """The content of the given files, in their order."""

    judgements: tuple[Judgement, ...]
    bisections: tuple[Bisection, ...] = ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of all files."""
        return tuple(verdict for judgement in self.judgements for verdict in judgement.verdicts)


def read_inputs(options: ReportOptions) -> ReportInputs:
    """Read the files that the options name. Raises :class:`TorchperfError` for an invalid file."""
    files = bool(options.verdicts or options.culprits)
    if files == options.unjudged:
        msg = (
            "report what? give files of verdicts with --verdicts, and of culprits with --culprits, or --unjudged "
            "alone"
        )
        raise UsageError(msg)
    if options.unjudged and options.to != "comment":
        msg = "--unjudged is for an earlier comment: give --to comment, too"
        raise UsageError(msg)
    return ReportInputs(
        tuple(read_verdicts(Path(path)) for path in options.verdicts),
        tuple(read_culprits(Path(path)) for path in options.culprits),
    )


_BY_HAND = "give --pull-request and --head-sha"


@dataclass(frozen=True)
class MeasuredHead:
    """The measured commit, its repository and branch, and the pull requests said to be for it; empty if unknown.

    ``run_url`` is the page of the run that measured it, and ``workflow`` the path of that run's workflow file.
    """

    sha: str = ""
    repository: str = ""
    branch: str = ""
    pull_requests: tuple[int, ...] = ()
    run_url: str = ""
    workflow: str = ""


def measured_head(options: ReportOptions, environ: Mapping[str, str]) -> MeasuredHead:
    """Return the measured commit from the options, or else from the event that triggered the job.

    The event is the pull request itself, or the completion of the run that measured (``workflow_run``), whose list of
    pull requests is empty if they come from forks. The event's commit is used even if an option names the pull request,
    so that a number from an untrusted artifact is checked against it. Raises :class:`UsageError`.
    """
    try:
        event = read_event(environ)
        run = event.workflow_run
        found = _of_run(run, event.repository) if run else _of_pull_request(event.pull_request, environ)
    except UnknownIdentityError as error:
        msg = f"{error}; {_BY_HAND}"
        raise UsageError(msg) from None
    if options.head_sha not in (None, found.sha):  # another commit, about which the event says nothing
        found = MeasuredHead(run_url=found.run_url, workflow=found.workflow)
    number = options.pull_request
    return replace(
        found,
        sha=options.head_sha or found.sha,
        repository=options.head_repository or found.repository,
        branch=options.head_branch or found.branch,
        pull_requests=(number,) if number else found.pull_requests,
    )


def _of_run(run: EventRun, here: EventRepository) -> MeasuredHead:
    """Return the commit of a run. In a fork, a run lists the upstream's pull requests, which are ignored."""
    pulls = (pull.number for pull in run.pull_requests if pull.base.repo.id == here.id)
    repository = run.head_repository.full_name if run.head_repository else ""
    workflow = _workflow_file(run.path or "")
    return MeasuredHead(run.head_sha, repository, run.head_branch or "", tuple(pulls), run.html_url, workflow)


def _of_pull_request(pull: EventPullRequest | None, environ: Mapping[str, str]) -> MeasuredHead:
    url = run_url(environ)
    after_owner_and_name = environ.get("GITHUB_WORKFLOW_REF", "").split("/")[2:]
    workflow = _workflow_file("/".join(after_owner_and_name))
    if not pull:
        return MeasuredHead(run_url=url, workflow=workflow)
    if not pull.head:
        reason = "GITHUB_EVENT_PATH holds a pull request without a head"
        raise UnknownIdentityError(reason)
    repository = pull.head.repo.full_name if pull.head.repo else ""
    return MeasuredHead(pull.head.sha, repository, pull.head.ref, (pull.number,), url, workflow)


def _workflow_file(path: str) -> str:
    """Return a workflow's path without the ``@`` and the branch that GitHub may append."""
    return path.partition("@")[0]
