"""The receiver over HTTP: many writers, its answers, and its own process."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_app import serving_app
from upload_requests import ACCEPTED, PASSWORD, body, head, post, rest, say, serving_in

from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.receive import command as upload_api
from torchperf_ci.receive.command import UploadReceiver, receiving_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


KEY = "v3/octo/perf/main/1f/H100/benchmark_results.json"
WRITERS = 20


def test_of_twenty_writers_of_one_key_one_wins_and_nineteen_are_told(tmp_path) -> None:
    """The places' own tests check that one wins; here all of them are told."""
    place = open_place(str(tmp_path / "kept"), PlaceAccess(deadline=60))
    together = threading.Barrier(WRITERS)

    def write(number: int) -> tuple[int, Any]:
        together.wait(timeout=300)
        return post(address, body(number, s3_path=KEY))

    with serving_in(place) as address, ThreadPoolExecutor(WRITERS) as pool:
        answers = list(pool.map(write, range(WRITERS)))
        winners = [number for number, (status, _) in enumerate(answers) if status == 200]
        again = post(address, body(winners[0], s3_path=KEY))
    assert len(winners) == 1
    losers = [answer for status, answer in answers if status == 409]
    assert len(losers) == WRITERS - 1
    assert all(answer["same"] is False and "already kept" in answer["message"] for answer in losers)
    assert (again[0], again[1]["same"]) == (409, True)
    assert list(place.keys()) == [KEY]


def test_a_body_that_is_too_large_is_a_413_which_its_sender_gets_to_read(address) -> None:
    status, answer = post(address, b" " * 20_000_000)
    assert status == 413
    assert "more than 6291456 bytes" in answer["message"]


def listens_on(host: str) -> bool:
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:  # many a container has no IPv6
        return False
    return True


@pytest.mark.parametrize("host", [host for host in ("localhost", "::1") if listens_on(host)])
def test_it_listens_wherever_the_machine_can(tmp_path, host) -> None:
    with serving_in(open_place(str(tmp_path / "kept")), host) as address:
        assert post(address, body())[0] == 200


