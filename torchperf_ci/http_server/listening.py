"""A server of one application: where it listens, how long a client may take, and how it ends."""

from __future__ import annotations

import json
import resource
import socket
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from torchperf_ci.errors import UsageError
from torchperf_ci.http_server.json_answers import client_of
from torchperf_ci.interruption import Stopped
from torchperf_ci.request_log import log

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Receive, Scope, Send


HEAD_SECONDS = 30.0
"""Most seconds to send the head of a request, however slowly the bytes drip in."""

STALLED_SECONDS = 30.0
"""Most seconds in which a client takes nothing of its answer."""


class DeadlineProtocol(H11Protocol):
    """uvicorn itself waits forever for a head that has begun, and for a client that does not read.

    How long a body takes is the application's business (:mod:`torchperf_ci.http_server.bodies`).
    """

    _alarm: asyncio.TimerHandle | None = None
    _unsent = 0
    """Bytes of the answer that the client had not taken when it was last looked at."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._look_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._alarm:
            self._alarm.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._look_after(STALLED_SECONDS)

    def on_response_complete(self) -> None:
        self._look_after(HEAD_SECONDS)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's message says less
        self._refuse(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1")

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
        """Answer what the application never sees. The request is not quoted: it may hold credentials."""
        log(self.client[0] if self.client else "-", f"{status:d} {message}")
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = json.dumps({"message": message}).encode()
            head = [
                ("content-type", "application/json"),
                ("content-length", str(len(content))),
                ("connection", "close"),
            ]
            for event in (
                h11.Response(status_code=status, headers=head, reason=status.phrase),
                h11.Data(data=content),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


CONNECTIONS = 1024
"""Connections at a time, most of which wait; a request over a further one is answered with 503."""

FINISH_SECONDS = 60
"""Most seconds to finish what has begun: to receive it, keep it and answer."""

_MANY_FILES = 2**20


class HttpServer:
    """``app`` at ``address``, a host and a port (0: any that is free), where clients may connect from now on.

    The ``X-Forwarded-For`` and ``X-Forwarded-Proto`` of ``trusted_proxy``, an address, are believed, and nobody else's.
    Raises :class:`UsageError` where it cannot listen.
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
            access_log=False,
            log_config=None,
            log_level="error",
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """Where it listens, without a slash at its end."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or :meth:`stop`, and then finish what has begun."""
        with suppress(Stopped):  # uvicorn hands the signal on when it has ended
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Have :meth:`run` return soon; from any thread."""
        self._server.should_exit = True

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if len(self._server.server_state.connections) > CONNECTIONS:
            message = "there are too many connections; try again later"
            log(client_of(scope), f"503 {message}")
            app = JSONResponse({"message": message}, 503, {"Connection": "close"})
        await app(scope, receive, send)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except OSError as error:
        msg = f"cannot listen on {host}:{port}: {error.strerror}; choose another with --bind"
        raise UsageError(msg) from error


def _allow_many_files() -> None:
    """For connections; and each time that an embedded store is opened again, some files of its engine stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if resource.RLIM_INFINITY != soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
