"""A job's environment, and records to upload from it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from serving_app import receiving_in

from torchperf_ci.places.place import DirectoryPlace, UploaderCredentials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.http_server import HttpServer

SHA = "1f" * 20


def make_record(model: str, value: float = 1.5, **more: Any) -> dict[str, Any]:
    return {
        "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
        "model": {"name": model, "backend": "eager"},
        "metric": {"name": "latency(ms)", "benchmark_values": [value]},
        "runners": [{"name": "cuda", "type": "NVIDIA H100 80GB HBM3"}],
        **more,
    }


@pytest.fixture(autouse=True)
def _outside_of_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the job that runs the tests nor the checkout they are in tells anything."""
    for name in os.environ:
        if name.startswith(("GITHUB_", "RUNNER_", "TORCHPERF_", "UPLOADER_")):
            monkeypatch.delenv(name)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five records in two files."""
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps([make_record(f"a{number}") for number in range(3)]))
    (folder / "b.json").write_text(
        "".join(json.dumps(make_record(f"b{number}")) + "\n" for number in range(2))
    )
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A job of a push to main; its runner's files are in ``tmp_path``."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"ref": "refs/heads/main"}))
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_JOB": "measure",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_REPOSITORY": "octo/perf",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_RUN_ID": "71",
        "GITHUB_SHA": SHA,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "RUNNER_NAME": "runner-7",
        "RUNNER_TEMP": str(tmp_path / "runner"),
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return environ


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    """An upload API of our own, keeping in ``tmp_path / "kept"``, and its credentials in the environment."""
    accepted = UploaderCredentials("someone", "pa55word-of-the-uploader")
    monkeypatch.setenv("UPLOADER_USERNAME", accepted.username)
    monkeypatch.setenv("UPLOADER_PASSWORD", accepted.password)
    with receiving_in(DirectoryPlace(tmp_path / "kept"), accepted) as server:
        yield server
