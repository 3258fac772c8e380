"""Files that torchperf's commands write for each other are taken neither for records nor for invalid ones."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import cli
from torchperf_ci.bench.case import write_costs
from torchperf_ci.check import baselines
from torchperf_ci.records.reading import is_torchperf_file, parse_records
from torchperf_ci.verdicts.verdict import Judgement, verdicts_json

if TYPE_CHECKING:
    from pathlib import Path

RECORD = {
    "benchmark": {"name": "nightly"},
    "model": {"name": "add"},
    "metric": {"name": "latency(ms)", "benchmark_values": [1.5, 1.5, 1.5]},
    "runners": [],
}
CULPRITS = {"version": 1, "status": "inconclusive", "good": "1f", "bad": "2f", "culprits": []}
CHANGE = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1f")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One record among files of ours, as an artifact of a job may hold them."""
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "add.json").write_text(json.dumps([RECORD]))
    verdicts = verdicts_json(Judgement("check", "store", "records", []))
    (folder / "verdicts.json").write_text(verdicts)
    (folder / "verdicts.json.gz").write_bytes(gzip.compress(verdicts.encode()))
    (folder / "culprits.json").write_text(json.dumps(CULPRITS))
    baselines.write_baselines(folder / "baseline.json", [])
    write_costs(folder / "costs.json", {"cpu": {"add": 1.5}})
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["upload", "{}", "--to", "kept", *CHANGE],
        ["ingest", "{}", "--store", "chdb://store"],
        ["check", "{}", "--against", "past"],
        ["compare", "--base", "past", "--head", "{}"],
        ["history", "--records", "{}"],
    ],
    ids=lambda command: command[0],
)
def test_no_command_takes_them_for_records(
    command: list[str],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "past").mkdir()
    (tmp_path / "past/add.json").write_text(json.dumps([RECORD]))
    for name in ("GITHUB_ACTIONS", "TORCHPERF_STORE"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main([part.format(folder) for part in command]) == 0
    shown = capsys.readouterr()
    assert "no records" not in shown.out, "as compare tells of what it left out"


def test_what_is_judged_after_an_upload_does_not_make_it_another_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside of a job an upload's ids are made from what is uploaded."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    for count in range(2):
        (folder / "verdicts.json").write_text(json.dumps({"version": 1, "verdicts": [], "count": count}))
        assert cli.main(["upload", str(folder), "--to", "kept", *CHANGE]) == 0
    assert "objects of them there already" in capsys.readouterr().err
    assert len([path for path in (tmp_path / "kept" / "v3").rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize(
    "command", [["upload", "{}", "--to", "kept", *CHANGE], ["ingest", "{}", "--store", "chdb://store"]]
)
def test_one_with_damaged_text_stops_nothing_else(
    command: list[str],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    (folder / "damaged.json").write_bytes(b'{"version": 1, "verdicts": ["\xff"]}')
    assert cli.main([part.format(folder) for part in command]) == 3
    shown = "".join(capsys.readouterr())
    assert "damaged.json:1: $.verdicts[0]: holds bytes or escapes that are not valid Unicode" in shown
    assert "1 record in 1 object" in shown or "1 record of 1 object" in shown


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 1}',
        '{"verdicts": []}',
        '[{"version": 1, "verdicts": []}, {"model": {"name": "no metric"}}]',
        '{"version": 1, "verdicts": [',
        json.dumps({**RECORD, "version": 1, "costs": {}}),
    ],
)
def test_what_only_looks_like_one_is_judged_as_a_record(text: str) -> None:
    assert not is_torchperf_file(parse_records(text.encode(), "a.json"))
