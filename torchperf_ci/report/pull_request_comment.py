"""Publish a report as one comment per workflow on the measured commit's pull requests.

A hidden marker identifies the comment, so that it is updated by later runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions, github
from torchperf_ci.console import say
from torchperf_ci.errors import NotDeliveredError, TorchperfError, UsageError, failing_as
from torchperf_ci.identity import UnknownIdentityError, read_event, run_url
from torchperf_ci.report.contents import ReportInputs, report_markdown, why_silent, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from github.Issue import Issue
    from github.IssueComment import IssueComment
    from github.PullRequest import PullRequest
    from github.PullRequestPart import PullRequestPart

    from torchperf_ci.identity import EventPullRequest, EventRepository, EventRun
    from torchperf_ci.options.analysis_commands import ReportOptions


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
    with failing_as(UsageError, after=f"; {_BY_HAND}", of=UnknownIdentityError):
        event = read_event(environ)
        run = event.workflow_run
        head = _of_run(run, event.repository) if run else _of_pull_request(event.pull_request, environ)
    if options.head_sha not in (None, head.sha):  # another commit, about which the event says nothing
        head = MeasuredHead(run_url=head.run_url, workflow=head.workflow)
    number = options.pull_request
    return replace(
        head,
        sha=options.head_sha or head.sha,
        repository=options.head_repository or head.repository,
        branch=options.head_branch or head.branch,
        pull_requests=(number,) if number else head.pull_requests,
    )


def _of_run(run: EventRun, here: EventRepository) -> MeasuredHead:
    """Return the commit of a run. In a fork, a run lists the upstream's pull requests, which are ignored."""
    pulls = (pull.number for pull in run.pull_requests if pull.base.repo.id == here.id)
    repository = run.head_repository.full_name if run.head_repository else ""
    workflow, *_ = (run.path or "").partition("@")
    return MeasuredHead(run.head_sha, repository, run.head_branch or "", tuple(pulls), run.html_url, workflow)


def _of_pull_request(pull: EventPullRequest | None, environ: Mapping[str, str]) -> MeasuredHead:
    url = run_url(environ)
    after_owner_and_name = environ.get("GITHUB_WORKFLOW_REF", "").split("/")[2:]
    workflow, *_ = "/".join(after_owner_and_name).partition("@")  # followed by the branch
    if not pull:
        return MeasuredHead(run_url=url, workflow=workflow)
    if not pull.head:
        raise UnknownIdentityError("GITHUB_EVENT_PATH holds a pull request without a head")
    repository = pull.head.repo.full_name if pull.head.repo else ""
    return MeasuredHead(pull.head.sha, repository, pull.head.ref, (pull.number,), url, workflow)


class PullRequestMovedOnError(Exception):
    """The pull request has a newer head or is closed, so the result is no longer of use there."""


def find_pull_requests(client: github.GitHubClient, measured: MeasuredHead) -> Sequence[PullRequest]:
    """Return the open pull requests with head ``measured``: several only if its branch is known and has several.

    Raises :class:`PullRequestMovedOnError` if there are none anymore, and :class:`UsageError` if there never was one,
    or if there are several and the branch is unknown.
    """
    if not measured.sha and not measured.pull_requests:
        raise UsageError("comment on which pull request? give --pull-request, or --head-sha")
    candidates = {pull.number: pull for pull in _candidates(client, measured)}
    open_ones = [pull for pull in candidates.values() if pull.state == "open"]
    at_head = [pull for pull in open_ones if measured.sha in ("", pull.head.sha)]
    if len(at_head) == 1 or (at_head and measured.repository and measured.branch):
        return at_head
    if at_head:
        names = " and ".join(f"#{pull.number}" for pull in at_head)
        msg = f"{measured.sha} is the head of the pull requests {names}: give one with --pull-request"
        raise UsageError(msg)
    if candidates:
        now = " and ".join(
            f"#{number} {f'has moved on to {pull.head.sha}' if pull.state == 'open' else 'is no longer open'}"
            for number, pull in candidates.items()
        )
        msg = f"the measured {measured.sha or 'commit'} has no pull request anymore: {now}"
        raise PullRequestMovedOnError(msg)
    branch = f" on {measured.repository}:{measured.branch}" if measured.branch else ""
    msg = (
        f"{client.name} has no pull request with the head {measured.sha}{branch}, or the token in GITHUB_TOKEN "
        "cannot see it (it needs pull-requests: read)"
    )
    raise UsageError(msg)


