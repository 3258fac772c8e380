"""An S3 bucket as a place for records: conditional puts, so that exactly one of several writers of a key succeeds.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import CredentialResolver
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
)
from botocore.exceptions import ConnectionError as UnreachableError

from torchperf_ci import errors
from torchperf_ci.deadline import Deadline
from torchperf_ci.http_client import certificate_problem
from torchperf_ci.masking import without_secrets
from torchperf_ci.places import place
from torchperf_ci.places.oidc import WebIdentity
from torchperf_ci.records.files import MAX_BYTES, OverLimitError, check_bytes, is_gzip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from botocore.credentials import Credentials
    from types_boto3_s3 import S3Client


WORKERS = 16
"""Concurrent requests; they mostly wait for the network."""
CONNECTIONS = 64
"""Size of the connection pool: enough for WORKERS, and for a receiver that puts for as many clients at once."""
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
ATTEMPTS = 5

_deadline: ContextVar[Deadline | None] = ContextVar("_deadline", default=None)
"""No attempt of a request, first or retry, starts after it."""


class OutOfTimeError(Exception):
    """The deadline passed before the next attempt of a request."""


def make_client(access: place.PlaceAccess) -> tuple[S3Client, Credentials | None]:
    """Return a thread-safe client and its credentials; it is anonymous if none were found.

    This assumes the role, if there is one. Raises :class:`CredentialsError`.
    """
    session = botocore.session.Session()
    if access.role:
        identity = WebIdentity(access.role, access)
        session.register_component("credential_provider", CredentialResolver([identity]))
    try:
        credentials = session.get_credentials()
        config = Config(
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=CONNECTIONS,
            signature_version=None if credentials else UNSIGNED,
        )
        client = boto3.Session(botocore_session=session).client(
            "s3", region_name=access.region, endpoint_url=access.endpoint, config=config
        )
    except (BotoCoreError, ValueError) as error:
        msg = f"S3 cannot be used as it is set: {without_secrets(str(error))}; correct the AWS_* variables or endpoint"
        raise errors.CredentialsError(msg) from error
    client.meta.events.register("before-send.s3", _stop_when_late)
    return client, credentials


def _stop_when_late(**_event: Any) -> None:
    """Raise :class:`OutOfTimeError`, which botocore does not retry, before an attempt that would be late."""
    deadline = _deadline.get()
    if deadline and not deadline.left:
        raise OutOfTimeError


S3_ERRORS = (ClientError, BotoCoreError, OutOfTimeError)
_BROKEN = (HTTPClientError, UnreachableError, IncompleteReadError)
_T = TypeVar("_T")

_EXPIRED = "the credentials have expired: renew them, or give a role, whose credentials are renewed in time"
_WRONG = "the credentials are wrong: correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role"
_REGION = "the bucket lies in another region: give its region"
_PASSING = (
    *("ConditionalRequestConflict", "InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"),
    *("429", "500", "502", "503", "504"),  # of a proxy, which answers without an error of S3's
)
_ADVICE = {
    "AccessDenied": "the credentials in use are not allowed {action} there: grant it, or give a role that has it",
    "NoSuchBucket": "there is no such bucket: create it, or correct its name",
    "InvalidAccessKeyId": _WRONG,
    "SignatureDoesNotMatch": _WRONG,
    "ExpiredToken": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": "the clock of this machine is wrong: set it",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "NotImplemented": "this S3 knows no conditional put, without which writers overwrite each other: use another",
    **dict.fromkeys(_PASSING, "the service is overloaded: try again later"),
}
_UNFIT = {
    "InvalidObjectState": "it is in an archive, and can be read once it is restored",
    "NoSuchKey": "there is no such object, or no longer",
}
_ANONYMOUS = "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role"

_TRUST = "correct it or the endpoint; if an authority of your own issued it, name that one's in AWS_CA_BUNDLE"


def error_code(error: Exception) -> str:
    """Return S3's error code, such as ``PreconditionFailed``; empty if the error did not come from S3."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def is_refusal(error: Exception) -> bool:
    """Whether S3 refused the request because of missing permissions."""
    return error_code(error) in {"AccessDenied", "403"}


