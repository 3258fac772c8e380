"""Open a store, migrate its schema, and keep ``torchperf_values``, which queries read, consistent with the results.

A materialized view fills that table from the results, but not atomically: a kill may leave one without the other. So
the rows of both are counted by day, and days that differ are rebuilt. A temporary store holds the records of a place.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.errors import StoreError
from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.scratch import scratch_folder
from torchperf_ci.store.client import CHANGING, RefusedStatementError, Store, connect, included, statement
from torchperf_ci.store.dsn import EmbeddedStore, parse_dsn
from torchperf_ci.store.ingest import IngestOutcome, ingest_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.deadline import Deadline


_DELETE = """\
ALTER TABLE torchperf_values DELETE WHERE timestamp BETWEEN {start:UInt64} AND {last:UInt64}
SETTINGS mutations_sync = 2"""  # DELETE FROM leaves the rows in the projection by_run


def refresh(store: Store) -> None:
    """Rebuild the days on which values and results differ; if the totals agree, nothing else is read.

    Raises :class:`StoreError` or :class:`StoreUnreachableError`.
    """
    with store.keep_open(), CHANGING:
        if _counts_agree(store):
            return
        for start, last, _, values in store.rows(statement("differing_days")):
            bounds = {"start": start, "last": last}
            if values:
                store.run(_DELETE, bounds)
            store.run(statement("fill_values"), bounds)


def _counts_agree(store: Store) -> bool:
    """Whether both tables have equally many rows, which the engine knows without reading them.

    This suffices, because a kill can only leave rows missing, never too many elsewhere.
    """
    results = store.rows("SELECT count() FROM oss_ci_benchmark_v3")
    return store.rows("SELECT count() FROM torchperf_values") == results


_MAY_NOT = {164, 497}  # ClickHouse's READONLY and ACCESS_DENIED
_FOLDER = Path(__file__).with_name("migrations")
_NOT_FOR_NEW = "-- Only for existing stores"
"""How the file of such a migration begins: another one makes the same for a new store."""
_END_OF_STATEMENT = re.compile(r";\s*$", re.MULTILINE)
_APPLIED = """\
CREATE TABLE IF NOT EXISTS torchperf_migrations (
    `version` UInt32, `name` String, `applied_at` DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree ORDER BY version"""
_REMEMBER = "INSERT INTO torchperf_migrations (version, name) SELECT {version:UInt32}, {name:String}"


@dataclass(frozen=True)
class Migration:
    """One migration file. Each of its statements can safely be run again, also concurrently."""

    version: int
    name: str
    statements: tuple[str, ...]
    for_new: bool = True
    """Whether a new store needs it, too."""


@lru_cache(maxsize=1)
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in order, from version 1 on."""
    return tuple(_read_migration(path) for path in sorted(_FOLDER.glob("*.sql")))


def open_store(dsn: str, deadline: Deadline | None = None) -> Store:
    """Open the store at ``dsn`` and migrate its schema. Raises what :func:`connect` and :func:`migrate` raise.

    An embedded store is refreshed as well, and only here: once it is opened again, it cannot delete rows.
    """
    store = connect(dsn, deadline)
    try:
        migrate(store)
        if store.embedded:
            refresh(store)
            store.leave_merging()
    except BaseException:
        store.close()
        raise
    return store


def open_existing(dsn: str, advice: str = "name another with --store") -> Store:
    """Open a store for queries only. Raises :class:`StoreError` instead of creating a missing embedded store.

    On a server where this user may not create tables, queries read the results alone, and a message says so.
    """
    location = parse_dsn(dsn)
    if isinstance(location, EmbeddedStore) and not (location.path / "metadata").exists():
        raise StoreError(f"{location}: there is no store; `torchperf ingest` makes one, or {advice}")
    try:
        store = open_store(dsn)
    except RefusedStatementError as error:
        if error.code not in _MAY_NOT:
            raise
        say(f"{error}; until then, queries read the results without the derived tables, which takes longer")
        store = connect(dsn)
        store.use(store.database)
        store.read_results_alone()
    return store


def migrate(store: Store) -> None:
    """Create the database if it does not exist, and apply the migrations that were not applied yet.

    A store that is up to date is only read. An interrupted migration is run again from its beginning. Raises
    :class:`StoreError` if rights are missing, or if the schema was made by a newer torchperf.
    """
    if not store.rows("SELECT 1 FROM system.databases WHERE name = {name:String}", {"name": store.database}):
        store.run("CREATE DATABASE IF NOT EXISTS {database:Identifier}", {"database": store.database})
    store.use(store.database)
    applied = _applied(store)
    missing = [migration for migration in migrations() if migration.version not in applied]
    for migration in missing:
        for text in migration.statements if migration.for_new or applied else ():
            store.run(text)
    if missing:
        refresh(store)  # what is derived from the results is new, or follows from them in another way
    for migration in missing:
        store.run(_REMEMBER, {"version": migration.version, "name": migration.name})


def _applied(store: Store) -> Sequence[int]:
    if not store.has_table("torchperf_migrations"):
        store.run(_APPLIED)
    versions = [row[0] for row in store.rows("SELECT DISTINCT version FROM torchperf_migrations")]
    newest = migrations()[-1].version
    if max(versions, default=0) > newest:
        msg = f"{store.name} has schema {max(versions)}, made by a newer torchperf; this one knows {newest}: upgrade it"
        raise StoreError(msg)
    return versions


def _read_migration(path: Path) -> Migration:
    version, _, name = path.stem.partition("_")
    text = path.read_text(encoding="utf-8")
    statements = map(included, _END_OF_STATEMENT.split(text))
    return Migration(
        int(version),
        name,
        tuple(s.strip() for s in statements if s.strip()),
        not text.startswith(_NOT_FOR_NEW),
    )


def place_access(role: str | None, region: str | None = None) -> PlaceAccess:
    """Return the access that uploads use, since it permits reading, too. Only a job has a token to assume a role."""
    role = role if actions.in_actions() else None
    token = os.environ.get("GITHUB_TOKEN", "")
    return PlaceAccess(region=region, role=role, git_token=token, mask=actions.mask)


@contextmanager
def store_of_place(
    place: str, access: PlaceAccess, format_name: str = "", first_month: str = ""
) -> Iterator[tuple[str, IngestOutcome]]:
    """Yield the DSN of a temporary embedded store with the records of ``place``, and the outcome of the ingest.

    Packs of months before ``first_month`` (``YYYY-MM``) are left out.
    """
    with scratch_folder() as folder:
        dsn = f"chdb://{folder}/store"
        with open_store(dsn) as store:
            outcome = ingest_place(store, open_place(place, access), format_name, first_month)
        yield dsn, outcome
