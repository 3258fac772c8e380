"""The derived tables agree with the results, whatever these contain and whatever interrupted the work."""

from __future__ import annotations

import json
import time
from math import inf
from typing import TYPE_CHECKING, Any

from hostile import ATTACKS
from zygote import running_zygote

from torchperf_ci.places import open_place
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import groups_of_store, points_of_store
from torchperf_ci.series.points import Series
from torchperf_ci.store.client import RefusedStatementError, Store, statement
from torchperf_ci.store.command import StoreQuery, run_query
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import migrations, open_existing, open_store, refresh

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

NAMES = "repo, benchmark, model, mode, dtype, backend, device, arch, metric"
DAY = 86_400
ODD = [
    *ATTACKS,
    "",
    "a:b",
    "1:a",
    "ä",
    "🤖",
    "a\0b",
    "line\nend",
    "x" * 5000,
    "'); DROP TABLE torchperf_values; --",
]


def record(model: str = "resnet", value: float = 1.0, day: int = 20_000, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": day * DAY + 3600,
        "repo": "octo/perf",
        "head_branch": "main",
        "head_sha": f"{day:040x}",
        "workflow_id": day,
        "run_attempt": 1,
        "job_id": 7,
        "runners": [{"name": "cuda", "type": "H100"}],
        "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
        "model": {"name": model, "backend": "eager"},
        "metric": {"name": "latency(ms)", "benchmark_values": [value, value + 2, value + 1]},
        **changes,
    }


def take_in(store: Store, folder: Path, name: str, *records: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(records))
    ingest_place(store, open_place(str(folder)))


def differences(store: Store) -> Sequence[Sequence[Any]]:
    """Days that differ in their counts, and rows of the values that are not those of the view."""
    expected, kept = f"({statement('values')})", "(SELECT * FROM torchperf_values)"
    assert store.rows(f"SELECT count() FROM ({expected} EXCEPT {kept})") == [(0,)]
    assert store.rows(f"SELECT count() FROM ({kept} EXCEPT {expected})") == [(0,)]
    return store.rows(statement("differing_days"))


def test_a_series_has_the_same_id_here_and_there(store: Store, tmp_path: Path) -> None:
    """Odd texts in each of the names in turn; two series that read alike when put together are two."""
    odd = [
        record(text, mode, runners=[{"name": text, "type": text}], repo=text, head_branch=text, head_sha=text)
        for mode, text in enumerate(ODD)
    ]
    for part, name in (
        ("benchmark", "name"),
        ("benchmark", "mode"),
        ("model", "backend"),
        ("metric", "name"),
    ):
        for text in filter(None, ODD):
            changed = record()
            changed[part] = {**changed[part], name: text}
            odd.append(changed)
    take_in(store, tmp_path / "records", "odd.json", *odd)
    found = store.rows(f"SELECT DISTINCT series, {NAMES} FROM torchperf_values")
    assert len(found) > len(ODD)
    assert {Series(*names).id for _, *names in found} == {series for series, *_ in found}
    assert all(Series(*names).id == series for series, *names in found)
    assert {series.id for series in points_of_records([tmp_path / "records"]).points} == {
        row[0] for row in found
    }
    assert not differences(store)


