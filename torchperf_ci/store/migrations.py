"""Open a store with its schema up to date: the migrations, and a temporary store of what a place has."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.errors import StoreError
from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.store.client import EmbeddedStore, RefusedStatementError, connect, included, parse_dsn
from torchperf_ci.store.derived_tables import refresh
from torchperf_ci.store.ingest import ingest_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.store.client import Store
    from torchperf_ci.store.ingest import IngestOutcome


_MAY_NOT = {164, 497}  # ClickHouse's READONLY and ACCESS_DENIED
_FOLDER = Path(__file__).with_name("migrations")
_END_OF_STATEMENT = re.compile(r";\s*$", re.MULTILINE)
_APPLIED = """\
CREATE TABLE IF NOT EXISTS torchperf_migrations (
    `version` UInt32, `name` String, `applied_at` DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree ORDER BY version"""


@dataclass(frozen=True)
class Migration:
    """One file. Each of its statements does no harm when it is run again, alone or at the same time as another."""

    version: int
    name: str
    statements: tuple[str, ...]


@lru_cache(maxsize=1)
def migrations() -> tuple[Migration, ...]:
    """All of them, from 1 on."""
    return tuple(_read_migration(path) for path in sorted(_FOLDER.glob("*.sql")))


def open_store(dsn: str) -> Store:
    """The store at ``dsn`` with its schema up to date. Raises what :func:`connect` and :func:`migrate` raise."""
    store = connect(dsn)
    try:
        migrate(store)
        if store.embedded:
            refresh(store)
    except BaseException:
        store.close()
        raise
    return store


def open_existing(dsn: str) -> Store:
    """The same for whoever only asks: an embedded store that is not there is not made. Raises :class:`StoreError`.

    On a server where this user may make no tables, the results alone are asked, and that is said.
    """
    location = parse_dsn(dsn)
    if isinstance(location, EmbeddedStore) and not (location.path / "metadata").exists():
        msg = f"{location}: there is no store; `torchperf ingest` makes one, or name another with --store"
        raise StoreError(msg)
    try:
        return open_store(dsn)
    except RefusedStatementError as error:
        if error.code not in _MAY_NOT:
            raise
        say(f"{error}; until then its results are asked as they lie there, which takes longer")
    store = connect(dsn)
    store.use(store.database)
    store.read_results_alone()
    return store


def migrate(store: Store) -> None:
    """Make the database if it is not there, and apply what was not applied yet.

    A store that is up to date is only read. A migration that was cut short is run again from its beginning. Raises
    :class:`StoreError` where rights are missing, or a newer torchperf has been here.
    """
    if not _exists_in_system(store, "databases", store.database):
        store.run("CREATE DATABASE IF NOT EXISTS {database:Identifier}", {"database": store.database})
    store.use(store.database)
    applied = _applied(store)
    for migration in migrations():
        if migration.version not in applied:
            _apply(store, migration)


def _applied(store: Store) -> Sequence[int]:
    if not _exists_in_system(store, "tables", "torchperf_migrations"):
        store.run(_APPLIED)
    versions = [row[0] for row in store.rows("SELECT DISTINCT version FROM torchperf_migrations")]
    newest = migrations()[-1].version
    if max(versions, default=0) > newest:
        msg = f"{store.name} has schema {max(versions)}, made by a newer torchperf; this one knows {newest}: upgrade it"
        raise StoreError(msg)
    return versions


def _exists_in_system(store: Store, kind: str, name: str) -> bool:
    scope = "" if kind == "databases" else "database = currentDatabase() AND "
    found = store.rows(f"SELECT 1 FROM system.{kind} WHERE {scope}name = {{name:String}}", {"name": name})  # noqa: S608 - our words
    return bool(found)


def _apply(store: Store, migration: Migration) -> None:
    for statement in migration.statements:
        store.run(statement)
    if migration.name == "answers":  # what was there before is in them before anybody asks them
        refresh(store)
    store.run(
        "INSERT INTO torchperf_migrations (version, name) SELECT {version:UInt32}, {name:String}",
        {"version": migration.version, "name": migration.name},
    )


def _read_migration(path: Path) -> Migration:
    version, _, name = path.stem.partition("_")
    statements = map(included, _END_OF_STATEMENT.split(path.read_text(encoding="utf-8")))
    return Migration(int(version), name, tuple(s.strip() for s in statements if s.strip()))


def is_remote(source: str) -> bool:
    """Whether ``source`` names a place that is no directory."""
    return "://" in source or source.startswith("branch:")


def place_access(role: str | None, region: str | None = None) -> PlaceAccess:
    """As an upload has it: who may write may read. Nowhere but in a job is there a token to assume a role with."""
    role = role if actions.in_actions() else None
    token = os.environ.get("GITHUB_TOKEN", "")
    return PlaceAccess(region=region, role=role, git_token=token, mask=actions.mask)


@contextmanager
def store_of_place(
    place: str, access: PlaceAccess, given: str = "", first_month: str = ""
) -> Iterator[tuple[str, IngestOutcome]]:
    """The DSN of an embedded store with the records of ``place``, which is gone afterwards, and what was taken in.

    Packs of months before ``first_month`` (``YYYY-MM``) are left out.
    """
    with TemporaryDirectory(prefix="torchperf-past-") as folder:
        dsn = f"chdb://{folder}/store"
        with open_store(dsn) as store:
            outcome = ingest_place(store, open_place(place, access), given, first_month)
        yield dsn, outcome
