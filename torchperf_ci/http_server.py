"""The base of torchperf's HTTP servers: listening, bodies, messages, time limits and shutdown. Needs extra ``web``."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from torchperf_ci.errors import UsageError, failing_as
from torchperf_ci.interruption import Stopped
from torchperf_ci.request_log import log, log_bug

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


HEAD_SECONDS = 30.0
"""Most seconds for a client to send the complete head of a request."""

STALLED_SECONDS = 30.0
"""Most seconds during which a client may receive nothing of its answer."""


class DeadlineProtocol(H11Protocol):
    """Adds time limits to uvicorn, which waits forever for an incomplete head and for a client that does not read.

    The application limits the time for bodies (:func:`read_body`).
    """

    _alarm: asyncio.TimerHandle | None = None
    _unsent = 0
    """Bytes of the answer that the client had not received at the last check."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self.app_state = {**self.app_state, _ONE_TOO_MANY: True}
        self._look_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._alarm:
            self._alarm.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._look_after(HEAD_SECONDS)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's message says less
        self._refuse(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1")

    def _look_after(self, seconds: float) -> None:
        if self._alarm:
            self._alarm.cancel()
        self._unsent = self.transport.get_write_buffer_size()
        self._alarm = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent:
            if unsent == self._unsent:
                self.transport.abort()
            else:
                self._look_after(STALLED_SECONDS)
        elif self.cycle and not self.cycle.response_complete:  # the application is at work
            self._look_after(STALLED_SECONDS)
        elif self.conn.trailing_data[0] and self.conn.their_state is h11.IDLE:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request took more than {HEAD_SECONDS:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Refuse a request that does not reach the application, without quoting it, as it may contain credentials."""
        log(self.client[0] if self.client else "-", f"{status:d} {message}")
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = json.dumps({"message": message})
            head = (
                f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n"
            )
            self.transport.write(f"HTTP/1.1 {status:d} {status.phrase}\r\n{head}\r\n{content}".encode())
        self.transport.close()


CONNECTIONS = 1024
"""Most simultaneous connections, most of them idle. A request on a further one is answered with 503."""

_ONE_TOO_MANY = "torchperf_one_too_many"
"""What the state of such a connection is marked with, which the scopes of its requests have."""

FINISH_SECONDS = 60
"""Most seconds at shutdown to finish requests in progress: to receive, store and answer them."""

BROWSER_HEADERS = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("content-security-policy", "frame-ancestors 'none'"),
    ("cache-control", "no-cache"),
]
"""Headers of the application's responses, by which browsers guard its pages, and ask each time whether they changed."""

FILES = 10_240
"""Open files for as many connections, which macOS allows each process."""


class HttpServer:
    """Serves ``app`` at ``address``, a host and a port (0: any free one). Clients can connect once it is created.

    ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are accepted only from the address ``trusted_proxy``. Raises
    :class:`UsageError` if it cannot listen.
    """

    def __init__(self, app: ASGIApp, address: tuple[str, int], trusted_proxy: str | None = None) -> None:
        _allow_many_files()
        self._app = app
        self._socket = _listening(*address)
        config = uvicorn.Config(
            self._limited,
            interface="asgi3",
            http=DeadlineProtocol,
            loop="asyncio",
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=FINISH_SECONDS,
            proxy_headers=bool(trusted_proxy),
            forwarded_allow_ips=trusted_proxy,
            server_header=False,
            headers=BROWSER_HEADERS,
            access_log=False,
            log_config=None,
            log_level="error",
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port that the server listens on."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """The server's URL without a trailing slash."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then finish requests in progress."""
        with suppress(Stopped):  # uvicorn raises the signal again when it has shut down
            self._server.run(sockets=[self._socket])

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        app, message, status = self._app, "", 503
        if _ONE_TOO_MANY in scope["state"]:
            message = "there are too many connections; try again later"
        elif {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # A proxy may take the rest of this body for a request of somebody else's (RFC 9112, 6.1).
            message, status = "the request gives its length in two ways", 400
        if message:
            log(client_of(scope), f"{status} {message}")
            app = JSONResponse({"message": message}, status, {"Connection": "close"})
        await app(scope, receive, send)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    with failing_as(UsageError, f"cannot listen on {host}:{port}: ", "; choose another with --bind"):
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)


def _allow_many_files() -> None:
    """Raise the limit of open files, of which each connection needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


async def read_body(request: Request, most: int, seconds: float) -> bytearray:
    """Read a body of at most ``most`` bytes.

    The rest of a larger one is read and discarded: a client that is still sending when the connection is closed may not
    receive the answer (RFC 9112, 9.6). Raises Starlette's ``HTTPException`` for a larger one, and for one that takes
    more than ``seconds``, and its ``ClientDisconnect`` if the client disconnects.
    """

    async def read() -> bytearray:
        body = bytearray()
        async for piece in request.stream():
            body += piece[: most + 1 - len(body)]
        return body

    try:
        body = await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise HTTPException(408, f"the request took more than {seconds:g} s") from None
    if len(body) > most:
        raise HTTPException(413, f"the request has more than {most} bytes")
    return body


class NoRoomError(Exception):
    """Other requests held too many bytes for too long."""


class SharedBytes:
    """A budget of bytes that all requests share."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, size: int, seconds: float) -> AsyncIterator[None]:
        """Reserve ``size`` bytes within the block. Raises :class:`NoRoomError` if they are not free in ``seconds``."""
        try:
            await asyncio.wait_for(self._acquire(size), seconds)
        except asyncio.TimeoutError:
            raise NoRoomError from None
        try:
            yield
        finally:
            async with self._changed:
                self._free += size
                self._changed.notify_all()

    async def _acquire(self, size: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= size)
            self._free -= size


def message_response(status: int, message: str) -> Response:
    """Return an answer with a message, for people who read what their program received."""
    return JSONResponse({"message": message}, status)


async def framework_refusal(_: Request, error: Exception) -> Response:
    """Return the answer to what Starlette itself refuses: an unknown path or method."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"message": error.detail}, error.status_code, headers=error.headers)


class BugReporting:
    """Answers with status 500 if ``app`` raises, and logs the traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except ClientDisconnect:
            pass  # there is no client to answer
        except Exception:  # noqa: BLE001  # a bug of ours: the client gets an answer all the same
            log_bug(client_of(scope))
            if not has_begun:
                sorry = message_response(
                    500, "this is a bug of torchperf; the server's log has its traceback"
                )
                await sorry(scope, receive, send)


def client_of(scope: Scope) -> str:
    """Return the address of a request's sender, which is the original client behind a trusted proxy."""
    client = scope.get("client")
    return str(client[0]) if client else "-"
