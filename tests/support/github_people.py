"""Permissions, commits and workflow runs in the GitHub of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from github_state import JOB, LOGINS, WEB, Answer, Request, Workflow, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from github_api import GitHub

_RUNS = "/repos/octo/perf/actions/runs"


def _user(server: GitHub, request: Request) -> Answer:
    if request.token == JOB:
        return 403, said("Resource not accessible by integration")
    return 200, {**server.rules.example("/user", "get", 200), "login": LOGINS[request.token]}


def _commit(server: GitHub, request: Request) -> Answer:
    sha = request.operation.arguments["ref"]
    if sha not in server.commits:
        return 422, said(f"No commit found for SHA: {sha}")
    example = server.rules.example(request.operation.path, "get", 200)
    login = server.commits[sha]
    author = {**example["author"], "login": login} if login else None
    return 200, {
        **example,
        "sha": sha,
        "author": author,
        "files": [],
    }  # those of the example are not as described


def _workflow(server: GitHub, request: Request) -> Answer:
    name = request.operation.arguments["workflow_id"]
    workflow = server.workflows.get(name)
    if workflow is None:
        return 404, said("Not Found")
    return 200, {**server.rules.example(request.operation.path, "get", 200), **_of(server, name, workflow)}


def _repository(server: GitHub, request: Request) -> Answer:
    example = server.rules.example(request.operation.path, "get", 200)
    del example["source"]  # that of the example is not as described
    name = "/".join(request.operation.arguments[part] for part in ("owner", "repo"))
    return 200, {**example, "language": "Python", "full_name": name, "url": f"{server.base}/repos/{name}"}


def _runs(server: GitHub, request: Request) -> Answer:
    name, query = request.operation.arguments["workflow_id"], request.operation.query
    workflow = server.workflows.get(name)
    if workflow is None:
        return 404, said("Not Found")
    example = server.rules.example(request.operation.path, "get", 200)["workflow_runs"][0]
    wanted = {"head_branch": query.get("branch"), "event": query.get("event"), "status": query.get("status")}
    shown = [_with_urls(server, {**example, **run}) for run in workflow.runs]
    found = [run for run in shown if all(value in (None, run[name]) for name, value in wanted.items())]
    return 200, {"total_count": len(found), "workflow_runs": found[: int(query.get("per_page", "30"))]}


def _with_urls(server: GitHub, run: dict[str, Any]) -> dict[str, Any]:
    url = f"{server.base}/repos/octo/perf/actions/runs/{run['id']}"
    return {**run, "url": url, "artifacts_url": f"{url}/artifacts"}


def _artifacts(server: GitHub, request: Request) -> Answer:
    names = server.artifacts.get(int(request.operation.arguments["run_id"]), [])
    example = server.rules.example(request.operation.path, "get", 200)["artifacts"][0]
    return 200, {"total_count": len(names), "artifacts": [{**example, "name": name} for name in names]}


def _of(server: GitHub, name: str, workflow: Workflow) -> dict[str, Any]:
    return {
        "path": f".github/workflows/{name}",
        "url": f"{server.base}/repos/octo/perf/actions/workflows/{name}",
        "html_url": f"{WEB}/octo/perf/blob/main/.github/workflows/{name}",
        "state": workflow.state,
        "created_at": workflow.created_at,
    }


ANSWERS: Mapping[str, Callable[[GitHub, Request], Answer]] = {
    "get /user": _user,
    "get ": _repository,
    "get /commits/{ref}": _commit,
    "get /actions/workflows/{workflow_id}": _workflow,
    "get /actions/workflows/{workflow_id}/runs": _runs,
    "get /actions/runs/{run_id}/artifacts": _artifacts,
}
