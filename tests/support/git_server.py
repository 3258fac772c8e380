"""A server of private repositories: git's own, behind the kind of authentication that GitHub asks for."""

from __future__ import annotations

import base64
import os
import subprocess
from contextlib import contextmanager
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def git_server(folder: Path, token: str) -> Iterator[str]:
    """The URL below which the bare repositories in ``folder`` are, to read and to write with ``token``."""
    credentials = base64.b64encode(f"x-access-token:{token}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            scheme, _, given = self.headers.get("Authorization", "").partition(" ")
            if (scheme.lower(), given) == ("basic", credentials):
                headers, _, body = self.backend(content).partition(b"\r\n\r\n")
                told = dict(BytesParser().parsebytes(headers).items())
                self.send(int(told.pop("Status", "200").split()[0]), told, body)
            else:
                self.send(401, {"WWW-Authenticate": 'Basic realm="GitHub"'}, b"")

        do_GET = do_POST = answer  # noqa: N815  # the base class's names

        def backend(self, content: bytes) -> bytes:
            """What https://git-scm.com/docs/git-http-backend says, as a CGI program."""
            path, _, query = self.path.partition("?")
            environment = {
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(content)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "x-access-token",
            }
            ran = subprocess.run(
                ["git", "http-backend"],
                input=content,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                check=False,  # it fails where it refuses something, and its output says what
                timeout=60,
            )
            return ran.stdout

        def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        block_on_close = False  # clients keep their connections

    with serving(Server(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
