"""Which commit was measured, and by which run, as far as a checkout or a job of GitHub Actions knows.

``run`` writes this into its records; ``upload`` completes records that lack it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from torchperf_ci.actions import in_actions
from torchperf_ci.errors import NotDeliveredError, UsageError, failing_as
from torchperf_ci.git import Git, GitError
from torchperf_ci.github import GitHubRefusedError, github_client, github_server
from torchperf_ci.masking import without_secrets

_BRANCHES = "refs/heads/"
_MERGE_QUEUE = re.compile(r"refs/heads/gh-readonly-queue/(.+)/pr-\d+-[0-9a-f]+")
"""Ref of a group of GitHub's merge queue, with the branch that it is merged into."""


class UnknownIdentityError(Exception):
    """Neither the checkout nor the job nor GitHub's API has the identity; the message is the reason."""


@dataclass(frozen=True)
class MeasuredCommit:
    """A commit on a branch of a repository (``owner/name``).

    ``date`` is the commit time (Unix seconds), if that is to be the timestamp of the records.
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
    """Return the fields of a record that the measurement itself can fill in; unknown ones are left out.

    The commit is that of ``checkout``, else the job's; the run is the job's. Raises :class:`UsageError` for a checkout
    whose commit cannot be determined.
    """
    fields = fields_of_job(environ)
    if checkout:
        with failing_as(UsageError, of=UnknownIdentityError):
            fields |= _commit_fields(read_checkout(Path(checkout)))
    if "workflow_id" in fields:
        with suppress(UnknownIdentityError):
            fields["job_id"] = find_job(environ, int(fields["workflow_id"]), int(fields["run_attempt"])).id
    return fields


def fields_of_job(environ: Mapping[str, str]) -> dict[str, str | int]:
    """Return the commit and run given by the job's environment; empty outside of a job."""
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
    """Return the job's commit; for a pull request its head, not the merge commit that is checked out.

    A ``workflow_run`` job after the run of a pull request is for that pull request, too. Raises
    :class:`UnknownIdentityError`.
    """
    with failing_as(UnknownIdentityError, "the job does not say what it runs on (", ")", of=KeyError):
        event = read_event(environ)
        if head := _pull_request_head(event):
            branch = _branch_of_head(head, event, environ)
            return MeasuredCommit(environ["GITHUB_REPOSITORY"], branch, head.sha)
        return MeasuredCommit(environ["GITHUB_REPOSITORY"], environ["GITHUB_REF"], environ["GITHUB_SHA"])


def _pull_request_head(event: GitHubEvent) -> EventHead | None:
    """Return the head of the pull request that the event is about; None if it is about none."""
    run = event.workflow_run
    if run and run.event.startswith("pull_request"):
        return EventHead(run.head_branch or run.head_sha, run.head_sha, run.head_repository)
    return event.pull_request.head if event.pull_request else None


def _branch_of_head(head: EventHead, event: GitHubEvent, environ: Mapping[str, str]) -> str:
    """Return the branch; ``owner:branch`` for a fork's that is called like the base or the default branch."""
    source = head.repo.full_name if head.repo else ""
    if (
        head.ref in (base_branch(environ), event.repository.default_branch)
        and source != event.repository.full_name
    ):
        return f"{source.partition('/')[0]}:{head.ref}"
    return head.ref


def base_branch(environ: Mapping[str, str]) -> str:
    """Return the branch that the job's pull request or merge queue merges into; empty for other jobs."""
    if not in_actions(environ):
        return ""
    queue = _MERGE_QUEUE.fullmatch(environ.get("GITHUB_REF", ""))
    return queue[1] if queue else environ.get("GITHUB_BASE_REF", "")


def branch_of_job(environ: Mapping[str, str]) -> str:
    """Return the branch that the job runs on; empty outside of a job, and for tags and pull requests."""
    ref = environ.get("GITHUB_REF", "") if in_actions(environ) else ""
    return ref.removeprefix(_BRANCHES) if ref.startswith(_BRANCHES) else ""


def run_url(environ: Mapping[str, str]) -> str:
    """Return the URL of this job's workflow run; empty outside of a job."""
    run = environ.get("GITHUB_RUN_ID", "")
    return (
        f"{github_server(environ)}/{environ.get('GITHUB_REPOSITORY', '')}/actions/runs/{run}" if run else ""
    )