def test_only_days_that_differ_are_made_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = (20_000, 20_001, 20_002, 20_009)
    take_in(
        store, tmp_path / "records", "one.json", *(record(model, day=day) for day in days for model in "ab")
    )
    store.run("DELETE FROM torchperf_values WHERE timestamp > 20009 * 86400")
    store.run("DELETE FROM torchperf_values WHERE intDiv(timestamp, 86400) IN (20001, 20002) AND model = 'b'")
    ran: list[Any] = []
    run = store.run
    monkeypatch.setattr(
        store,
        "run",
        lambda sql, asked: (ran.append((sql.split()[0], asked["start"] // DAY)), run(sql, asked)),
    )
    refresh(store)
    assert ran == [("ALTER", 20_001), ("--", 20_001), ("--", 20_009)]  # days in a row at once
    assert not differences(store)
    ran.clear()
    refresh(store)
    assert not ran


def test_results_that_were_deleted_are_in_no_projection(store: Store, tmp_path: Path) -> None:
    """What the engine calls a lightweight deletion leaves them there, in any version until 26.8 at least."""
    days = (20_000, 20_001, 20_002)
    take_in(
        store, tmp_path / "records", "one.json", *(record(model, day=day) for day in days for model in "ab")
    )
    store.run("DELETE FROM oss_ci_benchmark_v3 WHERE model.name = 'b' AND intDiv(timestamp, 86400) = 20000")
    refresh(store)
    assert not differences(store)
    by_run = (
        "SELECT model FROM torchperf_values WHERE (repo, benchmark) = ('octo/perf', 'nightly') AND timestamp > 0 "
        "ORDER BY repo, benchmark, device, arch, timestamp, series SETTINGS force_optimize_projection = 1"
    )
    assert store.rows(f"SELECT model, count() FROM ({by_run}) GROUP BY model ORDER BY model") == [
        ("a", 3),
        ("b", 2),
    ]


def test_rows_that_were_deleted_come_back(store: Store, tmp_path: Path) -> None:
    """A replicated table has such a window, and a server before 26.1 drops what it inserted within it before."""
    store.run("SET compatibility = '25.8'")
    for table in ("oss_ci_benchmark_v3", "torchperf_values"):
        store.run(f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = 100")
    take_in(store, tmp_path / "records", "one.json", record())
    for _ in range(2):
        store.run("DELETE FROM torchperf_values WHERE 1")
        refresh(store)
        assert not differences(store)
    store.run("DELETE FROM oss_ci_benchmark_v3 WHERE 1")
    store.run("TRUNCATE TABLE torchperf_ingested")
    take_in(store, tmp_path / "records", "one.json", record())
    assert store.rows("SELECT count() FROM oss_ci_benchmark_v3") == [(1,)]


def test_numbers_at_the_ends_of_their_columns(store: Store, tmp_path: Path) -> None:
    take_in(
        store, tmp_path / "records", "odd.json", record(timestamp=2**63), record(timestamp=0), record(value=1e39),
        record(metric={"name": "latency(ms)", "benchmark_values": []}), record(timestamp=0, workflow_id=0, head_sha=""),
    )  # fmt: skip
    refresh(store)
    assert not differences(store)
    store.run("TRUNCATE TABLE torchperf_values")
    refresh(store)
    assert not differences(store)


KILLS, RECORDS = 20, 300


def test_killed_at_any_moment_the_counts_agree_afterwards(tmp_path: Path, dsn: str) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    killed, life = 0, inf
    with running_zygote() as zygote:
        for number in range(2 + KILLS):
            records = [record(f"m{number}", day=20_000 + day % 5) for day in range(RECORDS)]
            (folder / f"{number}.json").write_text(json.dumps(records))
            argv = ["ingest", str(folder), "--store", dsn]
            started = time.monotonic()
            if zygote.run(argv, None if number < 2 else life * (number - 1.5) / KILLS) is None:
                killed += 1
            elif number:  # the first makes the store
                life = min(life, time.monotonic() - started)
            with open_existing(dsn) as store:  # whoever comes next
                assert store.rows("SELECT count() FROM torchperf_values") == store.rows(
                    "SELECT count() FROM oss_ci_benchmark_v3"
                )
        assert killed > KILLS / 4, "the kills came too late to mean anything"
        assert zygote.run(argv) == 0
    with open_store(dsn) as store:
        counts = store.rows("SELECT model.name, count() FROM oss_ci_benchmark_v3 GROUP BY 1")
        assert dict(counts) == {f"m{number}": RECORDS for number in range(2 + KILLS)}
        assert not differences(store)


def test_rows_that_never_reached_the_view_are_there_for_whoever_comes_next(dsn: str, tmp_path: Path) -> None:
    """As a kill leaves it between the results and the view."""
    with open_store(dsn) as store:
        take_in(store, tmp_path / "records", "one.json", record())
        store.run("DETACH TABLE torchperf_fill_values")
        take_in(store, tmp_path / "records", "two.json", record("lost"), record("lost", day=20_001))
        store.run("ATTACH TABLE torchperf_fill_values")
        assert store.rows("SELECT count() FROM torchperf_values") == [(1,)]
    with open_existing(dsn) as store:
        assert sorted(series.model for series in points_of_store(store)) == ["lost", "resnet"]
        assert store.rows("SELECT count() FROM torchperf_values") == [(3,)]


def test_a_store_of_before_has_what_it_had(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        before = migrations()[:5]
        patch.setattr("torchperf_ci.store.migrations.migrations", lambda: before)
        patch.setattr("torchperf_ci.store.migrations.refresh", lambda *_: None)
        with open_store(dsn) as store:
            take_in(
                store, tmp_path / "records", "one.json", *(record(day=day) for day in range(20_000, 20_010))
            )
    with open_store(dsn) as store:
        refresh(store)
        assert store.rows("SELECT count() FROM torchperf_values") == [(10,)]
        assert not differences(store)


def test_where_nobody_may_make_tables_the_results_themselves_are_asked(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(dsn) as store:
        take_in(store, tmp_path / "records", "one.json", record(), record(day=20_001))
        expected = (
            points_of_store(store),
            groups_of_store(store),
            [*run_query(store, StoreQuery(models=["resnet"]))],
        )
        for table in (
            "torchperf_values",
            "torchperf_fill_values",
            "torchperf_points",
            "torchperf_migrations",
        ):
            store.run(f"DROP TABLE {table}")

    codes = [497, 164]  # also of who may only read

    def denying(_store: Store, sql: str, *_: Any) -> None:
        msg = f"Not enough privileges: {sql.split(maxsplit=1)[0]}"
        raise RefusedStatementError(msg, codes.pop())

    monkeypatch.setattr(Store, "run", denying)
    with open_existing(dsn) as store:
        found = (
            points_of_store(store),
            groups_of_store(store),
            [*run_query(store, StoreQuery(models=["resnet"]))],
        )
    open_existing(dsn).close()
    assert found == expected
    said = capsys.readouterr().err
    assert "Not enough privileges" in said
    assert "takes longer" in said