def test_who_asks_before_sending_is_told_at_once(address) -> None:
    expect = "Expect: 100-continue\r\n"
    refused = say(address, head(7_000_000, expect))
    assert rest(refused).startswith(b"HTTP/1.1 413 ")
    welcome = say(address, head(len(body()), expect))
    assert welcome.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    welcome.sendall(body())
    assert rest(welcome).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST / HTTP/1.0\r\n\r\n", 411),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            411,
        ),
        (
            head(5, "Transfer-Encoding: chunked\r\n").replace(b"Connection: close\r\n", b"")
            + b"0\r\n\r\n"
            + head(0),
            400,
        ),
        (head(-1), 400),
        (head("1_0"), 400),
        (head("²"), 400),
        (head("9" * 5000), 400),
        (head(0), 400),
        (b"\x16\x03\x01\x02\x00\x01 tls hello\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n", 400),
        (b"POST /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\r\n", 411),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_is_no_request_is_answered_in_json(address, sent, status) -> None:
    answer, content = rest(say(address, sent)).split(b"\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"content-type: application/json" in answer
    assert json.loads(content)["message"]


def test_a_bug_is_a_500_without_details_and_the_server_goes_on(address, monkeypatch, capfd) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(upload_api, "read_request", lambda *_: {}["inner secret"])
        status, answer = post(address, body())
    assert status == 500
    assert "inner secret" not in answer["message"]
    assert "| KeyError: 'inner secret'\n" in capfd.readouterr().err
    assert post(address, body())[0] == 200


def test_a_log_that_nobody_reads_any_more_fails_no_upload(address, monkeypatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", buffering=1) as unread, monkeypatch.context() as logging:
        logging.setattr(sys, "stderr", unread)
        statuses = [post(address, sent)[0] for sent in (body(), b"{}")]
        with suppress(BrokenPipeError):
            unread.close()
    assert statuses == [200, 401]


REQUEST_LINES = st.sampled_from([b"POST / HTTP/1.1", b"POST / HTTP/1.0", b"GET /"]) | st.binary(max_size=50)
HEADERS = st.sampled_from([b"Content-Length: 9", b"Content-Length: x", b"Expect: 100-continue"]) | st.binary(
    max_size=50
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # requests do not see one another
@given(st.lists(st.one_of(REQUEST_LINES, HEADERS), min_size=1, max_size=4), st.binary(max_size=20))
def test_no_bytes_are_a_failure_of_ours(address, capfd, lines, more) -> None:
    connection = say(address, b"\r\n".join([*lines, b"", more]))
    connection.shutdown(socket.SHUT_WR)
    answer = rest(connection).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert not answer or re.match(rb"HTTP/1\.1 4\d\d ", answer)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("proxy", "told"), [("127.0.0.1", "203.0.113.9"), (None, "127.0.0.1"), ("192.0.2.1", "127.0.0.1")]
)
def test_only_a_trusted_proxy_tells_who_the_client_is(tmp_path, capfd, proxy, told) -> None:
    app = receiving_app(UploadReceiver(open_place(str(tmp_path)), ACCEPTED))
    with serving_app(app, trusted_proxy=proxy) as server:
        post(server.address, b"{}", **{"X-Forwarded-For": "198.51.100.1, 203.0.113.9"})
    assert capfd.readouterr().err.split()[1] == told


WITHOUT_EXTRA = """
import sys
sys.modules["starlette"] = None  # an import of it fails
from torchperf_ci.cli import main
sys.exit(main(["receive", "--to", "kept"]))
"""


def test_without_the_extra_it_says_what_to_install(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'torchperf-ci[web]'" in done.stderr
    assert done.stderr.count("\n") == 1


@contextmanager
def process(tmp_path: Path, **environ: str) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    """``torchperf receive`` and where it listens."""
    command = [
        sys.executable,
        "-m",
        "torchperf_ci",
        "receive",
        "--bind",
        "127.0.0.1:0",
        "--to",
        str(tmp_path / "kept"),
    ]
    env = {**os.environ, "UPLOADER_USERNAME": "uploader", "UPLOADER_PASSWORD": PASSWORD, **environ}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as running:
        try:
            listening = re.match(
                r"listening on http://(.+):(\d+), keeping in (.+)\n", running.stderr.readline()
            )
            assert listening[3] == str(tmp_path / "kept")
            yield running, (listening[1], int(listening[2]))
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_has_begun_is_finished_before_it_stops(tmp_path, number) -> None:
    content = body()
    with process(tmp_path) as (running, address):
        begun = say(address, head(len(content)), content[:10])
        assert post(address, body(s3_path="v3/first"))[0] == 200  # so the other one has been accepted
        running.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.5)
        begun.sendall(content[10:])
        assert rest(begun).startswith(b"HTTP/1.1 200 ")
        assert running.wait(30) == 0


def test_the_log_has_each_answer_and_no_password(tmp_path) -> None:
    with process(tmp_path) as (running, address):
        post(address, body(s3_path=KEY))
        post(address, body(password="not-" + PASSWORD))
        post(address, body(s3_path="v3/a\n::error::b"))
        running.terminate()
        log = running.stderr.read()
    assert [line.split(" ", 1)[1][:26] for line in log.splitlines()] == [
        "127.0.0.1 200 kept as v3/o",
        "127.0.0.1 403 username or ",
        "127.0.0.1 400 s3_path: 'v3",
    ]
    assert PASSWORD not in log


@pytest.mark.parametrize(
    "sent",
    [
        body() + b"\r\n\r\n",  # its head went astray
        b"POST /" + PASSWORD.encode() + b" HTTP/1.1\r\n\r\n",
        PASSWORD.encode() + b" / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nX: " + PASSWORD.encode() + b"\r\n\r\n",
    ],
)
def test_a_request_that_is_none_is_not_quoted(address, capfd, sent) -> None:
    with say(address, sent) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert PASSWORD.encode() not in rest(connection)
    assert PASSWORD not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "environ", "told"),
    [
        (["--to", "kept"], {"UPLOADER_PASSWORD": ""}, "set UPLOADER_USERNAME and UPLOADER_PASSWORD"),
        (["--to", "kept"], {"UPLOADER_USERNAME": ""}, "set UPLOADER_USERNAME and UPLOADER_PASSWORD"),
        (["--to", "kept"], {"UPLOADER_USERNAME": "\udcff"}, "will send, in UTF-8"),
        ([], {}, "--to s3://BUCKET"),
        (["--to", "ftp://x"], {}, "'ftp://' begins no place"),
        (["--to", "kept", "--bind", "192.0.2.1:1"], {}, "cannot listen on 192.0.2.1:1"),
        (["--to", "kept", "--bind", "localhost"], {}, "--bind cannot be 'localhost'"),
        (["--to", "kept", "--bind", "localhost:70000"], {}, "--bind cannot be 'localhost:70000'"),
    ],
)
def test_it_does_not_start_without_what_it_needs(tmp_path, arguments, environ, told) -> None:
    env = {**os.environ, "UPLOADER_USERNAME": "uploader", "UPLOADER_PASSWORD": PASSWORD, **environ}
    command = [sys.executable, "-m", "torchperf_ci", "receive", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
