"""Concurrent ingests: the first is kept whole, and the others report what they met."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.store import loading
from torchperf_ci.store.client import RefusedStatementError
from torchperf_ci.store.ingest import ingest_objects
from torchperf_ci.store.loading import StagingTable
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_ci.store.client import Store
    from torchperf_ci.store.ingest import IngestOutcome

WRITERS = 8


def lines(*models: str) -> bytes:
    return b"\n".join(
        json.dumps({"model": {"name": m}, "metric": {"name": "m"}, "runners": []}).encode() for m in models
    )


def models(store: Store) -> list[str]:
    return [str(row[0]) for row in store.rows("SELECT model.name FROM oss_ci_benchmark_v3 ORDER BY 1")]


def at_once(dsn: str, body: Callable[[int], bytes]) -> list[IngestOutcome]:
    """What becomes of one object of the same key from each of several writers."""
    outcomes: list[IngestOutcome] = []
    barrier = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        with open_store(dsn) as store:
            barrier.wait(timeout=300)
            outcomes.append(ingest_objects(store, "bucket", [("v3/a.json", body(number))]))

    threads = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == WRITERS
    return outcomes


@pytest.mark.parametrize("column", ["DateTime DEFAULT now() - 1", "Date ALIAS toDate(timestamp)"])
def test_a_column_that_others_have_added_makes_no_conflict(store: Store, column: str) -> None:
    store.run(f"ALTER TABLE oss_ci_benchmark_v3 ADD COLUMN added {column}")
    assert ingest_objects(store, "bucket", [("v3/a.json", lines("a"))]).objects == 1
    store.run("TRUNCATE TABLE torchperf_ingested")
    again = ingest_objects(store, "bucket", [("v3/a.json", lines("a"))])
    assert (again.known, again.conflicts) == (1, ())
    assert models(store) == ["a"]


def test_the_same_object_at_once_is_there_once(store: Store, dsn: str) -> None:
    outcomes = at_once(dsn, lambda _: lines("a", "b"))
    assert (sum(o.objects for o in outcomes), sum(o.known for o in outcomes)) == (1, WRITERS - 1)
    assert models(store) == ["a", "b"]


def test_of_different_objects_at_once_one_wins(store: Store, dsn: str) -> None:
    outcomes = at_once(dsn, lambda number: lines(f"{number}", f"{number}"))
    assert (sum(o.objects for o in outcomes), sum(len(o.conflicts) for o in outcomes)) == (1, WRITERS - 1)
    first, second = models(store)
    assert first == second


@pytest.fixture
def second(dsn: str) -> Iterator[Store]:
    """Another connection to the same store, with temporary tables of its own."""
    with open_store(dsn) as opened:
        yield opened


@pytest.mark.parametrize(("theirs", "is_same"), [("ours", True), ("theirs", False)])
def test_at_a_server_somebody_else_may_be_faster(
    store: Store, second: Store, monkeypatch: pytest.MonkeyPatch, theirs: str, is_same: bool
) -> None:
    """They publish after we looked and before we publish."""
    monkeypatch.setattr(loading, "CHANGING", nullcontext())
    slow, fast = StagingTable(store, "bucket"), StagingTable(second, "bucket")
    store.embedded = False
    for writer, model in ((slow, "ours"), (fast, theirs)):
        named = {"model": {"name": model}, "_meta": {"bucket": "bucket", "key": "a.json"}}
        writer.add_lines([json.dumps(named).encode()])
    publish = slow._publish_alone
    monkeypatch.setattr(slow, "_publish_alone", lambda: (fast.publish(), publish()))

    (incoming,) = slow.publish()
    assert models(second) == [theirs]
    assert (incoming.is_stored, incoming.is_same) == (not is_same, False)


def test_a_statement_under_way_at_a_server_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = [216, 216]
    run = store.run

    def refuse(sql: str, parameters: dict[str, str], query_id: str) -> None:
        assert query_id == "torchperf-publish-benchmark"
        if busy:
            msg = "a query with the same id is already running"
            raise RefusedStatementError(msg, busy.pop())
        run(sql, parameters)

    arriving = StagingTable(store, "bucket")
    arriving.add_lines([b'{"model": {"name": "a"}, "_meta": {"bucket": "bucket", "key": "a.json"}}'])
    monkeypatch.setattr(store, "run", refuse)
    (incoming,) = arriving.publish()
    assert not incoming.is_stored
    assert models(store) == ["a"]


def test_a_batch_begins_although_a_server_forgot_the_table(store: Store) -> None:
    """As it does with what a session made when it hears nothing for a minute."""
    arriving = StagingTable(store, "bucket")
    store.run("DROP TEMPORARY TABLE torchperf_incoming")
    arriving.clear()
    arriving.add_lines([b'{"_meta": {"bucket": "bucket", "key": "a.json"}}'])
    assert [item.key for item in arriving.publish()] == ["a.json"]


def test_a_statement_that_a_server_refuses_is_not_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(*_arguments: object) -> None:
        tried.append(1)
        msg = "no rights"
        raise RefusedStatementError(msg, 497)

    arriving = StagingTable(store, "bucket")
    arriving.add_lines([b'{"_meta": {"bucket": "bucket", "key": "a.json"}}'])
    monkeypatch.setattr(loading, "STATEMENT_TIMEOUT", 1)
    monkeypatch.setattr(store, "run", refuse)
    with pytest.raises(RefusedStatementError, match="no rights"):
        arriving.publish()
    assert len(tried) == 1


EVERY_TEXT = """{
    "_meta": {"bucket": "b", "key": "k"}, "schema_version": "(1)", "name": "(2)", "repo": "(3)", "head_branch": "(4)",
    "head_sha": "(5)", "runners": [{"name": "(6)", "extra_info": {"(7)": "(8)"}}],
    "benchmark": {"name": "(9)", "mode": "(10)", "dtype": "(11)", "extra_info": {"(12)": "(13)"}},
    "model": {
        "name": "(14)", "type": "(15)", "backend": "(16)", "origins": ["(17)"], "extra_info": {"(18)": "(19)"}
    },
    "inputs": {"(20)": {"dtype": "(21)"}}, "dependencies": {"(22)": {"sha": "(23)"}},
    "metric": {"name": "(24)", "extra_info": {"(25)": "(26)"}}
}"""


def test_text_that_is_none_is_found_wherever_it_stands(store: Store) -> None:
    arriving = StagingTable(store, "bucket")
    assert arriving.add_unparsed([EVERY_TEXT.encode()])
    for number in range(1, 27):
        arriving.clear()
        assert not arriving.add_unparsed([EVERY_TEXT.encode().replace(b"(%d)" % number, b"\xff")]), number


def test_a_batch_is_published_as_one_part(store: Store) -> None:
    """Which the engine writes whole or not at all, however it came and whatever is set."""
    arriving = StagingTable(store, "bucket")
    for number in range(5):
        store.run(f"INSERT INTO torchperf_incoming (_meta) VALUES (('bucket', '{number}.json'))")
    store.run("SET min_insert_block_size_rows = 1, min_insert_block_size_bytes = 1, max_insert_threads = 4")
    assert len(arriving.publish()) == 5
    parts = store.rows(
        "SELECT rows FROM system.parts WHERE database = 'benchmark' AND table = 'oss_ci_benchmark_v3'"
    )
    assert parts == [(5,)]
