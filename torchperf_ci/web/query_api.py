"""Parse requests to the query API, as described in the benchmark infrastructure's wiki.

``POST`` with ``{"format": "JSONEachRow", "queryVariables": {"repo": …, "startTime": …}}``, or ``GET`` with the
variables as parameters. An empty value is no filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from torchperf_ci.errors import UsageError
from torchperf_ci.options.option import moment
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.store.command import StoreQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

MEDIA_TYPES = {
    "JSONEachRow": "application/x-ndjson",
    "JSON": "application/json",
    "CSV": "text/csv; charset=utf-8",
    "Parquet": "application/vnd.apache.parquet",
}
"""Media type of the answer in each format of the API."""
_MOST = 1000
_Text = Annotated[str, msgspec.Meta(max_length=_MOST)]
_Given = Annotated[str, msgspec.Meta(min_length=1, max_length=_MOST)]
_Texts = Annotated[list[_Text], msgspec.Meta(max_length=_MOST)]


class _Variables(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    repo: _Given
    benchmark: _Given
    start_time: _Given
    stop_time: _Given
    models: _Texts | None = None
    metrics: _Texts | None = None
    device: _Text | None = None
    arch: _Text | None = None
    branch: _Text | None = None
    commit: _Text | None = None


class _Question(msgspec.Struct, rename="camel"):
    query_variables: _Variables
    format: Literal["JSONEachRow", "JSON", "CSV", "Parquet"] = "JSONEachRow"


def question_of(body: bytes | bytearray, parameters: Sequence[tuple[str, str]]) -> tuple[StoreQuery, str]:
    """Return the query and the format in a body, or in ``parameters`` if the body is empty.

    Raises :class:`UsageError`, which says what is missing, unknown or invalid.
    """
    try:
        asked = msgspec.convert(msgspec.json.decode(body) if body else _members(parameters), _Question)
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"the question is invalid: {error}"
        raise UsageError(msg) from None
    variables = asked.query_variables
    start, stop = _time("startTime", variables.start_time), _time("stopTime", variables.stop_time)
    if start >= stop:
        msg = "stopTime is not after startTime"
        raise UsageError(msg)
    question = StoreQuery(
        variables.repo,
        variables.benchmark,
        start,
        stop,
        variables.models or (),
        variables.metrics or (),
        variables.device or "",
        variables.arch or "",
        variables.branch or "",
        variables.commit or "",
    )
    return question, asked.format


def _members(parameters: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the members of the question that ``parameters`` ask; ``models`` and ``metrics`` may be repeated."""
    variables: dict[str, object] = dict(parameters)
    form = variables.pop("format", "JSONEachRow")
    for name in variables.keys() & {"models", "metrics"}:
        variables[name] = [value for given, value in parameters if given == name and value]
    return {"queryVariables": variables, "format": form}


def _time(name: str, text: str) -> int:
    try:
        return min(moment(text), LATEST_SECOND)
    except (ValueError, OverflowError):
        msg = f"{name} must be a time such as 2026-06-06T00:00:00, in UTC"
        raise UsageError(msg) from None
