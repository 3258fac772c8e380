"""The receiver on a machine of one's own: ``torchperf receive``.

The standard library's server, a thread and one request for each connection. Only a few threads work at a time: Python
computes one at a time anyway, and large requests that are taken apart all at once would add up in memory.
"""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import threading
import traceback
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import UsageError
from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.receive.request import (
    PUT_SECONDS,
    RefusedRequestError,
    UploadResponse,
    accepted_credentials,
    check_size,
    keep,
    log,
    read_request,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.options.keeping_commands import ReceiveOptions
    from torchperf_ci.places.place import RecordPlace, UploaderCredentials


class SharedBytes:
    """Bytes that may be taken, by all threads together."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, size: int, deadline: Deadline) -> Iterator[None]:
        """Have ``size`` bytes inside. Raises ``TimeoutError`` where they are not free in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._free >= size, deadline.left):
                raise TimeoutError
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()


class TimedSocket(io.RawIOBase):
    """What a socket receives until a deadline; then reading raises ``TimeoutError``."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self.deadline = connection, deadline
        self.is_empty, self.is_late = True, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline.left
        self.is_late = not left
        if self.is_late:
            raise TimeoutError
        self._connection.settimeout(left)
        try:
            number = self._connection.recv_into(buffer)
        except TimeoutError:
            self.is_late = True
            raise
        self.is_empty = self.is_empty and not number
        return number


REQUEST_SECONDS = 30.0
"""Most seconds for a client to send its request, however slowly the bytes drip in."""

REPLY_SECONDS = 10.0
"""Most seconds for a client to take its answer."""

CONNECTIONS = 64
"""Connections at a time. Further ones wait until one of these ends, as each does by its deadlines."""

AT_WORK = 4
"""Requests at a time that are checked; puts, which mostly wait, are not counted."""

BODIES = 128 * 2**20
"""Bytes of all bodies at a time, whoever sends them; further ones wait until there is room."""

_PIECE = 64 * 1024


def receive_command(options: ReceiveOptions) -> int:
    """Serve until SIGTERM or SIGINT, and then finish what has begun."""
    if not options.to:
        msg = "say where to keep what is received: --to s3://BUCKET[/PREFIX] or a directory"
        raise UsageError(msg)
    accepted = accepted_credentials(os.environ)
    place = open_place(options.to, PlaceAccess(deadline=PUT_SECONDS))
    with ReceiveServer(options.bind, place, accepted) as server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop())
        sys.stderr.write(f"listening on {server.url}, keeping in {place.name}\n")
        sys.stderr.flush()
        server.serve_forever(poll_interval=0.1)
    return 0


class ReceiveServer(ThreadingTCPServer):
    """Listens at ``address``, a host and a port (0: any that is free). To leave its context finishes what has begun.

    Raises :class:`UsageError` where it cannot listen.
    """

    allow_reuse_address = True
    request_queue_size = CONNECTIONS

    def __init__(self, address: tuple[str, int], place: RecordPlace, accepted: UploaderCredentials) -> None:
        self.place, self.accepted = place, accepted
        self.turn = threading.BoundedSemaphore(AT_WORK)
        self.bodies = SharedBytes(BODIES)
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _RequestHandler)
        except OSError as error:
            msg = f"cannot listen on {address[0]}:{address[1]}: {error.strerror}; choose another with --bind"
            raise UsageError(msg) from error

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stop(self) -> None:
        """Have :meth:`serve_forever` return soon. Unlike ``shutdown`` it does not wait, so a signal may call it."""
        threading.Thread(target=self.shutdown).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._room.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # the base class's signature
        """Clients go away all the time, which is an :class:`OSError`; anything else is worth a look."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log_bug(client_address[0])


