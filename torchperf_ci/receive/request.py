"""Parse, check and store a request to the upload API."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import msgspec

from torchperf_ci.errors import ConflictError, NotDeliveredError, UnsafeKeyError, UsageError, failing_as
from torchperf_ci.places import open_place
from torchperf_ci.places.place import MAX_KEY, PlaceAccess, RecordPlace, UploaderCredentials, check_keys
from torchperf_ci.records.files import cpu_limit
from torchperf_ci.records.reading import LocatedRecord, parse_records
from torchperf_ci.records.record import parsed_json
from torchperf_ci.records.schema import is_text


def opened_for_uploads(target: str) -> tuple[RecordPlace, UploaderCredentials]:
    """Return the place where uploads are kept and the credentials that uploaders must send.

    Raises :class:`UsageError` for an invalid target, or if the environment has no credentials.
    """
    username, password = (os.environ.get(f"UPLOADER_{name}", "") for name in ("USERNAME", "PASSWORD"))
    if not (username and password and is_text(username + password)):
        msg = "nobody could upload: set UPLOADER_USERNAME and UPLOADER_PASSWORD to what uploaders will send, in UTF-8"
        raise UsageError(msg)
    return open_place(target, PlaceAccess(deadline=PUT_SECONDS)), UploaderCredentials(username, password)


def are_equal(credentials: tuple[str, str], accepted: tuple[str, str]) -> bool:
    """Whether a user name and a password are the ``accepted`` ones, compared in constant time.

    Both are always compared, so that the time does not reveal which of them is wrong.
    """
    # Digests are compared, because comparing the texts would reveal their length through the time it takes.
    name, password = (
        hmac.compare_digest(_digest(a), _digest(b)) for a, b in zip(credentials, accepted, strict=True)
    )
    return name and password


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


MAX_BODY = 6 * 1024 * 1024
"""Most bytes in a request: AWS Lambda's limit."""

CHECK_SECONDS = 10.0
"""Most CPU seconds to check one request: four times what a full request of valid records takes."""

PUT_SECONDS = 20.0
"""Most seconds that one put may take: less than uploaders wait for a response."""

ROOT = "v3/"
"""Prefix of every key: the database ingests objects from there only."""

_MAX_PROBLEMS = 20
_MAX_PROBLEM_LENGTH = 300


class _Members(msgspec.Struct):
    """The untrusted members of a request. Others are skipped, not built: the sender is not authenticated yet."""

    username: str | None = None
    password: str | None = None
    s3_path: str = ""
    content: str = ""


@dataclass(frozen=True)
class UploadRequest:
    """A checked request: text that ClickHouse reads as records, and a safe key."""

    key: str
    content: str


@dataclass(frozen=True)
class UploadResponse:
    """An HTTP status and a JSON object, which always has a ``message``; ``detail`` goes to our own log only."""

    status: HTTPStatus
    body: Mapping[str, str | bool | list[str]]
    detail: str = ""

    @property
    def text(self) -> str:
        """The body as JSON."""
        return json.dumps(self.body)

    @property
    def line(self) -> str:
        """Status and message for the log. The message may quote the request, but never its credentials."""
        return f"{self.status:d} {self.body['message']}{self.detail and f' ({self.detail})'}"


class RefusedRequestError(Exception):
    """The request is refused with ``response``."""

    def __init__(self, status: HTTPStatus, message: str, **more: list[str]) -> None:
        super().__init__(message)
        self.response = UploadResponse(status, {"message": message, **more})


def read_request(body: bytes | bytearray, accepted: UploaderCredentials) -> UploadRequest:
    """Parse and check a request; clients without credentials learn nothing about it.

    The content is kept as it was sent if it is one JSON value or has one record per line. Anything else becomes that:
    ClickHouse rejects lists in lines, and what is left of a list. Raises :class:`RefusedRequestError`.
    """
    members = _members(body)
    _authorise(members, accepted)
    _check_key(members.s3_path)
    if not members.content:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "content is missing")
    return UploadRequest(members.s3_path, _loadable(members.content, _records(members.content)))


