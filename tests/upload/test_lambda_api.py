from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from serving import encrypt, serving
from serving_app import receiving_in

from torchperf_ci.errors import ConflictError, CredentialsError, NotDeliveredError, RecordsError, UsageError
from torchperf_ci.places.place import DirectoryPlace, PlaceAccess, UploaderCredentials
from torchperf_ci.upload.spool import SentRequests
from torchperf_ci.upload.targets import UploadApi, checked_url

if TYPE_CHECKING:
    from pathlib import Path

KEPT = {"message": "kept", "etag": '"1f"'}
KEY, BODY = "v3/octo/perf/main/1f/H100/benchmark_results.json", b'{"metric":{"name":"\xc2\xb5s"}}\n'
SECRET = "pa55word-of-the-uploader"
Script = list[Callable[["Scripted"], None]]


class Scripted(BaseHTTPRequestHandler):
    """Answers each request as the server's script says next; ``server.seen`` are the requests' bodies."""

    def do_POST(self) -> None:
        self.server.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.server.script.pop(0)(self)

    def log_message(self, *_args: object) -> None:
        pass


def answering(status: int, body: object = None, **headers: str) -> Callable[[Scripted], None]:
    def answer(handler: Scripted) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {**headers, "content-length": str(len(content))}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def hanging_up(handler: Scripted) -> None:
    handler.close_connection = True


def dripping(handler: Scripted) -> None:
    time.sleep(0.4)
    handler.close_connection = True


def out_of_time(api: UploadApi) -> Callable[[Scripted], None]:
    """Let the client's deadline pass while it waits for an answer, whatever the machine's speed."""

    def pass_by(handler: Scripted) -> None:
        api._deadline.end()
        hanging_up(handler)

    return pass_by


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    server.script, server.seen = [], []
    with serving(server):
        yield server


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPLOADER_USERNAME", "someone")
    monkeypatch.setenv("UPLOADER_PASSWORD", SECRET)


@pytest.fixture
def api(server: Any, tmp_path: Path) -> UploadApi:
    return client(f"http://127.0.0.1:{server.server_port}", tmp_path)


def client(url: str, tmp_path: Path, seconds: float = 300.0) -> UploadApi:
    return UploadApi(url, PlaceAccess(deadline=seconds), tmp_path)


def outcome(api: UploadApi, body: bytes = BODY) -> object:
    (result,) = api.put_all({KEY: body}).values()
    return result


def test_the_request_is_the_contracts(api: UploadApi, server: Any) -> None:
    server.script = [answering(200, KEPT)]
    assert outcome(api) == "written"
    assert server.seen == [
        {"username": "someone", "password": SECRET, "s3_path": KEY, "content": BODY.decode()}
    ]


@pytest.mark.parametrize(
    "fault", [answering(500), answering(503), answering(429, retry_after="0"), hanging_up]
)
def test_what_may_pass_is_tried_again(api: UploadApi, server: Any, fault: Callable[[Scripted], None]) -> None:
    server.script = [fault, fault, answering(200, KEPT)]
    assert outcome(api) == "written"
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, NotDeliveredError, "does not understand"),
        (401, CredentialsError, "is this the URL of an upload API"),  # never sent without credentials
        (403, CredentialsError, "check UPLOADER_USERNAME"),
        (405, NotDeliveredError, "there is no upload API at this URL"),
        (413, NotDeliveredError, "too large for this API"),
        (422, NotDeliveredError, "refuses the records"),
        (302, NotDeliveredError, "there is no upload API at this URL"),
    ],
)
def test_what_will_not_pass_is_not_tried_again(
    api: UploadApi, server: Any, status: int, kind: type[Exception], advice: str
) -> None:
    server.script = [answering(status, {"message": "no\n::error::no"}, location="/elsewhere")]
    told = outcome(api)
    assert type(told) is kind
    assert advice in str(told)
    assert "(no ::error::no)" in str(told)
    assert SECRET not in str(told)
    assert len(server.seen) == 1


