"""Our issues in one GitHub repository: list, open, edit and close them. What to do and when is decided elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torchperf_ci.errors import CredentialsError, NotDeliveredError
from torchperf_ci.github import GitHubClient, GitHubRefusedError, authenticated_login, trimmed
from torchperf_ci.issues.memory import IssueMemory, parse_memory, without_memory
from torchperf_ci.markdown import LOGIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from github.Issue import Issue

    from torchperf_ci.culprits.culprit import Culprit


TORCHPERF_LABEL = "torchperf"
"""The label of all our issues, unless people have renamed it; without it, an issue is not found again."""
EXPECTED_LABEL = "torchperf: expected"
"""The label with which people accept the change that an issue reports."""


@dataclass(frozen=True)
class TrackedIssue:
    """An issue that we wrote, recognized by its label, author and hidden memory, whatever its title is now.

    ``expected`` is whether it has the label with which people accept the change.
    """

    number: int
    url: str
    title: str
    body: str
    memory: IssueMemory
    is_open: bool = True
    labels: tuple[str, ...] = ()
    expected: bool = False


_GONE_STATUSES = (301, 404, 410)
"""Answers for what has been moved, hidden or deleted."""


class StaleError(Exception):
    """An issue has changed since it was read."""


class LockedError(Exception):
    """The conversation is locked; the issue itself can still be edited."""


_COLOUR = "d4863b"
_MEANINGS = {
    TORCHPERF_LABEL: "Opened by torchperf, which finds it again by this label",
    EXPECTED_LABEL: "The change is intended: torchperf closes the issue and accepts the new level",
}


def _make_label(client: GitHubClient, name: str) -> None:
    if _has_label(client, name):
        return
    try:
        client.request(
            lambda: client.repository.create_label(name, _COLOUR, _MEANINGS.get(name, "")), retry=False
        )
    except GitHubRefusedError as refused:
        # 422 if another process created it first.
        if refused.status != 422 or not _has_label(client, name):
            raise


def _has_label(client: GitHubClient, name: str) -> bool:
    try:
        client.request(lambda: client.repository.get_label(name).complete())
    except GitHubRefusedError as error:
        if error.status != 404:
            raise
        return False
    return True


_LOST = (
    "has our label, but what it remembers of earlier nights cannot be read, so nothing follows it, and its cause is "
    "reported anew: restore the hidden line at its beginning from the edit history, or remove the label"
)


@dataclass(frozen=True)
class IssueTracker:
    """Reads and changes our issues. ``labels`` are added to new issues besides our own.

    Every method raises :class:`CredentialsError` if the token lacks a permission, and :class:`NotDeliveredError` for
    other failures of GitHub.
    """

    client: GitHubClient
    labels: Sequence[str] = ()

    @cached_property
    def login(self) -> str:
        """The login of the token."""
        return authenticated_login(self.client)

    @cached_property
    def label(self) -> str:
        """Our label as people have named it, who may have renamed it: its description tells it."""
        if _has_label(self.client, TORCHPERF_LABEL):
            return TORCHPERF_LABEL
        labels = self.client.all(self.client.repository.get_labels)
        ours = (label.name for label in labels if label.description == _MEANINGS[TORCHPERF_LABEL])
        return next(ours, TORCHPERF_LABEL)

    def list_issues(self) -> tuple[list[TrackedIssue], list[str]]:
        """All our issues, open and closed, by number, and what to do about open ones without a readable memory.

        Memories in issues by others are ignored: they may be forged.
        """
        with self._explaining("list issues"):
            get_issues = self.client.repository.get_issues
            issues = self.client.all(lambda: get_issues(state="all", labels=[self.label]))
        known = sorted(filter(None, map(self._tracked, issues)), key=lambda issue: issue.number)
        mine = [issue for issue in issues if issue.state == "open" and self._is_by_us(issue)]
        return known, [f"#{issue.number} {_LOST}" for issue in mine if parse_memory(issue.body or "") is None]

    def open(self, title: str, body: str) -> TrackedIssue:
        """Open an issue with all labels that are available."""
        with self._explaining("open an issue"):
            wanted = dict.fromkeys((self.label, *self.labels))
            labels = [name for name in wanted if name not in self.refused_labels]
            create = self.client.repository.create_issue
            issue = self.client.request(lambda: create(title=title, body=body, labels=labels), retry=False)
            opened = self._tracked(issue)
            if opened is None:  # it would not be found again, so each night would open another one
                self.client.request(lambda: issue.edit(state="closed", state_reason="not_planned"))
                raise CredentialsError(self._why_not_tracked(issue))
        return opened

    def change(self, issue: TrackedIssue, **changes: Any) -> None:
        """Change an issue's body, and whatever else ``changes`` say as GitHub names it.

        Raises :class:`StaleError` if somebody has edited, closed, moved or deleted it since it was read.
        """
        with self._explaining(f"edit #{issue.number}", issue):
            now = self.client.repository.get_issue(issue.number)
            self.client.request(now.complete)
            known = self._tracked(now)
            then = (issue.url, issue.body, issue.is_open)
            if known is None or (known.url, known.body, known.is_open) != then:
                raise StaleError
            self.client.request(lambda: now.edit(**changes))
            if now.html_url != issue.url:  # moved at the same moment, and GitHub applied the edit there
                raise StaleError

    def close_as_duplicate(self, issue: TrackedIssue) -> None:
        """Close an issue and remove our label and memory, so that it is not found again."""
        labels = [label for label in issue.labels if label != self.label.lower()]
        body = without_memory(issue.body).lstrip()
        self.change(issue, body=body, state="closed", state_reason="duplicate", labels=labels)

    def comment(self, issue: TrackedIssue, text: str) -> None:
        """Comment on an issue. Raises :class:`LockedError` if it is locked, :class:`StaleError` if it is gone."""
        with self._explaining(f"comment on #{issue.number}", issue):
            remote = self.client.repository.get_issue(issue.number)
            try:
                self.client.request(lambda: remote.create_comment(text), retry=False)
            except NotDeliveredError:  # the next run would not try again, as the issue is edited already
                made = self.client.all(remote.get_comments)
                if trimmed(text) not in [trimmed(comment.body) for comment in made]:
                    self.client.request(lambda: remote.create_comment(text), retry=False)

    @cached_property
    def refused_labels(self) -> Mapping[str, GitHubRefusedError]:
        """Labels that cannot be created, each with the refusal; all others exist then.

        One of them is that for accepting, so that people can choose it. Raises :class:`GitHubRefusedError` if our own
        one cannot be created, because no issue would be found again.
        """
        _make_label(self.client, self.label)
        refused = {}
        for name in dict.fromkeys((*self.labels, EXPECTED_LABEL)):
            try:
                _make_label(self.client, name)
            except GitHubRefusedError as error:
                refused[name] = error
        return refused

    def _is_by_us(self, issue: Issue) -> bool:
        is_pull = issue.html_url.endswith(f"/pull/{issue.number}")
        return not is_pull and issue.user is not None and issue.user.login == self.login

    def _tracked(self, issue: Issue) -> TrackedIssue | None:
        """The issue if it is ours, else None. Makes no requests: lists contain all fields."""
        labels = tuple(label.name.lower() for label in issue.labels)  # GitHub ignores their case
        body = issue.body or ""
        memory = parse_memory(body) if self._is_by_us(issue) and self.label.lower() in labels else None
        if memory is None:
            return None
        return TrackedIssue(
            issue.number,
            issue.html_url,
            issue.title,
            body,
            memory,
            is_open=issue.state == "open",
            labels=labels,
            expected=EXPECTED_LABEL in labels,
        )

    def _why_not_tracked(self, issue: Issue) -> str:
        author = issue.user.login if issue.user else "nobody"
        if author != self.login:
            return f"the token in GITHUB_TOKEN is of {author}, and may not ask who it is"
        return (
            f"the issue #{issue.number} of {self.client.name} did not get the label {self.label!r}: "
            "the token may not set labels; give the job `permissions: issues: write`"
        )

    @contextmanager
    def _explaining(self, what: str, issue: TrackedIssue | None = None) -> Iterator[None]:
        try:
            yield
        except GitHubRefusedError as error:
            if issue and error.status in _GONE_STATUSES:
                raise StaleError from error
            if error.is_locked_conversation:
                raise LockedError(what) from error
            if error.status == 410:
                msg = (
                    f"{self.client.name} has issues disabled ({error}): enable them under Settings → General → "
                    "Features, or name another repository, with `issues: {repo: owner/name}` in torchperf.yml or "
                    "with --repo"
                )
                raise NotDeliveredError(msg) from error
            raise error.explained(f"{what} in {self.client.name}", "issues: write") from error


def author_login(client: GitHubClient, culprit: Culprit, server: str) -> str | None:
    """The login of a culprit's author; None if the commit is not on ``server``, or its author has no account there."""
    repository, commit = culprit.repository_on(server), culprit.commit
    if not (repository and commit):
        return None
    try:
        author = client.request(
            lambda: client.github.get_repo(repository).get_commit(commit).author, retry=False
        )
    except (GitHubRefusedError, NotDeliveredError):
        return None
    login = author.login if author else ""
    return login if LOGIN.fullmatch(login) else None
