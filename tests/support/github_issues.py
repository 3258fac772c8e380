"""Issues, their labels and their comments in the GitHub of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from github_state import BODY_LIMIT, ELSEWHERE, LOGINS, REPOSITORY, WEB, Answer, Issue, Request, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from github_api import GitHub
    from github_state import Comment, Pull


def _list(server: GitHub, request: Request) -> Answer:
    query = request.operation.query
    state, labels = query.get("state", "open"), [name for name in query.get("labels", "").split(",") if name]
    found = [
        issue
        for issue in sorted(server.issues.values(), key=lambda issue: -issue.number)
        if state in ("all", issue.state)
        and set(map(str.lower, labels)) <= set(map(str.lower, issue.labels))
        and not (issue.deleted or issue.moved)
    ]
    return 200, [_shown(server, issue) for issue in _page(request, found)]


def _create(server: GitHub, request: Request) -> Answer:
    if not server.has_issues:
        return 410, said("Issues are disabled for this repo")
    if len(request.body.get("body") or "") > BODY_LIMIT:
        return 422, said("Validation Failed")
    labels = [_spelt(server, name) for name in request.body.get("labels", []) if server.may_label]
    issue = server.issue(request.body["title"], request.body.get("body") or "", LOGINS[request.token], labels)
    return 201, _shown(server, issue)


def _get(server: GitHub, request: Request) -> Answer:
    issue = _found(server, request)
    return (200, _shown(server, issue)) if isinstance(issue, Issue) else issue


def _edit(server: GitHub, request: Request) -> Answer:
    issue, changes = _found(server, request), request.body
    if not isinstance(issue, Issue):
        return issue
    if len(changes.get("body") or "") > BODY_LIMIT:
        return 422, said("Validation Failed")
    issue.title, issue.body = changes.get("title", issue.title), changes.get("body", issue.body)
    issue.labels = [_spelt(server, name) for name in changes.get("labels", issue.labels)]
    for name in issue.labels:
        server.labels.setdefault(name, "")
    if changes.get("state", issue.state) != issue.state:
        issue.state, issue.state_reason = changes["state"], changes.get("state_reason")
        issue.closed_by = LOGINS[request.token] if issue.state == "closed" else ""
    return 200, _shown(server, issue)


def _comments(server: GitHub, request: Request) -> Answer:
    number = int(request.operation.arguments["issue_number"])
    found = [comment for comment in server.comments.values() if comment.on == number]
    return 200, [_shown_comment(server, comment) for comment in _page(request, found)]


def _comment(server: GitHub, request: Request) -> Answer:
    number = int(request.operation.arguments["issue_number"])
    on: Pull | Issue | Answer | None = server.pulls.get(number) or _found(server, request)
    if isinstance(on, tuple) or on is None:
        return on or (404, said("Not Found"))
    if on.locked:
        return 403, said("Unable to create comment because issue is locked.")
    if len(request.body["body"]) > BODY_LIMIT:
        return 422, said("Validation Failed")
    return 201, _shown_comment(server, server.comment(number, request.body["body"], LOGINS[request.token]))


def _edit_comment(server: GitHub, request: Request) -> Answer:
    comment = server.comments[int(request.operation.arguments["comment_id"])]
    comment.body = request.body["body"]
    return 200, _shown_comment(server, comment)


def _delete_comment(server: GitHub, request: Request) -> Answer:
    del server.comments[int(request.operation.arguments["comment_id"])]
    return 204, None


def _label(server: GitHub, request: Request) -> Answer:
    name = _spelt(server, request.operation.arguments["name"])
    return (200, _shown_label(server, name)) if name in server.labels else (404, said("Not Found"))


def _labels(server: GitHub, request: Request) -> Answer:
    return 200, [_shown_label(server, name) for name in _page(request, [*server.labels])]


def _create_label(server: GitHub, request: Request) -> Answer:
    name = request.body["name"]
    if _spelt(server, name) in server.labels:
        return 422, said("Validation Failed")
    if len(name) > 50:
        too_long = "name is too long (maximum is 50 characters)"
        reason = {"resource": "Label", "code": "custom", "field": "name", "message": too_long}
        return 422, {**said("Validation Failed"), "errors": [reason]}
    server.labels[name] = request.body.get("description", "")
    return 201, _shown_label(server, name)


def _spelt(server: GitHub, name: str) -> str:
    """A label as people have named it: GitHub ignores its case."""
    return next((known for known in server.labels if known.lower() == name.lower()), name)


def _found(server: GitHub, request: Request) -> Issue | Answer:
    """The issue that is asked for, or why there is none."""
    issue = server.issues.get(int(request.operation.arguments["issue_number"]))
    here = request.operation.arguments["repo"] == REPOSITORY.split("/")[1]
    if issue is None or (not here and not (issue.moved and issue.seen_there)):
        return 404, said("Not Found")
    if issue.deleted:
        return 410, said("This issue was deleted")
    if here and issue.moved:
        url = f"{server.base}/repos/{ELSEWHERE}/issues/{issue.number}"
        return 301, {**said("Moved Permanently"), "url": url}
    return issue


def _page(request: Request, items: list[Any]) -> list[Any]:
    query = request.operation.query
    size, page = int(query.get("per_page", "30")), int(query.get("page", "1"))
    return items[size * (page - 1) : size * page]


def _shown(server: GitHub, issue: Issue) -> dict[str, Any]:
    example = server.rules.example("/repos/{owner}/{repo}/issues", "post", 201)
    repository = ELSEWHERE if issue.moved else REPOSITORY
    shown = {
        **example,
        "number": issue.number,
        "id": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": issue.state,
        "state_reason": issue.state_reason,
        "locked": issue.locked,
        "labels": [_shown_label(server, name) for name in issue.labels],
        "comments": sum(comment.on == issue.number for comment in server.comments.values()),
        "url": f"{server.base}/repos/{repository}/issues/{issue.number}",
        "html_url": f"{WEB}/{repository}/{'pull' if issue.is_pull else 'issues'}/{issue.number}",
        "user": {**example["user"], "login": issue.login},
        "closed_by": {**example["user"], "login": issue.closed_by} if issue.closed_by else None,
    }
    if not issue.is_pull:
        del shown["pull_request"]  # only the example is both
    return shown


def _shown_comment(server: GitHub, comment: Comment) -> dict[str, Any]:
    example = server.rules.example("/repos/{owner}/{repo}/issues/{issue_number}/comments", "post", 201)
    kind = "pull" if comment.on in server.pulls else "issues"
    return {
        **example,
        "id": comment.id,
        "url": f"{server.base}/repos/{REPOSITORY}/issues/comments/{comment.id}",
        "html_url": f"{WEB}/{REPOSITORY}/{kind}/{comment.on}#issuecomment-{comment.id}",
        "body": comment.body,
        "user": {**example["user"], "login": comment.login},
    }


def _shown_label(server: GitHub, name: str) -> dict[str, Any]:
    example = server.rules.example("/repos/{owner}/{repo}/labels/{name}", "get", 200)
    return {**example, "name": name, "description": server.labels.get(name, "")}


ANSWERS: Mapping[str, Callable[[GitHub, Request], Answer]] = {
    "get /issues": _list,
    "post /issues": _create,
    "get /issues/{issue_number}": _get,
    "patch /issues/{issue_number}": _edit,
    "get /issues/{issue_number}/comments": _comments,
    "post /issues/{issue_number}/comments": _comment,
    "patch /issues/comments/{comment_id}": _edit_comment,
    "delete /issues/comments/{comment_id}": _delete_comment,
    "get /labels/{name}": _label,
    "get /labels": _labels,
    "post /labels": _create_label,
}
