"""The engine reads from S3 what our own reader would have read."""

from __future__ import annotations

import gzip
import json
import os
import random
from functools import partialmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import Request, urlopen
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from seaweedfs import BUCKET, GRANTED, JUDGE, S3Server
from serving import serving

from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.places.s3 import S3Place
from torchperf_ci.store import ingest, loading
from torchperf_ci.store.client import RefusedStatementError
from torchperf_ci.store.ingest import ingest_objects, ingest_place
from torchperf_ci.store.loading import S3Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oidc_issuer import Issuer

    from torchperf_ci.store.client import Store
    from torchperf_ci.store.ingest import IngestOutcome

    from .conftest import Objects


def line(model: str, **more: Any) -> bytes:
    record = {
        "model": {"name": model},
        "metric": {"name": "m", "benchmark_values": [1.5]},
        "runners": [],
        **more,
    }
    return f"{json.dumps(record)}\n".encode()


def take(store: Store, objects: Objects) -> IngestOutcome:
    return ingest_place(store, open_place(objects.target))


def models(store: Store) -> list[str]:
    return [
        str(row[0]) for row in store.rows("SELECT model.name FROM oss_ci_benchmark_v3 ORDER BY model.name")
    ]


def test_a_bucket_with_nothing_in_it(store: Store, objects: Objects) -> None:
    assert take(store, objects) == ingest_objects(store, "bucket", [])


def test_a_hidden_folder_is_read_if_it_is_named(store: Store, objects: Objects) -> None:
    objects.put(".perf/v3/a.json", line("a"))
    assert take(store, objects).records == 0
    assert ingest_place(store, open_place(f"{objects.target}/.perf")).records == 1


def test_plain_and_gzip_and_bad_ones_in_any_order(store: Store, objects: Objects) -> None:
    """Clean ones come in together, in halves around those that are not; each ends as it would alone."""
    names = [f"m{number:02}" for number in range(24)]
    packed = random.Random(7).choices([gzip.compress, bytes], k=len(names))
    for name, pack in zip(names, packed, strict=True):
        objects.put(f"v3/{name}.json", pack(line(name)))
    objects.put("v3/m05-bad.json", gzip.compress(line("good") + b'{"metric": 1}\n'))
    outcome = take(store, objects)
    assert models(store) == ["good", *names]
    assert (outcome.objects, outcome.records, len(outcome.refused)) == (25, 25, 1)
    assert take(store, objects).known == 25
    assert models(store) == ["good", *names]


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_verdicts_among_records_are_left_out_and_not_fetched_again(
    store: Store, objects: Objects, pack: Callable[[bytes], bytes]
) -> None:
    objects.put("v3/a.json", pack(line("a")))
    objects.put("v3/verdicts.json", pack(b'{\n "version": 1,\n "verdicts": [\n  {"verdict": "new"}\n ]\n}\n'))
    outcome = take(store, objects)
    assert (outcome.objects, outcome.records, outcome.refused) == (1, 1, ())
    assert models(store) == ["a"]
    assert take(store, objects).known == 2


@pytest.mark.parametrize("batch", [1, 2, 1000])
@pytest.mark.parametrize("in_vain", [0, 2])
def test_neither_batches_nor_how_they_are_looked_for_change_what_is_read(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch, batch: int, in_vain: int
) -> None:
    """Keys that are the beginning of others, in folders or not, below a prefix and beside it."""
    monkeypatch.setattr(ingest, "BATCH_OBJECTS", batch)
    monkeypatch.setattr(loading, "_MAX_IN_VAIN", in_vain)
    keys = ["a", "aa", "aa/b", "aa/b/c", "ab", "b=1/x", "b"]
    for key in keys:
        objects.put(f"v3/{key}.json", gzip.compress(line(key)))
        objects.put(f"v30/{key}.json", gzip.compress(line("beside")))
        objects.put(f"v3/{key}.txt", gzip.compress(line("beside")))
    outcome = ingest_place(store, open_place(f"{objects.target}/v3"))
    assert outcome.objects == len(keys)
    kept = store.rows("SELECT _meta.bucket, _meta.key, model.name FROM oss_ci_benchmark_v3")
    assert set(kept) == {("records", f"{objects.prefix}/v3/{key}.json", key) for key in keys}


def test_keys_that_mean_something_in_a_glob_or_a_url(store: Store, objects: Objects) -> None:
    names = ["a b", "*", "q?x=1", "ü", "%41", "a+b", "'; DROP TABLE x"]
    for name in names:
        objects.put(f"v3/{name}.json", line(name))
    outcome = take(store, objects)
    kept = store.rows("SELECT _meta.key, model.name FROM oss_ci_benchmark_v3")
    assert set(kept) == {(f"{objects.prefix}/v3/{name}.json", name) for name in names}
    assert outcome.objects == len(names)


