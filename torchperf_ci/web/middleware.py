"""Middleware of the dashboard's server: authentication of readers, request counts, and a prefix."""

from __future__ import annotations

import base64
import binascii
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, PlainTextResponse

from torchperf_ci.receive.request import are_equal

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ROUTES = {"data", "run", "upload", "metrics", "healthz", "readyz"}
"""First parts of paths that are counted separately; all others are pages."""


class ForReaders:
    """Requires the name and password of ``reader``, if there is one, except for the paths in ``but``."""

    def __init__(self, app: ASGIApp, reader: tuple[str, str] | None, but: Collection[str]) -> None:
        self._app, self._reader, self._but = app, reader, but

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._reader or scope["path"] in self._but or _is_reader(scope, self._reader):
            await self._app(scope, receive, send)
            return
        refused = JSONResponse(
            {"message": "name and password are missing or wrong"},
            401,
            {"WWW-Authenticate": 'Basic realm="torchperf", charset="UTF-8"'},
        )
        await refused(scope, receive, send)


def _is_reader(scope: Scope, reader: tuple[str, str]) -> bool:
    scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    try:
        name, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return scheme.lower() == b"basic" and are_equal((name, password), reader)


class RequestCounts:
    """The number of responses by route and status, and the seconds they took by route."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, int], int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)

    async def metrics(self, _: Request) -> Response:
        """Respond with the counts in Prometheus's text format."""
        lines = [
            "# TYPE torchperf_requests_total counter",
            *(
                f'torchperf_requests_total{{route="{route}",status="{status}"}} {number}'
                for (route, status), number in sorted(self.answers.items())
            ),
            "# TYPE torchperf_request_seconds_total counter",
            *(
                f'torchperf_request_seconds_total{{route="{route}"}} {total:.6f}'
                for route, total in sorted(self.seconds.items())
            ),
        ]
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")


class Counted:
    """Counts responses and seconds by route."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            first = scope["path"].split("/")[1]
            route = first if first in _ROUTES else "pages"
            self._counts.answers[route, status] += 1
            self._counts.seconds[route] += time.perf_counter() - begin


class BelowPath:
    """Serves ``app`` below a path, whether or not a proxy strips that path."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app, self._path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if f"{scope['path']}/".startswith(f"{self._path}/"):
            scope = {**scope, "path": scope["path"][len(self._path) :] or "/"}
        await self._app(scope, receive, send)
