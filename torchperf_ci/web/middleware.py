"""Middleware of the dashboard's server: authentication of readers, request counts, and a prefix."""

from __future__ import annotations

import base64
import binascii
import time
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from torchperf_ci.receive.request import are_equal

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ROUTES = {"data", "run", "upload", "metrics", "healthz", "readyz"}
"""First parts of paths that are counted separately; all others are pages."""


class ForReaders:
    """Requires the name and password of ``reader``, if there is one, except for the paths in ``but``."""

    def __init__(self, app: ASGIApp, reader: tuple[str, str] | None, but: Collection[str]) -> None:
        self._app, self._reader, self._but = app, reader, but

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._reader or _route(scope) in self._but or _is_reader(scope, self._reader):
            await self._app(scope, receive, send)
            return
        refused = JSONResponse(
            {"message": "name and password are missing or wrong"},
            401,
            {"WWW-Authenticate": 'Basic realm="torchperf", charset="UTF-8"'},
        )
        await refused(scope, receive, send)


def _route(scope: Scope) -> str:
    """Return the path below :class:`BelowPath`."""
    path: str = scope["path"]
    return path.removeprefix(scope["root_path"])


def _is_reader(scope: Scope, reader: tuple[str, str]) -> bool:
    scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    try:
        name, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return scheme.lower() == b"basic" and are_equal((name, password), reader)


class RequestTotals:
    """The number of responses by route and status, and the seconds they took by route."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str], float] = defaultdict(float)

    def counting(self, app: ASGIApp) -> ASGIApp:
        """Return ``app`` as an application whose responses are counted."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            begin, status = time.perf_counter(), 0

            async def noted(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await app(scope, receive, noted)
            finally:
                first = _route(scope).split("/")[1]
                route = f'route="{first if first in _ROUTES else "pages"}"'
                self._totals["torchperf_requests_total", f'{route},status="{status}"'] += 1
                self._totals["torchperf_request_seconds_total", route] += time.perf_counter() - begin

        return counted

    async def metrics(self, _: Request) -> Response:
        """Respond with the totals in Prometheus's text format."""
        text = ""
        for metric, samples in groupby(sorted(self._totals.items()), key=lambda item: item[0][0]):
            text += f"# TYPE {metric} counter\n"
            text += "".join(f"{metric}{{{labels}}} {total:.12g}\n" for (_, labels), total in samples)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


class BelowPath:
    """Serves ``app`` below a path, whether or not a proxy strips that path."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app, self._path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._path and scope["path"] == self._path:  # the pages' links are relative
            await RedirectResponse(f"{self._path}/")(scope, receive, send)
            return
        below = scope["path"]
        if below.startswith(f"{self._path}/"):
            below = below[len(self._path) :]
        await self._app({**scope, "path": self._path + below, "root_path": self._path}, receive, send)
