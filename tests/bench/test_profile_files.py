from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.bench import profiles
from torchperf_ci.bench.profiles import Cost, ProfileChanges, ProfileKey, ProfileRow, save_profile_files

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def row(name: str) -> ProfileRow:
    return ProfileRow(ProfileKey("operator", name), None, Cost(0.5, 1.5), 0.01, in_time=True, in_count=False)


def test_all_rows_are_a_table_in_which_no_name_breaks_a_line(tmp_path: Path) -> None:
    save_profile_files(
        tmp_path / "a/b", ProfileChanges((row("aten::mm"), row("a\tb\n::error::c\x1b[31m")), ()), {}
    )
    text = (tmp_path / "a/b/operators.tsv").read_text()
    header, first, second = (line.split("\t") for line in text.splitlines())
    assert len(header) == len(first) == len(second)
    assert first == ["operator", "-", "0.500000", "+0.500000", "0.010000", "-", "1.5", "time", "aten::mm"]
    assert second[-1] == "a\\tb\\n::error::c\\x1b[31m"


def test_a_trace_that_is_too_large_to_look_at_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "TRACE_LIMIT", 10)
    traces = {"old.trace.json.gz": tmp_path / "old", "new.trace.json.gz": tmp_path / "new"}
    (tmp_path / "old").write_text("0123456789")
    (tmp_path / "new").write_text("0123456789+")
    save_profile_files(tmp_path / "kept", ProfileChanges((), ()), traces)
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == [
        "old.trace.json.gz",
        "operators.tsv",
    ]
    assert (tmp_path / "kept/old.trace.json.gz").read_text() == "0123456789"