def _candidates(client: github.GitHubClient, measured: MeasuredHead) -> Iterable[PullRequest]:
    """Return the named pull requests, else those of the commit and of its branch.

    The branch is needed because GitHub does not list pull requests for commits of forks.
    """
    repository = client.repository
    if measured.pull_requests:
        return _from_there(measured, [_pull_request(client, number) for number in measured.pull_requests])
    of_commit = _from_there(
        measured, _listed(client, lambda: repository.get_commit(measured.sha).get_pulls())
    )
    if any(pull.head.sha == measured.sha for pull in of_commit) or not (
        measured.repository and measured.branch
    ):
        return of_commit
    head = f"{measured.repository.partition('/')[0]}:{measured.branch}"
    listed = _listed(client, lambda: repository.get_pulls(state="all", head=head))
    return [*of_commit, *_from_there(measured, listed)]


def _from_there(measured: MeasuredHead, pulls: Iterable[PullRequest]) -> list[PullRequest]:
    """Keep the pull requests from the measured repository and branch, if known.

    Anybody can open another pull request with the same commit.
    """
    return [
        pull
        for pull in pulls
        if measured.branch in ("", pull.head.ref)
        and (not measured.repository or _is_of(measured.repository.lower(), pull.head))
    ]


def _is_of(repository: str, head: PullRequestPart) -> bool:
    """Whether a head is in a repository. Of a deleted one GitHub says whose it was, who can have one fork only."""
    if head.repo:
        return head.repo.full_name.lower() == repository
    owner, *_ = (head.label or "").lower().partition(":")
    return owner == repository.partition("/")[0]


def _pull_request(client: github.GitHubClient, number: int) -> PullRequest:
    unseen = f"{client.name} has no pull request #{number} that the token may see: "
    with failing_as(UsageError, unseen, of=github.GitHubRefusedError):
        return client.request(lambda: client.repository.get_pull(number).complete())


def _listed(client: github.GitHubClient, call: Callable[[], Iterable[PullRequest]]) -> list[PullRequest]:
    try:
        return client.all(call)
    except github.GitHubRefusedError as error:
        if error.status in (404, 422):  # no such commit, or branch
            return []
        raise error.explained("list pull requests", "pull-requests: read") from error


MARKER = "<!-- torchperf report -->"
"""Marker of a comment that was not written by a workflow."""
COMMENT_LIMIT = 65_536
"""Most characters of a comment on GitHub. It is applied to bytes, which are never fewer than characters."""
_RED = "### ❌ "
_MEASURED = "<sub>Measured at "
_AGAIN = "<sub>A later run at this commit could not compare"
_ROOM = 300
"""Bytes reserved for :data:`_AGAIN` and its URL."""
_GONE = (404, 410)
_ROUNDS = 3


def comment_marker(workflow: str) -> str:
    """Return the hidden first line of a workflow's comment. It has a digest of the name, which is untrusted."""
    key = sha256(workflow.encode(errors="replace")).hexdigest()[:16]
    return MARKER.replace("report", f"report {key}") if workflow else MARKER


def comment_body(inputs: ReportInputs, measured: MeasuredHead, server: str = github.GITHUB) -> str:
    """Return the whole comment: the marker, the verdicts, and the culprits below them."""
    mark = comment_marker(measured.workflow)
    where = f"{_MEASURED}{measured.sha}" if measured.sha else ""
    if measured.run_url:
        where = f"{where or '<sub>Measured'} in [this run]({measured.run_url})"
    frame = f"{mark}\n{{}}\n{where}.</sub>\n" if where else f"{mark}\n{{}}"
    return frame.replace("{}", report_markdown(inputs, COMMENT_LIMIT - _ROOM - len(frame.encode()), server))


def body_of_nothing(measured: MeasuredHead) -> str:
    """Return the comment for a run without verdicts."""
    commit = f"Commit {measured.sha}" if measured.sha else "This pull request"
    see = f": see [the run]({measured.run_url})" if measured.run_url else ""
    mark = comment_marker(measured.workflow)
    return f"{mark}\n### ⚠️ Performance: not compared\n\n{commit} could not be compared{see}.\n"


def after_nothing(earlier: str, measured: MeasuredHead) -> str:
    """Return the new text of an earlier comment after a run without verdicts.

    A red verdict on the same commit stays, with a line about the run added. Any other verdict is replaced.
    """
    above, *_ = github.trimmed(earlier).partition(f"\n{_AGAIN}")
    headline, where = "".join(above.splitlines()[1:2]), above.rpartition("\n")[2]
    if not (measured.sha and headline.startswith(_RED) and where.startswith(f"{_MEASURED}{measured.sha}")):
        return body_of_nothing(measured)
    see = f": see [the run]({measured.run_url})" if measured.run_url else ""
    return f"{above}\n{_AGAIN}{see}.</sub>\n"


