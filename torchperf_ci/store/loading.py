"""Load a batch of objects into the results, read by this process or, from S3, by the engine itself.

Everything goes through a temporary table in memory, which ends with the connection. From there, all that is new is
inserted as one block, which is kept whole or not at all. So the results only ever contain whole objects, whatever goes
wrong.
"""

from __future__ import annotations

import json
import os.path
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.errors import CredentialsError, PlaceUnreadableError, StoreUnreachableError
from torchperf_ci.places.place import ListedObject, PlacedObject, unpacked
from torchperf_ci.records.files import MAX_BYTES, OverLimitError, check_elements, check_values
from torchperf_ci.store.client import CHANGING, STATEMENT_TIMEOUT, RefusedStatementError, Store, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.places.s3 import S3Place


_MAX_MEMORY_BYTES = 2 << 30
"""Most memory, in bytes, that the engine may use for a batch: about ten times what a full one of valid records uses."""
_MAX_IN_VAIN = 2
"""Most objects that the engine may list for each one that it reads."""


class S3Reader:
    """Reads the objects of ``s3://BUCKET[/PREFIX]`` through ClickHouse's ``s3`` table function.

    An embedded engine gets the credentials of the place, as bound parameters, which appear in no log. A server gets
    none: it reads with its own, or not at all.
    """

    def __init__(self, place: S3Place, *, embedded: bool) -> None:
        self.bucket, _, prefix = place.name.removeprefix("s3://").partition("/")
        self.prefix = f"{prefix}/" if prefix else ""
        self._embedded = embedded
        self._endpoint, self._credentials = place.engine_access(embedded=embedded)
        self._compression = "gzip"
        self._place = place
        self._listed: list[str] = []

    def listed(self, store: Store) -> Sequence[ListedObject]:
        """Return the objects below the prefix. Raises :class:`RefusedStatementError` if the engine cannot list them.

        This machine lists them, since many engines stop at an empty page; only where it may not, the engine does.
        """
        source, parameters = self._source(f"{self.prefix}**", "'One'")
        sql = statement("list_s3").replace("/* objects */", source)
        try:
            store.rows(sql, {**parameters, "most": 1})
            found = self.listed_here()
        except (CredentialsError, PlaceUnreadableError):
            rows = store.rows(sql, {**parameters, "most": 2**63})
            found = sorted(ListedObject(key, f"etag:{etag}", size) for key, etag, size in rows)
        self._listed = [item.key for item in found]
        return found

    def listed_here(self) -> Sequence[ListedObject]:
        """Return the objects below the prefix as this machine lists them. Raises :class:`PlaceUnreadableError`."""
        return sorted(replace(item, key=self.prefix + item.key) for item in self._place.listed())

    def load(self, store: Store, keys: Sequence[str], structure: str) -> None:
        """Insert objects, gzipped or plain, into the incoming table; the format of the last ones is tried first."""
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
        # Only memory bounds the unpacked size; beyond it, smaller batches are tried. A server has its own limit.
        sql += f", max_memory_usage = {_MAX_MEMORY_BYTES}" if self._embedded else ""
        given = {**parameters, "paths": paths, "structure": structure, "compression": compression}
        store.run(sql, given)

    def _glob(self, keys: Sequence[str]) -> str:
        """Return the glob with the fewest requests: a list takes one per name, a prefix one per thousand objects."""
        if len(keys) == 1:
            return keys[0]
        stem = os.path.commonprefix(keys)  # noqa: RUF071 - S3 lists by characters, not by folders
        below = bisect_right(self._listed, f"{stem}\U0010ffff") - bisect_left(self._listed, stem)
        return f"{stem}**" if below <= _MAX_IN_VAIN * len(keys) else f"{{{','.join(keys)}}}"

    def _source(self, glob: str, form: str) -> tuple[str, dict[str, object]]:
        """Return the call of the table function, and the parameters to bind, which include the bucket."""
        parameters: dict[str, object] = {
            "bucket": self.bucket,
            "url": f"{self._endpoint}/{self.bucket}/{glob}",
        }
        if not self._credentials:
            arguments = "NOSIGN, " if self._embedded else ""
        else:
            frozen = self._credentials.get_frozen_credentials()  # renewed if they expire soon
            parameters |= {"id": frozen.access_key, "secret": frozen.secret_key}
            arguments = "{id:String}, {secret:String}, "
            if frozen.token:
                parameters["token"] = frozen.token
                arguments += "{token:String}, "
        return f"s3({{url:String}}, {arguments}{form})", parameters


_ALREADY_RUNNING = 216  # ClickHouse's QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING


@dataclass(frozen=True)
class IncomingObject:
    """An incoming object: whether the store has its key already, and if so, with the same content."""

    key: str
    records: int
    untimed: int
    """Records that say neither their time nor their workflow run."""
    ahead: int
    """Records that are dated more than a day ahead."""
    is_stored: bool
    is_same: bool


@dataclass(frozen=True)
class UnparsedObject:
    """An object, and its lines for the engine to parse; empty if this process has to parse it."""

    item: PlacedObject
    lines: Sequence[str]

    @property
    def size(self) -> int:
        """Characters of the lines."""
        return sum(map(len, self.lines))


def lines_of_records(body: bytes) -> list[str]:
    """Return the lines if each looks like a record, as torchperf writes them; else none, to parse the content."""
    content = unpacked(body, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        return []
    try:
        text = content.decode()
        check_values(text)
        check_elements(text.count("\n"))
        lines = [line for line in text.split("\n") if line]
        return lines if all(map(_is_plain, lines)) else []
    except (ValueError, RecursionError, OverLimitError):
        return []


def _is_plain(line: str) -> bool:
    record = json.loads(line)
    metric = record.get("metric") if isinstance(record, dict) else None
    return (
        isinstance(metric, dict) and not _has_text(metric) and "_meta" not in record and line.startswith("{")
    )


def _has_text(metric: Mapping[str, object]) -> bool:
    """Whether there is text for a number: the engine takes one without a digit, such as "-", for 0."""
    values = metric.get("benchmark_values")
    return str in {type(metric.get("target_value")), *map(type, values if isinstance(values, list) else ())}


class StagingTable:
    """The temporary table of incoming records."""

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
        """Begin an empty batch. The table is created anew if needed: a server drops it after a minute of silence."""
        with self._store.keep_open():  # an embedded store that is released in between drops it, too
            self._store.run(self._create)
            self._store.run("TRUNCATE TABLE torchperf_incoming")

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Add records that name their object in ``_meta``, all of them, or none if one is refused."""
        self._store.insert("torchperf_incoming", self._columns, b"\n".join(lines))
        # A client that loses the connection repeats the request, which a table in memory would insert twice.
        if self._count() != len(lines):
            msg = f"{self._store.name} was interrupted while records came in; nothing is half done, so run this again"
            raise StoreUnreachableError(msg)

    def add_unparsed(self, lines: Sequence[bytes]) -> bool:
        """Add lines that were not parsed; return False if some may not be one record each."""
        try:
            self._store.insert("torchperf_incoming", self._columns, b"\n".join(lines))
        except RefusedStatementError:
            return False
        return self._count() == len(lines) and not self._store.rows(statement("unlike_records"))

    def add_s3(self, reader: S3Reader, keys: Sequence[str]) -> bool:
        """Let the engine read objects itself; return False if it left one out, or accepted what may not be a record.

        Raises :class:`RefusedStatementError` if it cannot read one of them. Part of the batch may be inserted then.
        """
        reader.load(self._store, keys, self._structure)
        ((read,),) = self._store.rows("SELECT uniqExact(_meta.key) FROM torchperf_incoming")
        return read == len(keys) and not self._store.rows(statement("unlike_records"))

    def publish(self) -> list[IncomingObject]:
        """Move objects that the store lacks into the results, and return the outcome of each object."""
        with CHANGING:
            before = self._compare()
            if all(item.is_stored for item in before):
                return before
            self._publish_alone()
        # On a server, another client may have added a different object under the same key at the same time.
        # An object that was new is then ours, or in conflict with the one of a client that was faster.
        after = [] if self._store.embedded else self._compare()
        lost = {item.key: item for item in after if not item.is_same}
        return [item if item.is_stored else lost.get(item.key, item) for item in before]

    def _publish_alone(self) -> None:
        """Publish, waiting for other clients that do: a server runs only one statement per query ID at a time."""
        deadline = time.monotonic() + STATEMENT_TIMEOUT
        query_id = f"torchperf-publish-{self._store.database}"
        while True:
            try:
                return self._store.run(statement("publish"), {"bucket": self._bucket}, query_id)
            except RefusedStatementError as error:
                if error.code != _ALREADY_RUNNING or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _compare(self) -> list[IncomingObject]:
        rows = self._store.rows(statement("compare"), {"bucket": self._bucket})
        return [
            IncomingObject(key, records, untimed, ahead, bool(is_stored), bool(is_same))
            for key, records, untimed, ahead, is_stored, is_same in rows
        ]

    def _count(self) -> int:
        return int(self._store.rows("SELECT count() FROM torchperf_incoming")[0][0])
