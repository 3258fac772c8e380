from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from runner_log import commands

from torchperf_ci import cli
from torchperf_ci.console import UNLIMITED, print_table
from torchperf_ci.document import Column
from torchperf_ci.errors import UsageError
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.store.client import AnswerLimits
from torchperf_ci.store.command import (
    QueriedPoint,
    StoreQuery,
    _inert,
    _points,
    plain_lines,
    points_table,
    run_query,
)
from torchperf_ci.store.ingest import ingest_objects
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torchperf_ci.store.client import Store

CHANGE = ("--repo-name", "pytorch/pytorch", "--head-branch", "main", "--head-sha", "aa" * 20)
START = 1_790_000_000
HOSTILE = "'; DROP TABLE oss_ci_benchmark_v3; --{x:String}\\'\n::error::\x1b[31m##[group]"


def record(model: str, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": START,
        "schema_version": "v3",
        "name": "nightly",
        "repo": "pytorch/pytorch",
        "head_branch": "refs/heads/main",
        "head_sha": "aa" * 20,
        "workflow_id": 1,
        "run_attempt": 1,
        "job_id": 2,
        "runners": [{"name": "cuda", "type": "NVIDIA H100 80GB HBM3"}],
        "benchmark": {"name": "suite", "mode": "inference", "dtype": "bf16"},
        "model": {"name": model, "backend": "eager"},
        "metric": {"name": "latency(ms)", "benchmark_values": [3.0, 1.0, 2.0]},
        **changes,
    }


