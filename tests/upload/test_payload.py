from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.upload import payload
from torchperf_ci.upload.payload import Payload, pack_objects, pack_requests

BASE: dict[str, Any] = {
    "repo": "octo/perf",
    "head_branch": "main",
    "head_sha": "1f",
    "workflow_id": 71,
    "job_id": 9,
    "runners": [{"type": "H100"}],
}


def records_in(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.decode().split("\n")[:-1]]


def request_size(part: Payload) -> int:
    content = {
        "username": "u" * 64,
        "password": "p" * 256,
        "s3_path": part.key,
        "content": part.body.decode(),
    }
    return len(json.dumps(content, ensure_ascii=False).encode())


def test_one_object_a_file_in_gzipped_lines() -> None:
    first, second = {**BASE, "metric": {"name": "µs\n"}}, {**BASE, "metric": {"name": "B"}}
    made = pack_objects({"a.json": [first, second], "empty.json": [], "b.json": [first]})
    assert [(part.key, part.records) for part in made] == [
        ("v3/octo/perf/71/9/a.json", 2),
        ("v3/octo/perf/71/9/b.json", 1),
    ]
    assert records_in(gzip.decompress(made[0].body)) == [first, second]


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_VALUES"])
def test_a_file_is_split_where_readers_would_refuse_it_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    row = json.dumps(BASE, separators=(",", ":"))
    monkeypatch.setattr(
        payload, limit, 2 * (payload.count_values(row) if limit == "MAX_VALUES" else len(row) + 1)
    )
    others = {"a_part2.json": [BASE], "a part2.json": [BASE]}
    made = pack_objects({"a.json": [BASE] * 5, **others, "b.json.gz": [BASE] * 3})
    assert [part.records for part in made] == [2, 2, 1, 1, 1, 2, 1]
    names = [part.key.rpartition("/")[2] for part in made]
    assert [name.partition("-")[0] for name in names] == [
        "a.json", "a_part2", "a_part3", "a_part2.json", "a_part2", "b.json.gz", "b_part2"
    ]  # fmt: skip
    assert len({*names}) == 7


def test_the_same_records_are_always_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pack_objects({"a.json": [BASE]})
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert pack_objects({"a.json": [BASE]}) == before


def test_a_request_for_each_commit_and_hardware() -> None:
    other = {**BASE, "runners": [{"type": "MI300X"}]}
    made, oversized = pack_requests([BASE, other, BASE], "llama")
    assert [(part.key, part.records) for part in made] == [
        ("v3/octo/perf/main/1f/H100/benchmark_results_llama.json", 2),
        ("v3/octo/perf/main/1f/MI300X/benchmark_results_llama.json", 1),
    ]
    assert not oversized


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ['"' * 60, "\\" * 60, "é" * 60, "\n" * 60]
)


@given(st.lists(texts, max_size=40))
def test_a_split_loses_nothing_and_every_part_fits(names: list[str]) -> None:
    records = [{**BASE, "metric": {"name": name}} for name in names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "_ROOM_FOR_RECORDS", 1000)
        made, oversized = pack_requests(records)
    assert not oversized
    assert [record for part in made for record in records_in(part.body)] == records
    assert sum(part.records for part in made) == len(records)
    assert len({part.key for part in made}) == len(made)
    assert all(request_size(part) <= 1000 + payload.ENVELOPE for part in made)


def test_six_megabytes_are_the_limit_for_the_escaped_request() -> None:
    records = [{**BASE, "metric": {"name": '"' * 100_000, "number": number}} for number in range(40)]
    made, _ = pack_requests(records)
    assert [record for part in made for record in records_in(part.body)] == records
    assert all(request_size(part) < payload.API_LIMIT for part in made)
    # Not smaller than needed either: two neighbours do not fit into one.
    assert request_size(made[0]) + request_size(made[1]) > payload.API_LIMIT
    assert [part.key.rpartition("/")[2] for part in made][:2] == [
        "benchmark_results.json",
        "benchmark_results.part2.json",
    ]


def test_a_record_that_no_request_holds_is_not_sent_and_told() -> None:
    huge = {**BASE, "name": "nightly", "metric": {"name": "x" * payload.API_LIMIT}}
    made, oversized = pack_requests([BASE, huge, BASE])
    assert [part.records for part in made] == [2]
    assert [json.loads(item.text) for file in oversized for item in file.reading.refused] == [huge]
