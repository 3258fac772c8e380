from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import RecordsError
from torchperf_ci.upload import payload as module
from torchperf_ci.upload.payload import read_source

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


def test_what_is_no_regular_file_is_refused_by_name_and_the_rest_is_read(folder: Path) -> None:
    (folder / "c.json").symlink_to("/proc/self/environ")
    (folder / "d.json").symlink_to(folder / "a.json")
    (folder / "e.json.gz").symlink_to("nowhere")
    os.mkfifo(folder / "f.json")
    source = read_source(folder)
    assert [len(file.reading.records) for file in source.files] == [3, 2, 0, 0, 0, 0]
    link = "cannot be read: it is a link, not a regular file"
    assert [(problem.file, problem.reason) for problem in source.problems("refused")] == [
        (f"{folder}/c.json", link),
        (f"{folder}/d.json", link),
        (f"{folder}/e.json.gz", link),
        (f"{folder}/f.json", "cannot be read: it is no regular file"),
    ]
    assert not any(item.text for item in source.refused), "nothing of what they lead to is set aside"


def test_the_directory_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert len(read_source(tmp_path / "link").files) == 2


@pytest.mark.parametrize("time", [-1, -86_400 * 365, -(2**33)])
def test_a_file_from_before_1970_gives_a_time_that_the_database_takes(folder: Path, time: int) -> None:
    os.utime(folder / "a.json", (time, time))
    assert read_source(folder).files[0].timestamp == 0


def test_what_an_upload_has_no_room_for_is_refused_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UPLOAD", 100)
    first, second = read_source(folder).files
    assert len(first.reading.records) == 3
    assert not second.reading.records
    assert "is left out: an upload has room for" in second.reading.problems[0].reason
    monkeypatch.setattr(module, "MAX_FILES", 1)
    (problem,) = read_source(folder).problems("refused")
    assert (problem.file, problem.reason) == (
        str(folder),
        "holds more than 1 files; the others are left out",
    )


def test_one_file_is_enough(folder: Path) -> None:
    source = read_source(folder / "a.json")
    assert [file.name for file in source.files] == ["a.json"]
    assert source.files[0].reading.records


def test_another_file_is_no_source(folder: Path) -> None:
    (folder / "notes.txt").write_text("none")
    with pytest.raises(RecordsError, match="neither a directory nor a file of"):
        read_source(folder / "notes.txt")
