"""The server's robustness: slow clients, uploads, a proxy's path, and a store that becomes unavailable."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serving_app import serving_app
from starlette.requests import Request

from torchperf_ci import config
from torchperf_ci.places import open_place
from torchperf_ci.places.place import UploaderCredentials
from torchperf_ci.receive.command import UploadReceiver
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web import endpoints
from torchperf_ci.web.endpoints import Endpoints, StoreService
from torchperf_ci.web.serve import make_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.http_server import HttpServer
    from torchperf_ci.store.client import Store
    from torchperf_ci.store.command import StoreQuery

READER = ("reader", "a password")
UPLOADER = UploaderCredentials("uploader", "another password")
SECONDS = 60
CLIENTS = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the store is, and what is uploaded."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[Store]:
    """One that has no results yet."""
    with open_store(f"chdb://{folder}/store") as opened:
        yield opened


@pytest.fixture(scope="module")
def url(store: Store, folder: Path) -> Iterator[str]:
    """Where the server is, below a path as behind a proxy."""
    uploads = UploadReceiver(open_place(str(folder / "kept")), UPLOADER)
    app = make_app(StoreService(store, config.find_config(None)), READER, "/perf", uploads)
    with serving_app(app) as server:
        yield f"{server.url}/perf/"


def get(url: str, path: str, **more: Any) -> requests.Response:
    return requests.get(f"{url}{path}", auth=READER, timeout=SECONDS, **more)


def uploaded(password: str = UPLOADER.password) -> bytes:
    """The body of an upload."""
    record = {"metric": {"name": "latency(ms)", "benchmark_values": [1.5]}}
    fields = {"username": UPLOADER.username, "s3_path": "v3/a", "content": json.dumps(record)}
    return json.dumps({**fields, "password": password}).encode()


def upload(url: str, password: str = UPLOADER.password) -> requests.Response:
    return requests.post(f"{url}upload", data=uploaded(password), timeout=SECONDS)


def test_uploaders_and_readers_have_passwords_of_their_own(url: str, folder: Path) -> None:
    assert upload(url, "wrong").status_code == 403
    assert upload(url, READER[1]).status_code == 403
    assert upload(url).json()["message"] == "kept as v3/a"
    assert upload(url).status_code == 409
    assert b"latency" in gzip.decompress(open_place(str(folder / "kept")).get("v3/a"))
    for auth in (None, ("uploader", UPLOADER.password), ("reader", "wrong")):
        assert requests.get(f"{url}data/index.json", auth=auth, timeout=SECONDS).status_code == 401
    assert 'route="upload",status="200"} 1\n' in get(url, "metrics").text


def test_an_upload_that_is_no_post_is_told_so(url: str) -> None:
    """As by ``torchperf receive``; 404 would mean that nothing is taken here."""
    for method in ("GET", "PUT"):
        response = requests.request(method, f"{url}upload", timeout=SECONDS)
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_without_a_place_nothing_is_taken(store: Store) -> None:
    with serving_app(make_app(StoreService(store, config.find_config(None)))) as server:
        assert upload(f"{server.url}/").status_code in (404, 405)


def test_one_thread_answers_in_the_order_in_which_clients_asked(store: Store) -> None:
    asked = [f"series/{number:010}/2026.json" for number in range(40)]
    answered, threads = [], set()

    class Recorded(StoreService):
        def document(self, path: str) -> bytes:
            answered.append(path)
            threads.add(threading.get_ident())
            return super().document(path)

    async def ask_all() -> None:
        documents = Endpoints(Recorded(store, config.find_config(None)))
        requests = [Request({"type": "http", "path_params": {"path": path}}) for path in asked]
        await asyncio.gather(*map(documents.document, requests), return_exceptions=True)

    with ThreadPoolExecutor(1) as thread:  # a browser's event loop may run in this one
        thread.submit(asyncio.run, ask_all()).result(SECONDS)
    assert answered == asked
    assert len(threads) == 1


def test_a_proxy_may_leave_the_path_on_or_take_it_off(url: str) -> None:
    without = url.removesuffix("perf/")
    pages = [get(base, path) for base in (url, without) for path in ("", "js/dom.js", "data/index.json")]
    assert [page.status_code for page in pages] == [200] * 6
    assert [page.content for page in pages[:3]] == [page.content for page in pages[3:]]
    assert get(without, "performance").status_code == 404


def test_a_proxys_path_stays_in_the_addresses_of_pages(url: str) -> None:
    without = url.removesuffix("perf/")
    assert get(without, "perf").url == url
    for base in (url, without):
        page = get(base, "series?s=1", allow_redirects=False)
        assert page.headers["location"] == f"{url}series/?s=1"


def host_and_port(url: str) -> tuple[str, int]:
    host, port = re.findall(r"//(.+):(\d+)/", url)[0]
    return host, int(port)


@contextmanager
def asking_slowly(url: str, sent: bytes) -> Iterator[socket.socket]:
    """A connection over which the beginning of a question came."""
    head = requests.Request("POST", f"{url}run/x", auth=READER).prepare().headers["authorization"]
    with socket.create_connection(host_and_port(url), timeout=SECONDS) as slow:
        slow.sendall(f"POST /run/x HTTP/1.1\r\nHost: x\r\nAuthorization: {head}\r\n".encode() + sent)
        yield slow


def test_a_client_that_never_ends_its_question_keeps_nobody_waiting(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "BODY_SECONDS", 0.5)
    with asking_slowly(url, b"Content-Length: 100\r\n\r\n{") as slow:
        assert get(url, "healthz").status_code == 200
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


LARGE = 16 * 2**20
"""Bytes of an answer, more than the buffers of a connection hold."""


class LargeService(StoreService):
    """A service whose answers have the size given by ``arch``, in bytes."""

    def query(self, question: StoreQuery, *_: object) -> bytes:
        return b"x" * int(question.arch)


@contextmanager
def large_answer_unread(server: HttpServer, path: str) -> Iterator[socket.socket]:
    """A client that asks for a large answer, and reads no more than its first bytes."""
    with socket.create_connection(server.address, timeout=SECONDS) as client:
        client.sendall(f"GET /{path}{LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        yield client


def test_answers_that_nobody_reads_are_bounded_in_sum(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "UNREAD_BYTES", 2 * LARGE)
    monkeypatch.setattr(endpoints, "UNREAD_SECONDS", 0.1)
    path = "run/x?repo=a&benchmark=b&startTime=2020-01-01&stopTime=2030-01-01&arch="
    with serving_app(make_app(LargeService(store, config.find_config(None)))) as server:

        def status(size: int) -> int:
            plain = {"Accept-Encoding": "identity"}
            return requests.get(f"{server.url}/{path}{size}", headers=plain, timeout=SECONDS).status_code

        with large_answer_unread(server, path):
            with large_answer_unread(server, path):
                assert status(LARGE) == 503
                assert status(1000) == 200
            monkeypatch.setattr(endpoints, "UNREAD_SECONDS", SECONDS)
            assert status(LARGE) == 200


def test_clients_that_go_away_are_no_bug(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    for sent in (b"", b"Content-Length: 100\r\n\r\n", b"Content-Length: 100\r\n\r\n{"):
        with asking_slowly(url, sent):
            pass
    assert get(url, "healthz").status_code == 200
    assert capfd.readouterr().err == ""


PARAMETERS = st.sampled_from(
    ["repo", "benchmark", "startTime", "stopTime", "models", "metrics", "arch", "format"]
)
TEXTS = st.sampled_from(["2026-01-01", "CSV", "Parquet", "'; DROP", "\0", "\ud800"]) | st.text(max_size=20)
PATHS = st.sampled_from(
    ["index.json", "series/x/2026.json", "run/x.json", "compare/a/b.json", "\0"]
) | st.text(max_size=20)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(PARAMETERS | TEXTS, TEXTS), max_size=8), PATHS)
@example([], "\0")
def test_no_parameter_and_no_path_is_a_bug(url: str, parameters: list[tuple[str, str]], path: str) -> None:
    given_parameters = [tuple(text.encode("utf-8", "surrogatepass") for text in pair) for pair in parameters]
    required = {"repo": "a/b", "benchmark": "c", "startTime": "2026-01-01", "stopTime": "2027-01-01"}
    assert get(url, "run/x", params=[*required.items(), *given_parameters]).status_code in (200, 400)
    quoted = requests.utils.quote(path.encode("utf-8", "surrogatepass"), safe="/")
    assert get(url, f"data/{quoted}").status_code in (200, 404)
    assert get(url, quoted).status_code < 500


def test_a_request_for_no_path_is_no_bug(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with closing(HTTPConnection(urlsplit(url).netloc)) as server:
        server.request("OPTIONS", "*")
        assert server.getresponse().status == 401
    assert get(url, "healthz").status_code == 200
    assert not caplog.records


def test_sixteen_at_once_get_what_one_gets(url: str) -> None:
    paths = ["data/overview.json", "data/regressions.json", "run/x?repo=a", ""]
    alone = {path: get(url, path).content for path in paths}
    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = paths * CLIENTS
        assert [answer.content for answer in pool.map(lambda path: get(url, path), asked)] == [
            alone[path] for path in asked
        ]


def test_a_store_that_goes_away_is_told_until_it_is_back(
    url: str, store: Store, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert get(url, "readyz").status_code == 200
    store.close()
    (folder / "store").rename(folder / "elsewhere")
    for path in (
        "readyz",
        "data/overview.json",
        "run/x?repo=a&benchmark=b&startTime=2020-01-01&stopTime=2030-01-01",
    ):
        gone = get(url, path)
        assert (gone.status_code, str(folder) in gone.text) == (503, False)
    assert get(url, "healthz").status_code == 200
    assert f"the store: chdb://{folder}/store" in capfd.readouterr().err
    (folder / "elsewhere").rename(folder / "store")
    assert get(url, "readyz").status_code == 200


def test_an_upload_that_has_begun_is_finished_before_it_stops(store: Store, folder: Path) -> None:
    options = ["--store", f"chdb://{folder}/store", "--bind", "127.0.0.1:0", "--to", f"{folder}/received"]
    credentials = {"UPLOADER_USERNAME": UPLOADER.username, "UPLOADER_PASSWORD": UPLOADER.password}
    command = [sys.executable, "-m", "torchperf_ci", "serve", *options]
    body = uploaded()
    head = f"POST /upload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with subprocess.Popen(
        command, env={**os.environ, **credentials}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr
            url = process.stderr.readline().split()[-1]
            with socket.create_connection(host_and_port(url), timeout=SECONDS) as begun:
                begun.sendall(head.encode() + body[:10])
                assert requests.get(f"{url}healthz", timeout=SECONDS).text == "alive\n"
                process.terminate()
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.5)
                begun.sendall(body[10:])
                assert begun.recv(12) == b"HTTP/1.1 200"
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
    assert list(open_place(f"{folder}/received").keys()) == ["v3/a"]


def test_who_would_take_uploads_of_nobody_does_not_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torchperf_ci", "serve", "--to", "kept"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, "set UPLOADER_USERNAME and UPLOADER_PASSWORD" in done.stderr) == (2, True)
