"""A client for GitHub's REST API, based on PyGithub, with one deadline for all requests."""

from __future__ import annotations

import time
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from torchperf_ci.actions import one_line
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import CredentialsError, NotDeliveredError, TorchperfError, UsageError
from torchperf_ci.http_client import certificate_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from github import Github, GithubException
    from github.Repository import Repository


Answer = TypeVar("Answer")

GITHUB = "https://github.com"
"""The default GitHub server."""

_SECONDS_A_REQUEST = 15
_SECONDS_BETWEEN_WRITES = 1.0
"""Recommended by https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api"""
_SECONDS_LIMITED = 60.0
"""How long to wait at a rate limit if GitHub does not say how long."""
_PASSING = (500, 502, 503, 504)
"""Statuses after which a retry may succeed."""
_NOT_DONE = (403, 429)
"""Statuses which guarantee that nothing was done, so that a retry cannot do it twice."""
_TRUST = "if an authority of your own issued it, name that one's in REQUESTS_CA_BUNDLE"
_JOB = "github-actions[bot]"
"""The login of a job's own token."""


def github_server(environ: Mapping[str, str]) -> str:
    """Return the URL of the job's GitHub server."""
    return environ.get("GITHUB_SERVER_URL") or GITHUB


def checked_token(token: str) -> str:
    """Return ``token`` as it can be sent, without spaces and line ends around it.

    Raises :class:`CredentialsError` if it cannot be one.
    """
    token = token.strip()
    if all("!" <= character <= "~" for character in token):
        return token
    msg = "the token in GITHUB_TOKEN is not one: it has a space, a line end or a character that is not ASCII"
    raise CredentialsError(msg)


