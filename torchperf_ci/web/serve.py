"""``torchperf serve``: the pages and documents of a store, the query API, and what those who run a server look at."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import resource
import time
import traceback
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci import config
from torchperf_ci.console import say
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError
from torchperf_ci.interruption import Stopped
from torchperf_ci.receive.request import equal_in_constant_time
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.web.answers import Answers
from torchperf_ci.web.documents import UnknownDocumentError
from torchperf_ci.web.query_api import FORMATS, question_of_body, question_of_parameters
from torchperf_ci.web.site import PAGES

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
except ImportError as error:
    msg = "the dashboard's server needs packages that are not installed: pip install 'torchperf-ci[web]'"
    raise UsageError(msg) from error

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from torchperf_ci.options.keeping_commands import ServeOptions

READER = ("TORCHPERF_READER_USERNAME", "TORCHPERF_READER_PASSWORD")
"""Where they are set, all but ``/healthz`` asks for them."""
MOST_BODY = 256 * 1024
BODY_SECONDS = 10.0
"""Most seconds for a client to send a question, however slowly it drips in."""
CONNECTIONS = 128
_MANY_FILES = 2**20
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)


def serve_command(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT, and then finish what has begun."""
    settings = config.find(options.config)
    host, port = options.bind
    reader = _reader(os.environ)
    if not reader and host not in ("127.0.0.1", "::1", "localhost"):
        say(
            f"warning: whoever reaches {host}:{port} reads all results; set {' and '.join(READER)} to ask for a name"
        )
    _allow_many_files()
    with open_existing(options.store or settings.store) as store:
        app = make_app(Answers(store, settings), reader, options.root_path or "")
        _serve(app, host, port)
    return 0


def _allow_many_files() -> None:
    """As many as may be: each time that an embedded store is opened again, some files of its engine stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if resource.RLIM_INFINITY != soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def make_app(answers: Answers, reader: tuple[str, str] | None = None, root_path: str = "") -> ASGIApp:
    """The application; ``reader`` is the name and password of whoever may read, if not everybody may."""
    desk = _Desk(answers)
    app = Starlette(
        routes=[
            Route("/healthz", _healthy),
            Route("/readyz", desk.ready),
            Route("/metrics", desk.metrics),
            Route("/data/{path:path}", desk.document),
            Route("/run/{name}", desk.query, methods=["GET", "POST"]),
            Mount("/", StaticFiles(directory=PAGES, html=True)),
        ],
        middleware=[
            Middleware(_Counted, desk=desk),
            Middleware(_ForReaders, reader=reader),
            Middleware(GZipMiddleware, minimum_size=1024),
        ],
    )
    return _below(app, root_path.rstrip("/"))


def _serve(app: ASGIApp, host: str, port: int) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host,
            port,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=30,
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="warning",
        )
    )
    started = server.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await started(sockets)
        for listening in server.servers:
            shown, bound = listening.sockets[0].getsockname()[:2]
            say(f"the dashboard is at http://{f'[{shown}]' if ':' in shown else shown}:{bound}/")

    server.startup = startup  # type: ignore[method-assign]  # to say the port that was free
    with suppress(Stopped):  # the server has ended what it had begun, and hands the signal on
        server.run()
    if not server.started:
        msg = f"cannot listen on {host}:{port}; choose another with --bind"
        raise UsageError(msg)


class _Desk:
    """Where questions become answers, each in a thread: the store takes its time."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.counts: dict[tuple[str, str], int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)

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
            body = await _body(request) if request.method == "POST" else b""
        except (TimeoutError, asyncio.TimeoutError, ClientDisconnect):
            return _told(408, f"the question took more than {BODY_SECONDS:g} s")

        def answer() -> Response:
            asked = (
                question_of_body(body) if body else question_of_parameters(request.query_params.multi_items())
            )
            question, form = asked
            word, media_type = FORMATS[form]
            return Response(self._answers.query(question, word), media_type=media_type)

        if len(body) > MOST_BODY:
            return _told(413, f"the question has more than {MOST_BODY} bytes")
        return await _answered(answer)

    async def ready(self, _: Request) -> Response:
        """Whether the store answers."""

        def answer() -> Response:
            self._answers.ready()
            return PlainTextResponse("ready\n")

        return await _answered(answer)

    async def metrics(self, _: Request) -> Response:
        """What Prometheus reads."""
        counts = [
            f'requests_total{{route="{route}",status="{status}"}} {n}'
            for (route, status), n in self.counts.items()
        ]
        seconds = [
            f'request_seconds_total{{route="{route}"}} {total:.6f}' for route, total in self.seconds.items()
        ]
        types = ("# TYPE torchperf_requests_total counter", "# TYPE torchperf_request_seconds_total counter")
        lines = [types[0], *(f"torchperf_{line}" for line in sorted(counts))]
        lines += [types[1], *(f"torchperf_{line}" for line in sorted(seconds))]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("alive\n")