class _RequestHandler(BaseHTTPRequestHandler):
    """One request; its answer is JSON, whatever happens."""

    server: ReceiveServer
    protocol_version = "HTTP/1.1"  # for "Expect: 100-continue": clients ask before they send a large body
    default_request_version = "HTTP/1.1"  # an answer to what is no HTTP has a status line too
    wbufsize = -1  # the answer leaves in one piece

    def setup(self) -> None:
        super().setup()
        self._received = TimedSocket(self.connection, Deadline.after(REQUEST_SECONDS))
        self.rfile = io.BufferedReader(self._received)
        self.request_version = self.default_request_version  # until the request tells its own
        self._answered = self._all_read = False

    def handle(self) -> None:
        self.handle_one_request()
        # The base class lets a client go whose request line or headers did not come in time, without a word.
        if self._received.is_late and not self._received.is_empty and not self._answered:
            self._reply(_too_slow().response)

    def do_POST(self) -> None:
        try:
            length = self._length()
            with self.server.bodies.taken(length, self._received.deadline):
                response = self._response(self._body(length))
        except RefusedRequestError as refused:
            response = refused.response
        except TimeoutError:
            message = "there are too many large requests at a time; try again later"
            response = UploadResponse(HTTPStatus.SERVICE_UNAVAILABLE, {"message": message})
        self._reply(response)

    def handle_expect_100(self) -> bool:
        try:
            self._length()
        except RefusedRequestError as refused:
            self._reply(refused.response)
            return False
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def _length(self) -> int:
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in self.headers:
            raise RefusedRequestError(HTTPStatus.LENGTH_REQUIRED, "the request must have a Content-Length")
        size = int(length[:20])
        check_size(size)
        return size

    def _body(self, length: int) -> bytes:
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise _too_slow() from None
        self._all_read = True
        if len(body) < length:
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "the body is shorter than its Content-Length")
        return body

    def _response(self, body: bytes) -> UploadResponse:
        try:
            with self.server.turn:
                request = read_request(body, self.server.accepted)
            return keep(request, self.server.place)
        except RefusedRequestError as refused:
            return refused.response
        except Exception:  # noqa: BLE001  # a bug of ours: its traceback is for the log, and the client gets an answer
            _log_bug(self.address_string())
            message = "this is a bug of torchperf; the receiver's log has its traceback"
            return UploadResponse(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": message})

    def send_error(
        self,
        code: int,
        message: str | None = None,
        explain: str | None = None,  # noqa: ARG002  # the base class's signature
    ) -> None:
        """What the base class refuses: no HTTP, or too much of it, or no POST.

        Its own message may quote a request that came apart, credentials and all.
        """
        status = HTTPStatus(code)
        message = f"{status.phrase}: an upload API takes a POST of HTTP/1.1"
        self._reply(UploadResponse(status, {"message": message}))

    def log_error(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's signature
        """A request that is refused is logged with its answer."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's signature
        log(self.address_string(), format % args)

    def _reply(self, response: UploadResponse) -> None:
        log(self.address_string(), response.line)
        content = response.text.encode()
        self.connection.settimeout(REPLY_SECONDS)
        self.send_response_only(response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self._answered = True

    def finish(self) -> None:
        super().finish()
        if self._answered and not self._all_read:
            self._discard_the_rest()

    def _discard_the_rest(self) -> None:
        """Closing at once would take the answer from a client that still sends (RFC 9112, 9.6)."""
        self.connection.shutdown(socket.SHUT_WR)
        with TimedSocket(self.connection, Deadline.after(REPLY_SECONDS)) as rest:
            while rest.read(_PIECE):
                pass


def _log_bug(client: str) -> None:
    """Log the exception that is being handled. Each line is marked: its message may hold anything of the request."""
    log(client, *(f"| {line}" for line in traceback.format_exc().splitlines()))


def _too_slow() -> RefusedRequestError:
    return RefusedRequestError(
        HTTPStatus.REQUEST_TIMEOUT, f"the request took more than {REQUEST_SECONDS:g} s"
    )
