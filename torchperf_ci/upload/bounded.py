"""What clients may take of a server: so much time, and so much memory all together."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from torchperf_ci.deadline import Deadline


class Room:
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


class Timed(io.RawIOBase):
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
