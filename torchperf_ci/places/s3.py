"""An S3 bucket as a place: conditional puts, so that of several writers of one key exactly one wins.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import (
    ConflictError,
    NotDeliveredError,
    PlaceUnreadableError,
    TorchperfError,
    UnfitObjectError,
    UsageError,
)
from torchperf_ci.places.base import Outcome, Place, Put
from torchperf_ci.places.content import is_gzip, same_content
from torchperf_ci.places.keys import check_keys
from torchperf_ci.places.s3_client import WORKERS, OutOfTimeError, make_client, until
from torchperf_ci.places.s3_errors import S3_ERRORS, code, explain, is_refusal
from torchperf_ci.records.limits import MAX_BYTES, OverLimitError, check_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from types_boto3_s3 import S3Client

    from torchperf_ci.places.access import Access

_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,63}")


class S3Place(Place):
    """The objects of a bucket below a prefix, which is not part of their keys here."""

    def __init__(self, bucket: str, prefix: str, access: Access) -> None:
        self._bucket, self._prefix, self._access = bucket, f"{prefix}/" if prefix else "", access
        self._lock = threading.Lock()
        self._made: tuple[S3Client, bool] | None = None
        self.name = f"s3://{bucket}/{self._prefix}".rstrip("/")

    @classmethod
    def at(cls, target: str, access: Access) -> S3Place:
        """The place at ``s3://BUCKET[/PREFIX]``; raises :class:`UsageError`."""
        bucket, _, prefix = target.removeprefix("s3://").partition("/")
        prefix = prefix.strip("/")
        if not _BUCKET.fullmatch(bucket):
            msg = f"{bucket!r} in {target!r} is no bucket's name; give s3://BUCKET[/PREFIX]"
            raise UsageError(msg)
        if prefix:
            check_keys([prefix])
        return cls(bucket, prefix, access)

    def put(self, key: str, body: bytes) -> Put:
        check_keys([self._prefix + key])
        return self._put(key, body, Deadline.after(self._access.deadline))

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, Outcome]:
        check_keys(self._prefix + key for key in bodies)
        deadline = Deadline.after(self._access.deadline)
        try:
            self._client()  # once for all: a role that cannot be assumed is not asked for again at each object
        except NotDeliveredError as error:
            return dict.fromkeys(bodies, error)

        def outcome(key: str) -> Outcome:
            try:
                return self._put(key, bodies[key], deadline)
            except (ConflictError, NotDeliveredError) as error:
                return error

        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="put")
        try:
            return dict(zip(bodies, pool.map(outcome, bodies), strict=True))
        finally:
            pool.shutdown(cancel_futures=True)

    def keys(self) -> Iterator[str]:
        pages = self._client().get_paginator("list_objects_v2")
        with self._explained(PlaceUnreadableError, self.name, "s3:ListBucket"):
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                for entry in page.get("Contents", ()):
                    if not entry["Key"].endswith("/"):  # a folder that somebody made in a console
                        yield entry["Key"].removeprefix(self._prefix)

    def get(self, key: str) -> bytes:
        deadline = Deadline.after(self._access.deadline)
        with self._explained(PlaceUnreadableError, f"{self.name}/{key}", "s3:GetObject"), until(deadline):
            return self._read(key)

    def _put(self, key: str, body: bytes, deadline: Deadline) -> Put:
        where = f"{self.name}/{key}"
        with self._explained(NotDeliveredError, where, "s3:PutObject"), until(deadline):
            written = self._create(key, body, deadline)
        return "written" if written else self._compare(key, body, deadline)

    def _create(self, key: str, body: bytes, deadline: Deadline) -> bool:
        """False when something is there. Another writer's put of the key still going on is waited for."""
        headers: Any = {"ContentType": "application/json"}
        if is_gzip(body):
            headers["ContentEncoding"] = "gzip"
        for _ in deadline.tries():
            try:
                self._client().put_object(
                    Bucket=self._bucket, Key=self._prefix + key, Body=body, IfNoneMatch="*", **headers
                )
            except ClientError as error:
                if code(error) == "PreconditionFailed":
                    return False
                if code(error) != "ConditionalRequestConflict":
                    raise
            else:
                return True
        raise OutOfTimeError

    def _compare(self, key: str, body: bytes, deadline: Deadline) -> Put:
        where = f"{self.name}/{key}"
        try:
            with until(deadline):
                kept = self._read(key)
        except UnfitObjectError as error:
            msg = f"{error}; it is other content, and was not overwritten"
            raise ConflictError(msg) from error
        except S3_ERRORS as error:
            msg = f"{self._explain(error, where, 's3:GetObject')}; something is kept there, and was not overwritten"
            raise (ConflictError if is_refusal(error) else NotDeliveredError)(msg) from error
        if same_content(body, kept):
            return "already there"
        msg = f"{where}: other content is already kept there; it was not overwritten"
        raise ConflictError(msg)

    def _read(self, key: str) -> bytes:
        with self._client().get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"] as body:
            content = body.read(MAX_BYTES + 1)
        try:
            check_bytes(len(content))
        except OverLimitError as error:
            where = f"{self.name}/{key}"
            raise UnfitObjectError(where, str(error)) from error
        return content

    def _client(self) -> S3Client:
        with self._lock:
            self._made = self._made or make_client(self._access)
        return self._made[0]

    @contextmanager
    def _explained(self, kind: type[TorchperfError], where: str, action: str) -> Iterator[None]:
        try:
            yield
        except S3_ERRORS as error:
            raise kind(self._explain(error, where, action)) from error

    def _explain(self, error: Exception, where: str, action: str) -> str:
        return explain(error, where, action, anonymous=bool(self._made and self._made[1]))
