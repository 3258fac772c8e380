"""uvicorn's side of a connection, with an end to how long a client may take over its request and its answer."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from torchperf_ci.request_log import log

if TYPE_CHECKING:
    import asyncio

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
