"""JSON lines over a socket of their own, so that what a workload prints cannot corrupt them."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Channel:
    """The worker's end. Only the process that opened it may speak: a forked child that comes back here ends."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._owner = os.getpid()

    def requests(self) -> Iterator[dict[str, Any]]:
        """Requests until the parent closes its end."""
        for line in self._lines:
            yield json.loads(line)

    def send(self, message: dict[str, Any]) -> None:
        """Answer one request."""
        if os.getpid() != self._owner:
            os._exit(1)
        self._socket.sendall(json.dumps(message, allow_nan=False).encode() + b"\n")
