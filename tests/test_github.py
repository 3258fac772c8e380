"""The client of GitHub's API: how long it waits, and what it takes for a fault of the server."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from serving import serving

from torchperf_ci import github
from torchperf_ci.errors import NotDeliveredError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def client(url: str, seconds: float) -> AbstractContextManager[github.GitHubClient]:
    environ = {"GITHUB_TOKEN": "token", "GITHUB_REPOSITORY": "octo/perf", "GITHUB_API_URL": url}
    return github.github_client(None, environ, seconds)


def test_a_server_that_sends_a_byte_at_a_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left, bytes_to_send = threading.Event(), iter(b" " * 100)

    class Dripping(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the base class's name
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            while not left.wait(0.05) and next(bytes_to_send, 0):
                self.wfile.write(b" ")

        def log_message(self, *_args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Dripping)) as server:
        with client(f"http://127.0.0.1:{server.server_port}", 0.3) as asking:
            monkeypatch.setattr(github, "_SECONDS_A_REQUEST", 0.3)
            with pytest.raises(NotDeliveredError, match="GitHub cannot be reached: TimeoutError"):
                asking.request(asking.repository.complete)
        left.set()
    assert next(bytes_to_send, 0)


def test_a_bug_of_ours_is_not_a_fault_of_the_server() -> None:
    def ask() -> int:
        return len(7)  # type: ignore[arg-type]

    with client("http://127.0.0.1:9", 9) as asking, pytest.raises(TypeError, match="has no len"):
        asking.request(ask)
