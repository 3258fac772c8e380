"""Requests to the receiver without a network in between."""

from __future__ import annotations

import hmac
import json
import re
from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from upload_requests import kept

from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess, RecordPlace, UploaderCredentials
from torchperf_ci.receive.request import RefusedRequestError, UploadResponse, keep, read_request
from torchperf_ci.request_log import log

if TYPE_CHECKING:
    from pathlib import Path

CREDENTIALS = UploaderCredentials("uploader", "pa55word-of-the-uploader")


def receive(content: bytes, place: RecordPlace, accepted: UploaderCredentials) -> UploadResponse:
    try:
        return keep(read_request(content, accepted), place)
    except RefusedRequestError as refused:
        return refused.response


KEY = "v3/octo/perf/main/1f/H100/benchmark_results.json"
RECORD = {
    "benchmark": {"name": "nightly"},
    "model": {"name": "resnet18"},
    "metric": {"name": "latency(ms)", "benchmark_values": [1.5]},
}
ROW = json.dumps(RECORD)


def body(**fields: Any) -> bytes:
    """A good request, but for ``fields``; one that is None is left out."""
    good = {"username": "uploader", "password": CREDENTIALS.password, "s3_path": KEY, "content": ROW}
    return json.dumps({name: value for name, value in (good | fields).items() if value is not None}).encode()


def status(content: bytes, folder: Path) -> int:
    response = receive(content, open_place(str(folder)), CREDENTIALS)
    assert response.body["message"]
    return int(response.status)


def test_a_key_that_is_too_long_behind_the_prefix_of_the_bucket_is_the_clients_mistake() -> None:
    place = open_place(f"s3://records/{'p' * 100}", PlaceAccess(deadline=1, endpoint="http://127.0.0.1:9"))
    response = receive(body(s3_path=f"v3/{'/'.join(['k' * 200] * 5)}"), place, CREDENTIALS)
    assert (response.status, response.body["message"]) == (400, "s3_path is too long to be kept here")
    assert "longer than 1024" in response.line
    assert "ppp" not in response.text


def test_a_good_request_is_kept_with_the_tag_that_s3_gives(tmp_path) -> None:
    response = receive(body(), open_place(str(tmp_path)), CREDENTIALS)
    assert response.status == 200
    assert response.body["message"] == f"kept as {KEY}"
    assert len(response.body["etag"].strip('"')) == 32
    assert kept(tmp_path) == {KEY: ROW}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 400),
        (b" \n", 400),
        (b"{", 400),
        (b"\xff\xfe\xfd", 400),
        (b"[" * 100_000, 400),
        (b'{"username": ' + b"9" * 5000 + b"}", 400),
        (b"[]", 400),
        (b"{}", 401),
        (b" { } ", 401),
        (b"{,}", 400),
        (b"{1: 2}", 400),
        (b'{"a": 1,}', 400),
        (b'{"a": 1 "b": 2}', 400),
        (b'{"a" 1}', 400),
        (b'{"a": {}}', 401),
        (b'{"a": [[]]}', 401),
        (b'{"a": ' + b"[" * 100_000, 400),
        (b"{" + b'"a": 1,' * 100 + b'"a": 1}', 401),
        (b'{"a": 1, "b": null, "c": 1.5e3, "d": "\\u00e9"}', 401),
        (body() + b"}", 400),
        (b"\xef\xbb\xbf" + body(password="wrong"), 403),
        (b'"text"', 400),
        (body(s3_path=None), 400),
        (body(s3_path=""), 400),
        (body(content=None), 400),
        (body(content=""), 400),
        (body(content=[RECORD]), 400),
        (body(username=None), 401),
        (body(password=None), 401),
        (body(username=None, s3_path=None), 401),
        (body(username="someone"), 403),
        (body(password="wrong"), 403),
        (body(password=""), 403),
        (body(password=1), 400),
        (body(password="\ud800"), 400),
        (body(password="wrong", s3_path=None, content=None), 403),
        (body(content=" " * 6 * 1024 * 1024), 413),
        (body(content="not JSON"), 422),
        (body(content="[]"), 422),
        (body(content=json.dumps({"model": {"name": "no metric"}})), 422),
        (body(content=f'{ROW}\n{{"metric": 1}}\n'), 422),
        (body(content=ROW.replace("nightly", "\ud800")), 400),
        (body(content="\ud800"), 400),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_wrong_has_its_status_and_nothing_is_kept(tmp_path, content, expected) -> None:
    assert status(content, tmp_path / "kept") == expected
    assert kept(tmp_path / "kept") == {}