def test_other_content_under_the_key_is_a_conflict(api: UploadApi, server: Any) -> None:
    server.script = [answering(409, {"message": "exists", "same": False})]
    assert isinstance(outcome(api), ConflictError)


def test_a_server_that_compares_is_believed(api: UploadApi, server: Any) -> None:
    server.script = [answering(409, {"message": "exists", "same": True})]
    assert outcome(api) == "already there"


def test_a_key_that_exists_is_a_conflict_where_nobody_compares(api: UploadApi, server: Any) -> None:
    server.script = [answering(409, {"message": "exists"})] * 2
    assert isinstance(outcome(api), ConflictError)
    assert isinstance(outcome(api), ConflictError), "having been refused once is no delivery"


CUT_OFF = answering(200, "{mess")


@pytest.mark.parametrize("lost", [answering(500), answering(504), hanging_up, CUT_OFF])
def test_after_an_answer_that_was_lost_the_key_is_ours(
    api: UploadApi, server: Any, lost: Callable[[Scripted], None]
) -> None:
    server.script = [lost, answering(409, {"message": "exists"})]
    assert outcome(api) == "already there"


@pytest.mark.parametrize(
    "body",
    [
        *("<html>Sign in", {"errorMessage": "Task timed out"}, {"statusCode": 403}),
        pytest.param(b"[" * 60_000, id="nested deeply"),
    ],
)
def test_a_200_that_says_nothing_of_an_object_has_kept_none(
    api: UploadApi, server: Any, body: object
) -> None:
    server.script = [answering(200, body), out_of_time(api)]
    told = outcome(api)
    assert isinstance(told, NotDeliveredError)
    assert "answered 200, but not that it kept it" in str(told)


def test_what_was_answered_says_more_than_the_try_that_the_deadline_cut_short(
    api: UploadApi, server: Any
) -> None:
    server.script = [hanging_up, answering(503, {"message": "at lunch"}), out_of_time(api)]
    assert "it answered 503 at lunch" in str(outcome(api))
    server.script = [out_of_time(api)]
    assert "it cannot be reached (" in str(outcome(api))


def test_a_certificate_that_is_not_accepted_is_told_at_once(server: Any, tmp_path: Path) -> None:
    encrypt(server, tmp_path)
    told = outcome(client(f"https://127.0.0.1:{server.server_port}", tmp_path, 30.0))
    assert isinstance(told, NotDeliveredError)
    assert "is not accepted: self-signed certificate; correct it or the address; " in str(told)


def test_a_request_that_was_never_run_makes_no_key_ours(api: UploadApi, server: Any) -> None:
    server.script = [answering(429), answering(409, {"message": "exists"})]
    assert isinstance(outcome(api), ConflictError)