class GitHubRefusedError(Exception):
    """GitHub refused a request; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"GitHub answered {status}: {message}")
        self.status = status

    @property
    def is_locked_conversation(self) -> bool:
        """Whether a comment was refused because the conversation is locked, not because a repository is blocked."""
        return self.status == 403 and "issue is locked" in str(self).lower()

    def explained(self, what: str, permission: str) -> TorchperfError:
        """Return an error for the user that says ``what`` was refused, and which permission that takes."""
        if self.status in (401, 403, 404):
            return CredentialsError(
                f"the token in GITHUB_TOKEN may not {what}, or does not see it: {self}; "
                f"give the job `permissions: {permission}`, or another token if the repository is not its own"
            )
        return NotDeliveredError(f"GitHub refuses to {what}: {self}")


@dataclass(frozen=True)
class GitHubClient:
    """A repository at GitHub; ``name`` is ``owner/name``. No request is started after ``deadline``."""

    github: Github
    name: str
    repository: Repository
    deadline: Deadline

    def request(self, call: Callable[[], Answer], *, retry: bool = True) -> Answer:
        """Return the result of ``call``, which makes one request.

        Temporary failures are retried when GitHub says so. With ``retry=False``, for requests that must not be done
        twice, only if nothing was done for certain. Raises :class:`GitHubRefusedError`, :class:`CredentialsError` for a
        bad token, and :class:`NotDeliveredError` if there is no answer in time.
        """
        import requests
        from github import BadCredentialsException, GithubException

        for _ in self.deadline.tries():
            try:
                # A request that began in time may still end, but not last as long as a server sends single bytes.
                return Deadline.after(max(self.deadline.left, _SECONDS_A_REQUEST)).wait_for(call)
            except BadCredentialsException as error:
                msg = "GitHub refuses the token in GITHUB_TOKEN: is it expired, or for another server?"
                raise CredentialsError(msg) from error
            except GithubException as error:
                wait = _wait(error)
                if wait is None:
                    raise GitHubRefusedError(error.status, _message(error)) from error
                reason = f"answered {error.status}: {_message(error)}"
                safe = retry or error.status in _NOT_DONE
            except TypeError as error:  # PyGithub reads any answer as the API's, such as a page to log in
                if not _comes_from_pygithub(error):
                    raise
                msg = "what answers is not GitHub's API: see the URL in GITHUB_API_URL"
                raise NotDeliveredError(msg) from error
            except (requests.RequestException, TimeoutError) as error:
                if untrusted := certificate_problem(error):
                    msg = f"GitHub's certificate is not accepted: {untrusted}; {_TRUST}"
                    raise NotDeliveredError(msg) from error
                wait, reason, safe = 0, f"cannot be reached: {type(error).__name__}", retry
            if not safe or wait >= self.deadline.left:
                break
            time.sleep(wait)
        raise NotDeliveredError(f"GitHub {reason}; run the same again later")

    def all(self, call: Callable[[], Iterable[Answer]]) -> list[Answer]:
        """Return all items of a paginated list."""
        return self.request(lambda: list(self._in_time(call())))

    def _in_time(self, items: Iterable[Answer]) -> Iterator[Answer]:
        for item in items:
            yield item
            if not self.deadline.left:
                msg = "GitHub took too long to list what there is: run the same again later"
                raise NotDeliveredError(msg)


@contextmanager
def github_client(given: str | None, environ: Mapping[str, str], seconds: float) -> Iterator[GitHubClient]:
    """Yield a client for the ``given`` repository, else the job's, that uses the token in ``GITHUB_TOKEN``.

    All requests together have so many ``seconds``.
    """
    from github import Auth, Github

    name = given or environ.get("GITHUB_REPOSITORY", "")
    if name.count("/") != 1 or not all(name.split("/")):
        what = f"{name!r} is not an owner/name: " if name else ""
        raise UsageError(f"in which repository? {what}give --repo OWNER/NAME")
    token = checked_token(environ.get("GITHUB_TOKEN", ""))
    if not token:
        msg = f"there is no GITHUB_TOKEN to ask GitHub about {name} with: give the step a token in its env"
        raise CredentialsError(msg)
    client = Github(
        auth=Auth.Token(token),
        base_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
        timeout=_SECONDS_A_REQUEST,
        retry=None,  # PyGithub would retry unsafe requests, and wait for up to an hour
        per_page=100,
        seconds_between_requests=None,
        seconds_between_writes=_SECONDS_BETWEEN_WRITES,
        lazy=True,  # do not request the repository itself
    )
    found = GitHubClient(client, name, client.get_repo(name), Deadline.after(seconds))
    try:
        if name != environ.get("GITHUB_REPOSITORY"):
            # If it was renamed, get its present name: redirects lose the parameters of lists.
            with suppress(GitHubRefusedError):  # the next request is refused, too
                found.request(found.repository.complete)
        yield found
    finally:
        client.close()


def authenticated_login(client: GitHubClient) -> str:
    """Return the login of the token. Apps have to ask by GraphQL; if that fails as well, it is a job's own token."""
    try:
        return client.request(lambda: client.github.get_user().login)
    except GitHubRefusedError as error:
        if error.status not in (403, 404):
            raise
    try:
        _, answer = client.request(
            lambda: client.github.requester.graphql_query("query { viewer { login } }", {})
        )
        return str(answer["data"]["viewer"]["login"])
    except (GitHubRefusedError, KeyError, TypeError):
        return _JOB


def _comes_from_pygithub(error: Exception) -> bool:
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).partition(".")[0] == "github"


def trimmed(body: str | None) -> str:
    """Return the body of an issue or comment without what GitHub may change in it: line ends and surrounding space."""
    return (body or "").replace("\r\n", "\n").strip()


def _wait(error: GithubException) -> float | None:
    """Return the seconds after which a retry may succeed; None if it will not.

    https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
    """
    from github import RateLimitExceededException

    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    used_up = headers.get("x-ratelimit-remaining") == "0"
    limited = error.status == 429 or isinstance(error, RateLimitExceededException)
    limited |= error.status == 403 and (used_up or after != "")
    if not limited and error.status not in _PASSING:
        return None
    if after.isdecimal():
        return float(after)
    if limited and used_up and reset.isdecimal():
        return max(float(reset) - time.time(), 0.0)
    return _SECONDS_LIMITED if limited else 0.0


def _message(error: GithubException) -> str:
    data = error.data if isinstance(error.data, dict) else {}
    errors = data.get("errors")
    reasons = [*map(_reason, errors)] if isinstance(errors, list) else []
    return one_line(": ".join([str(data.get("message") or "without a word"), *reasons])[:200])


def _reason(error: object) -> str:
    """Return one of the ``errors`` in an answer, which has a message of its own, or a field and a code."""
    if not isinstance(error, dict):
        return str(error)
    return str(error.get("message") or f"{error.get('field')} is {error.get('code')}")