def _lasting_problem(error: Exception) -> str:
    """Return why a request cannot be sent, if no retry mends that; empty otherwise."""
    if untrusted := certificate_problem(error):
        return f"the certificate is not accepted: {untrusted}; {_TRUST}"
    # The error itself quotes the header, which may be the session's token.
    if isinstance(error, HTTPClientError) and isinstance(error.kwargs.get("error"), ValueError):
        return "credentials or endpoint hold what no request may, as the end of a line: correct the AWS_* variables"
    return ""


def _with_retries(request: Callable[[], _T], deadline: Deadline) -> _T:
    """Return the result of ``request``, tried until the deadline if its error may pass, such as SlowDown.

    That is longer than botocore tries: its few attempts take seconds, and many requests that fail share even fewer.
    They suffice for a host that does not exist or where nothing listens: the region or the endpoint may be misspelt.
    """

    def limited() -> _T:
        _deadline.set(deadline)  # in the thread's own context
        return request()

    problem: Exception = OutOfTimeError()
    for _ in deadline.tries():
        try:
            return deadline.wait_for(limited)
        except (OutOfTimeError, TimeoutError):
            break
        except (ClientError, *_BROKEN) as error:
            is_refused = isinstance(error, ClientError) and error_code(error) not in _PASSING
            if is_refused or isinstance(error, EndpointConnectionError) or _lasting_problem(error):
                raise
            problem = error
    raise problem


_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,63}")


