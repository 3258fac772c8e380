"""A batch of whole objects on its way into the results.

Everything goes through a temporary table in memory, which ends with the connection: whatever goes wrong on the way in,
the results hold whole objects only. From there one block, which is kept whole or not at all, takes all that is new.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.errors import StoreUnreachableError
from torchperf_ci.store.client import STATEMENT_TIMEOUT, RefusedStatementError, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.store.client import Store
    from torchperf_ci.store.s3 import S3Reader

_ALREADY_RUNNING = 216  # ClickHouse's QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING
_ALONE = threading.Lock()
"""One publication at a time in this process, which is the only one at an embedded store."""


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
        with _ALONE:
            before = self._compare()
            if all(arrival.is_kept for arrival in before):
                return before
            self._publish_alone()
        # At a server, somebody else may have brought another object under the same key at the same time.
        after = {} if self._store.embedded else {arrival.key: arrival for arrival in self._compare()}
        return [arrival if arrival.is_kept else _new(arrival, after.get(arrival.key)) for arrival in before]

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


def _new(arrival: Arrival, after: Arrival | None) -> Arrival:
    """What was new before the publication, as it is now: ours, or a conflict with whoever was faster."""
    return after if after and not after.is_same else arrival
