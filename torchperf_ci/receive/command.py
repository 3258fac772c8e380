"""The command ``torchperf receive``: a server with the upload API at every path, and nothing else."""

from __future__ import annotations

import sys
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from torchperf_ci.errors import UsageError
from torchperf_ci.http_server.json_answers import CaughtBugs, client_of, told_by_starlette
from torchperf_ci.http_server.listening import HttpServer
from torchperf_ci.receive.request import opened_for_uploads
from torchperf_ci.receive.upload_api import UploadReceiver
from torchperf_ci.request_log import log

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from torchperf_ci.options.keeping_commands import ReceiveOptions


def receive_command(options: ReceiveOptions) -> int:
    """Serve until SIGTERM or SIGINT, then finish the requests that have begun."""
    if not options.to:
        msg = "say where to keep what is received: --to s3://BUCKET[/PREFIX] or a directory"
        raise UsageError(msg)
    place, accepted = opened_for_uploads(options.to)
    server = HttpServer(receiving_app(UploadReceiver(place, accepted)), options.bind, options.trusted_proxy)
    sys.stderr.write(f"listening on {server.url}, keeping in {place.name}\n")
    sys.stderr.flush()
    server.run()
    return 0


def receiving_app(api: UploadReceiver) -> ASGIApp:
    """Return an application that serves ``api`` at every path."""
    route = Route("/{path:path}", api.upload, methods=["POST"])
    return Starlette(
        routes=[route], middleware=[Middleware(CaughtBugs)], exception_handlers={HTTPException: _refused}
    )


async def _refused(request: Request, error: Exception) -> Response:
    response = await told_by_starlette(request, error)
    log(client_of(request.scope), f"{response.status_code} {HTTPStatus(response.status_code).phrase}")
    return response