RECORDS = (
    record("plain"),
    record("later", timestamp=START + 10),
    record("elsewhere", repo="octo/perf"),
    record("branched", head_branch="release/2.13"),
    record("committed", head_sha="bb" * 2 + "cc" * 18),
    record("other", benchmark={"name": "other", "mode": "training", "dtype": "fp32"}),
    record("throughput", metric={"name": "throughput(samples/s)", "benchmark_values": [9.5]}),
    record("amd", runners=[{"name": "rocm", "type": "AMD Instinct MI300X"}]),
    record("told", runners=[], benchmark={"name": "suite", "extra_info": {"device": "mps", "arch": "M2"}}),
    record("untold", runners=[], benchmark={"name": "suite"}),
    record("word", metric={"name": "status", "benchmark_values": []}),
    record(HOSTILE),
)
NAMES = [entry["model"]["name"] for entry in RECORDS]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all records."""
    path = tmp_path_factory.mktemp("query") / "store"
    body = "\n".join(map(json.dumps, RECORDS)).encode()
    with open_store(f"chdb://{path}") as store:
        assert ingest_objects(store, "bucket", [("v3/all.json", body)]).records == len(RECORDS)
    return path


@pytest.fixture
def outside_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs the tests."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.fixture(scope="module")
def store(path: Path) -> Iterator[Store]:
    with open_store(f"chdb://{path}") as store:
        yield store


def points(store: Store, **asked: Any) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in b"".join(run_query(store, replace(StoreQuery(), **asked))).splitlines()
    ]


def models(store: Store, **asked: Any) -> set[str]:
    return {point["model"] for point in points(store, **asked)}


def but(*names: str) -> set[str]:
    return set(NAMES) - set(names)


@pytest.mark.usefixtures("outside_of_a_job")
def test_a_run_that_reached_the_store_in_several_ways_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: Callable[..., str]
) -> None:
    """To the store itself, to a data branch and to a directory: other buckets, and another key."""
    (tmp_path / "records").mkdir()
    sizes = [{"name": "suite", "extra_info": {"batch_size": size}} for size in (1, 8)]
    told = [record("a", benchmark=size, metric={"name": "status", "benchmark_values": [1]}) for size in sizes]
    (tmp_path / "records/all.json").write_text(json.dumps([record("a"), record("b"), *told]))
    git(tmp_path, "init", "--quiet", "--bare", "data.git")
    monkeypatch.chdir(tmp_path)
    dsn = f"chdb://{tmp_path}/store"
    for to in (dsn, "branch:benchmarks@data.git", "kept"):
        assert cli.main(["upload", "records", "--to", to, *CHANGE]) == 0
    (tmp_path / "kept/v3").rename(tmp_path / "kept/moved")
    assert cli.main(["ingest", "branch:benchmarks@data.git", "kept", "--store", dsn]) == 0
    with open_store(dsn) as store:
        assert store.rows("SELECT count() FROM oss_ci_benchmark_v3") == [(12,)]
        found = points(store)
        assert [point["model"] for point in found] == ["a", "a", "a", "b"], "two batch sizes are two"
        assert sum(len(row) for row in points_of_store(store).values()) == 4


def test_records_that_name_no_run_count_once_an_object(tmp_path: Path) -> None:
    unnamed = {"model": {"name": "a"}, "metric": {"name": "m", "benchmark_values": [1.0]}, "runners": []}
    body = f"{json.dumps(unnamed)}\n".encode()
    with open_store(f"chdb://{tmp_path}/store") as store:
        ingest_objects(store, "here", [("a.json", body * 2), ("b.json", body)])
        ingest_objects(store, "there", [("a.json", body)])
        assert len(points(store)) == 3
        assert sum(len(row) for row in points_of_store(store).values()) == 3


def test_no_parameter_is_no_filter(store: Store) -> None:
    assert sorted(point["model"] for point in points(store)) == sorted(NAMES)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"repo": "octo/perf"}, {"elsewhere"}),
        ({"benchmark": "other"}, {"other"}),
        ({"start": START}, but()),
        ({"start": START + 1}, {"later"}),
        ({"stop": START + 10}, but("later")),
        ({"start": START + 10, "stop": START + 10}, set()),
        ({"models": ["plain", "amd", "nobody"]}, {"plain", "amd"}),
        ({"metrics": ["throughput(samples/s)", "status"]}, {"throughput", "word"}),
        ({"device": "rocm"}, {"amd"}),
        ({"device": "mps"}, {"told"}),
        ({"device": "cpu"}, {"untold"}),
        ({"arch": "MI300"}, {"amd"}),
        ({"arch": "M"}, but("untold")),
        ({"arch": "%"}, set()),
        ({"branch": "main"}, but("branched")),
        ({"branch": "refs/heads/main"}, but("branched")),
        ({"branch": "refs/heads/release/2.13"}, {"branched"}),
        ({"commit": "bbbb"}, {"committed"}),
        (
            {"repo": "pytorch/pytorch", "branch": "main", "device": "cuda", "commit": "bb", "models": ["x"]},
            set(),
        ),
        ({"repo": "pytorch/pytorch", "device": "cuda", "arch": "H100", "commit": "bb"}, {"committed"}),
    ],
)
def test_each_parameter_chooses(store: Store, asked: dict[str, Any], expected: set[str]) -> None:
    assert models(store, **asked) == expected


@pytest.mark.parametrize("name", ["repo", "benchmark", "device", "arch", "branch", "commit"])
def test_a_hostile_text_is_only_compared(store: Store, name: str) -> None:
    assert models(store, **{name: HOSTILE}) == set()
    assert models(store, models=[HOSTILE], metrics=["latency(ms)"]) == {HOSTILE}


def test_a_point_is_the_median_and_its_repetitions(store: Store) -> None:
    (point,) = points(store, models=["plain"])
    assert point == {
        "timestamp": START,
        "repo": "pytorch/pytorch",
        "branch": "main",
        "commit": "aa" * 20,
        "workflow_id": 1,
        "run_attempt": 1,
        "job_id": 2,
        "benchmark": "suite",
        "model": "plain",
        "mode": "inference",
        "dtype": "bf16",
        "backend": "eager",
        "device": "cuda",
        "arch": "NVIDIA H100 80GB HBM3",
        "metric": "latency(ms)",
        "value": 2,
        "repetitions": [3, 1, 2],
        "target_value": 0,
    }


def test_what_has_no_value_has_none(store: Store) -> None:
    (point,) = points(store, models=["word"])
    assert (point["value"], point["repetitions"]) == (None, [])


def test_points_come_oldest_first(store: Store) -> None:
    assert [point["timestamp"] for point in points(store)] == [START] * (len(NAMES) - 1) + [START + 10]


def _json(content: bytes) -> list[str]:
    return [point["model"] for point in json.loads(content)]


def _lines(content: bytes) -> list[str]:
    return [json.loads(line)["model"] for line in content.splitlines()]


def _csv(content: bytes) -> list[str]:
    return [point["model"] for point in csv.DictReader(io.StringIO(content.decode(), newline=""))]


@pytest.mark.parametrize(("form", "read"), [("json", _json), ("jsoneachrow", _lines), ("csv", _csv)])
def test_every_format_holds_every_point(store: Store, form: str, read: Callable[[bytes], list[str]]) -> None:
    assert sorted(read(b"".join(run_query(store, StoreQuery(), form)))) == sorted(NAMES)
    assert read(b"".join(run_query(store, StoreQuery(repo="nobody/nothing"), form))) == []


@pytest.mark.parametrize("repo", ["", "nobody/nothing"])
def test_parquet_is_what_the_engine_reads_again(store: Store, tmp_path: Path, repo: str) -> None:
    file = tmp_path / "points.parquet"
    file.write_bytes(b"".join(run_query(store, StoreQuery(repo=repo), "parquet")))
    found = store.rows("SELECT model, repetitions FROM file({file:String}, 'Parquet')", {"file": str(file)})
    expected = [] if repo else [(m["model"]["name"], m["metric"]["benchmark_values"]) for m in RECORDS]
    assert sorted(found) == sorted(expected)


def query(path: Path, *argv: str) -> int:
    return cli.main(["query", "--store", f"chdb://{path}", *argv])


def test_the_table_is_for_people_and_the_count_beside_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(path, "--start", "2026-09-21", "--stop", "2026-09-22", "--models", "plain") == 0
    shown = capsys.readouterr()
    assert "NVIDIA H100 80GB HBM3  latency(ms)      2" in shown.out
    assert shown.err == "1 point\n"
    assert query(path, "--metrics", "latency") == 0
    assert capsys.readouterr().err == "0 points; names such as 'latency(ms)' must be whole\n"


def test_many_rows_are_laid_out_as_few_ones_are(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As rich does it, which takes two milliseconds per row."""
    rows = [["a", "", HOSTILE, "1.5"], ["日本語", "", "é", "–"]]
    columns = [Column("when"), Column("empty"), Column("model"), Column("value", "number")]
    print_table(columns, rows, sys.stdout, width=UNLIMITED)
    assert capsys.readouterr().out.splitlines() == list(plain_lines(columns, rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rich.table.Table.add_row", None)
        assert query(path) == 0


def test_a_word_is_not_shown_as_a_number() -> None:
    point = QueriedPoint(1, "", "b", "m", "", "", "", "cpu", "", "status", None)
    assert points_table([point]).rows[0][-1] == "–"


@pytest.mark.parametrize(("timestamp", "shown"), [(0, "–"), (1_790_000_000_000, "2299-12-31 23:59")])
def test_a_record_without_a_time_is_not_one_of_1970_nor_one_in_milliseconds_a_failure(
    timestamp: int, shown: str
) -> None:
    point = QueriedPoint(timestamp, "", "b", "m", "", "", "", "cpu", "", "latency(ms)", 1.5)
    assert points_table([point]).rows[0][0] == shown


def test_the_table_shows_no_control_character(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert query(path) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(NAMES)


def test_other_formats_are_the_only_thing_on_standard_output(
    path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert query(path, "--models", "plain", "--format", "jsoneachrow") == 0
    assert _lines(capfdbinary.readouterr().out) == ["plain"]


@pytest.mark.parametrize(("form", "read"), [("json", _json), ("jsoneachrow", _lines)])
def test_no_name_in_json_is_a_command_to_a_runner(
    form: str, read: Callable[[bytes], list[str]], path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert query(path, "--format", form) == 0
    printed = capfdbinary.readouterr().out
    assert sorted(read(printed)) == sorted(NAMES)
    assert not [*commands(printed.decode().splitlines())]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_command_in_json_is_found_wherever_its_pieces_end(size: int) -> None:
    lines = b'{"a":"x##[group]"}\n{"b":"\xff"}\n'
    pieces = [lines[start : start + size] for start in range(0, len(lines), size)]
    assert b"".join(_inert(pieces)) == lines.replace(b"##", b"#\\u0023")


def test_a_name_that_is_not_utf8_is_shown_all_the_same() -> None:
    """As those may be that a server takes from a bucket itself."""
    names = dict.fromkeys(vars(QueriedPoint(0, *[""] * 9, None)), "r\udce9snet")
    line = json.dumps({**names, "timestamp": 1, "value": 1.5}, ensure_ascii=False)
    (point,) = _points([line.encode("utf-8", "surrogateescape") + b"\n"])
    assert point.model == "r\ufffdsnet"


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert query(tmp_path / "none") == 2
    assert "there is no store; `torchperf ingest` makes one" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("argument", [("--format", "xml"), ("--start", "yesterday")])
def test_what_is_no_question_is_told(
    path: Path, argument: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(path, *argument) == 2
    assert argument[1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "SELECT number FROM numbers(1000000000)",
            "the answer has more than 1000000 bytes; query a shorter period",
        ),
        ("SELECT sleepEachRow(1) FROM numbers(1000) SETTINGS max_block_size = 1", "takes more than 2 s"),
    ],
)
def test_an_answer_beyond_its_limits_is_given_up(store: Store, sql: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        list(store.stream(sql, {}, "CSV", AnswerLimits(1_000_000, 2)))
