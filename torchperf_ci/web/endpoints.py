"""The endpoints of the dashboard's server, and requests to its query API as the infrastructure's wiki describes them.

One thread queries the store, and caches documents until it changes.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from msgspec import DecodeError, Meta, Struct, convert, json
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from torchperf_ci.console import say
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError, failing_as
from torchperf_ci.http_server import NoRoomError, SharedBytes, message_response, read_body
from torchperf_ci.options.option import moment
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.store.client import AnswerLimits, Store
from torchperf_ci.store.command import StoreQuery, run_query
from torchperf_ci.web.documents import Documents, UnknownDocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from torchperf_ci.config import Config

T = TypeVar("T")

MAX_BODY_BYTES = 256 * 1024
"""Most bytes of the body of a query."""
BODY_SECONDS = 10.0
"""Longest time, in seconds, for a client to send a query."""
UNREAD_BYTES = 256 * 2**20
"""Most bytes of answers to queries that are in memory because clients have not read them yet."""
UNREAD_SECONDS = 1.0
"""Longest time, in seconds, that an answer to a query waits for others to be read."""
PIECE = 256 * 2**10
"""Bytes that are sent at a time; of them, the server copies what a client has not read yet."""
CACHED_DOCUMENTS = 1000
"""Most documents that are cached, compressed: those that were asked for last."""
LIMITS = AnswerLimits(size=64 * 2**20, seconds=60)
"""Of the answer to a query; clients that need more query shorter periods."""


class StoreService:
    """The documents and queries of ``store``; for one thread."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store, self._config = store, config
        self._state: object = None
        self._packed: Callable[[str], bytes]

    def document(self, path: str) -> bytes:
        """Return the current version of a document, compressed by gzip once for all requests.

        Raises :class:`UnknownDocumentError`, or what reading raises.
        """
        state = self._store.rows(self._store.statement("store_state"))
        if state != self._state:
            documents = Documents(self._store, self._config)
            self._packed = lru_cache(CACHED_DOCUMENTS)(
                lambda path: gzip.compress(documents.document(path), 6, mtime=0)
            )
            self._state = state
        return self._packed(path)

    def query(self, query: StoreQuery, form: str, packed: bool = False) -> bytes:
        """Return the points of a query, compressed by gzip if ``packed``.

        Raises :class:`UsageError` if the answer exceeds :data:`LIMITS`.
        """
        content = b"".join(run_query(self._store, query, form.lower(), LIMITS))
        return gzip.compress(content, compresslevel=1) if packed else content

    def ready(self) -> None:
        """Check that the store answers. Raises what querying the store raises."""
        self._store.rows("SELECT 1")


class Endpoints:
    """The endpoints that query ``service``, in the order of the requests.

    What they raise, :func:`refusal` turns into a response.
    """

    def __init__(self, service: StoreService) -> None:
        self._service = service
        self._thread = ThreadPoolExecutor(1)
        self._unread = SharedBytes(UNREAD_BYTES)

    async def document(self, request: Request) -> Response:
        """Respond with a document of the store, or with 304 if the client already has this version."""
        packed = await self._in_thread(self._service.document, request.path_params["path"])
        etag = f'"{hashlib.sha256(packed).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Vary": "Accept-Encoding"}
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if not _accepts_gzip(request):
            return Response(gzip.decompress(packed), 200, headers, "application/json")
        return Response(packed, 200, {**headers, "Content-Encoding": "gzip"}, "application/json")

    async def query(self, request: Request) -> Response:
        """Respond to the query API of the benchmark infrastructure's wiki; the name after ``/run/`` is ignored."""
        body = await read_body(request, MAX_BODY_BYTES, BODY_SECONDS)
        query, form = parse_query(body, request.query_params.multi_items())
        packed = _accepts_gzip(request)
        answer = await self._in_thread(self._service.query, query, form, packed)
        encoding = {"Content-Encoding": "gzip"} if packed else {}
        headers = {"Content-Type": MEDIA_TYPES[form], "Vary": "Accept-Encoding", **encoding}
        return _ChunkedResponse(answer, headers, self._unread)

    async def ready(self, _: Request) -> Response:
        """Respond if the store answers."""
        await self._in_thread(self._service.ready)
        return PlainTextResponse("ready\n")

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)


class _ChunkedResponse(StreamingResponse):
    """A response that is sent as fast as the client reads it; if it is large, it meanwhile counts among ``unread``.

    Raises :class:`NoRoomError` if others have not read theirs.
    """

    def __init__(self, content: bytes, headers: Mapping[str, str], unread: SharedBytes) -> None:
        size = len(content)
        pieces = (content[start : start + PIECE] for start in range(0, size, PIECE))
        super().__init__(pieces, 200, {**headers, "Content-Length": f"{size}"})
        self._reserved = unread.reserve(size, UNREAD_SECONDS) if size > PIECE else nullcontext()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._reserved:
            await super().__call__(scope, receive, send)


def _accepts_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


EXPECTED_ERRORS = (UnknownDocumentError, UsageError, NoRoomError, StoreUnreachableError, StoreError)


def refusal(_: Request, error: Exception) -> Response:
    """Return the response to one of :data:`EXPECTED_ERRORS`; what happened to the store goes to the log only."""
    if isinstance(error, UnknownDocumentError | UsageError):
        return message_response(400 if isinstance(error, UsageError) else 404, str(error))
    if isinstance(error, NoRoomError):
        return message_response(503, "other clients have not read their answers yet; try again later")
    say(f"the store: {error}")
    return message_response(503, "the store does not answer; the server's log says why")


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

    The body is ``{"format": "JSONEachRow", "queryVariables": {"repo": …, "startTime": …}}``; an empty variable is no
    filter. Raises :class:`UsageError`, which says what is missing, unknown or invalid, and what a query is.
    """
    with failing_as(UsageError, after=f"; {_USAGE}", of=(DecodeError, RecursionError)):
        request = json.decode(body, type=_Request) if body else convert(_members(parameters), _Request)
    asked = request.query_variables
    with suppress(ValueError, OverflowError):
        start, stop = (min(moment(text), LATEST_SECOND) for text in (asked.start_time, asked.stop_time))
        if start < stop:
            texts = (text or "" for text in (asked.device, asked.arch, asked.branch, asked.commit))
            lists = (asked.models or (), asked.metrics or ())
            return StoreQuery(asked.repo, asked.benchmark, start, stop, *lists, *texts), request.format
    raise UsageError(f"startTime and stopTime must be times, stopTime the later one; {_USAGE}")


def _members(parameters: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the members of the query that ``parameters`` ask; ``models`` and ``metrics`` may be repeated."""
    lists = {
        name: [one for given, one in parameters if given == name and one] for name in ("models", "metrics")
    }
    variables = {**dict(parameters), **lists}
    return {"format": variables.pop("format", "JSONEachRow"), "queryVariables": variables}
