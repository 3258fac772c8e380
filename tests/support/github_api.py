"""A stateful GitHub API as far as torchperf uses it; GitHub's OpenAPI description checks each request and response."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import github_issues
import github_people
import github_pulls
from github_openapi import Description, Operation, description
from github_state import (
    ELSEWHERE,
    FORMER,
    IDENTIFIED,
    JOB,
    LOGINS,
    MEASURING,
    PERSON,
    REPOSITORY,
    Answer,
    Comment,
    Issue,
    Pull,
    Request,
    Workflow,
    said,
)
from serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "ELSEWHERE",
    "JOB",
    "LOGINS",
    "MEASURING",
    "PERSON",
    "REPOSITORY",
    "Comment",
    "Fault",
    "GitHub",
    "Issue",
    "Pull",
    "Workflow",
    "running_github",
]

_ANSWERS = {**github_pulls.ANSWERS, **github_issues.ANSWERS, **github_people.ANSWERS}


@dataclass(frozen=True)
class Fault:
    """An answer in place of the real one to the next ``method`` of a URL that holds ``where``.

    ``late`` where GitHub does what it is asked all the same.
    """

    method: str
    status: int
    message: str = "not now"
    headers: dict[str, str] = field(default_factory=dict)
    late: bool = False
    where: str = ""


class GitHub(ThreadingHTTPServer):
    """One repository. ``before`` is called with the method before each request is done; ``asked`` holds what was.

    ``prefix`` is where a GitHub Enterprise Server has its API. ``commits`` are their authors' logins,
    ``artifacts`` the names of what runs of workflows left, by their ids.
    """

    block_on_close = False  # clients keep their connections
    prefix = ""
    writable = True
    has_issues = True
    may_label = True
    tells_viewer = True

    def __init__(self, rules: Description) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.rules = rules
        self.pulls: dict[int, Pull] = {}
        self.issues: dict[int, Issue] = {}
        self.comments: dict[int, Comment] = {}
        self.labels: dict[str, str] = {}
        self.commits: dict[str, str | None] = {}
        self.workflows: dict[str, Workflow] = {}
        self.artifacts: dict[int, list[str]] = {}
        self.faults: list[Fault] = []
        self.asked: list[str] = []
        self.problems: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        self._lock = threading.RLock()
        self._next = 100

    @property
    def base(self) -> str:
        """The URL of its API."""
        return f"{self.url}{self.prefix}"

    def add(self, pull: Pull) -> Pull:
        """Open a pull request."""
        self.pulls[pull.number] = pull
        return pull

    def issue(self, title: str, body: str, login: str, labels: Iterable[str] = ()) -> Issue:
        """Somebody's issue."""
        with self._lock:
            number = max([0, *self.issues, *self.pulls]) + 1
            for name in labels:
                self.labels.setdefault(name, "")
            return self.issues.setdefault(number, Issue(number, title, body, login, list(labels)))

    def comment(self, on: int, body: str, login: str = LOGINS[JOB]) -> Comment:
        """Somebody's comment on an issue or a pull request."""
        with self._lock:
            self._next += 1
            return self.comments.setdefault(self._next, Comment(self._next, on, login, body))

    @property
    def written(self) -> list[str]:
        """The methods that were asked for and change something."""
        return [method for method in (asked.split()[0] for asked in self.asked) if method != "GET"]

    def answer(self, method: str, url: str, token: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers."""
        if url == (self.prefix.replace("/v3", "") + "/graphql"):
            return self._graphql(token, body)
        self.before(method)
        self.asked.append(f"{method} {url}")
        if url.startswith(FORMER):
            there = f"{self.base}{url.replace(FORMER, IDENTIFIED)}"
            moved = {**said("Moved Permanently"), "url": there}
            return 301 if method == "GET" else 307, moved, {"Location": there}
        url = url.replace(IDENTIFIED, f"/repos/{REPOSITORY}")
        try:
            operation = self.rules.operation(method, url.removeprefix(self.prefix))
        except LookupError as error:
            self.problems.append(f"no such operation: {error}")
            return 404, said("Not Found"), {}
        self.problems += self.rules.problems_of_request(operation, body)
        fault = next((one for one in self.faults if one.method == method and one.where in url), None)
        if fault:
            self.faults.remove(fault)
            if not fault.late:
                return fault.status, said(fault.message), fault.headers
        if token not in LOGINS:
            return 401, said("Bad credentials"), {}
        if method != "GET" and not self.writable:
            return 403, said("Resource not accessible by integration"), {}
        with self._lock:
            status, given = self._done(Request(operation, token, body))
        self.problems += self.rules.problems_of_response(operation, status, given)
        if fault:
            return fault.status, said(fault.message), fault.headers
        return status, given, {"Location": given["url"]} if status == 301 else {}

    def _done(self, request: Request) -> Answer:
        operation = request.operation
        key = f"{operation.method} {operation.path.removeprefix('/repos/{owner}/{repo}')}"
        if key != "get /user" and _repository(operation) not in (REPOSITORY, ELSEWHERE):
            return 404, said("Not Found")
        return _ANSWERS[key](self, request)

    def _graphql(self, token: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        """The one question that torchperf has for it: who asks."""
        if token not in LOGINS:
            return 401, said("Bad credentials"), {}
        if body != {"query": "query { viewer { login } }", "variables": {}}:
            self.problems.append(f"unknown question: {body}")
        if not self.tells_viewer:
            return 403, said("Resource not accessible by integration"), {}
        return 200, {"data": {"viewer": {"login": LOGINS[token]}}}, {}


def _repository(operation: Operation) -> str:
    return "/".join(operation.arguments[name] for name in ("owner", "repo"))


class Handler(BaseHTTPRequestHandler):
    """HTTP around :meth:`GitHub.answer`."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: the next piece would wait for the client's late acknowledgement
    server: GitHub

    def answer(self) -> None:
        """Whatever the method."""
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme not in ("token", "Bearer"):
            self.server.problems.append(f"authorization by {scheme!r}")
        try:
            body = json.loads(sent) if sent else None
            status, given, headers = self.server.answer(self.command, self.path, token, body)
        except KeyError:  # what is deleted
            status, given, headers = 404, said("Not Found"), {}
        content = b"" if given is None else json.dumps(given).encode()
        self.send_response(status)
        if content:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        for name, value in {"Content-Length": str(len(content)), **headers, **self._next_page(given)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815  # the base class's names

    def _next_page(self, given: Any) -> dict[str, str]:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        if not isinstance(given, list) or len(given) < int(query.get("per_page", "30")):
            return {}
        following = urlencode({**query, "page": int(query.get("page", "1")) + 1})
        return {"Link": f'<{self.server.url}{parts.path}?{following}>; rel="next"'}

    def log_message(self, *_args: object) -> None:
        """Nothing."""


@contextmanager
def running_github() -> Iterator[GitHub]:
    """A GitHub that nobody has asked yet; in the end every request and every answer must have been as described."""
    with serving(GitHub(description())) as server:
        yield server
    assert server.problems == []
