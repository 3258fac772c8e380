"""Answers for errors and notes: JSON objects with a ``message``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from torchperf_ci.request_log import log_bug

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def told(status: int, message: str) -> Response:
    """Return an answer with a message, for people who read what their program received."""
    return JSONResponse({"message": message}, status)


async def told_by_starlette(_: Request, error: Exception) -> Response:
    """Return the answer to what Starlette itself refuses: an unknown path or method."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"message": error.detail}, error.status_code, headers=error.headers)


class CaughtBugs:
    """Answers with status 500 if ``app`` raises, and logs the traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except ClientDisconnect:
            pass  # there is no client to answer
        except Exception:  # noqa: BLE001  # a bug of ours: the client gets an answer all the same
            log_bug(client_of(scope))
            if not has_begun:
                sorry = told(500, "this is a bug of torchperf; the server's log has its traceback")
                await sorry(scope, receive, send)


def client_of(scope: Scope) -> str:
    """Return the address of a request's sender, which is the original client behind a trusted proxy."""
    client = scope.get("client")
    return str(client[0]) if client else "-"
