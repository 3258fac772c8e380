"""The upload API as an AWS Lambda function: each POST stores one object, unless its key exists.

:mod:`torchperf_ci.receive.command` is the same API in a server of your own; docs/receiving.md describes the requests
and responses.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from torchperf_ci.errors import UsageError
from torchperf_ci.receive import request
from torchperf_ci.request_log import log

if TYPE_CHECKING:
    from torchperf_ci.places.place import RecordPlace, UploaderCredentials

LambdaEvent = Mapping[str, Any]
"""The event that AWS passes to a function."""


def handler(event: LambdaEvent, _context: object) -> dict[str, object]:
    """Answer a function URL's event (payload format 2.0) with a response of the same format.

    The place comes from ``TORCHPERF_TO``, the credentials from :func:`opened_for_uploads`. Raises
    :class:`UsageError` without them: this should trigger an alarm on the function's errors, since uploaders cannot
    help.
    """
    place, accepted = _set_up()
    try:
        response = request.keep(request.read_request(_body(event), accepted), place)
    except request.RefusedRequestError as refused:
        response = refused.response
    client = event.get("requestContext", {}).get("http", {}).get("sourceIp", "-")
    log(str(client), response.line)
    return {
        "statusCode": int(response.status),
        "headers": {"content-type": "application/json"},
        "body": response.text,
        "isBase64Encoded": False,
    }


@lru_cache(maxsize=1)
def _set_up() -> tuple[RecordPlace, UploaderCredentials]:
    """Set up once per instance of the function, so that connections stay open between events."""
    target = os.environ.get("TORCHPERF_TO")
    if not target:
        raise UsageError("nothing could be kept: set TORCHPERF_TO to s3://BUCKET[/PREFIX]")
    return request.opened_for_uploads(target)


def _body(event: LambdaEvent) -> bytes:
    body = str(event.get("body") or "").encode("utf-8", "surrogatepass")
    if not event.get("isBase64Encoded"):
        return body
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        raise request.RefusedRequestError(
            HTTPStatus.BAD_REQUEST, "the body is not the Base64 that it says it is"
        ) from None
