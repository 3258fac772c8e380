from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import RecordsError
from torchperf_ci.upload.source import read_source

if TYPE_CHECKING:
    from pathlib import Path


def test_the_files_of_the_folder_itself(folder: Path) -> None:
    (folder / "c.json.gz").write_bytes(gzip.compress((folder / "a.json").read_bytes()))
    for other in ("notes.txt", ".hidden.json", "d.jsonl", "e.JSON"):
        (folder / other).write_text("{")
    (folder / "below.json").mkdir()
    (folder / "below.json" / "f.json").write_text("{")
    source = read_source(folder)
    assert [(file.name, len(file.reading.records)) for file in source.files] == [
        ("a.json", 3),
        ("b.json", 2),
        ("c.json.gz", 3),
    ]
    assert {file.timestamp for file in source.files[:2]} == {1_700_000_000}
    assert not source.refused


def test_the_digest_follows_names_and_bytes_alone(folder: Path) -> None:
    before = read_source(folder).digest
    os.utime(folder / "a.json")
    assert read_source(folder).digest == before
    (folder / "a.json").rename(folder / "c.json")
    renamed = read_source(folder).digest
    (folder / "c.json").write_text("[]")
    assert len({before, renamed, read_source(folder).digest}) == 3


@pytest.mark.parametrize("content", [None, "", "[]", "\n"])
def test_what_holds_no_record_is_empty(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    assert read_source(tmp_path).is_empty
    assert read_source(tmp_path / "absent").is_empty


def test_bad_neighbours_are_refused_and_not_empty(folder: Path) -> None:
    (folder / "b.json").write_text('{"metric": {"name": "x"}}\n{"metric": \n')
    source = read_source(folder)
    assert [len(file.reading.records) for file in source.files] == [3, 1]
    assert len(source.refused) == 1
    assert source.problems("refused")[0].line == 2
    (folder / "a.json").unlink()
    (folder / "b.json").write_text("{")
    assert not read_source(folder).is_empty


def test_a_file_cut_off_in_its_gzip_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps({"metric": {}}).encode())[:12])
    assert not read_source(tmp_path).is_empty


def test_a_file_is_no_folder(folder: Path) -> None:
    with pytest.raises(RecordsError, match="is no directory"):
        read_source(folder / "a.json")
