"""Buckets, against SeaweedFS, and for rare responses against a scripted server."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from scripted_http import Answer, Script, s3_error, scripted_server
from seaweedfs import BUCKET, S3Server
from serving import encrypt, serving

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import (
    ConflictError,
    InvalidObjectError,
    NotDeliveredError,
    PlaceUnreadableError,
    UsageError,
)
from torchperf_ci.places import open_place, s3
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.places.s3 import S3Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONFLICTING = s3_error(409, "ConditionalRequestConflict")
EXISTS = s3_error(412, "PreconditionFailed")


@pytest.fixture
def script(aws_keys: None) -> Iterator[Script]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


@pytest.fixture
def deadline(monkeypatch: pytest.MonkeyPatch) -> Deadline:
    """That of whatever is asked of a bucket; the test ends it, however long it takes until there."""
    deadline = Deadline.after(60)
    monkeypatch.setattr(s3.Deadline, "after", lambda _seconds: deadline)
    return deadline


def at_request(number: int, script: Script, happens: Callable[[], object]) -> None:
    """Have something happen before the request of this number is answered."""
    answer = script.next

    def then(*request: Any) -> Answer:
        if len(script.requests) == number - 1:
            happens()
        return answer(*request)

    script.next = then


def test_objects_say_what_they_are(aws: S3Server) -> None:
    prefix = str(uuid4())
    open_place(f"s3://{BUCKET}/{prefix}").put_all({"zipped": gzip.compress(b"[]"), "plain": b"[]"})
    heads = {
        name: boto3.client("s3").head_object(Bucket=BUCKET, Key=f"{prefix}/{name}")
        for name in ("zipped", "plain")
    }
    assert (heads["zipped"]["ContentType"], heads["zipped"]["ContentEncoding"]) == (
        "application/json",
        "gzip",
    )
    assert heads["plain"]["ContentType"] == "application/json"
    assert "ContentEncoding" not in heads["plain"]


def test_a_prefix_ends_where_its_name_does(aws: S3Server) -> None:
    prefix = str(uuid4())
    open_place(f"s3://{BUCKET}/{prefix}-other").put("x", b"")
    place = open_place(f"s3://{BUCKET}/{prefix}/")
    place.put("y", b"")
    assert [item.key for item in place.listed()] == ["y"]
    assert place.name == f"s3://{BUCKET}/{prefix}"


def test_more_objects_than_a_page_holds(aws: S3Server) -> None:
    place = open_place(f"s3://{BUCKET}/{uuid4()}")
    bodies = {f"{number}": b"" for number in range(1010)}
    assert set(place.put_all(bodies).values()) == {"written"}
    assert {item.key for item in place.listed()} == set(bodies)


@pytest.mark.parametrize(
    ("bucket", "says"), [("no-such-bucket", "create it"), (BUCKET, "no credentials were found")]
)
def test_refusals_say_what_to_do(request: pytest.FixtureRequest, bucket: str, says: str) -> None:
    request.getfixturevalue("aws" if bucket != BUCKET else "no_credentials")
    place = open_place(f"s3://{bucket}")
    with pytest.raises(NotDeliveredError, match=rf"s3://{bucket}/key: s3:PutObject was refused.*{says}"):
        place.put("key", b"x")
    with pytest.raises(PlaceUnreadableError, match=f"s3:ListBucket was refused.*{says}"):
        list(place.listed())
    with pytest.raises(PlaceUnreadableError, match=f"s3:GetObject was refused.*{says}"):
        place.get("key")


@pytest.mark.parametrize(
    ("status", "word", "says"),
    [
        (403, "RequestTimeTooSkewed", "clock of this machine"),
        (400, "ExpiredToken", "have expired"),
        (403, "SignatureDoesNotMatch", "credentials are wrong"),
        (403, "AccessDenied", "not allowed s3:PutObject"),
        (501, "NotImplemented", "no conditional put"),
        (400, "SomethingNew", "SomethingNew"),
    ],
)
def test_rare_refusals_say_what_to_do_too(script: Script, status: int, word: str, says: str) -> None:
    script.answers = [s3_error(status, word)]
    with pytest.raises(NotDeliveredError, match=says):
        open_place("s3://bucket", PlaceAccess(endpoint=script.url)).put("key", b"x")
    assert script.requests == ["PUT"]


def test_what_is_in_an_archive_is_one_object_that_cannot_be_read(script: Script) -> None:
    script.answers = [s3_error(403, "InvalidObjectState")]
    with pytest.raises(InvalidObjectError, match="once it is restored"):
        open_place("s3://bucket", PlaceAccess(endpoint=script.url)).get("key")


@pytest.fixture
def tries(aws_keys: None, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """How often something was put, of which botocore tries each once."""
    tries, create = [], S3Place._create
    monkeypatch.setattr(s3, "ATTEMPTS", 1)
    monkeypatch.setattr(S3Place, "_create", lambda *put: tries.append(put) or create(*put))
    return tries


def test_an_endpoint_out_of_reach(tries: list[object]) -> None:
    """Where nothing listens, nothing is tried until the deadline: the region may be misspelt."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://me:s3cret@127.0.0.1:{closed.getsockname()[1]}"
        place = open_place("s3://bucket", PlaceAccess(endpoint=url, deadline=300))
        outcomes = place.put_all({"a": b"1", "b": b"2"})
    assert len(tries) == 2
    assert {type(outcome) for outcome in outcomes.values()} == {NotDeliveredError}
    assert "cannot be reached" in str(outcomes["a"])
    assert "s3cret" not in str(outcomes["a"])
    assert "cannot be reached" in str(outcomes["b"])