def test_folders_that_have_the_names_of_columns_change_nothing(store: Store, objects: Objects) -> None:
    """The engine would take their values, as Hive does, for those of the records."""
    objects.put(
        "v3/repo=other/workflow_id=7/a.json", gzip.compress(line("a", repo="octo/perf", workflow_id=5))
    )
    assert take(store, objects).records == 1
    assert store.rows("SELECT repo, workflow_id FROM oss_ci_benchmark_v3") == [("octo/perf", 5)]


def test_an_object_that_was_overwritten_is_a_conflict(store: Store, objects: Objects) -> None:
    objects.put("v3/a.json", gzip.compress(line("old")))
    objects.put("v3/b.json", gzip.compress(line("same")))
    assert take(store, objects).objects == 2
    objects.put("v3/a.json", gzip.compress(line("new")))
    outcome = take(store, objects)
    assert outcome.conflicts == (f"records/{objects.prefix}/v3/a.json",)
    assert (outcome.objects, outcome.known) == (0, 1)
    assert models(store) == ["old", "same"]
    assert take(store, objects).conflicts, "as long as it is so"


def test_the_same_records_in_other_bytes_are_the_same(store: Store, objects: Objects) -> None:
    objects.put("v3/a.json", gzip.compress(line("a")))
    take(store, objects)
    objects.put("v3/a.json", line("a"))
    outcome = take(store, objects)
    assert (outcome.objects, outcome.known, outcome.conflicts) == (0, 1, ())


# What the engine by itself would take, and our own reader does not.
DOUBTFUL = {
    "no metric": b'{"benchmark": {"name": "b"}}',
    "bytes that are no text": b'{"metric": {"name": "m"}, "model": {"name": "\xff"}}',
    "half a character": b'{"metric": {"name": "m"}, "benchmark": {"name": "\\udc80"}}',
    "no text in extra_info": b'{"metric": {"name": "m", "extra_info": {"a": "\xff"}}}',
    "no text in a runner": b'{"metric": {"name": "m"}, "runners": [{"type": "\xff"}]}',
    "no text in a dependency": b'{"metric": {"name": "m"}, "dependencies": {"\xff": {"sha": "1"}}}',
}


