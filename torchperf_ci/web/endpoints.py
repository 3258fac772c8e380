"""The endpoints of the dashboard's server; one thread queries the store, so the event loop is not blocked."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from torchperf_ci.console import say
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError
from torchperf_ci.http_server import message_response, read_body
from torchperf_ci.web.documents import UnknownDocumentError
from torchperf_ci.web.query_api import MEDIA_TYPES, question_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from torchperf_ci.web.answers import Answers

T = TypeVar("T")

MOST_BODY = 256 * 1024
"""Most bytes of the body of a query."""
BODY_SECONDS = 10.0
"""Longest time, in seconds, for a client to send a query."""


class Endpoints:
    """The endpoints that query ``answers``, in the order of the requests.

    What they raise, :func:`refusal` turns into a response.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._thread = ThreadPoolExecutor(1)

    async def document(self, request: Request) -> Response:
        """Respond with a document of the store, or with 304 if the client already has this version."""
        document = await self._in_turn(self._answers.document, request.path_params["path"])
        headers = {"ETag": document.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if document.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(document.content, media_type="application/json", headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(document.packed, media_type="application/json", headers=headers)

    async def query(self, request: Request) -> Response:
        """Respond to the query API of the benchmark infrastructure's wiki; the name after ``/run/`` is ignored."""
        try:
            body = await read_body(request, MOST_BODY, BODY_SECONDS)
        except asyncio.TimeoutError:
            raise HTTPException(408, f"the question took more than {BODY_SECONDS:g} s") from None
        if len(body) > MOST_BODY:
            raise HTTPException(413, f"the question has more than {MOST_BODY} bytes")
        question, form = question_of(body, request.query_params.multi_items())
        found = await self._in_turn(self._answers.query, question, form)
        return Response(found, media_type=MEDIA_TYPES[form])

    async def ready(self, _: Request) -> Response:
        """Respond if the store answers."""
        await self._in_turn(self._answers.ready)
        return PlainTextResponse("ready\n")

    async def _in_turn(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)


async def healthy(_: Request) -> Response:
    """Respond, which shows that the process is alive."""
    return PlainTextResponse("alive\n")


EXPECTED_ERRORS = (UnknownDocumentError, UsageError, StoreUnreachableError, StoreError)


def refusal(_: Request, error: Exception) -> Response:
    """Return the response to one of :data:`EXPECTED_ERRORS`; what happened to the store goes to the log only."""
    if isinstance(error, UnknownDocumentError | UsageError):
        return message_response(400 if isinstance(error, UsageError) else 404, str(error))
    say(f"the store: {error}")
    return message_response(503, "the store does not answer; the server's log says why")
