from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import StoreError
from torchperf_ci.store import migrations as migrating
from torchperf_ci.store.client import RefusedStatementError, connect
from torchperf_ci.store.migrations import Migration, migrate, migrations, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from torchperf_ci.store.client import Store


def tables(store: Store) -> dict[str, str]:
    """What is in the database: name → definition."""
    found = store.rows(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase()"
    )
    return {str(name): str(definition) for name, definition in found}


def versions(store: Store) -> Sequence[Sequence[Any]]:
    return store.rows("SELECT version, name FROM torchperf_migrations ORDER BY version")


def test_the_files_are_numbered_from_one_on() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, len(migrations()) + 1))


def test_the_first_migration_is_the_table_of_the_infrastructure(store: Store) -> None:
    assert store.database == "benchmark"
    found = store.rows("DESCRIBE TABLE benchmark.oss_ci_benchmark_v3")
    assert " ".join(str(row[0]) for row in found) == (
        "timestamp schema_version name repo head_branch head_sha workflow_id run_attempt job_id "
        "servicelab_experiment_id servicelab_trial_id _meta runners benchmark model inputs dependencies metric"
    )
    (key,) = store.rows("SELECT sorting_key FROM system.tables WHERE name = 'oss_ci_benchmark_v3'")
    assert key[0] == (
        "timestamp, head_branch, head_sha, workflow_id, job_id, servicelab_experiment_id, servicelab_trial_id"
    )


def test_a_second_time_changes_nothing(store: Store) -> None:
    store.run("INSERT INTO oss_ci_benchmark_v3 (timestamp) VALUES (1)")
    before, applied = tables(store), versions(store)
    migrate(store)
    assert tables(store) == before
    assert versions(store) == applied == [(m.version, m.name) for m in migrations()]
    assert store.rows("SELECT count() FROM oss_ci_benchmark_v3") == [(1,)]


def test_a_store_that_is_up_to_date_is_only_read(store: Store) -> None:
    written = store.rows("SELECT count() FROM system.parts WHERE database = 'benchmark'")
    store.run("SET readonly = 1")
    migrate(store)
    assert store.rows("SELECT count() FROM system.parts WHERE database = 'benchmark'") == written


def test_several_at_the_same_time(dsn: str) -> None:
    stores = [connect(dsn) for _ in range(4)]
    failures: list[BaseException] = []

    def run(store: Store) -> None:
        try:
            migrate(store)
        except BaseException as error:  # noqa: BLE001  # told by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=run, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert stores[0].rows("SELECT DISTINCT version FROM torchperf_migrations ORDER BY version") == [
        (migration.version,) for migration in migrations()
    ]
    for store in stores:
        store.close()


def test_a_new_store_is_what_all_migrations_make(
    dsn: str, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(f"chdb://{empty_store}") as store:
        made = tables(store)
    everything = [replace(migration, for_new=True) for migration in migrations()]
    monkeypatch.setattr(migrating, "migrations", lambda: everything)
    with open_store(dsn) as store:
        assert tables(store) == made


@pytest.mark.parametrize("cut", [*range(1, 8), 12, 13])
def test_one_that_was_cut_short_is_done_again(dsn: str, cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever statement fails, the next time brings the same schema as one time without any failure."""
    with connect(dsn) as store:
        calls = 0
        run = store.run

        def failing(sql: str, *rest: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == cut:
                msg = "cut short"
                raise RefusedStatementError(msg, 0)
            run(sql, *rest)

        monkeypatch.setattr(store, "run", failing)
        with pytest.raises(RefusedStatementError, match="cut short"):
            migrate(store)
        migrate(store)
        assert set(tables(store)) == {
            "oss_ci_benchmark_v3",
            "torchperf_commits",
            "torchperf_culprits",
            "torchperf_fill_values",
            "torchperf_ingested",
            "torchperf_judged",
            "torchperf_kept",
            "torchperf_migrations",
            "torchperf_points",
            "torchperf_refused",
            "torchperf_values",
            "torchperf_verdicts",
        }
        assert versions(store) == [(migration.version, migration.name) for migration in migrations()]


def test_values_of_a_store_made_before_the_views_changed_are_filled_anew(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier, connect(dsn) as store:
        earlier.setattr(migrating, "migrations", lambda: migrations()[:8])
        migrate(store)
        store.run("CREATE OR REPLACE VIEW torchperf_points AS SELECT 1 AS nothing")
        store.run(
            "ALTER TABLE torchperf_fill_values MODIFY QUERY SELECT 'old' AS series FROM oss_ci_benchmark_v3"
        )
        store.insert("oss_ci_benchmark_v3", ["runners"], b'{"runners": [{"cpu_info": "Xeon"}]}')
        assert store.rows("SELECT series, machine FROM torchperf_values") == [("old", "")]
    with connect(dsn) as store:
        migrate(store)  # and nothing else: on a server, the first after an upgrade may only be a reader
        assert len(store.rows("SELECT machine FROM torchperf_values")) == 1
        store.insert("oss_ci_benchmark_v3", ["runners"], b'{"runners": [{"cpu_info": "Xeon"}]}')
        machines = store.rows("SELECT machine FROM torchperf_values")
        assert [json.loads(machine)["cpu_info"] for (machine,) in machines] == ["Xeon", "Xeon"]
        assert len(store.rows("SELECT machine FROM torchperf_points")) == 2


def test_a_schema_that_a_newer_version_made_is_left_alone(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = Migration(99, "future", ("CREATE TABLE future (`x` UInt8) ENGINE = Memory",))
    with monkeypatch.context() as patch:
        known = migrations()
        patch.setattr(migrating, "migrations", lambda: (*known, newer))
        open_store(dsn).close()
    with pytest.raises(StoreError, match="schema 99, made by a newer torchperf"):
        open_store(dsn)
