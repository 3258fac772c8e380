"""Our issues in one repository at GitHub: found, opened, edited, closed. What happens when is decided elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from torchperf_ci.errors import CredentialsError
from torchperf_ci.report.github import RefusedError, login
from torchperf_ci.report.issues.labels import made
from torchperf_ci.report.issues.life.ours import LABEL, Ours, read
from torchperf_ci.report.issues.refusals import LockedError, StaleError, explained, is_gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from github.Issue import Issue

    from torchperf_ci.report.github import Asking
    from torchperf_ci.report.issues.labels import Labels

Reason = Literal["completed", "not_planned", "duplicate", "reopened"]
"""Why an issue is closed, or open again, in GitHub's words."""


@dataclass(frozen=True)
class Board:
    """Ask about issues. ``labels`` are those that new ones get beside our own.

    Everything here raises :class:`CredentialsError` where the token may not, and :class:`NotDeliveredError` where
    GitHub does not.
    """

    ask: Asking
    labels: Sequence[str] = ()

    @cached_property
    def login(self) -> str:
        """Who we are."""
        return login(self.ask)

    def ours(self) -> list[Ours]:
        """All of them, open and closed, by number. A memory in somebody else's issue is a quotation, or a trap."""
        with self._explaining("list issues"):
            found = self.ask.all(lambda: self.ask.repository.get_issues(state="all", labels=[LABEL]))
        return sorted(filter(None, map(self._known, found)), key=lambda issue: issue.number)

    def open(self, title: str, body: str) -> Ours:
        """Open an issue with all labels that can be had."""
        with self._explaining("open an issue"):
            labels, create = list(self._made.usable), self.ask.repository.create_issue
            issue = self.ask(lambda: create(title=title, body=body, labels=labels), again=False)
            opened = self._known(issue)
            if opened is None:  # it would not be found again, and there would be one more every night
                self.ask(lambda: issue.edit(state="closed", state_reason="not_planned"))
                raise CredentialsError(self._not_ours(issue))
        return opened

    def edit(self, issue: Ours, body: str, *, title: str | None = None) -> None:
        """Give an issue another body, and another title where it is given.

        Raises :class:`StaleError` where it is not any more as it was when somebody looked.
        """
        self._change(issue, body=body, **({"title": title} if title else {}))

    def close(
        self, issue: Ours, body: str, reason: Reason = "completed", labels: Sequence[str] | None = None
    ) -> None:
        """Close an issue with a last body; as :meth:`edit`."""
        given = {} if labels is None else {"labels": list(labels)}
        self._change(issue, body=body, state="closed", state_reason=reason, **given)

    def reopen(self, issue: Ours, body: str) -> None:
        """Open an issue again with a new body; as :meth:`edit`."""
        self._change(issue, body=body, state="open", state_reason="reopened")

    def comment(self, issue: Ours, text: str) -> None:
        """Say something. Raises :class:`LockedError` where nobody may; :class:`StaleError` where it is gone."""
        with self._explaining(f"comment on #{issue.number}", issue):
            self.ask(lambda: self._at(issue).create_comment(text), again=False)

    @property
    def refused_labels(self) -> Sequence[str]:
        """The labels that are missing, and that the token may not make; known once an issue was opened."""
        return self._made.refused if "_made" in vars(self) else ()

    @cached_property
    def _made(self) -> Labels:
        return made(self.ask, self.labels)

    def _change(self, issue: Ours, **changes: Any) -> None:
        """Look again, and write: somebody may have edited, closed, moved or deleted it, or told the same."""
        with self._explaining(f"edit #{issue.number}", issue):
            now = self._at(issue)
            self.ask(now.complete)
            if not self._is_as_it_was(issue, now):
                raise StaleError(issue.number)
            self.ask(lambda: now.edit(**changes))
            if now.html_url != issue.url:  # it was moved in this very moment, and GitHub took the edit there
                raise StaleError(issue.number)

    def _is_as_it_was(self, issue: Ours, now: Issue) -> bool:
        known = self._known(now)
        then = (issue.url, issue.body, issue.is_open)
        return known is not None and (known.url, known.body, known.is_open) == then

    def _at(self, issue: Ours) -> Issue:
        return self.ask.repository.get_issue(issue.number)

    def _known(self, issue: Issue) -> Ours | None:
        return read(issue, self.login)

    def _not_ours(self, issue: Issue) -> str:
        author = issue.user.login if issue.user else "nobody"
        if author != self.login:
            return f"the token in GITHUB_TOKEN is of {author}, and may not ask who it is"
        return (
            f"the issue #{issue.number} of {self.ask.name} did not get the label {LABEL!r}: "
            "the token may not set labels; give the job `permissions: issues: write`"
        )

    @contextmanager
    def _explaining(self, what: str, issue: Ours | None = None) -> Iterator[None]:
        try:
            yield
        except RefusedError as error:
            if issue and is_gone(error):
                raise StaleError(issue.number) from error
            if error.status == 403 and "locked" in str(error).lower():
                raise LockedError(what) from error
            raise explained(error, self.ask.name, what) from error