@dataclass(frozen=True)
class EventRepository:
    """A repository in an event."""

    id: int = 0
    full_name: str = ""
    default_branch: str = ""


@dataclass(frozen=True)
class EventHead:
    """The head of a pull request; ``repo`` is None if its fork was deleted."""

    ref: str
    sha: str
    repo: EventRepository | None = None


@dataclass(frozen=True)
class EventPullRequest:
    """The pull request that a job runs for."""

    head: EventHead | None = None
    number: int = 0


@dataclass(frozen=True)
class EventBase:
    """The base of a pull request."""

    repo: EventRepository


@dataclass(frozen=True)
class PullRequestOfRun:
    """A pull request in the list of a workflow run."""

    number: int
    base: EventBase


@dataclass(frozen=True)
class EventRun:
    """The workflow run whose completion triggered a ``workflow_run`` event."""

    head_sha: str
    html_url: str
    pull_requests: tuple[PullRequestOfRun, ...]
    head_branch: str | None = None
    head_repository: EventRepository | None = None
    path: str | None = None
    event: str = ""


@dataclass(frozen=True)
class GitHubEvent:
    """The parts of a job's event that torchperf uses, named as in GitHub's webhooks."""

    repository: EventRepository = EventRepository()
    pull_request: EventPullRequest | None = None
    workflow_run: EventRun | None = None


def read_event(environ: Mapping[str, str]) -> GitHubEvent:
    """Read the job's event; outside of a job it is empty. Raises :class:`UnknownIdentityError`."""
    import msgspec

    path = environ.get("GITHUB_EVENT_PATH")
    if not path:
        return GitHubEvent()
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=GitHubEvent)
    except (OSError, ValueError) as error:  # also JSON of another shape
        reason = f"GITHUB_EVENT_PATH={path} does not hold what GitHub writes there ({error})"
        raise UnknownIdentityError(reason) from None


def job_number(environ: Mapping[str, str], variable: str) -> int:
    """Return a number from an environment variable of the job. Raises :class:`UnknownIdentityError`."""
    value = environ.get(variable, "")
    if not value.isdecimal():
        raise UnknownIdentityError(f"the job's {variable} is {value!r}, not a number")
    return int(value)


_JOBS_SECONDS = 20.0
"""Most seconds to wait for GitHub's list of the jobs of this run."""


def find_job(environ: Mapping[str, str], workflow: int, attempt: int) -> JobIdentity:
    """Return the job that is running on this runner, in this attempt of this workflow run.

    This needs a token with ``actions: read``. Raises :class:`UnknownIdentityError`.
    """
    if not environ.get("GITHUB_TOKEN"):
        raise UnknownIdentityError("there is no GITHUB_TOKEN to ask GitHub with")
    unanswered = (GitHubRefusedError, NotDeliveredError, UsageError)
    with (
        failing_as(UnknownIdentityError, of=unanswered),
        github_client(None, environ, _JOBS_SECONDS) as client,
    ):
        run = client.request(lambda: client.repository.get_workflow_run(workflow))
        listed = client.all(lambda: run.jobs("latest"))
    runner = environ.get("RUNNER_NAME", "")
    jobs = [job for job in listed if job.runner_name == runner and job.run_attempt == attempt]
    if not jobs:
        reason = f"GitHub lists no job on the runner {runner!r} in attempt {attempt} of this run"
        raise UnknownIdentityError(reason)
    # A self-hosted runner may have run several jobs of this workflow run one after the other.
    latest = max(jobs, key=lambda job: job.started_at)
    return JobIdentity(latest.id, latest.name)


_GIT_SECONDS = 60.0
_PATH = r"(?P<path>[\w./~-]+?)(?:\.git)?/?"
_REMOTES = (
    re.compile(r"https?://(?:[^/@]*@)?(?P<host>[\w.-]+(?::\d+)?)/" + _PATH),
    # The port of ssh is not part of the page's address.
    re.compile(r"(?:(?:ssh|git)://(?:[^/@]*@)?|[^/@:]+@)(?P<host>[\w.-]+)(?::\d+(?=/))?[:/]" + _PATH),
    # Without a user, a name without a dot may be an alias of ssh's configuration.
    re.compile(r"(?P<host>[\w-]+(?:\.[\w-]+)+):" + _PATH),
)

