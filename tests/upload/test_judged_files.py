"""Verdicts and culprits are uploaded below ``judged/``, each content once, and can be ingested into a store."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from seaweedfs import BUCKET

from torchperf_ci import cli
from torchperf_ci.store.judged_files import judged_texts
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.http_server import HttpServer

CHANGE = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1f" * 20, "--workflow-id", "71")
VERDICTS = json.dumps({"version": 1, "command": "check", "verdicts": []}, indent=1)
CULPRITS = json.dumps({"version": 1, "status": "found", "culprits": []}, indent=1)


@pytest.fixture
def judged(folder: Path) -> Path:
    """The records, and what was found out of them."""
    for name, text in {"verdicts.json": VERDICTS, "culprits.json": CULPRITS, "again.json": CULPRITS}.items():
        (folder / name).write_text(text)
    (folder / "costs.json").write_text('{"version": 1, "costs": []}')
    return folder


@pytest.fixture(params=["directory", "branch", "bucket", "store"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "store":
        return f"chdb://{tmp_path / 'kept'}"
    if request.param == "directory":
        return str(tmp_path / "kept")
    if request.param == "bucket":
        request.getfixturevalue("aws")
        return f"s3://{BUCKET}/{uuid4()}"
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "kept.git"], check=True)
    return f"branch:perf-data@{tmp_path / 'kept.git'}"


def kept(target: str, store: str) -> dict[str, list[str]]:
    """The texts that a store has after it has taken in what is at the target, and the keys of their objects."""
    if not target.startswith("chdb://"):
        for _ in range(2):
            assert cli.main(["ingest", target, "--store", store]) == 0
    with open_store(store) as opened:
        assert opened.rows("SELECT count() FROM oss_ci_benchmark_v3") == [(5,)]
        keys = [str(key) for (key,) in opened.rows("SELECT key FROM torchperf_judged ORDER BY key")]
        return {
            "keys": keys,
            **{kind: list(judged_texts(opened, kind)) for kind in ("culprits", "verdicts")},
        }


def test_they_are_kept_once_as_they_were_written(
    judged: Path, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):  # another spool knows nothing of the first upload
        spool = str(tmp_path / f"spool{number}")
        assert cli.main(["upload", str(judged), "--to", target, "--spool", spool, *CHANGE]) == 0
        assert ("4 objects of them there already" in capsys.readouterr().err) is bool(number)
    found = kept(target, target if target.startswith("chdb://") else f"chdb://{tmp_path / 'store'}")
    keys = found.pop("keys")
    below = f"{target.rpartition('/')[2]}/" if target.startswith("s3://") else ""
    assert [key.rpartition("-")[0] for key in keys] == [
        f"{below}judged/octo/perf/71/culprits",
        f"{below}judged/octo/perf/71/verdicts",
    ]
    assert found == {"culprits": [CULPRITS], "verdicts": [VERDICTS]}


def test_a_directory_of_nothing_else_is_uploaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "found/culprits.json").write_text(CULPRITS)
    assert cli.main(["upload", str(tmp_path / "found"), "--to", str(tmp_path / "kept"), *CHANGE]) == 0
    assert "1 file of verdicts or culprits kept at" in capsys.readouterr().err
    assert len(list((tmp_path / "kept/judged/octo/perf/71").iterdir())) == 1


def test_an_upload_api_gets_records_alone(
    judged: Path, api: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["upload", str(judged), "--to", api.url, *CHANGE]) == 0
    assert not (tmp_path / "kept/judged").exists()
    left_out = "3 files of verdicts or culprits not sent: an upload API takes none"
    assert left_out in capsys.readouterr().err
    (judged / "sub").mkdir()
    (judged / "sub/culprits.json").write_text(CULPRITS)
    assert cli.main(["upload", str(judged / "sub"), "--to", api.url, *CHANGE]) == 2
    assert "1 file of verdicts or culprits not sent" in capsys.readouterr().err
