"""Run a server in the background of a test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socketserver import BaseServer

Running = TypeVar("Running", bound="BaseServer")


@contextmanager
def serving(server: Running) -> Iterator[Running]:
    """Close it in the end, whatever happens: one whose socket is closed beneath it would spin forever."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
