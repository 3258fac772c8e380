"""A server with scripted responses, for those that real servers give too rarely."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer = tuple[int, bytes]


@dataclass
class Script:
    """``answers`` are given in turn, the last again and again; ``requests`` are the methods that came.

    ``authorizations`` are the requests' headers of that name, all that each one had. ``cut_off`` is how many answers to
    GET break off in the middle. Without ``tells_size``, an answer ends with the connection.
    """

    url: str
    answers: list[Answer] = field(default_factory=lambda: [(200, b"")])
    requests: list[str] = field(default_factory=list)
    cut_off: int = 0
    tells_size: bool = True
    authorizations: list[list[str]] = field(default_factory=list)

    def next(self, method: str, authorization: list[str]) -> Answer:
        self.requests.append(method)
        self.authorizations.append(authorization)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def s3_error(status: int, code: str) -> Answer:
    """An error as S3 sends it."""
    return status, f"<Error><Code>{code}</Code><Message>As told.</Message></Error>".encode()


@contextmanager
def scripted_server() -> Iterator[Script]:
    script: Script

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def handle_expect_100(self) -> bool:
            super().handle_expect_100()
            self.wfile.flush()  # else botocore waits a second for it
            return True

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = script.next(self.command, self.headers.get_all("Authorization", []))
            self.send_response(status)
            self.close_connection |= not script.tells_size
            if script.tells_size:
                self.send_header("Content-Length", str(len(content)))
            if self.command == "PUT" and not content:
                self.send_header("ETag", '"made"')  # as S3 says what it keeps
            self.end_headers()
            if self.command == "GET" and script.cut_off:
                script.cut_off -= 1
                content, self.close_connection = content[: len(content) // 2], True
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = answer  # noqa: N815  # the base class's names

        def log_message(self, *_args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        block_on_close = False  # clients keep their connections

    with serving(Server(("127.0.0.1", 0), Handler)) as server:
        script = Script(f"http://127.0.0.1:{server.server_port}")
        yield script
