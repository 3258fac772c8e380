"""Only regular files are read, and files are replaced atomically."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import IO

import pytest

from torchperf_ci.records import files
from torchperf_ci.records.files import (
    check_writable,
    is_device,
    is_irregular,
    open_journal,
    open_regular,
    read_regular,
    replace_by,
    replace_file,
)
from torchperf_ci.records.reading import read_records

LINK = "it is a link, not a regular file"
IRREGULAR = "it is no regular file"


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Path, str]]:
    """Files that are none, and why."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "link to nothing").symlink_to(tmp_path / "nothing")
    (tmp_path / "link to itself").symlink_to("link to itself")
    (tmp_path / "link to a process").symlink_to("/proc/self/environ")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # the name of a socket has hardly a hundred characters
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    (tmp_path / "folder").mkdir()
    links = [path.name for path in tmp_path.glob("link*")]
    reasons = {
        **dict.fromkeys(links, LINK),
        "pipe": IRREGULAR,
        "socket": IRREGULAR,
        "folder": "Is a directory",
    }
    return {name: (tmp_path / name, reason) for name, reason in reasons.items()}


def open_descriptors() -> list[str]:
    return sorted(path.name for path in Path("/dev/fd").iterdir())


def test_nothing_but_regular_files_is_read_and_nothing_is_waited_for(strange) -> None:
    before = open_descriptors()
    for path, reason in strange.values():
        for within in (None, path.parent):
            with pytest.raises(OSError, match=re.escape(reason)) as caught:
                read_regular(path, 100, within)
            assert caught.value.strerror == reason
    assert open_descriptors() == before


def test_nothing_else_is_appended_to(strange) -> None:
    for path, reason in strange.values():
        with pytest.raises(OSError, match=re.escape(reason)):
            open_journal(path)
    assert (strange["link"][0].parent / "secret").read_text() == "secret"


def test_what_is_irregular_is_known_without_opening_it(strange) -> None:
    told = {name for name, (path, _) in strange.items() if is_irregular(path)}
    assert told == strange.keys() - {"folder"}
    assert not is_irregular(strange["link"][0].parent / "secret")
    assert not is_irregular(strange["link"][0].parent / "missing")


def test_the_directory_may_be_a_link_and_nothing_below_it(tmp_path: Path) -> None:
    (tmp_path / "real/below").mkdir(parents=True)
    (tmp_path / "real/below/a.json").write_text("content")
    (tmp_path / "named").symlink_to("real")
    (tmp_path / "real/other").symlink_to("below")
    os.mkfifo(tmp_path / "real/pipe")
    named = tmp_path / "named"
    before = open_descriptors()
    assert read_regular(named / "below/a.json", 100, named) == b"content"
    for other in ("other", "pipe"):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            read_regular(named / other / "a.json", 100, named)
    assert open_descriptors() == before
    assert read_records(named / "other/a.json", named).problems[0].severity == "refused"


def test_a_file_that_is_exchanged_after_a_look_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("content")
    with open_regular(path) as opened:
        path.unlink()
        path.symlink_to("/proc/self/environ")
        assert opened.read() == b"content"
    with pytest.raises(OSError, match=LINK):
        open_regular(path)


def test_there_is_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert len(read_regular(tmp_path / "a", 100)) == 100
    with pytest.raises(OSError, match="it holds more than 0 MiB"):
        read_regular(tmp_path / "a", 99)


def test_two_writers_that_have_one_process_id_do_not_meet(tmp_path: Path) -> None:
    """As in two containers that share a disk."""

    def write(file: IO[bytes]) -> None:
        replace_file(tmp_path / "a.json", "first")
        file.write(b"second")

    replace_by(tmp_path / "a.json", write)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "second")]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(ZeroDivisionError):
        replace_by(tmp_path / "a.json", lambda _: 1 / 0)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "old")]


def test_a_device_is_written_to_and_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root could put a file in place of ``/dev/null``, which breaks every program after it."""
    assert is_device(Path("/dev/null"))
    monkeypatch.setattr(files, "DEVICES", tmp_path)
    (tmp_path / "stdout").symlink_to("1")
    for text in ("first", "second"):
        check_writable(tmp_path / "stdout")
        replace_file(tmp_path / "stdout", text)
    assert (tmp_path / "stdout").is_symlink()
    assert (tmp_path / "1").read_text() == "second"
    assert len([*tmp_path.iterdir()]) == 2


def test_missing_folders_are_made(tmp_path: Path) -> None:
    replace_file(tmp_path / "new" / "folder" / "a.json", "new")
    assert (tmp_path / "new" / "folder" / "a.json").read_text() == "new"


def test_a_link_elsewhere_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to("b.json")
    replace_file(tmp_path / "a.json", "new")
    assert [(path.name, path.is_symlink()) for path in tmp_path.iterdir()] == [("a.json", False)]
