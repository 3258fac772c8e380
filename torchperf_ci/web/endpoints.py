"""The endpoints of the dashboard's server; the store is queried in a thread, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from torchperf_ci.console import say
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError
from torchperf_ci.http_server.bodies import read_body
from torchperf_ci.http_server.json_answers import told
from torchperf_ci.web.documents import UnknownDocumentError
from torchperf_ci.web.query_api import FORMATS, question_of_body, question_of_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from torchperf_ci.web.answers import Answers
    from torchperf_ci.web.middleware import RequestCounts

MOST_BODY = 256 * 1024
"""Most bytes of the body of a query."""
BODY_SECONDS = 10.0
"""Longest time, in seconds, for a client to send a query."""


class Endpoints:
    """The endpoints that query ``answers``, and the metrics of ``counts``."""

    def __init__(self, answers: Answers, counts: RequestCounts) -> None:
        self._answers, self._counts = answers, counts

    async def document(self, request: Request) -> Response:
        """Respond with a document of the store, or with 304 if the client already has this version."""

        def answer() -> Response:
            found = self._answers.document(request.path_params["path"])
            headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
            if found.etag in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
            return Response(found.content, media_type="application/json", headers=headers)

        return await _answered(answer)

    async def query(self, request: Request) -> Response:
        """Respond to the query API of the benchmark infrastructure's wiki; the name after ``/run/`` is ignored."""
        try:
            posted = request.method == "POST"
            body = await read_body(request, MOST_BODY, BODY_SECONDS) if posted else bytearray()
        except asyncio.TimeoutError:
            return told(408, f"the question took more than {BODY_SECONDS:g} s")
        if len(body) > MOST_BODY:
            return told(413, f"the question has more than {MOST_BODY} bytes")

        def answer() -> Response:
            asked = (
                question_of_body(body) if body else question_of_parameters(request.query_params.multi_items())
            )
            question, form = asked
            word, media_type = FORMATS[form]
            return Response(self._answers.query(question, word), media_type=media_type)

        return await _answered(answer)

    async def ready(self, _: Request) -> Response:
        """Respond with 200 if the store answers, else with 503."""

        def answer() -> Response:
            self._answers.ready()
            return PlainTextResponse("ready\n")

        return await _answered(answer)

    async def metrics(self, _: Request) -> Response:
        """Respond with metrics for Prometheus."""
        return PlainTextResponse(self._counts.exposition, media_type="text/plain; version=0.0.4")


async def healthy(_: Request) -> Response:
    """Respond, which shows that the process is alive."""
    return PlainTextResponse("alive\n")


async def _answered(answer: Callable[[], Response]) -> Response:
    """Return the response of ``answer``, or an error: a sentence for the client, the details in the log."""
    try:
        return await run_in_threadpool(answer)
    except UnknownDocumentError as error:
        return told(404, str(error))
    except UsageError as error:
        return told(400, str(error))
    except (StoreUnreachableError, StoreError) as error:
        say(f"the store: {error}")
        return told(503, "the store does not answer; the server's log says why")