def test_a_certificate_that_is_not_accepted_is_told_at_once(tries: list[object], tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    encrypt(server, tmp_path)
    with serving(server):
        access = PlaceAccess(endpoint=f"https://127.0.0.1:{server.server_port}", deadline=20)
        with pytest.raises(
            NotDeliveredError, match=r"not accepted: self-signed certificate; .*AWS_CA_BUNDLE"
        ):
            open_place("s3://bucket", access).put("a", b"1")
    assert len(tries) == 1


def test_a_server_that_never_answers(aws_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "ATTEMPTS", 1)
    monkeypatch.setattr(s3, "READ_TIMEOUT", 0.2)
    monkeypatch.setattr(s3.Deadline, "tries", lambda _deadline: range(1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NotDeliveredError, match="cannot be reached"):
            open_place("s3://bucket", PlaceAccess(endpoint=url)).put("key", b"x")


def test_a_server_that_answers_a_byte_at_a_time_is_left_at_the_deadline(aws_keys: None) -> None:
    left, bytes_to_send = threading.Event(), iter(b"x" * 100)

    def answer(server: socket.socket) -> None:
        with server.accept()[0] as connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nETag: ")
            while not left.wait(0.05) and next(bytes_to_send, 0):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=answer, args=[server])
        answering.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(NotDeliveredError, match="did not finish in time"):
            open_place("s3://bucket", PlaceAccess(endpoint=url, deadline=1)).put("key", b"x")
        left.set()
        socket.create_connection(server.getsockname()).close()  # nothing may have come in time
        answering.join()
    assert next(bytes_to_send, 0)


@pytest.mark.parametrize(
    "passing",
    [CONFLICTING, s3_error(503, "SlowDown"), s3_error(500, "InternalError"), (502, b"<html>Bad gateway")],
)
def test_what_passes_is_tried_again_however_often_botocore_tries(
    script: Script, passing: tuple[int, bytes], monkeypatch
) -> None:
    monkeypatch.setattr(s3, "ATTEMPTS", 1)
    script.answers = [passing, passing, (200, b"")]
    assert open_place("s3://bucket", PlaceAccess(endpoint=script.url)).put("key", b"x") == "written"
    assert script.requests == ["PUT", "PUT", "PUT"]


def test_a_page_to_log_in_keeps_nothing(script: Script) -> None:
    script.answers = [(200, b"<html>Sign in</html>")]
    with pytest.raises(NotDeliveredError, match="what answers is not S3"):
        open_place("s3://bucket", PlaceAccess(endpoint=script.url)).put("key", b"x")


@pytest.mark.parametrize("content", [b"", b"<html><body>Log in</body></html>"])
def test_a_page_to_log_in_is_no_empty_bucket(script: Script, content: bytes) -> None:
    script.answers = [(200, content)]
    with pytest.raises(PlaceUnreadableError, match="what answers is not S3"):
        list(open_place("s3://bucket", PlaceAccess(endpoint=script.url)).listed())


def test_a_lost_answer_to_a_put_that_was_done_is_no_conflict(script: Script) -> None:
    script.answers = [s3_error(500, "InternalError"), EXISTS, (200, b"mine")]
    assert open_place("s3://bucket", PlaceAccess(endpoint=script.url)).put("key", b"mine") == "already there"


def test_half_an_answer_is_no_other_content(script: Script) -> None:
    script.answers, script.cut_off = [EXISTS, (200, b"mine")], 2
    place = open_place("s3://bucket", PlaceAccess(endpoint=script.url))
    assert place.put("key", b"mine") == "already there"
    script.cut_off = 1
    assert place.get("key") == b"mine"


def test_an_answer_of_unknown_size_is_read_to_its_end(script: Script) -> None:
    script.answers, script.tells_size = [(200, b"mine")], False
    assert open_place("s3://bucket", PlaceAccess(endpoint=script.url)).get("key") == b"mine"


def test_nothing_is_begun_after_the_deadline(script: Script) -> None:
    place = open_place("s3://bucket", PlaceAccess(endpoint=script.url, deadline=0))
    outcomes = place.put_all({"a": b"1", "b": b"2"})
    assert all("did not finish in time" in str(outcome) for outcome in outcomes.values())
    assert not script.requests


@pytest.mark.parametrize(
    ("attempts", "forever", "told"),
    [
        (1, CONFLICTING, "refused: ConditionalRequestConflict.*: try again later"),
        (1, s3_error(503, "SlowDown"), "refused: SlowDown.*: try again later"),
        (50, s3_error(503, "SlowDown"), "did not finish in time"),
    ],
)
def test_tries_end_with_the_deadline(
    script: Script, deadline: Deadline, attempts: int, forever: Answer, told: str, monkeypatch
) -> None:
    """Both botocore's and ours."""
    monkeypatch.setattr(s3, "ATTEMPTS", attempts)
    script.answers = [forever]
    at_request(2, script, deadline.end)
    with pytest.raises(NotDeliveredError, match=told):
        open_place("s3://bucket", PlaceAccess(endpoint=script.url)).put("key", b"x")
    assert len(script.requests) == 2


def test_a_signal_ends_the_tries_of_all_threads(script: Script, deadline: Deadline, monkeypatch) -> None:
    monkeypatch.setattr(s3, "ATTEMPTS", 1)
    script.answers = [s3_error(503, "SlowDown")]
    place = S3Place.at("s3://bucket", PlaceAccess(endpoint=script.url))
    interrupting = threading.Timer(0.5, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    at_request(2, script, interrupting.start)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever runs the tests may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            place.put_all({"a": b"1", "b": b"2"})
    finally:
        signal.signal(signal.SIGINT, before)
    assert deadline.moment == 0


def test_what_may_not_be_compared_is_not_taken_for_the_same(script: Script) -> None:
    script.answers = [EXISTS, s3_error(403, "AccessDenied")]
    with pytest.raises(ConflictError, match=r"not allowed s3:GetObject.*not overwritten"):
        open_place("s3://bucket", PlaceAccess(endpoint=script.url)).put("key", b"x")


def test_what_cannot_be_compared_now_is_left_for_later(
    script: Script, deadline: Deadline, monkeypatch
) -> None:
    monkeypatch.setattr(s3, "ATTEMPTS", 1)
    script.answers = [EXISTS, s3_error(500, "InternalError")]
    at_request(3, script, deadline.end)
    with pytest.raises(NotDeliveredError, match="something is kept there"):
        open_place("s3://bucket", PlaceAccess(endpoint=script.url)).put("key", b"x")


@pytest.mark.parametrize(
    "target", ["s3://", "s3:///key", "s3://a", "s3://buck et/x", "s3://u:p@bucket", "s3://abc/../x"]
)
def test_addresses_that_are_none(target: str) -> None:
    with pytest.raises(UsageError) as error:
        open_place(target)
    assert ":p@" not in str(error.value)


def test_settings_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(NotDeliveredError, match=r"nobody.*AWS_"):
        open_place("s3://bucket").put("key", b"x")


def test_the_end_of_a_line_in_credentials_is_told_without_them(script: Script, tries, monkeypatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "its-token\n")
    with pytest.raises(NotDeliveredError, match="as the end of a line") as error:
        open_place("s3://bucket", PlaceAccess(endpoint=script.url, deadline=20)).put("key", b"x")
    assert "its-token" not in str(error.value)
    assert [put[1] for put in tries].count("key") == 1  # an earlier test's upload may still be ending


def test_a_signal_does_not_wait_for_a_request_that_hangs(aws_keys: None) -> None:
    arrived: list[socket.socket] = []

    def stop_when_asked(server: socket.socket) -> None:
        arrived.append(server.accept()[0])
        arrived[0].recv(1 << 16)
        time.sleep(0.5)  # in the instant before the main thread begins to wait, a signal would not end it
        os.kill(os.getpid(), signal.SIGUSR1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=stop_when_asked, args=[server]).start()
        before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                S3Place.at("s3://bucket", PlaceAccess(endpoint=url)).put_all({"a": b"1"})
        finally:
            signal.signal(signal.SIGUSR1, before)
        with arrived[0] as hanging:
            hanging.setblocking(False)
            while hanging_has(hanging):
                pass


def hanging_has(connection: socket.socket) -> bool:
    """Whether there is more of the request; fails if its client has gone."""
    try:
        assert connection.recv(1 << 16), "the client waited until its own time limit"
    except BlockingIOError:
        return False
    return True
