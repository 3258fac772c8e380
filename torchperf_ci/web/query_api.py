"""Parse requests to the query API, as described in the benchmark infrastructure's wiki.

``POST`` with ``{"format": "JSONEachRow", "queryVariables": {"repo": …, "startTime": …}}``, or ``GET`` with the
variables as parameters. An empty value is no filter.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError
from torchperf_ci.options.option import moment
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.store.command import StoreQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMATS = {
    "JSONEachRow": ("jsoneachrow", "application/x-ndjson"),
    "JSON": ("json", "application/json"),
    "CSV": ("csv", "text/csv; charset=utf-8"),
    "Parquet": ("parquet", "application/vnd.apache.parquet"),
}
"""Formats of the API, with the store's name for each and the media type of the answer."""
REQUIRED = ("repo", "benchmark", "startTime", "stopTime")
_LISTS = ("models", "metrics")
_NAMES = ("device", "arch", "branch", "commit")
_LONGEST = 1000


def question_of_body(body: bytes | bytearray) -> tuple[StoreQuery, str]:
    """Return the query and the format of a ``POST``. Raises :class:`UsageError`."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        msg = "the body is no JSON"
        raise UsageError(msg) from None
    variables = asked.get("queryVariables") if isinstance(asked, dict) else None
    if not isinstance(asked, dict) or not isinstance(variables, dict):
        msg = "the body must be a JSON object with queryVariables, which is an object"
        raise UsageError(msg)
    return question_of_variables(variables, asked.get("format", "JSONEachRow"))


def question_of_parameters(parameters: Sequence[tuple[str, str]]) -> tuple[StoreQuery, str]:
    """Return the query and the format of a ``GET``; ``models`` and ``metrics`` may be repeated.

    Raises :class:`UsageError`.
    """
    single = {name: value for name, value in parameters if name not in _LISTS}
    several = {name: [value for given, value in parameters if given == name and value] for name in _LISTS}
    form = single.pop("format", "JSONEachRow")
    return question_of_variables({**single, **several}, form)


def question_of_variables(variables: Mapping[str, object], form: object) -> tuple[StoreQuery, str]:
    """Return the query in ``variables``. Raises :class:`UsageError` for missing, unknown or invalid ones."""
    if form not in FORMATS:
        msg = f"format must be one of {', '.join(FORMATS)}"
        raise UsageError(msg)
    unknown = [name for name in variables if name not in (*REQUIRED, *_LISTS, *_NAMES)]
    if unknown:
        msg = f"{str(unknown[0])[:50]!r} is no variable; there are {', '.join((*REQUIRED, *_LISTS, *_NAMES))}"
        raise UsageError(msg)
    missing = [name for name in REQUIRED if not variables.get(name)]
    if missing:
        msg = f"{missing[0]} is missing"
        raise UsageError(msg)
    start, stop = _time("startTime", variables), _time("stopTime", variables)
    if start >= stop:
        msg = "stopTime is not after startTime"
        raise UsageError(msg)
    text = partial(_optional, variables)
    question = StoreQuery(
        repo=text("repo"),
        benchmark=text("benchmark"),
        start=start,
        stop=stop,
        models=_texts("models", variables.get("models") or []),
        metrics=_texts("metrics", variables.get("metrics") or []),
        device=text("device"),
        arch=text("arch"),
        branch=text("branch"),
        commit=text("commit"),
    )
    return question, str(form)


def _optional(variables: Mapping[str, object], name: str) -> str:
    return _text(name, variables.get(name) or "")


def _time(name: str, variables: Mapping[str, object]) -> int:
    text = _text(name, variables[name])
    try:
        return min(moment(text), LATEST_SECOND)
    except (ValueError, OverflowError):
        msg = f"{name} must be a time such as 2026-06-06T00:00:00, in UTC"
        raise UsageError(msg) from None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        msg = f"{name} must be a text of at most {_LONGEST} characters"
        raise UsageError(msg)
    return value


def _texts(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > _LONGEST:
        msg = f"{name} must be a list of at most {_LONGEST} texts"
        raise UsageError(msg)
    return [_text(name, one) for one in value]
