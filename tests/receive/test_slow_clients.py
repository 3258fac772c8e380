"""Clients that are slow, rude or many: each gets its time and its room, and no more."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import pytest
from serving_app import serving_app
from starlette.responses import Response
from upload_requests import body, head, post, rest, say, serving_in

from torchperf_ci import http_server
from torchperf_ci.places import open_place
from torchperf_ci.receive import command as upload_api
from torchperf_ci.receive import request as requests


def test_a_client_that_drips_its_request_is_let_go(address, monkeypatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.4)
    with say(address, b"POST / HT") as dripping, ThreadPoolExecutor(1) as pool:

        def drip() -> None:
            for _ in range(600):
                dripping.sendall(b"T")
                time.sleep(0.05)

        drips = pool.submit(drip)
        status = b"HTTP/1.1 408 "
        assert dripping.recv(len(status), socket.MSG_WAITALL) == status
        assert isinstance(drips.exception(), OSError)


def test_a_body_that_drips_is_a_408_which_is_logged(address, monkeypatch, capfd) -> None:
    monkeypatch.setattr(upload_api, "BODY_SECONDS", 0.2)
    assert rest(say(address, head(1000), b"{")).startswith(b"HTTP/1.1 408 ")
    assert capfd.readouterr().err.endswith(" 127.0.0.1 408 the request took more than 0.2 s\n")


@pytest.mark.parametrize("sent", [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Le", b"POST / HTTP/1.1\r\n", b"P"])
def test_headers_that_do_not_come_are_a_408_which_is_logged(address, monkeypatch, capfd, sent) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    answer, content = rest(say(address, sent)).split(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(content) == {"message": "the request took more than 0.2 s"}
    assert [line.split(" ", 1)[1] for line in capfd.readouterr().err.splitlines()] == [
        "127.0.0.1 408 the request took more than 0.2 s"
    ]


def test_who_says_nothing_at_all_is_not_answered(address, monkeypatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    assert rest(say(address)) == b""


def test_who_takes_nothing_of_an_answer_is_let_go(monkeypatch) -> None:
    monkeypatch.setattr(http_server, "STALLED_SECONDS", 0.2)
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    with serving_app(Response(b"x" * 64 * 2**20)) as server, say(server.address, head(0)) as stalled:
        assert stalled.recv(1) == b"H"
        deadline = time.monotonic() + 30
        while server._server.server_state.connections:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(rest(stalled)) < 64 * 2**20


def test_who_takes_an_answer_slowly_gets_all_of_it(monkeypatch) -> None:
    monkeypatch.setattr(http_server, "STALLED_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    size = 40 * 2**20
    with serving_app(Response(b"x" * size)) as server, say(server.address, head(0)) as slow:
        got = 0
        while piece := slow.recv(2**20, socket.MSG_WAITALL):
            got += len(piece)
            time.sleep(0.03)
    assert got > size


def test_who_still_sends_after_its_answer_is_let_go(monkeypatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    with (
        serving_app(Response(b"no")) as server,
        say(server.address, b"POST / HTTP/1.1\r\nHost: x\r\n") as endless,
    ):
        endless.sendall(b"Content-Length: 9999999999\r\n\r\n")
        with suppress(OSError):
            for _ in range(1500):
                endless.sendall(b"x")
                time.sleep(0.02)
            pytest.fail("it still listens")


def test_all_bodies_together_have_so_much_room_and_further_ones_wait(tmp_path, monkeypatch) -> None:
    content = body()
    monkeypatch.setattr(upload_api, "BODIES", len(content) + 100)
    with serving_in(open_place(str(tmp_path / "kept"))) as address:
        first = say(address, head(len(content)), content[:10])
        assert post(address, b"{}")[0] == 401  # the first has its room by now, and a small one still fits
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(post, address, body(s3_path="v3/second"))
            assert wait([second], 0.3).not_done
            first.sendall(content[10:])
            assert rest(first).startswith(b"HTTP/1.1 200 ")
            assert second.result()[0] == 200


def test_where_no_room_gets_free_it_is_a_503(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(upload_api, "BODIES", 100)
    monkeypatch.setattr(upload_api, "BODY_SECONDS", 0.3)
    with serving_in(open_place(str(tmp_path / "kept"))) as address:
        status, answer = post(address, body())
        assert (status, answer["message"]) == (
            503,
            "there are too many large requests at a time; try again later",
        )
        assert post(address, b"{}")[0] == 401


def test_a_content_that_takes_too_long_is_refused_and_its_turn_is_over(address, monkeypatch) -> None:
    rows = "\n".join(["{}"] * 100)
    with monkeypatch.context() as short:
        short.setattr(requests, "CHECK_SECONDS", 0.0)
        for _ in range(2 * upload_api.AT_WORK):
            status, answer = post(address, body(content=rows))
            assert (status, answer["message"]) == (
                413,
                "content takes too long to check; split it over several keys",
            )
    assert post(address, body())[0] == 200


def test_idle_connections_do_not_keep_others_out_for_long(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS", 2)
    with serving_in(open_place(str(tmp_path / "kept"))) as address:
        with say(address), say(address):
            assert post(address, b"{}") == (
                503,
                {"message": "there are too many connections; try again later"},
            )
        monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.5)
        with say(address) as one, say(address):
            rest(one)
            assert post(address, body())[0] == 200


def test_those_who_came_in_time_are_served_whoever_comes_after_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS", 2)
    content, place = body(), open_place(str(tmp_path / "kept"))
    with serving_in(place) as address, say(address) as first, say(address), say(address):
        assert post(address, body())[0] == 503
        first.sendall(head(len(content)) + content)
        assert rest(first).startswith(b"HTTP/1.1 200 ")


def test_clients_that_go_away_cost_nothing(address, capfd) -> None:
    for pieces in ((), (b"POST",), (head(1000),), (head(1000), b"{"), (head(len(body())), body())):
        say(address, *pieces).close()
    assert post(address, body(s3_path="v3/other"))[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_system_that_allows_fewer_files_than_its_limit_says_serves_too(monkeypatch) -> None:
    """macOS refuses a process more than ``OPEN_MAX``, though its hard limit is infinite."""
    tried = []

    def set_limit(_kind: int, limits: tuple[int, int]) -> None:
        tried.append(limits)
        if limits[0] > 10_240:
            raise ValueError

    monkeypatch.setattr(http_server.resource, "getrlimit", lambda _kind: (256, 2**63 - 1))
    monkeypatch.setattr(http_server.resource, "setrlimit", set_limit)
    with serving_app(Response(b"x")) as server:
        assert rest(say(server.address, head(0))).endswith(b"x")
    assert tried == [(10_240, 2**63 - 1)]
