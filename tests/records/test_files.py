"""Only regular files are read, and files are replaced atomically."""

from __future__ import annotations

import os
import re
import socket
from typing import IO, TYPE_CHECKING

import pytest

from torchperf_ci.errors import OutputDirectoryError
from torchperf_ci.records.files import (
    check_writable,
    is_irregular,
    open_journal,
    open_regular,
    read_regular,
    replace_by,
    replace_file,
)
from torchperf_ci.records.reading import read_records

if TYPE_CHECKING:
    from pathlib import Path

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


def test_nothing_but_regular_files_is_read_and_nothing_is_waited_for(strange) -> None:
    for path, reason in strange.values():
        for within in (None, path.parent):
            with pytest.raises(OSError, match=re.escape(reason)) as caught:
                read_regular(path, 100, within)
            assert caught.value.strerror == reason


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
    named = tmp_path / "named"
    assert read_regular(named / "below/a.json", 100, named) == b"content"
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        read_regular(named / "other/a.json", 100, named)
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


def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """As root, renaming a file to /dev/null or /dev/stdout would remove these for all processes of the machine."""
    device, pipe = tmp_path / "null", tmp_path / "pipe"
    device.symlink_to(os.devnull)
    os.mkfifo(pipe)
    with pytest.raises(OutputDirectoryError, match="No such device"):
        replace_file(pipe, "nobody reads")
    with open(pipe, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as reader:
        for path in (device, pipe):
            check_writable(path)
            replace_file(path, "text")
        assert reader.read() == "text"
    assert sorted(tmp_path.iterdir()) == [device, pipe]
    assert device.is_char_device()


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(ZeroDivisionError):
        replace_by(tmp_path / "a.json", lambda _: 1 / 0)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "old")]
