"""``torchperf serve``: serve the pages and documents of a store, the query API, and optionally the upload API."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from torchperf_ci import config
from torchperf_ci.console import say
from torchperf_ci.errors import UsageError
from torchperf_ci.http_server import BugReporting, HttpServer, framework_refusal
from torchperf_ci.receive.command import UploadReceiver
from torchperf_ci.receive.request import opened_for_uploads
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.web.answers import Answers
from torchperf_ci.web.documents import collect_garbage_rarely
from torchperf_ci.web.endpoints import EXPECTED_ERRORS, Endpoints, healthy, refusal
from torchperf_ci.web.middleware import BelowPath, ForReaders, RequestTotals
from torchperf_ci.web.site import PAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp

    from torchperf_ci.options.storage_commands import ServeOptions

READER = ("TORCHPERF_READER_USERNAME", "TORCHPERF_READER_PASSWORD")
"""If these variables are set, all paths but those in :data:`OPEN` require this name and password."""

OPEN = ("/healthz", "/upload")
"""Paths that do not require a reader's password; uploaders have their own."""


def serve_command(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT, then finish requests in progress."""
    settings = config.find(options.config)
    host, port = options.bind
    reader = _reader(os.environ)
    if not reader and host not in ("127.0.0.1", "::1", "localhost"):
        say(
            f"warning: whoever reaches {host}:{port} reads all results; set {' and '.join(READER)} to ask for a name"
        )
    uploads = UploadReceiver(*opened_for_uploads(options.to)) if options.to else None
    collect_garbage_rarely()
    with open_existing(options.store or settings.store) as store:
        app = make_app(Answers(store, settings), reader, options.root_path or "", uploads)
        server = HttpServer(app, options.bind, options.trusted_proxy)
        say(f"the dashboard is at {server.url}/")
        server.run()
    return 0


def make_app(
    answers: Answers,
    reader: tuple[str, str] | None = None,
    root_path: str = "",
    uploads: UploadReceiver | None = None,
) -> ASGIApp:
    """Return the application; ``reader`` is the name and password required for reading, if any."""
    totals, endpoints = RequestTotals(), Endpoints(answers)
    app = Starlette(
        routes=[
            Route("/healthz", healthy),
            Route("/readyz", endpoints.ready),
            Route("/metrics", totals.metrics),
            Route("/data/{path:path}", endpoints.document),
            Route("/run/{name}", endpoints.query, methods=["GET", "POST"]),
            *([Route("/upload", uploads.upload, methods=["POST"])] if uploads else ()),
        ],
        middleware=[
            Middleware(totals.counting),
            Middleware(BugReporting),
            Middleware(ForReaders, reader=reader, but=OPEN),
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=6),
        ],
        exception_handlers={HTTPException: framework_refusal, **dict.fromkeys(EXPECTED_ERRORS, refusal)},
    )
    # Not a route: as one, it would answer 404 to a method that another route of the path does not have.
    app.router.default = StaticFiles(directory=PAGES, html=True)
    return BelowPath(app, root_path.rstrip("/"))


def _reader(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the reader's name and password, if set. Raises :class:`UsageError` if only one of the two is."""
    name, password = (environ.get(variable, "") for variable in READER)
    if bool(name) != bool(password):
        msg = f"set both of {' and '.join(READER)}, or none"
        raise UsageError(msg)
    return (name, password) if name else None
