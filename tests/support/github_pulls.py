"""Pull requests in the GitHub of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from github_state import REPOSITORY, Answer, Pull, Request, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from github_api import GitHub


def _pulls(server: GitHub, request: Request) -> Answer:
    query = request.operation.query
    state, head = query.get("state", "open"), query.get("head")
    found = [
        pull
        for pull in server.pulls.values()
        if state in ("all", pull.state) and head in (None, f"{pull.repository.split('/')[0]}:{pull.branch}")
    ]
    return 200, [_simple(server, request, pull) for pull in found]


def _pulls_of_commit(server: GitHub, request: Request) -> Answer:
    sha = request.operation.arguments["commit_sha"]
    found = [pull for pull in server.pulls.values() if pull.listed and pull.sha == sha]
    return 200, [_simple(server, request, pull) for pull in found]


def _pull(server: GitHub, request: Request) -> Answer:
    pull = server.pulls.get(int(request.operation.arguments["pull_number"]))
    if pull is None:
        return 404, said("Not Found")
    return 200, _filled(server, server.rules.example(request.operation.path, "get", 200), pull)


def _simple(server: GitHub, request: Request, pull: Pull) -> dict[str, Any]:
    (example, *_) = server.rules.example(request.operation.path, "get", 200)
    return _filled(server, example, pull)


def _filled(server: GitHub, example: dict[str, Any], pull: Pull) -> dict[str, Any]:
    head = {
        "ref": pull.branch,
        "sha": pull.sha,
        "label": f"{pull.repository.split('/')[0]}:{pull.branch}",
        "repo": {**example["head"]["repo"], "full_name": pull.repository} if pull.there else None,
    }
    return {
        **example,
        "number": pull.number,
        "state": pull.state,
        "requested_teams": [],  # those of the example are not as described
        "url": f"{server.url}/repos/{REPOSITORY}/pulls/{pull.number}",
        "head": {**example["head"], **head},
    }


ANSWERS: Mapping[str, Callable[[GitHub, Request], Answer]] = {
    "get /pulls": _pulls,
    "get /pulls/{pull_number}": _pull,
    "get /commits/{commit_sha}/pulls": _pulls_of_commit,
}
