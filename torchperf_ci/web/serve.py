"""``torchperf serve``: serve the pages and documents of a store, the query API, and optionally the upload API."""

from __future__ import annotations

import base64
import os
import re
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from torchperf_ci.config import find_config
from torchperf_ci.console import say
from torchperf_ci.errors import UsageError
from torchperf_ci.http_server import BugReporting, HttpServer, framework_refusal, message_response
from torchperf_ci.receive.command import UploadReceiver
from torchperf_ci.receive.request import are_equal, opened_for_uploads
from torchperf_ci.records.schema import is_text
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.web.command import PAGES
from torchperf_ci.web.endpoints import EXPECTED_ERRORS, Endpoints, StoreService, refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from torchperf_ci.options.storage_commands import ServeOptions

READER = ("TORCHPERF_READER_USERNAME", "TORCHPERF_READER_PASSWORD")
"""If these variables are set, all paths but those in :data:`OPEN` require this name and password."""

OPEN = ("/healthz", "/upload")
"""Paths that do not require a reader's password; uploaders have their own."""

_LOCAL_NAMES = r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
_ROUTES = {"data", "run", "upload", "metrics", "healthz", "readyz"}
"""First parts of paths that are counted separately; all others are pages."""


def serve_command(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT, then finish requests in progress."""
    config = find_config(options.config)
    host, port = options.bind
    reader = _reader()
    local = host in ("127.0.0.1", "::1", "localhost")
    if not reader and not local:
        say(
            f"warning: anyone who reaches {host}:{port} can read all results; set {' and '.join(READER)} to prevent it"
        )
    uploads = UploadReceiver(*opened_for_uploads(options.to)) if options.to else None
    with open_existing(options.store or config.store) as store:
        only_local = local and not reader and not options.trusted_proxy
        app = make_app(StoreService(store, config), reader, options.root_path or "", uploads, only_local)
        server = HttpServer(app, options.bind, options.trusted_proxy)
        say(f"the dashboard is at {server.url}/")
        server.run()
    return 0


def make_app(
    service: StoreService,
    reader: tuple[str, str] | None = None,
    root_path: str = "",
    uploads: UploadReceiver | None = None,
    only_local: bool = False,
) -> ASGIApp:
    """Return the application; ``reader`` and ``only_local`` are those of :func:`guarded`."""
    totals, endpoints = RequestTotals(), Endpoints(service)
    app = Starlette(
        routes=[
            Route("/healthz", PlainTextResponse("alive\n")),
            Route("/readyz", endpoints.ready),
            Route("/metrics", totals.metrics),
            Route("/data/{path:path}", endpoints.document),
            Route("/run/{name}", endpoints.query, methods=["GET", "POST"]),
            *([Route("/upload", uploads.upload, methods=["POST"])] if uploads else ()),
        ],
        middleware=[
            Middleware(totals.counting),
            Middleware(BugReporting),
            Middleware(guarded, reader=reader, only_local=only_local),
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=6),
        ],
        exception_handlers={HTTPException: framework_refusal, **dict.fromkeys(EXPECTED_ERRORS, refusal)},
    )
    # Not a route: as one, it would answer 404 to a method that another route of the path does not have.
    app.router.default = StaticFiles(directory=PAGES, html=True)
    return below_path(app, root_path.rstrip("/"))


def _reader() -> tuple[str, str] | None:
    """Return the reader's name and password, if set. Raises :class:`UsageError` if nobody could log in with them."""
    name, password = (os.environ.get(variable, "") for variable in READER)
    if bool(name) != bool(password) or not is_text(name + password):
        raise UsageError(f"set both of {' and '.join(READER)}, in UTF-8, or none")
    return (name, password) if name else None


def guarded(app: ASGIApp, reader: tuple[str, str] | None, only_local: bool) -> ASGIApp:
    """Return ``app`` as one that requires the name and password of ``reader``, except for the paths in :data:`OPEN`.

    If ``only_local``, it refuses other hosts: a web page can point its own name at this machine, and read.
    """
    accepted = ("basic", base64.b64encode(":".join(reader or ()).encode()).decode())

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        answering, headers = app, Headers(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if reader and _route(scope) not in OPEN and not are_equal((scheme.lower(), token.strip()), accepted):
            challenge = {"WWW-Authenticate": 'Basic realm="torchperf", charset="UTF-8"'}
            answering = JSONResponse({"message": "name and password are missing or wrong"}, 401, challenge)
        elif only_local and not re.fullmatch(_LOCAL_NAMES, headers.get("host", "")):
            message = "without a password, only localhost is answered; behind a proxy, give --trusted-proxy"
            answering = message_response(403, message)
        await answering(scope, receive, send)

    return checked


def _route(scope: Scope) -> str:
    """Return the path below that of :func:`below_path`."""
    path: str = scope["path"]
    return path.removeprefix(scope["root_path"])


class RequestTotals:
    """The number of responses by route and status, and the seconds they took by route."""

    def __init__(self) -> None:
        self._totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def counting(self, app: ASGIApp) -> ASGIApp:
        """Return ``app`` as an application whose responses are counted."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            begin = time.perf_counter()
            first = _route(scope).strip("/").partition("/")[0]  # of `OPTIONS *`, too
            route = f'route="{first if first in _ROUTES else "pages"}"'

            async def noted(message: Message) -> None:
                if status := message.get("status"):
                    self._totals["torchperf_requests_total"][f'{route},status="{status}"'] += 1
                await send(message)

            try:
                await app(scope, receive, noted)
            finally:
                self._totals["torchperf_request_seconds_total"][route] += time.perf_counter() - begin

        return counted

    async def metrics(self, _: Request) -> Response:
        """Respond with the totals in Prometheus's text format."""
        text = ""
        for metric, totals in self._totals.items():
            text += f"# TYPE {metric} counter\n"
            text += "".join(f"{metric}{{{labels}}} {total:.12g}\n" for labels, total in totals.items())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def below_path(app: ASGIApp, root: str) -> ASGIApp:
    """Return ``app`` as one below the path ``root``, whether or not a proxy strips that path."""

    async def found(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].replace("\0", "\ufffd")  # StaticFiles would fail on NULs
        if not f"{path}/".startswith(f"{root}/"):
            path = root + path
        await app({**scope, "path": path, "root_path": root}, receive, send)

    return found