def test_a_server_that_could_not_be_reached_makes_no_key_ours(server: Any, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    assert isinstance(outcome(client("http://127.0.0.1:9", tmp_path, seconds=2.0)), NotDeliveredError)
    journal = tmp_path / "requests.jsonl"
    journal.write_text(journal.read_text().replace("http://127.0.0.1:9", url))
    server.script = [answering(409, {"message": "exists"})]
    assert isinstance(outcome(client(url, tmp_path)), ConflictError)


def test_what_was_kept_is_remembered_by_another_process(api: UploadApi, server: Any, tmp_path: Path) -> None:
    server.script = [answering(200, KEPT), *[answering(409, {"message": "exists"})] * 2]
    assert outcome(api) == "written"
    again = client(api.name, tmp_path)
    assert outcome(again) == "already there"
    assert isinstance(outcome(again, b"other"), ConflictError)


def test_a_process_killed_in_the_middle_of_a_request_is_remembered(
    api: UploadApi, server: Any, tmp_path: Path
) -> None:
    SentRequests(tmp_path / "requests.jsonl", api.name).note(KEY, BODY, "sending")
    with (tmp_path / "requests.jsonl").open("a") as file:
        file.write('{"url": "htt')
    server.script = [answering(409, {"message": "exists"})]
    assert outcome(api) == "already there"


def test_the_deadline_holds_for_all_together(server: Any, tmp_path: Path) -> None:
    server.script = [dripping] * 50
    api = client(f"http://127.0.0.1:{server.server_port}", tmp_path, seconds=0.5)
    told = api.put_all({f"v3/{number}.json": BODY for number in range(20)})
    assert all(isinstance(result, NotDeliveredError) for result in told.values())
    assert "the time was up before its turn" in str(told["v3/19.json"])
    assert len(server.seen) < 10


def test_a_server_that_sends_a_byte_at_a_time_is_left_at_the_deadline(server: Any, tmp_path: Path) -> None:
    left, bytes_to_send = threading.Event(), iter(b"x" * 100)

    def one_at_a_time(handler: Scripted) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nname: ")
        while not left.wait(0.05) and next(bytes_to_send, 0):
            handler.wfile.write(b"x")

    server.script = [one_at_a_time]
    told = outcome(client(f"http://127.0.0.1:{server.server_port}", tmp_path, seconds=0.3))
    left.set()
    assert "it cannot be reached (timed out)" in str(told)
    assert next(bytes_to_send, 0)


def test_no_secret_reaches_the_disk(api: UploadApi, server: Any, tmp_path: Path) -> None:
    server.script = [answering(500), answering(403)]
    outcome(api)
    assert SECRET not in (tmp_path / "requests.jsonl").read_text()


def test_too_large_a_request_is_not_even_sent(api: UploadApi, server: Any) -> None:
    told = outcome(api, b"x" * 6_000_000)
    assert isinstance(told, NotDeliveredError)
    assert not server.seen


@pytest.mark.parametrize("password", ["", "\udcff"])
def test_without_credentials_nothing_is_sent(
    api: UploadApi, server: Any, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv("UPLOADER_PASSWORD", password)
    assert isinstance(outcome(api), CredentialsError)
    assert not server.seen


def test_credentials_are_masked_before_they_are_used() -> None:
    masked: list[str] = []
    environ = {"UPLOADER_USERNAME": "someone", "UPLOADER_PASSWORD": SECRET}
    assert SECRET not in repr(UploaderCredentials.of(environ, masked.append))
    assert masked == [SECRET]


def test_no_proxy_gets_what_stays_on_this_machine(
    api: UploadApi, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.script = [answering(200, KEPT)]
    assert outcome(api) == "written"


@pytest.mark.parametrize(
    "url", ["http://example.com", "https://a:b@example.com", "ftp://localhost", "file:///etc"]
)
def test_a_password_goes_nowhere_in_the_clear(url: str) -> None:
    with pytest.raises(UsageError):
        checked_url(url)


@pytest.mark.parametrize("host", ["example..com", ".example.com", f"{'a' * 64}.com"])
def test_a_host_that_no_name_server_can_be_asked_about_is_no_address(host: str) -> None:
    with pytest.raises(UsageError, match="is not a URL"):
        checked_url(f"https://{host}/upload")


def test_the_real_receiver_keeps_it_once_and_tells_a_repetition(tmp_path: Path) -> None:
    place = DirectoryPlace(tmp_path / "kept")
    record = json.dumps({"metric": {"name": "latency(ms)", "benchmark_values": [1.5]}}).encode() + b"\n"
    with receiving_in(place, UploaderCredentials("someone", SECRET)) as server:
        first, second = (client(server.url, tmp_path / name) for name in ("one", "two"))
        told = [
            outcome(first, record),
            outcome(second, record),
            outcome(second, record.replace(b"1.5", b"2.5")),
        ]
    assert told[:2] == ["written", "already there"]
    assert isinstance(told[2], ConflictError)
    assert list(place.keys()) == [KEY]


def test_what_is_no_line_of_the_journal_is_passed_over_and_a_link_is_named(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    SentRequests(path, "https://api").note(KEY, BODY, "sending")
    with path.open("a") as file:
        file.write(
            '[]\n{"url": "https://api"}\n{"url": "https://api", "key": [], "content": 1}\n'
            + "[" * 9999
            + "\n"
        )
    assert SentRequests(path, "https://api").may_be_there(KEY, BODY)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordsError, match="it is a link, not a regular file"):
        SentRequests(path, "https://api")
