"""One comment a workflow on a pull request: found again by a hidden marker, updated, never repeated."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from torchperf_ci.culprits.markdown import GITHUB
from torchperf_ci.errors import CredentialsError, NotDeliveredError, TorchperfError
from torchperf_ci.report.document import document
from torchperf_ci.report.github import RefusedError, login

if TYPE_CHECKING:
    from collections.abc import Callable

    from github.Issue import Issue
    from github.IssueComment import IssueComment

    from torchperf_ci.report.github import Asking
    from torchperf_ci.report.measured import Measured
    from torchperf_ci.report.told import Told

MARKER = "<!-- torchperf report -->"
"""Of a comment that no workflow made, or that was made before each workflow had its own."""
LIMIT = 65_536
"""Characters that GitHub takes; as many bytes are always fewer."""
_RED = "### ❌ "
_MEASURED = "<sub>Measured at "
_AGAIN = "<sub>A later run at this commit could not compare"
_ROOM = 300
"""Bytes that are left for :data:`_AGAIN` and the URL in it."""
_GONE = (404, 410)
_ROUNDS = 3


def marker(workflow: str) -> str:
    """The hidden first line of the comment of ``workflow``, whose name may be a stranger's and is not in it."""
    key = sha256(workflow.encode(errors="replace")).hexdigest()[:16]
    return MARKER.replace("report", f"report {key}") if workflow else MARKER


def body(told: Told, measured: Measured, server: str = GITHUB) -> str:
    """The whole comment, its marker first: verdicts, and the culprits below them."""
    mark = marker(measured.workflow)
    where = f"{_MEASURED}{measured.sha}" if measured.sha else ""
    if measured.run_url:
        where = f"{where or '<sub>Measured'} in [this run]({measured.run_url})"
    frame = f"{mark}\n{{}}\n{where}.</sub>\n" if where else f"{mark}\n{{}}"
    return frame.replace("{}", document(told, LIMIT - _ROOM - len(frame.encode()), server))


def body_of_nothing(measured: Measured) -> str:
    """The comment in place of verdicts that there are none of."""
    commit = f"Commit {measured.sha}" if measured.sha else "This pull request"
    see = f": see [the run]({measured.run_url})" if measured.run_url else ""
    mark = marker(measured.workflow)
    return f"{mark}\n### ⚠️ Performance: not compared\n\n{commit} could not be compared{see}.\n"


def after_nothing(earlier: str, measured: Measured) -> str:
    """What an earlier comment says after a run without verdicts.

    Red stays red for the commit that it is about, and a line beneath tells of the run; all else is no verdict any more.
    """
    above, *_ = _trimmed(earlier).partition(f"\n{_AGAIN}")
    headline, where = "".join(above.splitlines()[1:2]), above.rpartition("\n")[2]
    if not (measured.sha and headline.startswith(_RED) and where.startswith(f"{_MEASURED}{measured.sha}")):
        return body_of_nothing(measured)
    see = f": see [the run]({measured.run_url})" if measured.run_url else ""
    return f"{above}\n{_AGAIN}{see}.</sub>\n"


def put(ask: Asking, number: int, text: str, *, revised: Callable[[str], str] | None = None) -> str:
    """Have ``text`` be the one comment of ours on the pull request that begins with its marker; the comment's URL.

    With ``revised`` what it makes of an earlier comment takes the place of ``text``; where there is none, none is made,
    and the URL is empty. Jobs that do this at the same moment all look again after they have written: the oldest
    comment stays. Raises :class:`CredentialsError` where the token may not, and
    :class:`NotDeliveredError` where GitHub does not.
    """
    issue = ask.repository.get_issue(number)
    for _ in ask.deadline.tries(_ROUNDS):
        try:
            return _put(ask, issue, text, revised)
        except RefusedError as error:
            refusal = error
            if error.status not in _GONE:  # somebody deleted, since we looked, what was to be updated
                break
    raise _explained(refusal, ask.name, number) from refusal


def _put(ask: Asking, issue: Issue, text: str, revised: Callable[[str], str] | None) -> str:
    mark = _first_line(text)
    earlier = _ours(ask, issue, login(ask), mark)
    if not earlier:
        if revised:
            return ""
        created = ask(lambda: issue.create_comment(text), again=False)
        earlier = _ours(ask, issue, created.user.login, mark) or [created]
        if earlier[0].id == created.id:
            return created.html_url  # what somebody wrote after it is theirs to take away
        _delete(ask, created)
        earlier = [comment for comment in earlier if comment.id != created.id]
    kept, *others = earlier
    wanted = revised(kept.body or "") if revised else text
    if _trimmed(kept.body or "") != _trimmed(wanted):
        ask(lambda: kept.edit(wanted))
    for other in others:
        _delete(ask, other)
    return kept.html_url


def _ours(ask: Asking, issue: Issue, login: str, mark: str) -> list[IssueComment]:
    """Our comments, oldest first: a marker in somebody else's is a quotation, or a trap.

    Where none has ``mark``, those from before each workflow had its own.
    """
    comments = sorted(ask.all(issue.get_comments), key=lambda comment: comment.id)
    ours = [comment for comment in comments if comment.user and comment.user.login == login]
    marked = [comment for comment in ours if _first_line(comment.body) == mark]
    return marked or [comment for comment in ours if _first_line(comment.body) == MARKER]


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0].rstrip("\r")


def _trimmed(text: str) -> str:
    """A body less what GitHub may change in it."""
    return text.replace("\r\n", "\n").strip()


def _delete(ask: Asking, comment: IssueComment) -> None:
    try:
        ask(comment.delete)
    except RefusedError as error:
        if error.status not in _GONE:  # somebody else was faster
            raise


def _explained(error: RefusedError, repository: str, number: int) -> TorchperfError:
    said = str(error).lower()
    if "locked" in said:
        return NotDeliveredError(f"the conversation of {repository}#{number} is locked: {error}")
    if error.status in (401, 403, *_GONE):
        return CredentialsError(
            f"the token in GITHUB_TOKEN may not comment on {repository}#{number}: {error}; "
            "give the job `permissions: pull-requests: write`"
        )
    return NotDeliveredError(f"the comment on {repository}#{number} was refused: {error}")
