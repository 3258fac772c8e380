from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from contents import contents

from torchperf_ci.errors import (
    ConflictError,
    InvalidObjectError,
    NotDeliveredError,
    PlaceUnreadableError,
    UsageError,
)
from torchperf_ci.places import open_place, place

if TYPE_CHECKING:
    from pathlib import Path


def test_files_are_readable_as_the_user_s_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        open_place(str(tmp_path / "kept")).put("v3/a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "kept/v3/a").stat().st_mode & 0o777 == 0o640


def test_a_failed_put_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_source: object, _target: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(place.os, "link", fail)
    with pytest.raises(NotDeliveredError, match="hard links"):
        open_place(str(tmp_path)).put("v3/a", b"x")
    assert not list((tmp_path / "v3").iterdir())


def test_what_is_told_as_kept_survives_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(place.os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    for told in ("written", "already there"):
        assert open_place(str(tmp_path)).put("v3/a", b"x") == told
        assert synced.pop() == (tmp_path / "v3").stat().st_ino
    assert synced[0] == (tmp_path / "v3/a").stat().st_ino


def test_half_written_files_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "a.json.0123456789abcdef~").write_bytes(b"[")
    (tmp_path / "a.json").write_bytes(b"[]")
    assert list(open_place(str(tmp_path)).keys()) == ["a.json"]


def test_links_are_not_followed_out_of_the_directory_and_files_among_them_are_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    place = tmp_path / "place"
    place.mkdir()
    (place / "file.json").symlink_to(tmp_path / "secret")
    (place / "folder").symlink_to(tmp_path)
    os.mkfifo(place / "pipe.json")
    opened = open_place(str(place))
    assert list(opened.keys()) == ["file.json", "pipe.json"]
    for key, reason in (
        ("file.json", "it is a link"),
        ("pipe.json", "it is no regular file"),
        ("folder/secret", "Not a directory|Too many levels|a link"),
    ):
        with pytest.raises(InvalidObjectError, match=reason):
            opened.get(key)


@pytest.mark.parametrize("key", ["../secret", "a/../../secret", "/etc/passwd"])
def test_nothing_outside_is_read(tmp_path: Path, key: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "place/a").mkdir(parents=True)
    with pytest.raises(PlaceUnreadableError, match="leads out"):
        open_place(str(tmp_path / "place")).get(key)


def test_other_people_s_file_names_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "results (1).json").write_bytes(b"[]")
    place = open_place(str(tmp_path))
    assert contents(place) == {"results (1).json": b"[]"}


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlaceUnreadableError, match="no such directory"):
        list(open_place(str(tmp_path / "none")).keys())


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(ConflictError, match="file stands where"):
        open_place(str(tmp_path / "a")).put("b", b"x")


@pytest.mark.parametrize(
    "target",
    [
        *("", "gs://bucket", "https://example.org", "clickhouse://me:secret@host/db"),
        *("s3:bucket", "S3:/bucket", "brnch:benchmarks", "https:me:secret@host", "127.0.0.1:8080"),
    ],
)
def test_addresses_that_are_none(target: str) -> None:
    with pytest.raises(UsageError, match="begins no place") as error:
        open_place(target)
    assert "secret" not in str(error.value)