def check_size(size: int) -> None:
    """Raise :class:`RefusedRequestError` if a body is too large."""
    if size > MAX_BODY:
        message = f"the request has more than {MAX_BODY} bytes; split its records over several keys"
        raise RefusedRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def _members(body: bytes | bytearray) -> _Members:
    check_size(len(body))
    if not body or body.isspace():
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "the body is empty")
    try:
        return msgspec.json.decode(body.decode("utf-8-sig"), type=_Members)
    except (ValueError, RecursionError):
        message = "the body is not a JSON object whose members are strings"
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, message) from None


def _authorise(members: _Members, accepted: UploaderCredentials) -> None:
    if members.username is None or members.password is None:
        raise RefusedRequestError(HTTPStatus.UNAUTHORIZED, "username and password are missing")
    if not are_equal((members.username, members.password), (accepted.username, accepted.password)):
        raise RefusedRequestError(HTTPStatus.FORBIDDEN, "username or password is wrong")


def _check_key(key: str) -> None:
    if not key:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "s3_path is missing")
    if not key.startswith(ROOT) or len(key) > MAX_KEY:
        message = f"s3_path must start with {ROOT} and have at most {MAX_KEY} characters"
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, message)
    with failing_as(partial(RefusedRequestError, HTTPStatus.BAD_REQUEST), "s3_path: ", of=UnsafeKeyError):
        check_keys([key])


def _records(content: str) -> Sequence[LocatedRecord]:
    """Return the records, provided that all of them are valid: for one bad record the database would reject all."""
    with cpu_limit(CHECK_SECONDS):
        reading = parse_records(content.encode(), "content")
    if reading.limit:
        raise RefusedRequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"content {reading.limit} over several keys"
        )
    refused = [str(problem) for problem in reading.problems if problem.severity == "refused"]
    if refused or not reading.records:
        why = f"the database would refuse the content (reasons: {len(refused)})"
        message = why if refused else "content holds no record"
        problems = [problem[:_MAX_PROBLEM_LENGTH] for problem in refused[:_MAX_PROBLEMS]]
        raise RefusedRequestError(HTTPStatus.UNPROCESSABLE_ENTITY, message, problems=problems)
    return reading.records


def _loadable(content: str, records: Sequence[LocatedRecord]) -> str:
    """Return ``content`` in a form that ClickHouse reads: one list, or a sequence of objects."""
    rows = [found.text for found in records]
    is_one_value = parsed_json(content.removeprefix("\ufeff")) is not None
    if is_one_value or [*filter(str.strip, content.splitlines())] == rows:
        return content
    return "".join(f"{row}\n" for row in rows)


def keep(request: UploadRequest, place: RecordPlace) -> UploadResponse:
    """Store the request's content, gzipped, unless the key exists: exactly one of several writers succeeds.

    Paths on this machine, and the causes of failures, go to the log only, not to the client.
    """
    body = gzip.compress(request.content.encode(), mtime=0)
    try:
        put = place.put(request.key, body)
    except UnsafeKeyError as error:  # too long together with the place's prefix
        return UploadResponse(
            HTTPStatus.BAD_REQUEST, {"message": "s3_path is too long to be kept here"}, str(error)
        )
    except ConflictError as error:
        message = f"{request.key}: other content is already kept there; it was not overwritten"
        return UploadResponse(HTTPStatus.CONFLICT, {"message": message, "same": False}, str(error))
    except NotDeliveredError as error:
        message = "it could not be stored; the receiver's log says why"
        return UploadResponse(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": message}, str(error))
    if put == "already there":
        message = f"{request.key}: the same content is already kept there"
        return UploadResponse(HTTPStatus.CONFLICT, {"message": message, "same": True})
    # As S3 gives to an object that is put in one piece and not encrypted by KMS.
    etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
    return UploadResponse(HTTPStatus.OK, {"message": f"kept as {request.key}", "etag": etag})
