from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import closing
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from clickhouse_http import clickhouse_server
from serving import serving
from urllib3.exceptions import ProtocolError

from torchperf_ci import cli
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError
from torchperf_ci.store import client, lease
from torchperf_ci.store.client import connect
from torchperf_ci.store.dsn import StoreServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.store.client import Store

SECRET = "pa55word-of-the-store"
HOLD = """
import sys
from torchperf_ci.store.client import connect
with connect(sys.argv[1]) as store, store.keep_open():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other_process(dsn: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open until it is told to go on."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_told_who_is_in_the_way(
    dsn: str, other_process: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BUSY_TIMEOUT", 0.2)
    with pytest.raises(StoreUnreachableError, match="in use by another process") as caught:
        connect(dsn)
    assert dsn in str(caught.value)
    assert caught.value.exit_code == 4


def test_a_second_process_waits_for_its_turn(dsn: str, other_process: subprocess.Popen[str]) -> None:
    assert other_process.stdin
    leave = threading.Timer(0.5, other_process.stdin.close)
    leave.start()
    with connect(dsn) as store:
        assert store.rows("SELECT 1") == [(1,)]
    leave.join()


def test_a_store_that_was_killed_opens_again(dsn: str, other_process: subprocess.Popen[str]) -> None:
    other_process.kill()
    other_process.wait(timeout=300)
    connect(dsn).close()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        connect(f"chdb://{tmp_path / 'file' / 'store'}")


def test_the_configuration_of_another_program_moves_no_store(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.xml").write_text(f"<clickhouse><path>{tmp_path}/elsewhere</path></clickhouse>")
    monkeypatch.chdir(tmp_path)
    with connect(dsn) as store:
        store.run("CREATE DATABASE one")
    assert not (tmp_path / "elsewhere").exists()


def test_a_refused_statement_is_one_sentence(store: Store) -> None:
    with pytest.raises(client.RefusedStatementError) as caught:
        store.rows("SELECT nothing FROM nowhere")
    assert caught.value.code == 60
    assert str(caught.value).startswith(store.name)
    assert "\n" not in str(caught.value)
    assert "DB::Exception" not in str(caught.value)
    assert "; " not in str(caught.value), "an advice that does not help"


def test_rows_are_there_when_an_insert_returns(store: Store) -> None:
    """A server collects inserts by default since 26.2, and may answer before it has stored them."""
    store.run("CREATE TABLE t (a Int8, later Bool DEFAULT getSetting('async_insert')) ENGINE = Memory")
    store.insert("t", ["a"], b'{"a": 1}')
    assert store.rows("SELECT later FROM t") == [(False,)]


def test_without_the_extra_it_says_what_to_install(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clickhouse_connect", None)
    with pytest.raises(UsageError, match=r"pip install 'torchperf-ci\[store\]'"):
        connect(dsn)


WITHOUT_ENGINE = """
import sys
sys.modules["chdb"] = None  # an import of it fails
from torchperf_ci.cli import main
sys.exit(main(["ingest", ".", "--store", sys.argv[1]]))
"""


def test_without_the_embedded_engine_it_says_what_to_install(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ENGINE, dsn], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "pip install 'torchperf-ci[store]'" in done.stderr


def test_a_server_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHPERF_STORE_PASSWORD", SECRET)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dsn = f"clickhouse://ann@127.0.0.1:{unused.getsockname()[1]}/perf"
        assert cli.main(["query", "--store", dsn]) == 4
    said = capsys.readouterr().err
    assert f"{dsn.replace('ann@', '')} does not answer" in said
    assert "Connection refused" in said
    assert SECRET not in said


def test_a_proxy_that_is_no_url(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:{SECRET}/1@127.0.0.1:1")
    assert cli.main(["query", "--store", "clickhouse://ann@host.invalid/perf"]) == 2
    said = capsys.readouterr().err
    assert "the proxy in HTTP_PROXY or HTTPS_PROXY is no URL" in said
    assert SECRET not in said


def test_a_server_that_says_nothing_within_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "STATEMENT_TIMEOUT", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(StoreUnreachableError, match="does not answer"),
    ):
        connect(f"clickhouse://127.0.0.1:{silent.getsockname()[1]}")


def test_all_statements_share_a_deadline(tmp_path: Path) -> None:
    with (
        clickhouse_server(tmp_path) as dsn,
        pytest.raises(StoreUnreachableError),
        connect(dsn, Deadline.after(2)) as store,
    ):
        all(store.rows("SELECT sleep(0.5)") for _ in range(10))  # each is done well within it


def test_a_server_is_told_what_is_left_of_the_deadline(tmp_path: Path) -> None:
    """One that reports its progress answers again and again, so that no read takes longer than that."""
    with clickhouse_server(tmp_path) as dsn, connect(dsn, Deadline.after(60)) as store:
        assert 0 < store.rows("SELECT getSetting('max_execution_time')")[0][0] <= 60


def test_a_list_may_be_longer_than_a_field_of_a_request(tmp_path: Path) -> None:
    texts = [f"{number:0>200}" for number in range(1000)]
    sql = "SELECT length({texts:Array(String)}), {texts:Array(String)}[-1], {last:String} IN {texts:Array(String)}"
    with clickhouse_server(tmp_path) as dsn, connect(dsn) as store:
        assert store.rows(sql, {"texts": texts, "last": texts[-1]}) == [(1000, texts[-1], 1)]
        assert store.rows(sql, {"texts": [], "last": ""}) == [(0, "", 0)]


def test_an_answer_that_fails_while_its_rows_come_is_an_error(tmp_path: Path) -> None:
    """A server has said that all is well by then, and ends the rows with a message."""
    with (
        clickhouse_server(tmp_path) as dsn,
        connect(dsn) as store,
        pytest.raises(UsageError, match="more than 9999 bytes"),
    ):
        list(store.stream("SELECT * FROM numbers(100000)", {}, "CSV", client.AnswerLimits(9999, 60)))


class _Recorded:
    """The connection to a server with these settings."""

    def __init__(self, readonly: str, most: str) -> None:
        values = {"readonly": readonly, "max_execution_time": most}
        self.server_settings = {name: SimpleNamespace(value=value) for name, value in values.items()}
        self.asked, self.seconds = "", 0

    def query(self, sql: str, _parameters: object) -> SimpleNamespace:
        self.asked = sql
        return SimpleNamespace(result_rows=[])

    def raw_stream(self, *_arguments: object, **_settings: object) -> Any:
        return closing(SimpleNamespace(read=self._break_off, close=self.close))

    def _break_off(self, _size: int) -> bytes:
        msg = "Connection broken"
        raise ProtocolError(msg, IncompleteRead(b""))

    def close(self) -> None:
        pass

    def set_client_setting(self, _name: str, seconds: int) -> None:
        self.seconds = seconds


@pytest.mark.parametrize(
    ("readonly", "most", "asked", "seconds"),
    [
        ("0", "0", "SELECT 1\nSETTINGS x = 1", 60),
        ("1", "5", "SELECT 1", 5),
        ("2", "90", "SELECT 1\nSETTINGS x = 1", 60),
    ],
)
def test_the_settings_of_a_user_bound_what_is_sent(
    readonly: str, most: str, asked: str, seconds: int
) -> None:
    recorded, deadline = _Recorded(readonly, most), Deadline.after(60)
    server = client.ServerClient(cast("Any", recorded), "name", deadline)
    with client.Store(server, StoreServer("host", 8123, "ann", "perf", False)) as store:
        store.rows("SELECT 1\nSETTINGS x = 1")
        assert recorded.asked == asked
        assert 0 < recorded.seconds <= seconds


def test_a_server_that_goes_away_in_the_middle_of_an_answer() -> None:
    server = client.ServerClient(cast("Any", _Recorded("0", "0")), "name", None)
    with (
        client.Store(server, StoreServer("host", 8123, "ann", "perf", False)) as store,
        pytest.raises(StoreUnreachableError, match="host:8123/perf does not answer"),
    ):
        list(store.stream("SELECT 1", {}, "CSV"))


class _Refusing(BaseHTTPRequestHandler):
    """A server that does nothing for anybody, as ClickHouse says it."""

    code, text = 516, "ann: Authentication failed. (AUTHENTICATION_FAILED)"

    def do_POST(self) -> None:
        body = f"Code: {self.code}. DB::Exception: {self.text} (version 26.5)\n".encode()
        self.send_response(403)
        self.send_header("X-ClickHouse-Exception-Code", str(self.code))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


class _Denying(_Refusing):
    code, text = 497, "ann: Not enough privileges. (ACCESS_DENIED)"


def refusal(by: type[_Refusing]) -> str:
    with (
        serving(HTTPServer(("127.0.0.1", 0), by)) as server,
        pytest.raises(StoreError) as caught,
    ):
        connect(f"clickhouse://ann:{SECRET}@127.0.0.1:{server.server_port}/perf")
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_server_that_refuses_the_password_says_where_to_give_it() -> None:
    said = refusal(_Refusing)
    assert "Authentication failed" in said
    assert "; give the user in the store's address, and the password in TORCHPERF_STORE_PASSWORD" in said


def test_a_server_that_denies_a_right_says_whom_to_ask_for_it() -> None:
    said = refusal(_Denying)
    assert "Not enough privileges" in said
    assert "; ask the server's administrator for this permission" in said
    assert "PASSWORD" not in said
