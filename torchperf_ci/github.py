"""GitHub's REST API through PyGithub, with one deadline over everything that is asked."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from torchperf_ci.actions import one_line
from torchperf_ci.errors import CredentialsError, NotDeliveredError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from github import Github, GithubException
    from github.Repository import Repository

    from torchperf_ci.deadline import Deadline

Answer = TypeVar("Answer")

GITHUB = "https://github.com"
"""The server that people look at, where a job does not name another."""

_SECONDS_A_REQUEST = 15
_SECONDS_BETWEEN_WRITES = 1.0
"""What GitHub asks for: https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api"""
_PASSING = (429, 500, 502, 503, 504)
"""Statuses after which the same again may succeed."""
_NOT_DONE = (403, 429)
"""Of these the ones that say that nothing was done, so that the same again is not twice."""
_JOB = "github-actions[bot]"
"""Who a job's own token is."""


def github_server(environ: Mapping[str, str]) -> str:
    """The GitHub that people look at."""
    return environ.get("GITHUB_SERVER_URL") or GITHUB


class GitHubRefusedError(Exception):
    """GitHub answered, and what was asked is not done; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"GitHub answered {status}: {message}")
        self.status = status


@dataclass(frozen=True)
class GitHubClient:
    """One repository, ``name`` (``owner/name``), at GitHub. After ``deadline`` nothing more is begun."""

    github: Github
    name: str
    repository: Repository
    deadline: Deadline

    def __call__(self, call: Callable[[], Answer], *, again: bool = True) -> Answer:
        """What ``call`` gives, which asks GitHub once.

        After a failure that may pass it is tried again, when GitHub says so; not where it may have been done and twice
        would be more than once (``again=False``). Raises :class:`GitHubRefusedError`;
        :class:`CredentialsError` for a bad token, and :class:`NotDeliveredError` where there is no answer in time.
        """
        import requests
        from github import BadCredentialsException, GithubException

        for _ in self.deadline.tries():
            try:
                return call()
            except BadCredentialsException as error:
                msg = "GitHub refuses the token in GITHUB_TOKEN: is it expired, or for another server?"
                raise CredentialsError(msg) from error
            except GithubException as error:
                wait = _wait(error)
                if wait is None:
                    raise GitHubRefusedError(error.status, _message(error)) from error
                reason = f"answered {error.status}: {_message(error)}"
                safe = again or error.status in _NOT_DONE
            except requests.RequestException as error:
                wait, reason, safe = 0, f"cannot be reached: {type(error).__name__}", again
            if not safe or wait >= self.deadline.left:
                break
            time.sleep(wait)
        msg = f"GitHub {reason}; run the same again later"
        raise NotDeliveredError(msg)

    def all(self, call: Callable[[], Iterable[Answer]]) -> list[Answer]:
        """Every item of a list that GitHub gives in pages."""
        return self(lambda: list(self._in_time(call())))

    def _in_time(self, items: Iterable[Answer]) -> Iterator[Answer]:
        for item in items:
            yield item
            if not self.deadline.left:
                msg = "GitHub took too long to list what there is: run the same again later"
                raise NotDeliveredError(msg)


@contextmanager
def github_client(name: str, environ: Mapping[str, str], deadline: Deadline) -> Iterator[GitHubClient]:
    """Ask about the repository ``name``, with the token in ``GITHUB_TOKEN``."""
    from github import Auth, Github

    if name.count("/") != 1 or not all(name.split("/")):
        msg = f"{name!r} is no owner/name of a repository"
        raise UsageError(msg)
    client = Github(
        auth=Auth.Token(environ["GITHUB_TOKEN"]),
        base_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
        timeout=_SECONDS_A_REQUEST,
        retry=None,  # PyGithub's own repeats what is not safe to repeat, and waits for as long as an hour
        per_page=100,
        seconds_between_requests=None,
        seconds_between_writes=_SECONDS_BETWEEN_WRITES,
        lazy=True,  # nothing is asked about the repository itself
    )
    try:
        yield GitHubClient(client, name, client.get_repo(name), deadline)
    finally:
        client.close()


def authenticated_login(ask: GitHubClient) -> str:
    """Whose token it is. An app's may not ask by REST; where it may not ask at all, a job's own is assumed."""
    try:
        return ask(lambda: ask.github.get_user().login)
    except GitHubRefusedError as error:
        if error.status not in (403, 404):
            raise
    try:
        _, answer = ask(lambda: ask.github.requester.graphql_query("query { viewer { login } }", {}))
        return str(answer["data"]["viewer"]["login"])
    except (GitHubRefusedError, KeyError, TypeError):
        return _JOB


def _wait(error: GithubException) -> float | None:
    """Seconds after which the same again may succeed; None where it will not."""
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    after = headers.get("retry-after", "")
    limited = error.status == 403 and after != ""  # a secondary rate limit may have this status
    if error.status not in _PASSING and not limited:
        return None
    return float(after) if after.isdecimal() else 0.0


def _message(error: GithubException) -> str:
    message = error.data.get("message") if isinstance(error.data, dict) else None
    return one_line(str(message or "without a word")[:200])
