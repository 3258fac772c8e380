"""A store on a server: what is taken in, judged and served there is the same as in an embedded store."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
import requests
from clickhouse_http import clickhouse_server
from dashboard_nights import NIGHTS, night_records, put_culprit, put_nights

from torchperf_ci import cli, config
from torchperf_ci.errors import StoreUnreachableError, UsageError
from torchperf_ci.store.client import AnswerLimits
from torchperf_ci.store.command import StoreQuery
from torchperf_ci.store.migrations import open_existing, open_store
from torchperf_ci.web import endpoints
from torchperf_ci.web.endpoints import StoreService

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
SECONDS = 120
CLIENTS = 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a store with the same nights as ``nights``, taken in by three processes at once."""
    folder = tmp_path_factory.mktemp("server")
    put_nights(folder / "first", 0, NIGHTS // 2)
    put_nights(folder / "second", NIGHTS // 2, NIGHTS)
    put_culprit(folder / "second" / "culprits.json")
    with clickhouse_server(folder / "engine") as dsn:
        ingest = [sys.executable, "-m", "torchperf_ci", "ingest", "--store", dsn]
        running = [subprocess.Popen([*ingest, name], cwd=folder) for name in ("first", "second", "first")]
        assert [process.wait(SECONDS) for process in running] == [0, 0, 0]
        yield dsn


def test_its_site_is_that_of_an_embedded_store(server: str, site: Path, tmp_path: Path) -> None:
    assert cli.main(["site", str(tmp_path), "--store", server]) == 0
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert made == {path.relative_to(site): path.read_bytes() for path in site.rglob("*.json")}


@pytest.mark.parametrize("form", ["json", "jsoneachrow", "csv", "parquet", "table"])
def test_its_results_are_those_of_an_embedded_store(
    form: str, server: str, nights: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    asked = ["--repo", "pytorch/pytorch", "--benchmark", "nightly", "--start", "2026-01-01", "--format", form]
    printed = []
    for dsn in (server, nights):
        assert cli.main(["query", "--store", dsn, *asked]) == 0
        printed.append(capfdbinary.readouterr().out.replace(rb"\/", b"/"))  # in JSON, a slash may be escaped
    assert printed[0] == printed[1] != b""


@contextmanager
def served(dsn: str) -> Iterator[str]:
    """The URL of the documents of a process that serves a store."""
    command = [sys.executable, "-m", "torchperf_ci", "serve", "--store", dsn, "--bind", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        yield next(line for line in process.stderr if "http://" in line).split()[-1]
        process.terminate()


def test_many_processes_serve_it_alike(server: str, site: Path) -> None:
    paths = sorted(path.relative_to(site) for path in (site / "data").rglob("*.json"))[::20]
    with ExitStack() as stack:
        urls = [stack.enter_context(served(server)) for _ in range(2)]

        def same(number: int) -> bool:
            path = paths[number % len(paths)]
            answer = requests.get(f"{urls[number % 2]}{path}", timeout=SECONDS)
            return answer.content == (site / path).read_bytes()

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert all(pool.map(same, range(4 * len(paths) + 1)))


@pytest.mark.parametrize("store_of", ["nights", "server"])
def test_an_answer_that_is_too_large_is_not_given(
    store_of: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = StoreQuery(repo="pytorch/pytorch", benchmark="nightly", models=["slow"])
    with open_store(request.getfixturevalue(store_of)) as store:
        answering = StoreService(store, config.find_config(None))
        answer = answering.query(question, "JSON")
        monkeypatch.setattr(endpoints, "LIMITS", AnswerLimits(size=len(answer) // 2, seconds=60))
        with pytest.raises(UsageError, match="query a shorter period, or fewer models"):
            answering.query(question, "JSON")


def test_who_may_only_read_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    put_nights(tmp_path / "records", 0, 1)
    put_nights(tmp_path / "next", 1, 2)
    calls = (["query"], ["check", "next", "--against", "store"])
    question = StoreQuery(repo="pytorch/pytorch", benchmark="nightly")
    printed = []
    for readonly in (False, True):
        with clickhouse_server(tmp_path / "engine", readonly=readonly) as dsn:
            assert readonly or cli.main(["ingest", str(tmp_path / "records"), "--store", dsn]) == 0
            assert {cli.main([*call, "--store", dsn]) for call in calls} <= {0, 1}
            with open_existing(dsn) as store:
                assert StoreService(store, config.find_config(None)).query(question, "JSONEachRow")
        printed.append(capsys.readouterr().out.replace(dsn, ""))
    assert printed[0] == printed[1] != ""


def test_results_that_come_in_on_their_own_are_told(tmp_path: Path) -> None:
    """As from a queue of the server that reads a bucket."""
    put_nights(tmp_path / "records", 0, 3)
    with clickhouse_server(tmp_path / "engine") as running, open_store(running) as store:
        assert cli.main(["ingest", str(tmp_path / "records"), "--store", running]) == 0
        answering = StoreService(store, config.find_config(None))
        before = json.loads(gzip.decompress(answering.document("index.json")))
        night = night_records(3)
        columns = [
            "timestamp",
            "repo",
            "head_branch",
            "head_sha",
            "workflow_id",
            "job_id",
            "runners",
            "benchmark",
            "model",
            "metric",
        ]
        lines = "\n".join(
            json.dumps({name: record[name] for name in columns if name in record}) for record in night
        )
        store.insert("oss_ci_benchmark_v3", columns, lines.encode())
        after = json.loads(gzip.decompress(answering.document("index.json")))
        assert len(after["runs"]) == len(before["runs"]) + 2


def test_while_it_is_away_the_reason_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with clickhouse_server(tmp_path / "engine") as dsn:
        assert cli.main(["history", "--store", dsn]) == 0
    assert cli.main(["history", "--store", dsn]) == StoreUnreachableError.exit_code
    assert "does not answer" in capsys.readouterr().err
