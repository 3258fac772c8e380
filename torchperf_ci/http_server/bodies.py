"""Bodies of requests: bounded in bytes and in seconds, each by itself and all together."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request


async def read_body(request: Request, most: int, seconds: float) -> bytearray:
    """The body, of which all beyond ``most`` + 1 bytes is read and dropped.

    Who still sends when it is answered and let go does not get to read the answer (RFC 9112, 9.6). Raises
    ``asyncio.TimeoutError``, and Starlette's ``ClientDisconnect`` where the client goes away.
    """

    async def read() -> bytearray:
        body = bytearray()
        async for piece in request.stream():
            body += piece[: most + 1 - len(body)]
        return body

    return await asyncio.wait_for(read(), seconds)


class NoRoomError(Exception):
    """Too many bytes were taken for too long."""


class SharedBytes:
    """Bytes that may be taken, by all requests together."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, size: int, seconds: float) -> AsyncIterator[None]:
        """Have ``size`` bytes inside. Raises :class:`NoRoomError` where they are not free within ``seconds``."""
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
