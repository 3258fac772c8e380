"""Serve an application in the background of a test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchperf_ci.http_server import HttpServer
from torchperf_ci.receive.command import UploadReceiver, receiving_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from torchperf_ci.places.place import RecordPlace, UploaderCredentials


@contextmanager
def serving_app(
    app: ASGIApp, host: str = "127.0.0.1", trusted_proxy: str | None = None
) -> Iterator[HttpServer]:
    """A server, which ends with the block."""
    server = HttpServer(app, (host, 0), trusted_proxy)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server._server.should_exit = True
        thread.join()


@contextmanager
def receiving_in(
    place: RecordPlace, accepted: UploaderCredentials, host: str = "127.0.0.1"
) -> Iterator[HttpServer]:
    """An upload API that keeps in ``place``."""
    with serving_app(receiving_app(UploadReceiver(place, accepted)), host) as server:
        yield server
