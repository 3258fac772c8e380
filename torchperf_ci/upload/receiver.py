"""The server side of an upload API: one POST keeps one object that nobody has kept before.

:func:`handler` is it as an AWS Lambda function; :mod:`torchperf_ci.upload.server` is it on a machine of one's own.
docs/receiving.md has the requests and the answers.
"""

from __future__ import annotations

import base64
import datetime
import gzip
import hashlib
import os
import sys
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from torchperf_ci.errors import ConflictError, NotDeliveredError, UnsafeKeyError, UsageError
from torchperf_ci.places import Access, open_place
from torchperf_ci.upload.request import RefusedError, Request, Response, credentials, read_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.places import Place
    from torchperf_ci.upload.lambda_api import Credentials

PUT_SECONDS = 20.0
"""Most seconds that one put may take: less than uploaders wait for their answer."""


def receive(body: bytes, place: Place, accepted: Credentials) -> Response:
    """Answer the request ``body``: its ``content`` is kept under its ``s3_path``, or the response says why not."""
    try:
        return keep(read_request(body, accepted), place)
    except RefusedError as refused:
        return refused.response


def keep(request: Request, place: Place) -> Response:
    """Put the request's content, gzipped, where nothing may be yet: of several writers of one key one wins.

    Where that is on this machine, and why it fails, is told to the log, not to whoever asks.
    """
    body = gzip.compress(request.content.encode(), mtime=0)
    try:
        put = place.put(request.key, body)
    except UnsafeKeyError as error:  # too long, with the prefix of the place before it
        return Response(
            HTTPStatus.BAD_REQUEST, {"message": "s3_path is too long to be kept here"}, str(error)
        )
    except ConflictError as error:
        message = f"{request.key}: other content is already kept there; it was not overwritten"
        return Response(HTTPStatus.CONFLICT, {"message": message, "same": False}, str(error))
    except NotDeliveredError as error:
        message = "it could not be kept; the receiver's log says why"
        return Response(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": message}, str(error))
    if put == "already there":
        message = f"{request.key}: the same content is already kept there"
        return Response(HTTPStatus.CONFLICT, {"message": message, "same": True})
    return Response(HTTPStatus.OK, {"message": f"kept as {request.key}", "etag": _etag(body)})


def _etag(body: bytes) -> str:
    """As S3 tells it of an object that is put in one piece, unless a key of KMS encrypts it."""
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Answer a function URL's event (payload format 2.0) with a response of the same format.

    The environment has the place in ``TORCHPERF_TO``, and :func:`credentials`. Raises :class:`UsageError` without
    them: an alarm on the function's errors should ring, uploaders cannot help.
    """
    place, accepted = _set_up()
    try:
        response = receive(_body(event), place, accepted)
    except RefusedError as refused:
        response = refused.response
    log(_client(event), response.line)
    return {
        "statusCode": int(response.status),
        "headers": {"content-type": "application/json"},
        "body": response.text,
        "isBase64Encoded": False,
    }


@lru_cache(maxsize=1)
def _set_up() -> tuple[Place, Credentials]:
    """Once for all the events that an instance of the function gets: connections stay open in between."""
    target = os.environ.get("TORCHPERF_TO")
    if not target:
        msg = "nothing could be kept: set TORCHPERF_TO to s3://BUCKET[/PREFIX]"
        raise UsageError(msg)
    return open_place(target, Access(deadline=PUT_SECONDS)), credentials(os.environ)


def log(client: str, *lines: str) -> None:
    """Write to stderr what became of a request of ``client``, which may have put anything into ``lines``.

    What does not print is escaped: nothing looks like a line of ours, nor like a command to a terminal.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    sys.stderr.write("".join(f"{now:%Y-%m-%dT%H:%M:%SZ} {client} {_printable(line)}\n" for line in lines))
    sys.stderr.flush()


def _printable(line: str) -> str:
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return shown.replace("##[", "#\\x23[")  # a command to GitHub's runner, wherever in the line it stands


def _client(event: Mapping[str, Any]) -> str:
    """The address that the request came from, if the event tells it."""
    return str(event.get("requestContext", {}).get("http", {}).get("sourceIp", "-"))


def _body(event: Mapping[str, Any]) -> bytes:
    body = str(event.get("body") or "").encode("utf-8", "surrogatepass")
    if not event.get("isBase64Encoded"):
        return body
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the body is not the Base64 that it says it is") from None
