"""Objects of every source are stored exactly once, and invalid records are kept with the reasons."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from seaweedfs import BUCKET

from torchperf_ci import cli
from torchperf_ci.places import branch, data_repository, open_place, place
from torchperf_ci.places import s3 as s3_place
from torchperf_ci.records import files
from torchperf_ci.store import ingest, loading
from torchperf_ci.store.client import RefusedStatementError, connect
from torchperf_ci.store.ingest import ingest_objects, ingest_place
from torchperf_ci.store.loading import S3Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.store.client import Store

EXACT = "16777217.25"


def record(model: str, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": 1_790_000_000,
        "name": "nightly",
        "repo": "octo/perf",
        "workflow_id": 2**63 + 1,
        "job_id": 2,
        "runners": [{"name": "cuda", "type": "H100", "gpu_count": 8, "extra_info": {"driver": "580"}}],
        "benchmark": {"name": "suite", "extra_info": {"device": "cuda"}},
        "model": {"name": model, "origins": ["timm"]},
        "inputs": {"batch": {"dtype": "int", "extra_info": {"size": "8"}}},
        "dependencies": {"torch": {"repo": "pytorch/pytorch", "sha": "a" * 40}},
        "metric": {"name": "latency(ms)", "benchmark_values": [1.5], "extra_info": {"exact": EXACT}},
        **changes,
    }


def lines(*models: str) -> bytes:
    return "".join(f"{json.dumps(record(model))}\n" for model in models).encode()


def zipped(*models: str) -> bytes:
    return gzip.compress(lines(*models), mtime=0)


OBJECTS = {
    "v3/octo/perf/1/2/a.json": lines("a1", "a2"),
    "v3/octo/perf/1/2/b.json.gz": zipped("b1", "b2"),
    "v3/octo/perf/1/3/c.json": zipped("c1"),  # its content tells what it is, not its name
    "v3/octo/perf/1/3/list.json": json.dumps([record("l1"), record("l2")]).encode(),
    "v3/octo/perf/1/4/object.json": json.dumps(record("o1"), indent=2).encode(),
}
MODELS = ["a1", "a2", "b1", "b2", "c1", "l1", "l2", "o1"]
SOURCES = ("directory", "s3", "branch")


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty source, of each kind in turn."""
    if request.param == "directory":
        return str(tmp_path / "records")
    if request.param == "s3":
        request.getfixturevalue("aws")
        return f"s3://{BUCKET}/{uuid4()}"
    return f"branch:data@{request.getfixturevalue('remote')}"


def put(source: str, objects: dict[str, bytes]) -> None:
    outcomes = open_place(source).put_all(objects)
    assert set(outcomes.values()) == {"written"}


def models(store: Store) -> list[str]:
    return [name for (name,) in store.rows("SELECT model.name FROM oss_ci_benchmark_v3 ORDER BY model.name")]


def refused(store: Store) -> list[tuple[str, int, str]]:
    found = store.rows("SELECT key, line, text FROM torchperf_refused FINAL ORDER BY key, line")
    return [(key.rpartition("/")[2], line, text) for key, line, text in found]


def test_every_source_is_taken_in_once(store: Store, source: str) -> None:
    put(source, {**OBJECTS, "v3/notes.txt": b"no records", "v3/.hidden/x.json": lines("hidden")})
    first = ingest_place(store, open_place(source))
    assert (first.objects, first.records, first.known, first.refused) == (len(OBJECTS), len(MODELS), 0, ())
    again = ingest_place(store, open_place(source))
    assert (again.objects, again.records, again.known) == (0, 0, len(OBJECTS))
    store.run("TRUNCATE TABLE torchperf_ingested")  # a cache: what is kept is told by the rows
    compared = ingest_place(store, open_place(source))
    assert (compared.objects, compared.records, compared.known) == (0, 0, len(OBJECTS))
    assert models(store) == MODELS


def test_what_comes_later_is_added(store: Store, source: str) -> None:
    put(source, dict(list(OBJECTS.items())[:2]))
    ingest_place(store, open_place(source))
    put(source, dict(list(OBJECTS.items())[2:]))
    assert ingest_place(store, open_place(source)).objects == len(OBJECTS) - 2
    assert models(store) == MODELS


