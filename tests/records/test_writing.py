from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from torchperf_ci.errors import OutputDirectoryError
from torchperf_ci.records.record import write_records


def record(name: str, value: object = 1.5) -> dict:
    return {"metric": {"name": name, "benchmark_values": [value]}}


def test_each_record_has_its_line(tmp_path):
    path = tmp_path / "records.json"
    write_records(path, [record("a"), record("ü")])
    first, *records, last = path.read_text(encoding="utf-8").splitlines()
    assert (first, last) == ("[", "]")
    assert [json.loads(line.rstrip(",")) for line in records] == [record("a"), record("ü")]
    assert "ü" in records[1]


def test_no_record_is_an_empty_list(tmp_path):
    write_records(tmp_path / "records.json", [])
    assert json.loads((tmp_path / "records.json").read_text()) == []


@pytest.mark.parametrize("bad", [record("b", math.nan), record("b", math.inf), record("b\udcff")])
def test_what_json_cannot_hold_is_a_bug_and_nothing_is_written(tmp_path, bad):
    path = tmp_path / "records.json"
    write_records(path, [record("earlier")])
    with pytest.raises(ValueError, match=r"JSON compliant|surrogates"):
        write_records(path, [record("a"), bad])
    assert "earlier" in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_rename_keeps_the_earlier_file_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "records.json"
    write_records(path, [record("earlier")])

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputDirectoryError, match="No space left on device"):
        write_records(path, [record("a")])
    assert "earlier" in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputDirectoryError, match=r"file/records\.json: cannot be written"):
        write_records(tmp_path / "file" / "records.json", [record("a")])
