"""A server of one application: where it listens, and how it ends."""

from __future__ import annotations

import resource
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn
from starlette.responses import JSONResponse

from torchperf_ci.errors import UsageError
from torchperf_ci.http_server.client_deadlines import DeadlineProtocol
from torchperf_ci.http_server.json_answers import client_of
from torchperf_ci.interruption import Stopped
from torchperf_ci.request_log import log

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

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