@pytest.mark.parametrize("doubtful", DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_what_only_the_engine_takes_for_a_record_is_refused(
    store: Store, objects: Objects, doubtful: bytes
) -> None:
    objects.put("v3/a.json", gzip.compress(line("a") + doubtful + b"\n" + line("b")))
    outcome = take(store, objects)
    assert [(item.file, item.line) for item in outcome.refused] == [
        (f"records/{objects.prefix}/v3/a.json", 2)
    ]
    assert models(store) == ["a", "b"]


def _cut(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _without_end(body: bytes) -> bytes:
    return body[:-8]


def _with_more(body: bytes) -> bytes:
    return body + b"no gzip"


def _with_wrong_sum(body: bytes) -> bytes:
    return body[:-6] + bytes([body[-6] ^ 255]) + body[-5:]


@pytest.mark.parametrize("damage", [_cut, _without_end, _with_more, _with_wrong_sum])
def test_what_is_left_of_damaged_gzip_is_kept_and_the_damage_told(
    store: Store, objects: Objects, damage: Any
) -> None:
    names = [random.Random(number).randbytes(40).hex() for number in range(200)]
    objects.put("v3/a.json", damage(gzip.compress(b"".join(map(line, names)))))
    outcome = take(store, objects)
    assert any("gzip data is damaged" in reason for item in outcome.refused for reason in item.reasons)
    found = models(store)
    assert set(found) <= set(names)
    assert len(found) == len(names) if damage is not _cut else 0 < len(found) < len(names)


def test_two_gzip_members_are_one_object(store: Store, objects: Objects) -> None:
    objects.put("v3/a.json", gzip.compress(line("a")) + gzip.compress(line("b")))
    assert not take(store, objects).refused
    assert models(store) == ["a", "b"]


def test_what_the_format_does_not_know_is_left_out(store: Store, objects: Objects) -> None:
    objects.put(
        "v3/a.json", gzip.compress(line("a", unheard_of={"x": [1, {}]}, _meta={"bucket": "x", "key": "y"}))
    )
    assert not take(store, objects).refused
    assert store.rows("SELECT model.name, _meta.key FROM oss_ci_benchmark_v3") == [
        ("a", f"{objects.prefix}/v3/a.json")
    ]


def test_what_the_engine_and_our_reader_take_is_the_same_row(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it does not matter which of them came first."""
    whole = line(
        "a", workflow_id=2**64 - 1, repo=None, job_id="12", timestamp=1, inputs={"x": {"dtype": "bf16"}}
    )
    objects.put(
        "v3/a.json", gzip.compress(whole + line("b", metric={"name": "m", "benchmark_values": [None, 1e-9]}))
    )
    assert take(store, objects).objects == 1
    store.run("TRUNCATE TABLE torchperf_ingested")
    monkeypatch.setattr(S3Reader, "load", _refuse)
    outcome = take(store, objects)
    assert (outcome.known, outcome.conflicts) == (1, ())


def test_the_engine_reads_with_a_role(
    store: Store, no_credentials: S3Server, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in issuer.job().items():
        monkeypatch.setenv(name, value)
    place = open_place(f"s3://{BUCKET}/{GRANTED}/{uuid4()}", PlaceAccess(role=JUDGE))
    place.put("v3/a.json", gzip.compress(line("a")))
    monkeypatch.setattr(S3Place, "get", None)  # nothing is fetched by this process
    assert ingest_place(store, place).records == 1


def test_what_the_engine_cannot_list_is_fetched_only_once(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the bucket listed twice."""
    wrong, lists = Credentials("nobody", "secret"), Mock(side_effect=S3Place.listed)
    monkeypatch.setattr(S3Place, "engine_access", lambda *_, **__: (os.environ["AWS_ENDPOINT_URL"], wrong))
    monkeypatch.setattr(S3Place, "listed", partialmethod(lists))
    objects.put("v3/a.json", gzip.compress(line("a")))
    objects.put("v3/verdicts.json", b'{"version": 1, "verdicts": []}')
    outcome = take(store, objects)
    assert (outcome.records, outcome.judged, outcome.refused) == (1, 1, ())
    assert lists.call_count == 1
    monkeypatch.setattr(S3Place, "get", None)
    assert take(store, objects).known == 2


def test_what_is_in_an_archive_is_told_once_and_read_when_it_is_restored(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "old"):
        objects.put(f"v3/{name}.json", gzip.compress(line(name)))
    read = S3Place._read

    def archived(place: S3Place, key: str) -> bytes:
        if key.endswith("old.json"):
            raise ClientError({"Error": {"Code": "InvalidObjectState"}}, "GetObject")
        return read(place, key)

    with monkeypatch.context() as today:
        today.setattr(S3Reader, "load", _refuse)
        today.setattr(S3Place, "_read", archived)
        (refused,) = take(store, objects).refused
        assert "it is in an archive" in refused.reasons[0]
        assert take(store, objects).refused == ()
        assert models(store) == ["a"]
    assert take(store, objects).records == 1
    assert models(store) == ["a", "old"]


def test_what_is_deleted_while_the_others_are_read_hinders_none_of_them(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "gone", "z"):
        objects.put(f"v3/{name}.json", gzip.compress(line(name)))
    listed = S3Reader.listed

    def outdated(reader: S3Reader, opened: Store) -> object:
        found = listed(reader, opened)
        objects.delete("v3/gone.json")
        return found

    monkeypatch.setattr(S3Reader, "listed", outdated)
    outcome = take(store, objects)
    assert [reason for item in outcome.refused for reason in item.reasons] == [
        "there is no such object, or no longer"
    ]
    assert models(store) == ["a", "z"]
    assert take(store, objects).known == 2


def test_an_empty_page_of_a_list_hides_no_object(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 may answer with no key, and a token for more. Many engines take that for the end."""
    for name in ("a", "b", "c"):
        objects.put(f"v3/{name}.json", gzip.compress(line(name)))
    signed = boto3.client("s3", config=Config(signature_version="s3v4")).generate_presigned_url

    class EmptyPageFirst(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = dict(parse_qsl(address.query))
            if "list-type" not in query:
                key = unquote(address.path).removeprefix(f"/{BUCKET}/")
                url = signed("get_object", {"Bucket": BUCKET, "Key": key})
            elif "continuation-token" in query:
                url = signed("list_objects_v2", {"Bucket": BUCKET, "Prefix": query["prefix"]})
            else:
                return self.send(200, {}, _EMPTY_PAGE)
            ranges = {name: value for name, value in self.headers.items() if name.lower() == "range"}
            with urlopen(Request(url, headers=ranges)) as answer:
                return self.send(answer.status, answer.headers, answer.read())

        do_HEAD = do_GET  # noqa: N815  # the base class's names

        def send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
            self.send_response(status)
            for name in {"ETag", "Content-Range", "Last-Modified"}.intersection(headers):
                self.send_header(name, headers[name])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), EmptyPageFirst)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        assert take(store, objects).records == 3
        assert take(store, objects).known == 3
    assert models(store) == ["a", "b", "c"]


_EMPTY_PAGE = (
    b"<ListBucketResult><Name>records</Name><KeyCount>0</KeyCount><IsTruncated>true</IsTruncated>"
    b"<NextContinuationToken>more</NextContinuationToken></ListBucketResult>"
)


def _refuse(*_arguments: object) -> None:
    msg = "refused"
    raise RefusedStatementError(msg, 27)