def test_a_row_is_the_record_and_names_its_object(store: Store, source: str) -> None:
    put(source, {"v3/a.json": lines("m"), "v3/b.json": zipped("m")})
    place = open_place(source)
    ingest_place(store, place)
    kept = store.rows("SELECT * EXCEPT _meta FROM oss_ci_benchmark_v3")
    assert kept[0] == kept[1]
    (row,) = store.rows(
        "SELECT workflow_id, runners[1].gpu_count, runners[1].extra_info['driver'], model.origins, "
        "inputs['batch'].extra_info['size'], dependencies['torch'].sha, metric.extra_info['exact'], repo "
        "FROM oss_ci_benchmark_v3 WHERE _meta.key LIKE '%b.json'"
    )
    assert row == (2**63 + 1, 8, "580", ["timm"], "8", "a" * 40, EXACT, "octo/perf")
    bucket, prefix = (
        (place.name, "") if not source.startswith("s3:") else (BUCKET, source.rpartition("/")[2] + "/")
    )
    objects = {meta for (meta,) in store.rows("SELECT (_meta.bucket, _meta.key) FROM oss_ci_benchmark_v3")}
    assert objects == {(bucket, f"{prefix}v3/a.json"), (bucket, f"{prefix}v3/b.json")}


def test_a_bad_record_is_kept_aside_and_spoils_nothing(store: Store, source: str) -> None:
    bad = json.dumps({"model": {"name": "without a metric"}})
    objects = {
        "v3/bad.json": lines("g1") + f"{bad}\n".encode() + lines("g2") + b'{"cut": ',
        "v3/empty.json": b"",
        "v3/good.json.gz": zipped("g3"),
        "v3/nothing.json": b"\x00\xff\xfe",
    }
    put(source, objects)
    outcome = ingest_place(store, open_place(source))
    assert models(store) == ["g1", "g2", "g3"]
    assert outcome.records == 3
    assert {(key, line) for key, line, _ in refused(store)} == {
        ("bad.json", 2),
        ("bad.json", 4),
        ("nothing.json", 1),
    }
    assert ("bad.json", 2, bad) in refused(store)
    ingest_place(store, open_place(source))
    assert models(store) == ["g1", "g2", "g3"]
    assert len(refused(store)) == 3


def test_an_object_that_has_changed_is_a_conflict_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    put(str(folder), {"v3/a.json": lines("old"), "v3/b.json": lines("same")})
    ingest_place(store, open_place(str(folder)))
    (folder / "v3/a.json").write_bytes(lines("new"))
    outcome = ingest_place(store, open_place(str(folder)))
    assert outcome.conflicts == (f"{folder}/v3/a.json",)
    assert (outcome.objects, outcome.known) == (0, 1)
    assert models(store) == ["old", "same"]


def test_an_object_that_has_grown_is_a_conflict(store: Store, tmp_path: Path) -> None:
    """Nothing of it is taken: rows of two states of an object would be no state of it."""
    folder = tmp_path / "records"
    put(str(folder), {"v3/a.json": lines("old")})
    ingest_place(store, open_place(str(folder)))
    (folder / "v3/a.json").write_bytes(lines("old", "new"))
    assert ingest_place(store, open_place(str(folder))).conflicts
    assert models(store) == ["old"]


def test_equal_records_of_one_object_are_all_kept(store: Store, source: str) -> None:
    put(source, {"v3/a.json": lines("twice", "twice"), "v3/b.json": lines("twice", "twice")})
    ingest_place(store, open_place(source))
    ingest_place(store, open_place(source))
    assert models(store) == ["twice"] * 4


def test_many_objects_come_in_batches(store: Store, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "BATCH_OBJECTS", 3)
    put(source, {f"v3/{number}.json": zipped(f"m{number:02}") for number in range(8)})
    assert ingest_place(store, open_place(source)).objects == 8
    assert models(store) == [f"m{number:02}" for number in range(8)]


