from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import json_files
from torchperf_ci.errors import ResumeError

if TYPE_CHECKING:
    from pathlib import Path

PLAN = {"name": "größe", "count": 3, "files": ("a", "b")}
WHOLE = json.dumps({"plan": PLAN}).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def entries(path: Path, plan=PLAN) -> list[json_files.JournalEntry]:
    with path.open("ab+") as file:
        return json_files.read_entries(file, plan, "choose another file")


def add(path: Path, entry: json_files.JournalEntry) -> None:
    with path.open("ab") as file:
        json_files.append_entry(file, entry)


def test_entries_come_back_in_order(path) -> None:
    assert entries(path) == []
    add(path, {"one": "two\nlines \ud800"})
    add(path, {"two": [1.5, None]})
    assert entries(path) == [{"one": "two\nlines \ud800"}, {"two": [1.5, None]}]


def test_a_journal_that_is_cut_anywhere_goes_on_from_its_last_whole_entry(path) -> None:
    entries(path)
    for number in range(3):
        add(path, {"number": number})
    content = path.read_bytes()
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        whole = max(content[:length].count(b"\n") - 1, 0)
        assert entries(path) == [{"number": number} for number in range(whole)]
        add(path, {"number": whole})
        assert entries(path)[-1] == {"number": whole}


def test_another_plan_is_refused_with_all_that_differs(path) -> None:
    entries(path)
    add(path, {"number": 0})
    with path.open("ab") as file:
        file.write(b'{"torn')
    content = path.read_bytes()
    with pytest.raises(ResumeError, match="count, more changed") as error:
        entries(path, {**PLAN, "count": "x" * 99, "more": True})
    told = f'(count: 3 → "{"x" * 58}…, more: null → true); choose another file'
    assert told in str(error.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"a letter\nto somebody\n",
        b"no line's end",
        b"\n",
        b"[]\n",
        b"{}\n",
        b'{"plan": 3}\n',
        b"\xff\xfe\x00\n",
        b"[" * 100_000 + b"\n",
        WHOLE.replace(b" ", b"").strip(),
        WHOLE + b"\n",
        WHOLE + b'{"torn\n{"number": 1}\n',
    ],
)
def test_what_is_no_journal_is_refused_and_left_alone(path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ResumeError, match=r"journal\.jsonl.*; choose another file"):
        entries(path)
    assert path.read_bytes() == content
