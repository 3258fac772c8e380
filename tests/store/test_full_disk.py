"""On a full disk, simulated by a limit on file sizes, an ingest reports that and leaves nothing half done."""

from __future__ import annotations

import gc
import json
import random
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import StoreError
from torchperf_ci.store import client
from torchperf_ci.store.ingest import ingest_objects
from torchperf_ci.store.loading import StagingTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_ci.store.client import Store

RECORDS = 500


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def cramped(method: Callable[..., object]) -> Callable[..., object]:
    """The same, with a disk that is full."""

    def run(*arguments: object) -> object:
        with room_for(1000):
            return method(*arguments)

    return run


def records() -> bytes:
    """Some hundred kB that nothing makes smaller."""
    noise = random.Random(1)
    metric = {"name": "latency(ms)", "benchmark_values": [1]}
    names = (f"{noise.getrandbits(1600):x}" for _ in range(RECORDS))
    return json.dumps([{"model": {"name": name}, "metric": metric} for name in names]).encode()


# The engine's client leaves a file open, of which Python warns from 3.12 on.
@pytest.mark.filterwarnings(
    "ignore:.*(_TemporaryFileCloser|FileIO.*[.]raw):pytest.PytestUnraisableExceptionWarning"
)
def test_an_ingest_without_room_says_so_and_can_be_run_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ingest_objects(store, "b", [("first.json", b'{"metric": {"name": "m"}}')])
    assert first.records == 1
    with monkeypatch.context() as patch:
        patch.setattr(StagingTable, "add_lines", cramped(StagingTable.add_lines))
        with pytest.raises(StoreError, match="free some of it and run this again"):
            ingest_objects(store, "b", [("large.json", records())])
    gc.collect()  # that file: now, and not in whatever test comes later
    assert store.rows("SELECT count() FROM oss_ci_benchmark_v3") == [(1,)]
    outcome = ingest_objects(
        store, "b", [("first.json", b'{"metric": {"name": "m"}}'), ("large.json", records())]
    )
    assert (outcome.records, outcome.known, outcome.conflicts) == (RECORDS, 1, ())
    assert store.rows("SELECT count() FROM torchperf_values") == [(RECORDS + 1,)]


def test_an_answer_without_room_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SPOOLED", 1)
    with room_for(1000), pytest.raises(StoreError, match="that of temporary files, is full"):
        list(store.stream("SELECT number FROM numbers(100000)", {}, "CSV"))