@pytest.mark.parametrize(
    "key",
    [
        "v3",
        "v3/",
        "v2/a.json",
        "/v3/a.json",
        "v3//a.json",
        "v3/../a.json",
        "v3/../../a.json",
        "v3/./a.json",
        "../v3/a.json",
        "v3/..%2fa.json",
        "v3/a\\..\\b.json",
        "v3/a b.json",
        "v3/a\n.json",
        "v3/a\0.json",
        "v3/ä.json",
        "v3/\ud800.json",
        "v3/*.json",
        "v3/.git/config",
        "s3://bucket/v3/a.json",
        "v3/" + "a/" * 600 + "a.json",
        "v3/" + "a" * 300,
        ["v3/a.json"],
        1,
    ],
)
def test_a_key_that_leads_elsewhere_or_is_unsafe_is_refused(tmp_path, key) -> None:
    response = receive(body(s3_path=key), open_place(str(tmp_path / "above" / "kept")), CREDENTIALS)
    assert response.status == 400
    assert "kept here" not in response.text, "it is refused before the place sees it"
    assert len(response.text) < 4000
    assert not (tmp_path / "above").exists()


def test_a_refusal_of_records_names_the_places_and_not_too_many(tmp_path) -> None:
    content = "\n".join('{"metric": 1, "model": %s}' % ("[" * 50 + "]" * 50) for _ in range(100))
    response = receive(body(content=content), open_place(str(tmp_path)), CREDENTIALS)
    assert response.status == 422
    assert response.body["problems"][0].startswith("content:1: $.")
    assert len(response.body["problems"]) == 20


@pytest.mark.parametrize("fields", [{"username": "someone"}, {"password": "wrong"}, {}])
def test_name_and_password_are_both_compared_in_constant_time(tmp_path, monkeypatch, fields) -> None:
    compared = []

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((len(given), len(expected)))
        return compare_digest(given, expected)

    compare_digest = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    receive(body(**fields), open_place(str(tmp_path)), CREDENTIALS)
    assert compared == [(32, 32), (32, 32)]


def test_the_same_content_again_is_told_from_other_content(tmp_path) -> None:
    place = open_place(str(tmp_path))
    receive(body(), place, CREDENTIALS)
    same = receive(body(), place, CREDENTIALS)
    other = receive(body(content=ROW.replace("1.5", "1.6")), place, CREDENTIALS)
    assert (same.status, same.body["same"]) == (409, True)
    assert (other.status, other.body["same"]) == (409, False)
    for response in (same, other):
        assert KEY in response.body["message"]
        assert str(tmp_path) not in response.text
    assert str(tmp_path) in other.line
    assert kept(tmp_path) == {KEY: ROW}


def test_a_place_that_cannot_be_written_is_a_500_that_does_not_say_where(tmp_path) -> None:
    (tmp_path / "v3").symlink_to("/proc")
    response = receive(body(), open_place(str(tmp_path)), CREDENTIALS)
    assert (response.status, str(tmp_path) in response.text) == (500, False)
    assert str(tmp_path) in response.line


def test_a_place_that_cannot_be_reached_is_a_500_that_says_why_in_the_log(monkeypatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    place = open_place(
        "s3://bucket", PlaceAccess(deadline=1, endpoint="http://127.0.0.1:9", region="us-east-1")
    )
    response = receive(body(), place, CREDENTIALS)
    assert response.status == 500
    assert "s3://bucket" in response.line
    assert "s3://" not in response.text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (ROW.replace("1.5", "9" * 400), 200),
        (ROW.replace("1.5", "-" + "9" * 4300), 200),
        ("{" + ",".join(f'"k{i}": 1' for i in range(30_000)) + ', "metric": 1, "metric": 1}', 422),
        ('{"metric": {"name": "m", "target_value": "' + "1" * 1_000_000 + 'x"}}', 422),
        ('{"metric": {}, "job_id": "' + "9" * 5000 + '"}', 422),
        ("[" * 100_000, 422),
        ("[" + "{}," * 100_000 + "{}]", 413),
    ],
    ids=lambda value: str(value)[:40],
)
def test_no_content_is_a_failure_of_ours_or_keeps_it_busy(tmp_path, content, expected) -> None:
    assert status(body(content=content), tmp_path) == expected


