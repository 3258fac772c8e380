from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torchperf_ci import cli
from torchperf_ci.bench.run import RunJournal
from torchperf_ci.records.files import make_own_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

CHANGE = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1f")


def test_a_checkout_in_which_torchperf_was_used_is_clean(
    tmp_path: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store, the spool and a run's journal are made where they are by default."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    records, checkout = tmp_path / "records", tmp_path / "checkout"
    for folder in (records, checkout):
        folder.mkdir()
    (records / "a.json").write_text(json.dumps([{"metric": {"name": "x"}, "runners": []}]))
    git(checkout, "init", "--quiet")
    monkeypatch.chdir(checkout)
    assert cli.main(["upload", str(records), "--to", str(tmp_path / "kept"), *CHANGE]) == 0
    assert cli.main(["ingest", str(records)]) == 0
    RunJournal(checkout, {})
    assert {path.name for path in (checkout / ".torchperf").iterdir()} >= {"journal.jsonl", "spool", "store"}
    assert git(checkout, "status", "--porcelain") == ""


def test_what_is_named_otherwise_is_not_touched(tmp_path: Path) -> None:
    make_own_folder(tmp_path / "spool/deep")
    assert not list(tmp_path.rglob(".gitignore"))


def test_what_somebody_has_written_there_stays(tmp_path: Path) -> None:
    make_own_folder(tmp_path / ".torchperf/store")
    ignored = tmp_path / ".torchperf/.gitignore"
    assert ignored.read_text().endswith("\n*\n")
    ignored.write_text("")
    make_own_folder(tmp_path / ".torchperf/spool")
    assert ignored.read_text() == ""