class S3Place(place.RecordPlace):
    """The objects of a bucket below a prefix, which is not part of their keys."""

    def __init__(self, bucket: str, prefix: str, access: place.PlaceAccess) -> None:
        self._bucket, self._prefix, self._access = bucket, f"{prefix}/" if prefix else "", access
        self._lock = threading.Lock()
        self._made: tuple[S3Client, Credentials | None] | None = None
        self.name = f"s3://{bucket}/{self._prefix}".rstrip("/")

    @classmethod
    def at(cls, target: str, access: place.PlaceAccess) -> S3Place:
        """Return the place at ``s3://BUCKET[/PREFIX]``. Raises :class:`UsageError`."""
        bucket, _, prefix = target.removeprefix("s3://").partition("/")
        prefix = prefix.strip("/")
        if not _BUCKET.fullmatch(bucket):
            msg = f"{without_secrets(target)!r} does not name a bucket; give s3://BUCKET[/PREFIX]"
            raise errors.UsageError(msg)
        if prefix:
            place.check_keys([prefix])
        return cls(bucket, prefix, access)

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, place.PutOutcome]:
        place.check_keys(self._prefix + key for key in bodies)
        deadline = Deadline.after(self._access.deadline)
        try:
            self._client()  # once for all objects, so that a role that cannot be assumed fails only once
        except errors.NotDeliveredError as error:
            return dict.fromkeys(bodies, error)

        put = partial(place.outcome_of, partial(self._put, deadline=deadline))
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="put")
        try:
            return dict(zip(bodies, pool.map(put, bodies, bodies.values()), strict=True))
        finally:
            # If a signal interrupts this: a request may hang for longer than a runner waits before it kills.
            deadline.end()
            pool.shutdown(wait=False, cancel_futures=True)

    def listed(self) -> Iterator[place.ListedObject]:
        """Yield all objects of the place; nothing of them is read. Raises :class:`PlaceUnreadableError`."""
        pages = self._client().get_paginator("list_objects_v2")
        with self._explained(errors.PlaceUnreadableError, self.name, "s3:ListBucket"):
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                if "Name" not in page:
                    msg = f"{self.name}: what answers is not S3, and lists nothing: correct the endpoint"
                    raise errors.PlaceUnreadableError(msg)
                for entry in page.get("Contents", ()):
                    if not entry["Key"].endswith("/"):  # a folder that was created in a console
                        key, tag = entry["Key"].removeprefix(self._prefix), entry["ETag"].strip('"')
                        yield place.ListedObject(key, f"etag:{tag}", entry["Size"])

    def get(self, key: str) -> bytes:
        """Return the exact content that was put under ``key``.

        Raises :class:`PlaceUnreadableError`, and :class:`InvalidObjectError` for what is not there, too large or in an
        archive.
        """
        deadline, where = Deadline.after(self._access.deadline), f"{self.name}/{key}"
        with self._explained(errors.PlaceUnreadableError, where, "s3:GetObject"):
            try:
                return _with_retries(lambda: self._read(key), deadline)
            except ClientError as error:
                if error_code(error) not in _UNFIT:
                    raise
                raise errors.InvalidObjectError(where, _UNFIT[error_code(error)]) from error

    def _put(self, key: str, body: bytes, deadline: Deadline) -> place.PutResult:
        where = f"{self.name}/{key}"
        with self._explained(errors.NotDeliveredError, where, "s3:PutObject"):
            written = _with_retries(lambda: self._create(key, body), deadline)
        return "written" if written else self._compare(key, body, deadline)

    def _create(self, key: str, body: bytes) -> bool:
        """Create the object; return False if the key exists."""
        headers: Any = {"ContentType": "application/json"}
        if is_gzip(body):
            headers["ContentEncoding"] = "gzip"
        try:
            answer = self._client().put_object(
                Bucket=self._bucket, Key=self._prefix + key, Body=body, IfNoneMatch="*", **headers
            )
        except ClientError as error:
            if error_code(error) != "PreconditionFailed":
                raise
            return False
        if "ETag" not in answer:
            msg = f"{self.name}/{key}: what answers is not S3, and keeps nothing: correct the endpoint"
            raise errors.NotDeliveredError(msg)
        return True

    def _compare(self, key: str, body: bytes, deadline: Deadline) -> place.PutResult:
        where = f"{self.name}/{key}"
        try:
            kept = _with_retries(lambda: self._read(key), deadline)
        except errors.InvalidObjectError as error:
            raise errors.ConflictError(f"{error}; it is other content, and was not overwritten") from error
        except S3_ERRORS as error:
            msg = f"{self._explain(error, where, 's3:GetObject')}; something is kept there, and was not overwritten"
            raise (errors.ConflictError if is_refusal(error) else errors.NotDeliveredError)(msg) from error
        return place.compared(where, body, kept)

    def _read(self, key: str) -> bytes:
        answer = self._client().get_object(Bucket=self._bucket, Key=self._prefix + key)
        with answer["Body"] as body:
            content = body.read(MAX_BYTES + 1)
        size = answer.get("ContentLength", 0)  # a server that unpacks what it sends does not know it
        if len(content) < min(size, MAX_BYTES):  # read() does not tell where the answer broke off
            raise IncompleteReadError(actual_bytes=len(content), expected_bytes=size)
        unfit = partial(errors.InvalidObjectError, f"{self.name}/{key}")
        with errors.failing_as(unfit, of=OverLimitError):
            check_bytes(len(content))
        return content

    def engine_access(self, *, embedded: bool) -> tuple[str, Credentials | None]:
        """Return the endpoint, and the credentials with which an embedded engine reads; a server has its own.

        Raises :class:`CredentialsError`.
        """
        client, credentials = (
            self._connection() if embedded else make_client(replace(self._access, role=None))
        )
        return client.meta.endpoint_url, credentials if embedded else None

    def _client(self) -> S3Client:
        return self._connection()[0]

    def _connection(self) -> tuple[S3Client, Credentials | None]:
        with self._lock:
            self._made = self._made or make_client(self._access)
        return self._made

    @contextmanager
    def _explained(self, kind: type[errors.TorchperfError], where: str, action: str) -> Iterator[None]:
        try:
            yield
        except S3_ERRORS as error:
            if kind is errors.PlaceUnreadableError and is_refusal(error):
                kind = errors.PlaceForbiddenError
            raise kind(self._explain(error, where, action)) from error

    def _explain(self, error: Exception, where: str, action: str) -> str:
        """Say in one sentence where ``action`` (``s3:PutObject``) failed, why, and what to do."""
        if isinstance(error, ClientError):
            code = "AccessDenied" if is_refusal(error) else error_code(error)
            is_anonymous = bool(self._made and not self._made[1])
            advice = (
                _ANONYMOUS
                if is_anonymous and is_refusal(error)
                else _ADVICE.get(code, "").format(action=action)
            )
            message = error.response.get("Error", {}).get("Message", "").rstrip(".")
            refusal = f"{where}: {action} was refused: {error_code(error)} ({message})"
            return f"{refusal}; {advice}" if advice else refusal
        if isinstance(error, OutOfTimeError):
            return f"{where}: it did not finish in time; try again later, or allow more time"
        if lasting := _lasting_problem(error):
            return f"{where}: {lasting}"
        told = without_secrets(str(error))  # the endpoint may have a password
        if isinstance(error, _BROKEN):
            return f"{where}: cannot be reached: {told}; check the network, its proxy, and AWS_ENDPOINT_URL"
        return f"{where}: {told}"
