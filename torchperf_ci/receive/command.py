"""The command ``torchperf receive``, and the upload API as a route, which ``torchperf serve`` has, too.

Only a few requests are checked at a time: Python runs one thread at a time anyway, and large requests that are parsed
concurrently would add up in memory.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from torchperf_ci.console import say
from torchperf_ci.errors import UsageError
from torchperf_ci.http_server import (
    BugReporting,
    HttpServer,
    NoRoomError,
    SharedBytes,
    client_of,
    framework_refusal,
    read_body,
)
from torchperf_ci.receive.request import (
    MAX_BODY,
    RefusedRequestError,
    UploadResponse,
    check_size,
    keep,
    opened_for_uploads,
    read_request,
)
from torchperf_ci.request_log import log

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from torchperf_ci.options.storage_commands import ReceiveOptions
    from torchperf_ci.places.place import RecordPlace, UploaderCredentials


def receive_command(options: ReceiveOptions) -> int:
    """Serve until SIGTERM or SIGINT, then finish the requests that have begun."""
    if not options.to:
        raise UsageError("say where to keep what is received: --to s3://BUCKET[/PREFIX] or a directory")
    place, accepted = opened_for_uploads(options.to)
    server = HttpServer(receiving_app(UploadReceiver(place, accepted)), options.bind, options.trusted_proxy)
    say(f"listening on {server.url}, keeping in {place.name}")
    server.run()
    return 0


def receiving_app(api: UploadReceiver) -> ASGIApp:
    """Return an application that serves ``api`` at every path."""
    route = Route("/{path:path}", api.upload, methods=["POST"])
    return Starlette(
        routes=[route], middleware=[Middleware(BugReporting)], exception_handlers={HTTPException: _refused}
    )


async def _refused(request: Request, error: Exception) -> Response:
    response = await framework_refusal(request, error)
    log(client_of(request.scope), f"{response.status_code} {HTTPStatus(response.status_code).phrase}")
    return response


BODY_SECONDS = 30.0
"""Most seconds to wait for free memory, and then again for the client to send its body."""

DROP_SECONDS = 10.0
"""Most seconds to read a body that is too large before responding, so that the client reads the response."""

AT_WORK = 4
"""Requests that are checked concurrently."""

PUTS = 32
"""Concurrent puts, which mostly wait."""

BODIES = 128 * 2**20
"""Most bytes of all bodies in memory, of all clients together; further requests wait."""


class UploadReceiver:
    """Stores in ``place`` what uploaders with the ``accepted`` credentials send."""

    def __init__(self, place: RecordPlace, accepted: UploaderCredentials) -> None:
        self._place, self._accepted = place, accepted
        self._bodies = SharedBytes(BODIES)
        self._checks = ThreadPoolExecutor(AT_WORK, "check")
        self._puts = ThreadPoolExecutor(PUTS, "put")

    async def upload(self, request: Request) -> Response:
        """Store the request's content, or respond with the reason why not; both are logged."""
        try:
            response = await self._response(request)
        except RefusedRequestError as refused:
            response = refused.response
        log(client_of(request.scope), response.line)
        return Response(response.text, response.status, media_type="application/json")

    async def _response(self, request: Request) -> UploadResponse:
        length = await _length(request)
        try:
            async with self._bodies.reserve(length, BODY_SECONDS):
                return await self._check_and_keep(await _body(request))
        except NoRoomError:
            message = "there are too many large requests at a time; try again later"
            raise RefusedRequestError(HTTPStatus.SERVICE_UNAVAILABLE, message) from None

    async def _check_and_keep(self, body: bytearray) -> UploadResponse:
        loop = asyncio.get_running_loop()
        records = await loop.run_in_executor(self._checks, read_request, body, self._accepted)
        return await loop.run_in_executor(self._puts, keep, records, self._place)


async def _length(request: Request) -> int:
    """Return the length of the body. Raises :class:`RefusedRequestError` if it is not given, or too large."""
    if "content-length" not in request.headers:
        raise RefusedRequestError(HTTPStatus.LENGTH_REQUIRED, "the request must have a Content-Length")
    length = int(request.headers["content-length"])
    try:
        check_size(length)
    except RefusedRequestError:
        # With it, the client waits for the answer before it sends the body.
        if request.headers.get("expect", "").lower() != "100-continue":
            with suppress(HTTPException):
                await read_body(request, 0, DROP_SECONDS)
        raise
    return length


async def _body(request: Request) -> bytearray:
    try:
        return await read_body(request, MAX_BODY, BODY_SECONDS)
    except HTTPException as error:
        raise RefusedRequestError(HTTPStatus(error.status_code), error.detail) from None
