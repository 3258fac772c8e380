"""One comment on a pull request: found again by a hidden marker, updated, never repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.culprits.markdown import GITHUB
from torchperf_ci.errors import CredentialsError, NotDeliveredError, TorchperfError
from torchperf_ci.report.document import document
from torchperf_ci.report.github import RefusedError, login

if TYPE_CHECKING:
    from github.Issue import Issue
    from github.IssueComment import IssueComment

    from torchperf_ci.report.github import Asking
    from torchperf_ci.report.measured import Measured
    from torchperf_ci.report.told import Told

MARKER = "<!-- torchperf report -->"
LIMIT = 65_536
"""Characters that GitHub takes; as many bytes are always fewer."""
_GONE = (404, 410)
_ROUNDS = 3


def body(told: Told, measured: Measured, server: str = GITHUB) -> str:
    """The whole comment, its marker first: verdicts, and the culprits below them."""
    where = f"Measured at {measured.sha}" if measured.sha else ""
    if measured.run_url:
        where = f"{where or 'Measured'} in [this run]({measured.run_url})"
    frame = f"{MARKER}\n{{}}\n<sub>{where}.</sub>\n" if where else f"{MARKER}\n{{}}"
    return frame.replace("{}", document(told, LIMIT - len(frame.encode()), server))


def put(ask: Asking, number: int, text: str) -> str:
    """Have ``text`` be the one comment of ours on the pull request; the comment's URL.

    Jobs that do this at the same moment all look again after they have written: the oldest comment stays. Raises
    :class:`CredentialsError` where the token may not, and :class:`NotDeliveredError` where GitHub does not.
    """
    issue = ask.repository.get_issue(number)
    for _ in ask.deadline.tries(_ROUNDS):
        try:
            return _put(ask, issue, text).html_url
        except RefusedError as error:
            refusal = error
            if error.status not in _GONE:  # somebody deleted, since we looked, what was to be updated
                break
    raise _explained(refusal, ask.name, number) from refusal


def _put(ask: Asking, issue: Issue, text: str) -> IssueComment:
    earlier = _ours(ask, issue, login(ask))
    if not earlier:
        created = ask(lambda: issue.create_comment(text), again=False)
        earlier = _ours(ask, issue, created.user.login) or [created]
        if earlier[0].id == created.id:
            return created  # what somebody wrote after it is theirs to take away
        _delete(ask, created)
        earlier = [comment for comment in earlier if comment.id != created.id]
    kept, *others = earlier
    if _trimmed(kept.body) != _trimmed(text):
        ask(lambda: kept.edit(text))
    for other in others:
        _delete(ask, other)
    return kept


def _ours(ask: Asking, issue: Issue, login: str) -> list[IssueComment]:
    """Our comments, oldest first: a marker in somebody else's is a quotation, or a trap."""
    comments = ask.all(issue.get_comments)
    ours = [
        comment
        for comment in comments
        if comment.user and comment.user.login == login and (comment.body or "").startswith(MARKER)
    ]
    return sorted(ours, key=lambda comment: comment.id)


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