def test_what_is_not_there_is_told(tmp_path: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ingest", str(tmp_path / "none"), "--store", dsn]) != 0
    assert f"{tmp_path}/none: there is no such directory" in capsys.readouterr().err


@pytest.mark.usefixtures("aws")
def test_the_engine_reads_s3_itself_where_objects_are_clean(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"s3://{BUCKET}/{uuid4()}"
    put(source, {f"v3/{number}.json": zipped(f"m{number}") for number in range(4)})
    place = open_place(source)
    monkeypatch.setattr(type(place), "get", lambda *_: pytest.fail("an object was read by us"))
    assert ingest_place(store, place).records == 4


@pytest.mark.usefixtures("aws")
def test_an_engine_without_rights_to_the_bucket_is_handed_the_objects(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"s3://{BUCKET}/{uuid4()}"
    put(source, OBJECTS)

    def refuse(*_: object) -> Iterator[Any]:
        msg = "no rights"
        raise RefusedStatementError(msg, 499)

    monkeypatch.setattr(S3Reader, "listed", refuse)
    assert ingest_place(store, open_place(source)).records == len(MODELS)


def test_the_command_says_what_it_did_and_fails_for_what_it_could_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, dsn = tmp_path / "records", f"chdb://{tmp_path}/store"
    put(str(folder), {"a.json": lines("a1", "a2"), "b.json": lines("b1") + b"[7]\n"})
    assert cli.main(["ingest", str(folder), "--store", dsn]) == 3
    told = capsys.readouterr().err
    assert f"3 records of 2 objects ingested into {dsn}; 0 objects already there" in told
    assert f"{folder}/b.json:2: " in told
    assert "1 element refused, to be seen in the table torchperf_refused; everything else is kept" in told
    assert cli.main(["ingest", str(folder / "a.json"), str(folder), "--store", dsn]) == 0
    assert "0 records of 0 objects ingested" in capsys.readouterr().err
    with connect(dsn) as store:
        store.use("benchmark")
        assert models(store) == ["a1", "a2", "b1"]


def test_neither_strange_records_nor_what_is_none_stops_the_next_ingest(store: Store, source: str) -> None:
    """Such an object is told of once, and the others are taken in, whatever comes first."""
    huge = json.dumps(record("huge", timestamp=10**400, metric={"name": "m", "benchmark_values": [10**400]}))
    deep = json.dumps(
        record("deep", metric={"name": "m", "extra_info": {"benchmark_values_exact": "[" * 5000}})
    )
    bomb = zipped("bomb") + gzip.compress(b" " * 2**22) * 30
    objects = {"v3/a.json": huge.encode(), "v3/b.json": deep.encode(), "v3/c.json.gz": bomb}
    put(source, {**objects, "v3/d.json": lines("good")})
    outcome = ingest_place(store, open_place(source))
    assert (outcome.records, [item.reasons for item in outcome.refused]) == (
        3,
        [("unpacks to more than 64 MiB; split it",)],
    )
    put(source, {"v3/e.json": lines("later")})
    later = ingest_place(store, open_place(source))
    assert (later.records, later.refused, later.known) == (1, (), 4)
    assert models(store) == ["deep", "good", "huge", "later"]


def hostile_lines() -> dict[str, bytes]:
    """Lines that look like records, and that the engine alone would take otherwise than our own reader does."""
    good = json.dumps(record("good"))
    return {
        "two on a line": f"{good} {good}".encode(),
        "with a comma": f"{good},{good}".encode(),
        "another object's": good.replace(
            '"name": "nightly"', '"\\u005fmeta": {"bucket": "b", "key": "k"}'
        ).encode(),
        "cut off": good[:-20].encode(),
        "a key twice": good.replace('"exact":', '"exact": "1", "exact":').encode(),
        "a column twice": good.replace('"job_id": 2', '"job_id": 2, "job_id": 3').encode(),
        "a key in capitals": good.replace('"metric"', '"METRIC"').encode(),
        "a number of another notation": good.replace('"job_id": 2', '"job_id": +2').encode(),
        "an unknown escape": good.replace("nightly", r"\q").encode(),
        "a lone surrogate": good.replace("nightly", r"\ud800").encode(),
        "bytes that are no text": good.encode().replace(b"exact", b"\xff"),
        "text for a number": good.replace("[1.5]", '["slow"]').encode(),
        "no digit in a number": good.replace("[1.5]", '[1.5, "-"]').encode(),
        "no digit in a target": good.replace("[1.5]", '[1.5], "target_value": "-"').encode(),
        "one number and no list": good.replace("[1.5]", "1.5").encode(),
        "a library twice": good.replace('"torch":', '"torch": {"sha": "b"}, "torch":').encode(),
        "a fact twice": good.replace('"device":', '"device": "cpu", "device":').encode(),
        "a fact of a model twice": good.replace(
            '"origins"', '"extra_info": {"a": 1, "a": 2}, "origins"'
        ).encode(),
        "an input twice": good.replace('"batch":', '"batch": {}, "batch":').encode(),
        "a fact of a machine twice": good.replace('"driver":', '"driver": "570", "driver":').encode(),
        "no record": b'{"metric": {}, "notes": "of somebody"}',
    }


def test_lines_that_seem_to_be_records_are_judged_as_if_they_were_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcomes(bucket: str) -> dict[str, tuple[int, list[tuple[str, ...]]]]:
        taken = {
            name: ingest_objects(store, bucket, [(name, body)]) for name, body in hostile_lines().items()
        }
        return {name: (each.records, [item.reasons for item in each.refused]) for name, each in taken.items()}

    found = outcomes("unread")
    monkeypatch.setattr(ingest, "lines_of_records", lambda _: [])
    assert found == outcomes("read")
    rows = "SELECT * EXCEPT _meta, _meta.key FROM oss_ci_benchmark_v3 WHERE _meta.bucket = {bucket:String} ORDER BY ALL"
    assert store.rows(rows, {"bucket": "unread"}) == store.rows(rows, {"bucket": "read"})


def test_links_in_a_directory_are_refused_by_name(store: Store, tmp_path: Path) -> None:
    put(str(tmp_path / "records"), {"a.json": lines("a")})
    (tmp_path / "records/b.json").symlink_to("/proc/self/environ")
    (tmp_path / "named").symlink_to("records")
    place = open_place(str(tmp_path / "named"))
    outcome = ingest_place(store, place)
    assert outcome.records == 1
    assert [(item.file, item.reasons) for item in outcome.refused] == [
        (f"{tmp_path}/named/b.json", ("cannot be read: it is a link, not a regular file",))
    ]
    assert ingest_place(store, place).known == 2


def test_objects_that_are_too_large_are_refused_by_name(
    store: Store, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, {"v3/a.json": lines("large" * 100), "v3/b.json": lines("b")})
    for module in (ingest, loading, place, s3_place, branch, data_repository, files):
        monkeypatch.setattr(module, "MAX_BYTES", 1000)
    outcome = ingest_place(store, open_place(source))
    assert models(store) == ["b"]
    (item,) = outcome.refused
    assert item.file.endswith("v3/a.json")
    assert "holds more than 0 MiB" in item.reasons[0]


@pytest.mark.parametrize("limit", ["MAX_VALUES", "MAX_ELEMENTS"])
def test_objects_that_hold_too_much_are_refused_by_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    put(str(tmp_path), {"a.json": lines(*map(str, range(90))), "b.json": lines("b")})
    monkeypatch.setattr(files, limit, 80)
    outcome = ingest_place(store, open_place(str(tmp_path)))
    assert models(store) == ["b"]
    assert "holds more than 80 " in str(outcome.refused)


def test_what_a_batch_unpacks_to_is_taken_in_part_by_part(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "PART_SIZE", 1)
    put(str(tmp_path / "records"), OBJECTS)
    assert ingest_place(store, open_place(str(tmp_path / "records"))).records == len(MODELS)
    assert models(store) == MODELS


def test_names_that_are_not_utf8_are_escaped(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"r\xe9sultats")
    folder.mkdir()
    (folder / os.fsdecode(b"\xe9t\xe9.json")).write_text(json.dumps(record("a")))
    (folder / os.fsdecode(b"bad\xff.json")).write_text("{")
    for known in range(2):
        outcome = ingest_place(store, open_place(str(folder)))
        assert (outcome.objects, outcome.known, len(outcome.refused)) == (1 - known, 2 * known, 1 - known)
    meta = store.rows("SELECT _meta.bucket, _meta.key FROM oss_ci_benchmark_v3")
    assert meta == [(f"{tmp_path}/r\\udce9sultats", "\\udce9t\\udce9.json")]
