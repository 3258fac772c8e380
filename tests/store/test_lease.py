"""Many processes share one embedded store: each gets it for a while, and none is refused."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
import requests
from nfs_locks import lock_as_on_nfs
from zygote import running_zygote

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import StoreUnreachableError
from torchperf_ci.places import open_place
from torchperf_ci.store import lease
from torchperf_ci.store.client import connect
from torchperf_ci.store.ingest import ingest_objects, ingest_place
from torchperf_ci.store.migrations import open_existing, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_ci.store.client import Store

USERS, NEW = 8, 99
BUSY = """
import sys, threading
from torchperf_ci.store.client import connect
with connect(sys.argv[1]) as store:
    print("there", flush=True)
    stopped = threading.Event()
    threads = [
        threading.Thread(target=lambda: [store.rows("SELECT sleep(0.05)") for _ in iter(stopped.is_set, True)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    stopped.set()
    for thread in threads:
        thread.join()
    print("done", flush=True)
"""


def other_process(dsn: str, sql: str) -> None:
    code = "import sys; from torchperf_ci.store.client import connect; connect(sys.argv[1]).run(sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, dsn, sql], check=True, timeout=60)


def test_whoever_is_idle_lets_go_and_comes_back(dsn: str) -> None:
    with connect(dsn) as idle:
        idle.run("CREATE DATABASE one")
        idle.use("one")
        other_process(dsn, "CREATE DATABASE two")
        assert idle.rows("SELECT currentDatabase()") == [("one",)]
        assert idle.rows("SELECT count() FROM system.databases WHERE name IN ('one', 'two')") == [(2,)]


@pytest.mark.parametrize("opened", [open_existing, open_store])
def test_whoever_hands_over_again_and_again_keeps_no_threads(
    opened: Callable[[str], Store], empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT value FROM system.metrics WHERE metric = 'MergeTreeBackgroundExecutorThreads'"
    with opened(f"chdb://{empty_store}") as store:
        monkeypatch.setattr(lease, "MIN_HOLD_SECONDS", 1e-9)
        monkeypatch.setattr(lease.Lease, "_others_wait", lambda _: True)
        assert len({tuple(store.rows(sql)) for _ in range(2)}) == 1


def test_what_is_held_stays(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "MIN_HOLD_SECONDS", 0.05)
    with connect(dsn) as store, store.keep_open():
        store.run("CREATE TEMPORARY TABLE mine (x UInt8) ENGINE = Memory")
        time.sleep(0.3)
        assert store.rows("SELECT count() FROM mine") == [(0,)]


def test_a_busy_one_makes_room_for_whoever_waits(dsn: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as busy:
        assert busy.stdout
        assert busy.stdout.readline() == "there\n"
        for _ in range(3):
            with connect(dsn) as store:
                assert store.rows("SELECT 1") == [(1,)]
        assert busy.communicate("\n", timeout=60) == ("done\n", None)


def test_whoever_has_a_deadline_waits_no_longer(dsn: str) -> None:
    """Another program, which has the engine's lock alone, lets go after fifty seconds: enough without a deadline."""
    status = Path(dsn.removeprefix("chdb://"), "status")
    status.parent.mkdir()
    with status.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        release = threading.Timer(50, fcntl.flock, [held, fcntl.LOCK_UN])
        release.start()
        with pytest.raises(StoreUnreachableError, match="in use by another process"):
            connect(dsn, Deadline.after(0.1))
        release.cancel()


def test_whoever_waits_goes_on_while_others_take_turns(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = count()
    monkeypatch.setattr(lease, "BUSY_TIMEOUT", 0.05)
    monkeypatch.setattr(lease.Lease, "_holder", lambda _: str(next(turns)))
    monkeypatch.setattr(lease.Lease, "_is_held", lambda _: next(turns) < 20)
    connect(dsn).close()


def test_threads_share_a_store(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "MIN_HOLD_SECONDS", 0.01)
    with connect(dsn) as store:
        answers: list[object] = []

        def ask() -> None:
            for number in range(10):
                answers.append(store.rows("SELECT {x:UInt8}", {"x": number})[0][0])
                time.sleep(0.02)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(map(str, answers)) == sorted(map(str, [*range(10)] * 4))


def test_an_answer_that_is_read_slowly_keeps_nobody_waiting(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BUSY_TIMEOUT", 20.0)
    with connect(dsn) as store:
        pieces = store.stream("SELECT number FROM numbers(3000000)", {}, "JSONEachRow")
        read = len(next(pieces))
        code = (
            "import sys; from torchperf_ci.store.client import connect; connect(sys.argv[1]).rows('SELECT 1')"
        )
        subprocess.run([sys.executable, "-c", code, dsn], check=True, timeout=60)
        assert read + sum(map(len, pieces)) > 40_000_000


def test_a_dozen_processes_beside_a_server_that_is_asked_all_the_time(dsn: str, tmp_path: Path) -> None:
    for user in (*range(USERS), NEW):
        (tmp_path / str(user)).mkdir()
        (tmp_path / str(user) / "r.json").write_text(json.dumps(_night(user)))
    with open_store(dsn) as store:
        ingest_place(store, open_place(str(tmp_path / "0")))
    verbs = [["ingest", str(tmp_path / str(user))] for user in range(1, USERS)]
    verbs += [["query", "--format", "csv"]] * 3
    verbs += [["check", str(tmp_path / str(NEW)), "--out", str(tmp_path / f"{n}.json")] for n in range(2)]
    server = [sys.executable, "-m", "torchperf_ci", "serve", "--store", dsn, "--bind", "127.0.0.1:0"]
    with running_zygote() as zygote, _loaded_server(server) as answers:
        codes = zygote.run_together([[*verb, "--store", dsn] for verb in verbs])
    assert codes == [0] * 12
    assert {*answers} == {200}
    with open_store(dsn) as store:
        assert store.rows("SELECT count(), uniqExact(commit) FROM torchperf_values") == [(USERS * 20, USERS)]


@contextmanager
def _loaded_server(command: Sequence[str]) -> Iterator[list[int]]:
    """Have clients ask a server until the block ends; the codes of all its answers."""
    answers: list[int] = []
    ended = threading.Event()

    def ask(url: str) -> None:
        while not ended.wait(0.02):
            answers.append(requests.get(url, timeout=900).status_code)

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        address = next(line for line in server.stderr if "http://" in line).split()[-1]
        try:
            with ThreadPoolExecutor(4) as pool:
                paths = ("index.json", "overview.json", "regressions.json", "index.json")
                asking = [pool.submit(ask, f"{address}data/{path}") for path in paths]
                try:
                    yield answers
                finally:
                    ended.set()
            for one in asking:
                one.result()
        finally:
            server.terminate()
            server.stderr.read()


def _night(user: int) -> list[dict[str, object]]:
    return [
        {
            "timestamp": 1_790_000_000 + 86_400 * user,
            "repo": "octo/perf",
            "head_branch": "main",
            "head_sha": f"{user:040x}",
            "workflow_id": 1 + user,
            "runners": [{"name": "cuda", "type": "H100"}],
            "benchmark": {"name": "nightly"},
            "model": {"name": f"m{number}"},
            "metric": {"name": "latency(ms)", "benchmark_values": [1.0]},
        }
        for number in range(20)
    ]


def test_everything_is_taken_in_where_somebody_waits_after_each_statement(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table in memory ends with the handle, so what needs it lets nobody in between."""
    with open_store(dsn) as store:
        monkeypatch.setattr(lease, "MIN_HOLD_SECONDS", 1e-9)
        monkeypatch.setattr(lease.Lease, "_others_wait", lambda _: True)
        record = json.dumps({"metric": {"name": "latency(ms)", "benchmark_values": [1]}}).encode()
        assert ingest_objects(store, "bucket", [("a.json", record)]).objects == 1


def test_who_looks_for_waiters_is_not_taken_for_one(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(file: IO[bytes]) -> bool:
        got = try_lock(file)
        time.sleep(0.02)
        return got

    try_lock = lease.try_lock
    with connect(dsn) as store, store.keep_open(), ThreadPoolExecutor(4) as pool:
        monkeypatch.setattr(lease, "try_lock", slowly)
        looking = lease.Lease(Path(dsn.removeprefix("chdb://")), dsn)
        assert not any(pool.map(lambda _: looking._others_wait(), range(8)))


def test_an_engine_that_ends_late_opens_the_database_to_nobody(dsn: str) -> None:
    """It removes its file when it has unlocked it; the file may be that of the one who came next."""
    code = "import sys; from torchperf_ci.store import client, lease; lease.BUSY_TIMEOUT = 0.5; "
    code += "client.connect(sys.argv[1])"
    with connect(dsn) as store, store.keep_open():
        Path(dsn.removeprefix("chdb://"), "status").unlink()
        other = subprocess.run(
            [sys.executable, "-c", code, dsn], capture_output=True, timeout=60, check=False
        )
    assert b"is in use by another process" in other.stderr


def test_what_a_kill_left_on_a_network_file_system_is_opened(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lock_as_on_nfs)
    folder = Path(dsn.removeprefix("chdb://"))
    folder.mkdir()
    (folder / "status").touch()
    with connect(dsn) as store:
        assert [*store.rows("SELECT 1")] == [(1,)]
