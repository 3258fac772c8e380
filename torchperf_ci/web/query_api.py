"""Parse requests to the query API, as described in the benchmark infrastructure's wiki.

``POST`` with ``{"format": "JSONEachRow", "queryVariables": {"repo": …, "startTime": …}}``, or ``GET`` with the
variables as parameters. An empty value is no filter.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec

from torchperf_ci.errors import UsageError
from torchperf_ci.options.option import moment
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.store.command import StoreQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEDIA_TYPES = {
    "JSONEachRow": "application/x-ndjson",
    "JSON": "application/json",
    "CSV": "text/csv; charset=utf-8",
    "Parquet": "application/vnd.apache.parquet",
}
"""Media type of the answer in each format of the API."""
_LISTS = ("models", "metrics")
_VARIABLES = ("repo", "benchmark", "startTime", "stopTime", *_LISTS, "device", "arch", "branch", "commit")
_MOST = 1000
"""Most characters of a text, and most texts of a list."""


def parse_query(body: bytes | bytearray, parameters: Sequence[tuple[str, str]]) -> tuple[StoreQuery, str]:
    """Return the query and the format in a body, or in ``parameters`` if the body is empty.

    Raises :class:`UsageError`, which names what is missing, unknown or invalid, and says what it must be.
    """
    asked: object = None
    with suppress(msgspec.DecodeError, RecursionError):
        asked = msgspec.json.decode(body) if body else _members(parameters)
    match asked:
        case {"queryVariables": {**variables}, **others}:
            form = others.get("format", "JSONEachRow")
        case _:
            _refuse("the body", 'JSON such as {"queryVariables": {"repo": …, "startTime": …}}')
    if not (isinstance(form, str) and form in MEDIA_TYPES):
        _refuse("format", f"one of {', '.join(MEDIA_TYPES)}")
    if unknown := variables.keys() - {*_VARIABLES}:
        _refuse(f"the unknown variable {min(map(str, unknown))!r}", f"one of {', '.join(_VARIABLES)}")
    repo, benchmark, *times = (_text(variables, name, fewest=1) for name in _VARIABLES[:4])
    start, stop = map(_time, _VARIABLES[2:4], times)
    if start >= stop:
        _refuse("stopTime", "after startTime")
    models, metrics = (_texts(variables, name) for name in _LISTS)
    others_asked = (_text(variables, name) for name in _VARIABLES[6:])
    return StoreQuery(repo, benchmark, start, stop, models, metrics, *others_asked), form


def _refuse(name: str, expected: str) -> NoReturn:
    msg = f"{name} must be {expected}"
    raise UsageError(msg) from None


def _text(variables: Mapping[object, object], name: str, fewest: int = 0) -> str:
    text = variables.get(name)
    if text is None and not fewest:
        return ""
    if not isinstance(text, str) or not fewest <= len(text) <= _MOST:
        _refuse(name, f"a text of {fewest} to {_MOST} characters")
    return text


def _texts(variables: Mapping[object, object], name: str) -> list[str]:
    match variables.get(name):
        case None:
            return []
        case [*texts] if len(texts) <= _MOST:
            known = [text for text in texts if isinstance(text, str) and len(text) <= _MOST]
            if len(known) == len(texts):
                return known
    _refuse(name, f"a list of at most {_MOST} texts of at most {_MOST} characters")


def _members(parameters: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the members of the query that ``parameters`` ask; ``models`` and ``metrics`` may be repeated."""
    variables: dict[str, object] = dict(parameters)
    form = variables.pop("format", "JSONEachRow")
    for name in variables.keys() & {*_LISTS}:
        variables[name] = [value for given, value in parameters if given == name and value]
    return {"queryVariables": variables, "format": form}


def _time(name: str, text: str) -> int:
    try:
        return min(moment(text), LATEST_SECOND)
    except (ValueError, OverflowError):
        _refuse(name, "a time such as 2026-06-06T00:00:00, in UTC")