async def _body(request: Request) -> bytes:
    """At most a byte more than is allowed. Raises ``TimeoutError``."""

    async def read() -> bytes:
        found = b""
        async for piece in request.stream():
            found += piece
            if len(found) > MOST_BODY:
                break
        return found

    return await asyncio.wait_for(read(), BODY_SECONDS)


async def _answered(answer: Callable[[], Response]) -> Response:
    """What ``answer`` gives, or what went wrong: a sentence to who asks, the rest to the log."""
    try:
        return await run_in_threadpool(answer)
    except UnknownDocumentError as error:
        return _told(404, str(error))
    except UsageError as error:
        return _told(400, str(error))
    except (StoreUnreachableError, StoreError) as error:
        say(f"the store: {error}")
        return _told(503, "the store does not answer; the server's log says why")
    except Exception:  # noqa: BLE001  # a bug of ours: its traceback is for the log
        say(traceback.format_exc())
        return _told(500, "this is a bug of torchperf; the server's log has its traceback")


def _told(status: int, message: str) -> Response:
    return JSONResponse({"message": message}, status)


def _reader(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Who may read. Raises :class:`UsageError` where only one of the two is set."""
    name, password = (environ.get(variable, "") for variable in READER)
    if bool(name) != bool(password):
        msg = f"set both of {' and '.join(READER)}, or none"
        raise UsageError(msg)
    return (name, password) if name else None


class _ForReaders:
    """Asks for a name and a password, and gives every answer the headers that a browser's safety needs."""

    def __init__(self, app: ASGIApp, reader: tuple[str, str] | None) -> None:
        self._app, self._reader = app, reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with_headers = partial(_with_headers, send)
        if self._reader and scope["path"] != "/healthz" and not _is_reader(scope, self._reader):
            refused = JSONResponse(
                {"message": "name and password are missing or wrong"},
                401,
                {"WWW-Authenticate": 'Basic realm="torchperf", charset="UTF-8"'},
            )
            await refused(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


async def _with_headers(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        message["headers"] = [*message.get("headers", ()), *_HEADERS]
    await send(message)


def _is_reader(scope: Scope, reader: tuple[str, str]) -> bool:
    """Both are compared, whatever the first comparison gave."""
    given = dict(scope["headers"]).get(b"authorization", b"")
    scheme, _, token = given.partition(b" ")
    try:
        name, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    fits = equal_in_constant_time(name, reader[0]) & equal_in_constant_time(password, reader[1])
    return scheme.lower() == b"basic" and fits


class _Counted:
    """Counts answers and seconds by route."""

    def __init__(self, app: ASGIApp, desk: _Desk) -> None:
        self._app, self._desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), ["500"]

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            first = scope["path"].split("/")[1]
            route = first if first in ("data", "run", "metrics", "healthz", "readyz") else "pages"
            self._desk.counts[route, status[0]] += 1
            self._desk.seconds[route] += time.perf_counter() - begin


def _below(app: ASGIApp, root_path: str) -> ASGIApp:
    """The application below a path: a proxy may leave it on, or take it off."""
    if not root_path:
        return app

    async def placed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{root_path}/"):
            scope = {**scope, "path": scope["path"][len(root_path) :] or "/"}
        await app(scope, receive, send)

    return placed
