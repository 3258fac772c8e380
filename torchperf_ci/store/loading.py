"""A batch of whole objects on its way into the results: read by this process, or by the engine itself out of S3.

Everything goes through a temporary table in memory, which ends with the connection: whatever goes wrong on the way in,
the results hold whole objects only. From there one block, which is kept whole or not at all, takes all that is new.
"""

from __future__ import annotations

import os.path
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.errors import StoreError, StoreUnreachableError
from torchperf_ci.store.client import CHANGING, STATEMENT_TIMEOUT, RefusedStatementError, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from botocore.credentials import Credentials

    from torchperf_ci.store.client import Store


_MOST_MEMORY = 2 << 30
"""Bytes that the engine may take for a batch: about ten times what a full one of honest records takes."""
_MOST_IN_VAIN = 2
"""As many objects are listed for one that is read, at most."""


@dataclass(frozen=True)
class ListedObject:
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
        self._endpoint, found = _s3_settings(self.bucket)
        self._credentials = found if embedded else None
        self._compression = "gzip"
        self._listed: list[str] = []

    def listed(self, store: Store) -> Sequence[ListedObject]:
        """The bucket's objects below the prefix. Raises :class:`RefusedStatementError` where the engine cannot."""
        source, parameters = self._source(f"{self.prefix}**", "'One'")
        sql = statement("list_s3").replace("/* objects */", source)
        found = [ListedObject(key, f"etag:{etag}", size) for key, etag, size in store.rows(sql, parameters)]
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

    def _source(self, glob: str, form: str) -> tuple[str, dict[str, object]]:
        """The table function's text and its parameters, among them the bucket."""
        parameters: dict[str, object] = {
            "bucket": self.bucket,
            "url": f"{self._endpoint}/{self.bucket}/{glob}",
        }
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


def _s3_settings(bucket: str) -> tuple[str, Credentials | None]:
    """The endpoint and the credentials that boto3 finds."""
    import boto3
    from botocore.exceptions import BotoCoreError

    session = boto3.Session()
    try:
        return session.client("s3").meta.endpoint_url, session.get_credentials()
    except BotoCoreError as error:
        msg = f"s3://{bucket}: {error}; set AWS_REGION, or what your AWS configuration lacks"
        raise StoreError(msg) from error


_ALREADY_RUNNING = 216  # ClickHouse's QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING


@dataclass(frozen=True)
class Arrival:
    """One incoming object: whether it is new in the results, and if not, whether it is the same there."""

    key: str
    records: int
    is_kept: bool
    is_same: bool


class Incoming:
    """The table. ``structure`` is that of a record in ClickHouse's words, ``columns`` the names in it."""

    def __init__(self, store: Store, bucket: str) -> None:
        self._store = store
        self._bucket = bucket
        described = store.rows(
            "SELECT name, type FROM system.columns "
            "WHERE database = currentDatabase() AND table = 'oss_ci_benchmark_v3' ORDER BY position"
        )
        self._columns = [str(name) for name, _ in described]
        everything = ", ".join(f"`{name}` {kind}" for name, kind in described)
        self._structure = ", ".join(f"`{name}` {kind}" for name, kind in described if name != "_meta")
        # Not a copy of the results' defaults: a record without a repository is not one of pytorch/pytorch.
        self._create = (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS torchperf_incoming ({everything}) ENGINE = Memory"
        )
        self.clear()

    def clear(self) -> None:
        """Begin a batch, with nothing in it. A server forgets the table where it heard nothing for a minute."""
        with self._store.held():  # an embedded store that is let go in between forgets it, too
            self._store.run(self._create)
            self._store.run("TRUNCATE TABLE torchperf_incoming")

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Add records that name their object in ``_meta``; all or, when one is refused, none of the batch is in."""
        self._store.insert("torchperf_incoming", self._columns, b"\n".join(lines))
        # A client that loses the connection sends the request again, and a table in memory takes it twice.
        if self._count() != len(lines):
            msg = f"{self._store.name} was interrupted while records came in; nothing is half done, so run this again"
            raise StoreUnreachableError(msg)

    def add_s3(self, reader: S3Reader, keys: Sequence[str]) -> bool:
        """Let the engine read objects itself; False where it took something that may be no record.

        Raises :class:`RefusedStatementError` where it cannot read one of them. Part of the batch may be in then.
        """
        reader.load(self._store, keys, self._structure)
        return not self._store.rows(statement("doubtful"))

    def publish(self) -> list[Arrival]:
        """Bring into the results what they do not have, and tell what became of each object."""
        with CHANGING:
            before = self._compare()
            if all(arrival.is_kept for arrival in before):
                return before
            self._publish_alone()
        # At a server, somebody else may have brought another object under the same key at the same time.
        after = {} if self._store.embedded else {arrival.key: arrival for arrival in self._compare()}
        return [
            arrival if arrival.is_kept else _after_publication(arrival, after.get(arrival.key))
            for arrival in before
        ]

    def _publish_alone(self) -> None:
        """A server runs one statement under one id at a time: what checks and inserts is never beside its like."""
        deadline = time.monotonic() + STATEMENT_TIMEOUT
        query_id = f"torchperf-publish-{self._store.database}"
        while True:
            try:
                return self._store.run(statement("publish"), {"bucket": self._bucket}, query_id)
            except RefusedStatementError as error:
                if error.code != _ALREADY_RUNNING or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _compare(self) -> list[Arrival]:
        found = self._store.rows(statement("compare"), {"bucket": self._bucket})
        return [Arrival(key, records, bool(kept), bool(same)) for key, records, kept, same in found]

    def _count(self) -> int:
        return int(self._store.rows("SELECT count() FROM torchperf_incoming")[0][0])


def _after_publication(arrival: Arrival, after: Arrival | None) -> Arrival:
    """What was new before the publication, as it is now: ours, or a conflict with whoever was faster."""
    return after if after and not after.is_same else arrival