AS_SENT = [
    ROW,
    f"[{ROW}, {ROW}]",
    f"{ROW}\n{ROW}\n",
    f"{ROW}\r\n\r\n{ROW}",
    f"\ufeff[{ROW}]",
    json.dumps([RECORD], indent=2),
    ROW.replace("1.5", "1.50000000000000000000001"),
    ROW.replace("resnet18", "größer"),
]
REWRITTEN = [f"[{ROW}]\n[{ROW}]", f"{ROW}\n[{ROW}]\n", f"[{ROW}]\n{ROW}"]
REWRITTEN += [f"{ROW},\n{ROW}\n]", f"{ROW},,{ROW}", f"{ROW}\n[]\n{ROW}\n"]


@pytest.mark.parametrize("content", AS_SENT)
def test_what_the_database_takes_is_kept_to_the_byte(tmp_path, table, content) -> None:
    assert status(body(content=content), tmp_path) == 200
    assert kept(tmp_path) == {KEY: content}
    assert len(table.insert(content.encode())) == content.count('"metric"')


@pytest.mark.parametrize("content", REWRITTEN)
def test_a_form_that_the_database_rejects_is_kept_as_one_that_it_takes(tmp_path, table, content) -> None:
    with pytest.raises(RuntimeError):
        table.insert(content.encode())
    assert status(body(content=content), tmp_path) == 200
    assert kept(tmp_path) == {KEY: f"{ROW}\n{ROW}\n"}
    assert len(table.insert(kept(tmp_path)[KEY].encode())) == 2


TEXTS = st.text(st.characters())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CONTENTS = st.sampled_from([*AS_SENT, *REWRITTEN]) | TEXTS | VALUES.map(json.dumps) | VALUES
KEYS = st.sampled_from([KEY, "v3/a"]) | TEXTS.map("v3/{}".format) | VALUES


@pytest.fixture(scope="module")
def somewhere(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("somewhere")


@given(st.binary() | VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_body_is_a_failure_of_ours(somewhere, content) -> None:
    assert status(content, somewhere) in {400, 401, 403}


@given(KEYS, CONTENTS)
def test_no_key_or_content_is_a_failure_of_ours(somewhere, key, content) -> None:
    assert status(body(s3_path=key, content=content), somewhere) in {200, 400, 409, 422}
    assert [path.name for path in somewhere.iterdir()] in ([], ["v3"])


@given(st.text(st.characters(), max_size=300), st.binary())
@example("\ud800", b"")
def test_an_object_holds_what_was_sent_or_there_is_none(somewhere, name, damage) -> None:
    record = RECORD | {"model": {"name": name}, "damage": damage.hex()}
    key = f"v3/{damage.hex()[:100] or '0'}.json"
    answer = status(body(s3_path=key, content=json.dumps(record, ensure_ascii=False)), somewhere)
    has_half_a_pair = re.search("[\ud800-\udfff]", name)
    assert answer in ({400} if has_half_a_pair else {200, 409, 422})
    if answer == 200:
        assert json.loads(kept(somewhere)[key]) == record


@given(st.text(st.characters()))
@example("a\n2026-01-01T00:00:00Z 192.0.2.7 200 kept as v3/forged")
@example("\r::error::a\u2028::error::b ##[error]c \x1b[2J\x9b2J \u202e\ud800")
def test_nobody_can_forge_a_line_of_the_log(line) -> None:
    with redirect_stderr(StringIO()) as written:
        log("192.0.2.7", line)
    text = written.getvalue()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 192\.0\.2\.7 ", text)
    assert text.removesuffix("\n").isprintable()
    assert "##[" not in text


def test_what_cannot_be_printed_is_escaped() -> None:
    with redirect_stderr(StringIO()) as written:
        log("192.0.2.7", "a\n\x1b ##[b]")
    assert written.getvalue().endswith("Z 192.0.2.7 a\\n\\x1b #\\x23[b]\n")


def test_credentials_never_show(tmp_path) -> None:
    assert CREDENTIALS.password not in repr(CREDENTIALS)
    for content in (body(), body(username="someone"), body(s3_path="x"), body(content="x")):
        assert CREDENTIALS.password not in receive(content, open_place(str(tmp_path)), CREDENTIALS).text
