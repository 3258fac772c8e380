"""What the GitHub of the tests holds: pull requests, issues, comments, runs of workflows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from github_openapi import Operation

REPOSITORY = "octo/perf"
MEASURING = ".github/workflows/performance.yml"
"""The workflow that measures."""
FORMER, IDENTIFIED = "/repos/octo/former", "/repositories/1"
"""Where redirects lead from and to: the repository had another name."""
ELSEWHERE = "octo/elsewhere"
"""Where issues are transferred to."""
WEB = "https://github.example"
JOB, PERSON = "ghs_token-of-the-job", "ghp_token-of-a-person"
LOGINS = {JOB: "github-actions[bot]", PERSON: "octocat"}
"""Who the tokens are; an app's may not ask who it is, but for GraphQL."""
BODY_LIMIT = 65_536

Answer = tuple[int, Any]


@dataclass(frozen=True)
class Request:
    """One request: which operation, whose token, with which body."""

    operation: Operation
    token: str
    body: Any


@dataclass
class Pull:
    """A pull request; ``repository`` held its head, and still does if it is ``there``.

    ``listed``: GitHub knows that its commit belongs to it.
    """

    number: int
    sha: str
    repository: str = REPOSITORY
    branch: str = "topic"
    state: str = "open"
    listed: bool = True
    there: bool = True
    locked: bool = False


@dataclass
class Issue:
    """An issue. ``moved`` means to another repository, where the token sees it only if it is ``seen_there``."""

    number: int
    title: str
    body: str
    login: str
    labels: list[str] = field(default_factory=list)
    state: str = "open"
    state_reason: str | None = None
    closed_by: str = ""
    locked: bool = False
    deleted: bool = False
    moved: bool = False
    seen_there: bool = False
    is_pull: bool = False


@dataclass
class Comment:
    """One comment on an issue or a pull request."""

    id: int
    on: int
    login: str
    body: str


@dataclass
class Workflow:
    """A workflow, and the newest first of its runs: members of GitHub's answers, such as ``conclusion``."""

    state: str = "active"
    created_at: str = "2026-01-01T00:00:00Z"
    runs: list[dict[str, Any]] = field(default_factory=list)


def said(message: str) -> dict[str, str]:
    """What GitHub answers where something is wrong."""
    return {"message": message, "documentation_url": "https://docs.github.com/rest"}
