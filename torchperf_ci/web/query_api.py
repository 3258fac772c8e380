"""Parse requests to the query API, as described in the benchmark infrastructure's wiki.

``POST`` with ``{"format": "JSONEachRow", "queryVariables": {"repo": …, "startTime": …}}``, or ``GET`` with the
variables as parameters. An empty value is no filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Literal

from msgspec import DecodeError, Meta, Struct, convert, json

from torchperf_ci.errors import UsageError
from torchperf_ci.options.option import moment
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.store.command import StoreQuery

MEDIA_TYPES = {
    "JSONEachRow": "application/x-ndjson",
    "JSON": "application/json",
    "CSV": "text/csv; charset=utf-8",
    "Parquet": "application/vnd.apache.parquet",
}
"""Media type of the answer in each format of the API."""
_USAGE = (
    'a query is {"format": "JSONEachRow", "JSON", "CSV" or "Parquet", "queryVariables": {"repo": …, "benchmark": …, '
    '"startTime": "2026-06-06T00:00:00" (UTC), "stopTime": later}}; the variables may also have the lists "models" and '
    '"metrics", and "device", "arch", "branch" and "commit"'
)

_Text = Annotated[str, Meta(max_length=1000)]
_RequiredText = Annotated[str, Meta(min_length=1, max_length=1000)]
_Texts = Annotated[Sequence[_Text], Meta(max_length=1000)]


class _Variables(Struct, rename="camel", forbid_unknown_fields=True):
    repo: _RequiredText
    benchmark: _RequiredText
    start_time: _RequiredText
    stop_time: _RequiredText
    models: _Texts | None = None
    metrics: _Texts | None = None
    device: _Text | None = None
    arch: _Text | None = None
    branch: _Text | None = None
    commit: _Text | None = None


class _Request(Struct, rename="camel"):
    query_variables: _Variables
    format: Literal["JSONEachRow", "JSON", "CSV", "Parquet"] = "JSONEachRow"


def parse_query(body: bytes | bytearray, parameters: Sequence[tuple[str, str]]) -> tuple[StoreQuery, str]:
    """Return the query and the format in a body, or in ``parameters`` if the body is empty.

    Raises :class:`UsageError`, which says what is missing, unknown or invalid, and what a query is.
    """
    try:
        request = json.decode(body, type=_Request) if body else convert(_members(parameters), _Request)
    except (DecodeError, RecursionError) as error:
        msg = f"{error}; {_USAGE}"
        raise UsageError(msg) from None
    asked = request.query_variables
    with suppress(ValueError, OverflowError):
        start, stop = (min(moment(text), LATEST_SECOND) for text in (asked.start_time, asked.stop_time))
        if start < stop:
            texts = (text or "" for text in (asked.device, asked.arch, asked.branch, asked.commit))
            lists = (asked.models or (), asked.metrics or ())
            return StoreQuery(asked.repo, asked.benchmark, start, stop, *lists, *texts), request.format
    msg = f"startTime and stopTime must be times, stopTime the later one; {_USAGE}"
    raise UsageError(msg)


def _members(parameters: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the members of the query that ``parameters`` ask; ``models`` and ``metrics`` may be repeated."""
    variables: dict[str, object] = dict(parameters)
    form = variables.pop("format", "JSONEachRow")
    for name in ("models", "metrics"):
        variables[name] = [value for given, value in parameters if given == name and value]
    return {"queryVariables": variables, "format": form}
