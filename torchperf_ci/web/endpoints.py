"""What is behind each path of the dashboard's server; the store answers in a thread, since it takes its time."""

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
"""Bytes of a question."""
BODY_SECONDS = 10.0
"""Most seconds for a client to send a question, however slowly it drips in."""


class Endpoints:
    """Questions to ``answers``, and ``counts`` of how it went."""

    def __init__(self, answers: Answers, counts: RequestCounts) -> None:
        self._answers, self._counts = answers, counts

    async def document(self, request: Request) -> Response:
        """A document of the store; nothing where whoever asks has it."""

        def answer() -> Response:
            found = self._answers.document(request.path_params["path"])
            headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
            if found.etag in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
            return Response(found.content, media_type="application/json", headers=headers)

        return await _answered(answer)

    async def query(self, request: Request) -> Response:
        """The query API of the wiki: whatever stands behind ``/run/``, the question is the same."""
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
        """Whether the store answers."""

        def answer() -> Response:
            self._answers.ready()
            return PlainTextResponse("ready\n")

        return await _answered(answer)

    async def metrics(self, _: Request) -> Response:
        """What Prometheus reads."""
        return PlainTextResponse(self._counts.exposition, media_type="text/plain; version=0.0.4")


async def healthy(_: Request) -> Response:
    """That the process answers at all."""
    return PlainTextResponse("alive\n")


async def _answered(answer: Callable[[], Response]) -> Response:
    """What ``answer`` gives, or what went wrong: a sentence to who asks, the rest to the log."""
    try:
        return await run_in_threadpool(answer)
    except UnknownDocumentError as error:
        return told(404, str(error))
    except UsageError as error:
        return told(400, str(error))
    except (StoreUnreachableError, StoreError) as error:
        say(f"the store: {error}")
        return told(503, "the store does not answer; the server's log says why")
