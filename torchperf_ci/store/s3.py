"""Objects that the engine lists and reads out of S3 by itself, many times as fast as this process could."""

from __future__ import annotations

import os.path
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci.errors import StoreError
from torchperf_ci.store.client import RefusedStatementError, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from botocore.credentials import Credentials

    from torchperf_ci.store.client import Store

_MOST_MEMORY = 2 << 30
"""Bytes that the engine may take for a batch: about ten times what a full one of honest records takes."""
_MOST_IN_VAIN = 2
"""As many objects are listed for one that is read, at most."""


@dataclass(frozen=True)
class Listed:
    """An object in a bucket. ``tag`` is its ETag, which stands for its content; ``size`` is in bytes."""

    key: str
    tag: str
    size: int


class S3Reader:
    """The objects of ``s3://BUCKET[/PREFIX]`` through ClickHouse's ``s3`` table function.

    An embedded engine gets the credentials that boto3 finds, as bound parameters, which stand in no log. A server gets
    none: it reads with its own, or not at all.
    """

    def __init__(self, target: str, *, embedded: bool) -> None:
        self.bucket, _, prefix = target.removeprefix("s3://").partition("/")
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._embedded = embedded
        self._endpoint, found = _settings(self.bucket)
        self._credentials = found if embedded else None
        self._compression = "gzip"
        self._listed: list[str] = []

    def listed(self, store: Store) -> Sequence[Listed]:
        """The bucket's objects below the prefix. Raises :class:`RefusedStatementError` where the engine cannot."""
        source, parameters = self._source(f"{self.prefix}**", "'One'")
        sql = statement("list_s3").replace("/* objects */", source)
        found = [Listed(key, f"etag:{etag}", size) for key, etag, size in store.rows(sql, parameters)]
        self._listed = [item.key for item in found]
        return found

    def load(self, store: Store, keys: Sequence[str], structure: str) -> None:
        """Insert objects into the incoming table; gzip, else plain, and what the last ones were is tried first."""
        try:
            self._load(store, keys, structure, self._compression)
        except RefusedStatementError:
            other = "none" if self._compression == "gzip" else "gzip"
            store.run("TRUNCATE TABLE torchperf_incoming")
            self._load(store, keys, structure, other)
            self._compression = other

    def _load(self, store: Store, keys: Sequence[str], structure: str, compression: str) -> None:
        source, parameters = self._source(
            self._glob(keys), "'JSONEachRow', {structure:String}, {compression:String}"
        )
        paths = [f"{self.bucket}/{key}" for key in keys]
        sql = statement("load_s3").replace("/* objects */", source)
        # What a batch unpacks to is bounded by memory alone; beyond it smaller ones are tried. A server has its own.
        sql += f", max_memory_usage = {_MOST_MEMORY}" if self._embedded else ""
        given = {**parameters, "paths": paths, "structure": structure, "compression": compression}
        store.run(sql, given)

    def _glob(self, keys: Sequence[str]) -> str:
        """What the engine looks for: it asks about each name of a list, but about a thousand objects below a stem."""
        if len(keys) == 1:
            return keys[0]
        stem = os.path.commonprefix(keys)  # noqa: RUF071 - S3 lists by characters, not by folders
        below = bisect_right(self._listed, f"{stem}\U0010ffff") - bisect_left(self._listed, stem)
        return f"{stem}**" if below <= _MOST_IN_VAIN * len(keys) else f"{{{','.join(keys)}}}"

    def _source(self, glob: str, form: str) -> tuple[str, dict[str, Any]]:
        """The table function's text and its parameters, among them the bucket."""
        parameters: dict[str, Any] = {"bucket": self.bucket, "url": f"{self._endpoint}/{self.bucket}/{glob}"}
        if not self._credentials:
            arguments = "NOSIGN, " if self._embedded else ""
        else:
            frozen = self._credentials.get_frozen_credentials()  # renewed where they end soon
            parameters |= {"id": frozen.access_key, "secret": frozen.secret_key}
            arguments = "{id:String}, {secret:String}, "
            if frozen.token:
                parameters["token"] = frozen.token
                arguments += "{token:String}, "
        return f"s3({{url:String}}, {arguments}{form})", parameters


def _settings(bucket: str) -> tuple[str, Credentials | None]:
    """The endpoint and the credentials that boto3 finds."""
    import boto3
    from botocore.exceptions import BotoCoreError

    session = boto3.Session()
    try:
        return session.client("s3").meta.endpoint_url, session.get_credentials()
    except BotoCoreError as error:
        msg = f"s3://{bucket}: {error}; set AWS_REGION, or what your AWS configuration lacks"
        raise StoreError(msg) from error
