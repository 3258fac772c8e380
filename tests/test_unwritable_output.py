"""A command whose result cannot be written says so before it measures anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import cli

if TYPE_CHECKING:
    from pathlib import Path

RECORD = {
    "benchmark": {"name": "nightly"},
    "model": {"name": "add"},
    "metric": {"name": "latency(ms)", "benchmark_values": [1.5]},
    "runners": [],
}


@pytest.mark.parametrize("out", ["file/out.json", "folder", "."])
@pytest.mark.parametrize(
    "command",
    [
        ["compare", "--base", "no-such-python", "--head", "no-such-python"],
        ["bisect", "--good", "HEAD", "--bad", "HEAD", "--command", "x"],
        ["check", "records", "--against", "no-such-folder"],
        ["suite", "discover", "--python", "no-such-python"],
    ],
    ids=lambda command: command[0],
)
def test_it_is_said_before_anything_is_measured(
    command: list[str],
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for folder in ("folder", "records"):
        (tmp_path / folder).mkdir()
    (tmp_path / "records" / "add.json").write_text(json.dumps([RECORD]))
    before = sorted(tmp_path.rglob("*"))
    assert cli.main([*command, "--out", out]) == 2
    assert f"torchperf: error: {out}: cannot be written: " in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_state_file_that_cannot_be_written_is_said_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    ends = ("--good", "HEAD", "--bad", "HEAD")
    assert cli.main(["bisect", *ends, "--command", "x", "--state", "file/state.jsonl"]) == 2
    assert "file/state.jsonl: cannot be written: " in capsys.readouterr().err
