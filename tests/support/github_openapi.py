"""GitHub's OpenAPI description of its REST API: what a request and a response must look like, and examples of them."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / ".cache/npm/node_modules/@octokit/openapi"
# Of its thousand operations those that torchperf may ask for.
PATHS = (
    "/user",
    "/repos/{owner}/{repo}",
    "/repos/{owner}/{repo}/pulls",
    "/repos/{owner}/{repo}/pulls/{pull_number}",
    "/repos/{owner}/{repo}/commits/{commit_sha}/pulls",
    "/repos/{owner}/{repo}/issues",
    "/repos/{owner}/{repo}/issues/{issue_number}",
    "/repos/{owner}/{repo}/issues/{issue_number}/comments",
    "/repos/{owner}/{repo}/issues/comments/{comment_id}",
    "/repos/{owner}/{repo}/labels",
    "/repos/{owner}/{repo}/labels/{name}",
    "/repos/{owner}/{repo}/commits/{ref}",
    "/repos/{owner}/{repo}/actions/workflows/{workflow_id}",
    "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs",
    "/repos/{owner}/{repo}/actions/runs/{run_id}",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts",
)


@dataclass(frozen=True)
class Operation:
    """One method of one path, for one request."""

    path: str
    method: str
    arguments: dict[str, str]
    query: dict[str, str]
    rules: dict[str, Any]


class Description:
    """The parts of the description that :data:`PATHS` need, as JSON Schema."""

    def __init__(self, file: Path) -> None:
        whole = json.loads(file.read_text())
        self._paths = {path: whole["paths"][path] for path in PATHS}
        self._whole: dict[str, Any] = {"components": {}}
        for reference in _needed(self._paths, whole):
            _, section, name = _parts(reference)
            self._whole["components"].setdefault(section, {})[name] = _with_null(_at(whole, reference))

    def operation(self, method: str, url: str) -> Operation:
        """The one that answers a request. Raises ``LookupError`` where the description knows none."""
        path, query = urlsplit(url).path, dict(parse_qsl(urlsplit(url).query))
        for template, methods in self._paths.items():
            pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(template))
            if (found := re.fullmatch(pattern, path)) and method.lower() in methods:
                arguments = {name: unquote(value) for name, value in found.groupdict().items()}
                return Operation(template, method.lower(), arguments, query, methods[method.lower()])
        msg = f"{method} {path}"
        raise LookupError(msg)

    def problems_of_request(self, operation: Operation, body: Any) -> list[str]:
        """What is wrong with the arguments and the body."""
        known = [self._resolved(parameter) for parameter in operation.rules.get("parameters", [])]
        given = {"path": operation.arguments, "query": operation.query}
        problems = [f"unknown query {name}" for name in operation.query.keys() - {p["name"] for p in known}]
        for parameter in known:
            values = given.get(parameter["in"], {})
            if parameter["name"] in values:
                problems += self._problems(
                    _typed(values[parameter["name"]], parameter["schema"]), parameter["schema"]
                )
        expected = operation.rules.get("requestBody")
        if expected is None:
            return problems + (["a body, where none belongs"] if body is not None else [])
        schema = expected["content"]["application/json"]["schema"]
        extra = (body or {}).keys() - schema["properties"].keys()
        return problems + self._problems(body, schema) + [f"unknown member {name}" for name in extra]

    def problems_of_response(self, operation: Operation, status: int, body: Any) -> list[str]:
        """What is wrong with an answer."""
        expected = operation.rules["responses"].get(str(status))
        if expected is None:
            return [f"{operation.method} {operation.path} never answers {status}"]
        content = self._resolved(expected).get("content")
        return self._problems(body, content["application/json"]["schema"]) if content else []

    def example(self, path: str, method: str, status: int) -> Any:
        """GitHub's own example of an answer, to be changed at will."""
        content = self._resolved(self._paths[path][method]["responses"][str(status)])["content"]
        example = next(iter(content["application/json"]["examples"].values()))
        return deepcopy(self._resolved(example)["value"])

    def _resolved(self, value: dict[str, Any]) -> dict[str, Any]:
        return _at(self._whole, value["$ref"]) if "$ref" in value else value

    def _problems(self, value: Any, schema: dict[str, Any]) -> list[str]:
        validator = Draft202012Validator({**_with_null(schema), **self._whole})
        return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value)]


@lru_cache(maxsize=1)
def description() -> Description:
    """That of github.com."""
    file = PACKAGE / "generated/api.github.com.json"
    assert file.exists(), "GitHub's OpenAPI description is missing: `make .cache/npm`"
    return Description(file)


def _needed(node: Any, whole: dict[str, Any]) -> set[str]:
    """All references that are reached from ``node``."""
    found: set[str] = set()
    queue = list(_references(node))
    while queue:
        reference = queue.pop()
        if reference not in found:
            found.add(reference)
            queue += _references(_at(whole, reference))
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _with_null(node: Any) -> Any:
    """JSON Schema's way to say ``nullable`` of OpenAPI 3.0."""
    if isinstance(node, list):
        return [_with_null(value) for value in node]
    if not isinstance(node, dict):
        return node
    converted = {name: _with_null(value) for name, value in node.items() if name != "nullable"}
    return {"anyOf": [converted, {"type": "null"}]} if node.get("nullable") is True else converted


def _typed(value: str, schema: dict[str, Any]) -> Any:
    return int(value) if schema.get("type") == "integer" and value.isdecimal() else value


def _parts(reference: str) -> list[str]:
    return reference.removeprefix("#/").split("/")


def _at(whole: dict[str, Any], reference: str) -> Any:
    for part in _parts(reference):
        whole = whole[part]
    return whole
