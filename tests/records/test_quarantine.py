from __future__ import annotations

import json

import pytest

from torchperf_ci.errors import RecordsError
from torchperf_ci.records.reading import add_to_quarantine, parse_records

GOOD = '{"metric": {"name": "good"}}'


def refused(bad: str, name: str = "records.json"):
    return parse_records(f"{GOOD}\n{bad}\n".encode("utf-8", "surrogateescape"), name).refused


def entries(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_refused_element_is_kept_with_its_place_and_reasons(tmp_path):
    add_to_quarantine(tmp_path / "q.json", refused('{"metric": 5}'))
    assert entries(tmp_path / "q.json") == [
        {
            "file": "records.json",
            "line": 2,
            "path": "$",
            "reasons": ["$.metric: 5 is of the wrong type: object expected"],
            "text": '{"metric": 5}',
        }
    ]


def test_bytes_that_are_not_text_come_back(tmp_path):
    add_to_quarantine(tmp_path / "q.json", refused('{"metric": "\udcff"}'))
    (entry,) = entries(tmp_path / "q.json")
    assert entry["text"].encode("utf-8", "surrogateescape") == b'{"metric": "\xff"}'


def test_later_files_are_added_and_nothing_twice(tmp_path):
    path = tmp_path / "q.json"
    add_to_quarantine(path, refused("one", "a.json"))
    add_to_quarantine(path, refused("two", "b.json"))
    add_to_quarantine(path, refused("one", "a.json"))
    assert [(entry["file"], entry["text"]) for entry in entries(path)] == [
        ("a.json", "one"),
        ("b.json", "two"),
    ]


@pytest.mark.parametrize("earlier", ['{"earlier": true}', '{"earlier": "\u2028"}\n'])
def test_an_earlier_quarantine_is_kept_as_it_is(tmp_path, earlier):
    path = tmp_path / "q.json"
    path.write_text(earlier, encoding="utf-8")
    add_to_quarantine(path, refused("one"))
    first, second, _ = path.read_text(encoding="utf-8").split("\n")
    assert first == earlier.rstrip("\n")
    assert json.loads(second)["text"] == "one"


def test_nothing_refused_makes_no_file(tmp_path):
    add_to_quarantine(tmp_path / "q.json", refused(GOOD))
    assert not list(tmp_path.iterdir())


def test_an_earlier_quarantine_that_cannot_be_read_is_not_overwritten(tmp_path):
    path = tmp_path / "q.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RecordsError, match="earlier quarantine"):
        add_to_quarantine(path, refused("one"))
    assert path.read_bytes() == b"\xff\xfe"


def test_a_directory_that_is_missing_is_made(tmp_path):
    add_to_quarantine(tmp_path / "missing" / "q.json", refused("one"))
    assert len(entries(tmp_path / "missing" / "q.json")) == 1


def test_what_is_mended_can_be_read_again(tmp_path):
    add_to_quarantine(tmp_path / "q.json", refused('{"metric": {"benchmark_values": 5}}'))
    mended = entries(tmp_path / "q.json")[0]["text"].replace("5", "[5]")
    assert len(parse_records(mended.encode(), "mended.json").records) == 1