def put_comment(
    client: github.GitHubClient, number: int, text: str, *, revised: Callable[[str], str] | None = None
) -> str:
    """Create or update our single comment with the marker of ``text`` on a pull request, and return its URL.

    With ``revised``, an earlier comment is replaced by what ``revised`` returns for it; without an earlier comment none
    is created, and the URL is empty. Concurrent jobs all check again after writing, and the oldest comment stays.
    Raises :class:`CredentialsError` if the token lacks permission, and :class:`NotDeliveredError` if GitHub fails.
    """
    issue = client.repository.get_issue(number)
    for _ in client.deadline.tries(_ROUNDS):
        try:
            return _put_once(client, issue, text, revised)
        except github.GitHubRefusedError as error:
            refusal = error
            if error.status not in _GONE:  # otherwise the comment was deleted in the meantime
                break
    what = f"comment on {client.name}#{number}"
    if refusal.is_locked_conversation:
        msg = f"the conversation of {client.name}#{number} is locked: {refusal}"
        raise NotDeliveredError(msg) from refusal
    raise refusal.explained(what, "pull-requests: write") from refusal


def _put_once(
    client: github.GitHubClient, issue: Issue, text: str, revised: Callable[[str], str] | None
) -> str:
    mark = _first_line(text)
    earlier = _our_comments(client, issue, github.authenticated_login(client), mark)
    if not earlier:
        if revised:
            return ""
        created = client.request(lambda: issue.create_comment(text), retry=False)
        earlier = _our_comments(client, issue, created.user.login, mark) or [created]
        if earlier[0].id == created.id:
            return created.html_url  # a job that created a later comment deletes it itself
        _delete(client, created)
        earlier = [comment for comment in earlier if comment.id != created.id]
    kept, *others = earlier
    wanted = revised(kept.body or "") if revised else text
    if github.trimmed(kept.body) != github.trimmed(wanted):
        client.request(lambda: kept.edit(wanted))
    for other in others:
        _delete(client, other)
    return kept.html_url


def _our_comments(client: github.GitHubClient, issue: Issue, login: str, mark: str) -> list[IssueComment]:
    """Return our comments with ``mark``, oldest first, or else those not written by a workflow.

    Comments by others are ignored: a marker in them is a quotation or an attack.
    """
    comments = sorted(client.all(issue.get_comments), key=lambda comment: comment.id)
    ours = [comment for comment in comments if comment.user and comment.user.login == login]
    marked = [comment for comment in ours if _first_line(comment.body) == mark]
    return marked or [comment for comment in ours if _first_line(comment.body) == MARKER]


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0].rstrip("\r")


def _delete(client: github.GitHubClient, comment: IssueComment) -> None:
    try:
        client.request(comment.delete)
    except github.GitHubRefusedError as error:
        if error.status not in _GONE:  # already deleted by another job
            raise


_SECONDS = 120.0
"""Most seconds for all requests to GitHub."""


def publish_to_comment(inputs: ReportInputs, options: ReportOptions) -> None:
    """Create or update the comment; if nothing was judged, only update an existing one."""
    of, judged = measured_head(options, os.environ), not options.unjudged
    text = comment_body(inputs, of, github.github_server(os.environ)) if judged else body_of_nothing(of)
    if why := why_silent(options, os.environ):
        write_files(Path(options.out), {"comment.md": text})
        say(f"no comment written: {why}")
        return
    with github.github_client(options.repo, os.environ, _SECONDS) as client:
        try:
            pulls = find_pull_requests(client, of)
        except PullRequestMovedOnError as reason:
            say(f"no comment written: {reason}")
            actions.annotate([actions.Annotation("notice", str(reason), title="No comment written")])
            return
        revised = None if judged else partial(after_nothing, measured=of)
        urls, failures = [], []
        for pull in pulls:
            try:
                urls.append(put_comment(client, pull.number, text, revised=revised))
            except TorchperfError as error:
                failures.append(error)
    written = [*filter(None, urls)]
    if written:
        say(f"commented: {', '.join(written)}")
    elif not failures:
        say("no comment written: there is no comment to update")
    actions.set_output("comment-url", "\n".join(written))
    if failures:
        raise NotDeliveredError("; ".join(map(str, failures))) from failures[0]
