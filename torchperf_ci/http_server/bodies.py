"""Read bodies of requests with limits on bytes and seconds, for each request and for all together."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request


async def read_body(request: Request, most: int, seconds: float) -> bytearray:
    """Read a body and return at most ``most`` + 1 bytes of it.

    The rest is read and discarded: a client that is still sending when the connection is closed may not receive the
    answer (RFC 9112, 9.6). Raises ``asyncio.TimeoutError``, and Starlette's ``ClientDisconnect`` if the client
    disconnects.
    """

    async def read() -> bytearray:
        body = bytearray()
        async for piece in request.stream():
            body += piece[: most + 1 - len(body)]
        return body

    return await asyncio.wait_for(read(), seconds)


class NoRoomError(Exception):
    """Other requests held too many bytes for too long."""


class SharedBytes:
    """A budget of bytes that all requests share."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, size: int, seconds: float) -> AsyncIterator[None]:
        """Reserve ``size`` bytes within the block. Raises :class:`NoRoomError` if they are not free in ``seconds``."""
        try:
            await asyncio.wait_for(self._take(size), seconds)
        except asyncio.TimeoutError:
            raise NoRoomError from None
        try:
            yield
        finally:
            async with self._changed:
                self._free += size
                self._changed.notify_all()

    async def _take(self, size: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= size)
            self._free -= size