_SSH_OF_GITHUB = "ssh.github.com"
"""Where GitHub takes SSH on the port of HTTPS, behind firewalls."""


def read_checkout(folder: Path) -> MeasuredCommit:
    """Identify the commit checked out in ``folder``. Raises :class:`UnknownIdentityError` if anything is missing."""
    if not folder.is_dir():
        reason = f"{folder}: there is no such directory; name the checkout that was measured with --repo"
        raise UnknownIdentityError(reason)
    git = Git.within(_GIT_SECONDS, folder)
    advice = "; name the checkout that was measured with --repo"
    with failing_as(UnknownIdentityError, f"{folder}: ", advice, of=GitError):
        sha, date = git("log", "-1", "--no-show-signature", "--format=%H %ct").decode().split()
        remote, branch = _origin(git), _checked_out_branch(git)
    repo = repository_name(remote)
    if not repo:
        which = (
            f"the remote 'origin', {without_secrets(remote)}, does not say"
            if remote
            else "no remote 'origin' says"
        )
        reason = (
            f"{folder}: {which} which repository this is; give it one: "
            f"git remote {'set-url' if remote else 'add'} origin https://github.com/OWNER/NAME"
        )
        raise UnknownIdentityError(reason)
    if not branch:
        reason = f"{folder}: no branch holds the commit that is checked out; fetch its branch"
        raise UnknownIdentityError(reason)
    return MeasuredCommit(repo, branch, sha, int(date))


def uncommitted_note(checkout: Path, consequence: str) -> str:
    """Say that a checkout differs from its commit; empty if no tracked file is changed."""
    with suppress(GitError):
        if Git.within(_GIT_SECONDS, checkout)(
            "--no-optional-locks", "status", "--porcelain", "--untracked-files=no"
        ):
            return f"⚠ the checkout {checkout} has uncommitted changes, {consequence}"
    return ""


def origin_page(folder: Path) -> str:
    """Return the web page of the remote ``origin``, without credentials; empty if there is none."""
    with suppress(GitError):
        return page_of(_origin(Git.within(_GIT_SECONDS, folder)))
    return ""


def page_of(remote: str) -> str:
    """Return the web page for a remote's URL, without credentials; empty if it is not on a server."""
    match = next(filter(None, (form.fullmatch(remote) for form in _REMOTES)), None)
    if not match:
        return ""
    host = match["host"].lower()
    return f"https://{'github.com' if host == _SSH_OF_GITHUB else host}/{match['path']}"


def repository_name(url: str) -> str:
    """Return ``owner/name`` from a URL such as ``https://host/owner/name.git`` or ``git@host:owner/name``, or empty."""
    try:
        path = urlsplit(url).path if "://" in url else url.rpartition(":")[2]
    except ValueError:
        return ""
    steps = path.removesuffix("/").removesuffix(".git").split("/")
    parts = [step for step in steps if step not in ("", ".", "..")]
    return "/".join(parts[-2:]) if len(parts) > 1 else ""


def _origin(git: Git) -> str:
    """Return the URL of ``origin``; empty if there is none. Raises :class:`GitError`."""
    remotes = git("remote").decode(errors="replace").split()
    return git("remote", "get-url", "origin").decode(errors="replace").strip() if "origin" in remotes else ""


def _checked_out_branch(git: Git) -> str:
    """Return the current branch; for a detached HEAD, as in CI, a branch that contains it, else empty."""
    current = git("branch", "--show-current").decode(errors="replace").strip()
    if current:
        return current
    # Targets of symbolic references sort first: these are the remotes' default branches.
    form = "--format=%(if)%(symref)%(then)0 %(symref)%(else)1 %(refname)%(end)"
    listed = git("for-each-ref", "--contains=HEAD", form, "refs/heads", "refs/remotes").decode(
        errors="replace"
    )
    names = [_short(line.partition(" ")[2]) for line in sorted(listed.splitlines())]
    return names[0] if names else ""


def _short(ref: str) -> str:
    kind, _, name = ref.removeprefix("refs/").partition("/")
    return name if kind == "heads" else name.partition("/")[2]
