"""GitHub as far as pull requests and their comments go; its description checks each request and each answer."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from github_openapi import Description, Operation, description
from serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = "octo/perf"
JOB, PERSON = "ghs_token-of-the-job", "ghp_token-of-a-person"
LOGINS = {JOB: "github-actions[bot]", PERSON: "octocat"}
"""Who the tokens are; an app's may not ask who it is."""
BODY_LIMIT = 65_536

Answer = tuple[int, Any]


@dataclass
class Pull:
    """A pull request; ``repository`` holds its head. ``listed``: GitHub knows that its commit belongs to it."""

    number: int
    sha: str
    repository: str = REPOSITORY
    branch: str = "topic"
    state: str = "open"
    listed: bool = True
    locked: bool = False


@dataclass
class Comment:
    """One comment on a pull request."""

    id: int
    pull: int
    login: str
    body: str


@dataclass(frozen=True)
class Fault:
    """An answer in place of the real one; ``late`` where GitHub does what it is asked all the same."""

    method: str
    status: int
    message: str = "not now"
    headers: dict[str, str] = field(default_factory=dict)
    late: bool = False


class GitHub(ThreadingHTTPServer):
    """One repository. ``before`` is called with the method before each request is done; ``asked`` holds what was."""

    block_on_close = False  # clients keep their connections

    def __init__(self, rules: Description) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.rules = rules
        self.pulls: dict[int, Pull] = {}
        self.comments: dict[int, Comment] = {}
        self.faults: list[Fault] = []
        self.asked: list[str] = []
        self.problems: list[str] = []
        self.writable = True
        self.before: Callable[[str], None] = lambda _: None
        self._lock = threading.Lock()
        self._next = 100

    def add(self, pull: Pull) -> Pull:
        """Open a pull request."""
        self.pulls[pull.number] = pull
        return pull

    def comment(self, pull: int, body: str, login: str = LOGINS[JOB]) -> Comment:
        """Somebody's comment."""
        with self._lock:
            self._next += 1
            return self.comments.setdefault(self._next, Comment(self._next, pull, login, body))

    @property
    def written(self) -> list[str]:
        """The methods that were asked for and change something."""
        return [method for method in (asked.split()[0] for asked in self.asked) if method != "GET"]

    def answer(self, method: str, url: str, token: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers."""
        self.before(method)
        self.asked.append(f"{method} {url}")
        try:
            operation = self.rules.operation(method, url)
        except LookupError as error:
            self.problems.append(f"no such operation: {error}")
            return 404, _said("Not Found"), {}
        self.problems += self.rules.problems_of_request(operation, body)
        fault = next((fault for fault in self.faults if fault.method == method), None)
        if fault:
            self.faults.remove(fault)
            if not fault.late:
                return fault.status, _said(fault.message), fault.headers
        if token not in LOGINS:
            return 401, _said("Bad credentials"), {}
        if method != "GET" and not self.writable:
            return 403, _said("Resource not accessible by integration"), {}
        status, given = self._done(operation, token, body)
        self.problems += self.rules.problems_of_response(operation, status, given)
        return (fault.status, _said(fault.message), fault.headers) if fault else (status, given, {})

    def _done(self, operation: Operation, token: str, body: Any) -> Answer:
        key = f"{operation.method} {operation.path.removeprefix('/repos/{owner}/{repo}')}"
        if key != "get /user" and "/".join(operation.arguments[n] for n in ("owner", "repo")) != REPOSITORY:
            return 404, _said("Not Found")
        return {
            "get /user": self._user,
            "get /pulls": self._pulls,
            "get /pulls/{pull_number}": self._pull,
            "get /commits/{commit_sha}/pulls": self._pulls_of_commit,
            "get /issues/{issue_number}/comments": self._comments,
            "post /issues/{issue_number}/comments": self._create,
            "patch /issues/comments/{comment_id}": self._edit,
            "delete /issues/comments/{comment_id}": self._delete,
        }[key](operation, token, body)

    def _user(self, operation: Operation, token: str, _body: Any) -> Answer:
        if token == JOB:
            return 403, _said("Resource not accessible by integration")
        return 200, {**self.rules.example(operation.path, "get", 200), "login": LOGINS[token]}

    def _pulls(self, operation: Operation, _token: str, _body: Any) -> Answer:
        state, head = operation.query.get("state", "open"), operation.query.get("head")
        found = [
            pull
            for pull in self.pulls.values()
            if state in ("all", pull.state)
            and head in (None, f"{pull.repository.split('/')[0]}:{pull.branch}")
        ]
        return 200, [self._simple(operation, pull) for pull in found]

    def _pulls_of_commit(self, operation: Operation, _token: str, _body: Any) -> Answer:
        sha = operation.arguments["commit_sha"]
        found = [pull for pull in self.pulls.values() if pull.listed and pull.sha == sha]
        return 200, [self._simple(operation, pull) for pull in found]

    def _pull(self, operation: Operation, _token: str, _body: Any) -> Answer:
        pull = self.pulls.get(int(operation.arguments["pull_number"]))
        if pull is None:
            return 404, _said("Not Found")
        return 200, self._filled(self.rules.example(operation.path, "get", 200), pull)

    def _comments(self, operation: Operation, _token: str, _body: Any) -> Answer:
        number = int(operation.arguments["issue_number"])
        size, page = int(operation.query.get("per_page", "30")), int(operation.query.get("page", "1"))
        found = [comment for comment in self.comments.values() if comment.pull == number]
        return 200, [self._shown(comment) for comment in found[size * (page - 1) : size * page]]

    def _create(self, operation: Operation, token: str, body: Any) -> Answer:
        pull = self.pulls.get(int(operation.arguments["issue_number"]))
        if pull is None:
            return 404, _said("Not Found")
        if pull.locked:
            return 403, _said("Unable to create comment because issue is locked.")
        if len(body["body"]) > BODY_LIMIT:
            return 422, _said("Validation Failed")
        return 201, self._shown(self.comment(pull.number, body["body"], LOGINS[token]))

    def _edit(self, operation: Operation, _token: str, body: Any) -> Answer:
        comment = self.comments[int(operation.arguments["comment_id"])]
        comment.body = body["body"]
        return 200, self._shown(comment)

    def _delete(self, operation: Operation, _token: str, _body: Any) -> Answer:
        del self.comments[int(operation.arguments["comment_id"])]
        return 204, None

    def _simple(self, operation: Operation, pull: Pull) -> dict[str, Any]:
        (example, *_) = self.rules.example(operation.path, "get", 200)
        return self._filled(example, pull)

    def _filled(self, example: dict[str, Any], pull: Pull) -> dict[str, Any]:
        head = {
            "ref": pull.branch,
            "sha": pull.sha,
            "label": f"{pull.repository.split('/')[0]}:{pull.branch}",
        }
        return {
            **example,
            "number": pull.number,
            "state": pull.state,
            "requested_teams": [],  # those of the example are not as described
            "url": f"{self.url}/repos/{REPOSITORY}/pulls/{pull.number}",
            "head": {**example["head"], **head},
        }

    def _shown(self, comment: Comment) -> dict[str, Any]:
        example = self.rules.example("/repos/{owner}/{repo}/issues/{issue_number}/comments", "post", 201)
        return {
            **example,
            "id": comment.id,
            "url": f"{self.url}/repos/{REPOSITORY}/issues/comments/{comment.id}",
            "html_url": f"https://github.example/{REPOSITORY}/pull/{comment.pull}#issuecomment-{comment.id}",
            "body": comment.body,
            "user": {**example["user"], "login": comment.login},
        }


class Handler(BaseHTTPRequestHandler):
    """HTTP around :meth:`GitHub.answer`."""

    protocol_version = "HTTP/1.1"
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
            status, given, headers = 404, _said("Not Found"), {}
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


def _said(message: str) -> dict[str, str]:
    return {"message": message, "documentation_url": "https://docs.github.com/rest"}


@contextmanager
def running_github() -> Iterator[GitHub]:
    """A GitHub that nobody has asked yet; in the end every request and every answer must have been as described."""
    with serving(GitHub(description())) as server:
        yield server
    assert server.problems == []
