"""After an upload was killed at any moment and resumed, each record is kept exactly once."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from contents import contents
from seaweedfs import BUCKET
from zygote import Zygote, running_zygote

from torchperf_ci.places import open_place
from torchperf_ci.records.reading import parse_records
from torchperf_ci.store.client import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from seaweedfs import S3Server

    from torchperf_ci.http_server import HttpServer

ROUNDS, KILLS = 7, 3
FILES, RECORDS = 12, 2
CHANGE = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1f" * 20)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with running_zygote() as running:
        yield running


def make_records(folder: Path, files: int) -> Counter[str]:
    """Files of records whose models' names are unique; the names."""
    folder.mkdir()
    names = Counter()
    for file in range(files):
        models = [f"{folder.name}-{file}-{number}" for number in range(RECORDS)]
        names.update(models)
        metric = {"name": "latency(ms)", "benchmark_values": [1.5]}
        lines = [json.dumps({"metric": metric, "model": {"name": model}, "runners": []}) for model in models]
        (folder / f"{file}.json").write_text("\n".join(lines))
    return names


def call(folder: Path, to: str) -> list[str]:
    # A model of its own for each folder: an upload API has one key for each commit otherwise.
    return ["upload", str(folder), "--to", to, "--model", folder.name, "--resume", *CHANGE]


def records_at(to: str) -> Counter[str]:
    readings = [parse_records(body, key) for key, body in contents(open_place(to)).items()]
    assert not any(reading.refused for reading in readings)
    return Counter(found.record["model"]["name"] for reading in readings for found in reading.records)


def rows_in(dsn: str) -> Counter[str]:
    with connect(dsn) as store:
        return Counter(
            str(name) for (name,) in store.rows("SELECT model.name FROM benchmark.oss_ci_benchmark_v3")
        )


def survive(
    zygote: Zygote, to: str, tmp_path: Path, kept: Callable[[], Counter[str]], files: int = FILES
) -> None:
    """Kill uploads of new records, and what resumes them, in each stretch of their life; resume each, and count."""
    expected, life, killed = Counter[str](), 0.0, 0
    for trial in ("first", "second"):  # the first makes what it reaches
        expected += make_records(tmp_path / trial, files)
        started = time.monotonic()
        assert zygote.run(call(tmp_path / trial, to)) == 0
        life = time.monotonic() - started
    shares = [(number + random.random()) / (ROUNDS * KILLS) for number in range(ROUNDS * KILLS)]
    random.shuffle(shares)
    for number in range(ROUNDS):
        folder = tmp_path / f"round{number}"
        expected += make_records(folder, files)
        for kill in range(KILLS):
            started = time.monotonic()
            if zygote.run(call(folder, to), kill_after=shares.pop() * life) is None:
                killed += 1
            elif not kill:  # the machine was busier when the second one was timed
                life = min(life, time.monotonic() - started)
        assert zygote.run(call(folder, to)) == 0
    assert killed > ROUNDS * KILLS / 4, "the kills came too late to mean anything"
    assert kept() == expected


def test_a_directory(tmp_path: Path, zygote: Zygote) -> None:
    to = str(tmp_path / "kept")
    survive(zygote, to, tmp_path, lambda: records_at(to), files=40)  # fewer are written in no time


def test_an_embedded_store(tmp_path: Path, zygote: Zygote) -> None:
    dsn = f"chdb://{tmp_path / 'store'}"
    survive(zygote, dsn, tmp_path, lambda: rows_in(dsn))


def test_an_upload_api(tmp_path: Path, zygote: Zygote, api: HttpServer) -> None:
    survive(zygote, api.url, tmp_path, lambda: records_at(str(tmp_path / "kept")))


def test_s3(tmp_path: Path, zygote: Zygote, aws: S3Server) -> None:
    to = f"s3://{BUCKET}/{uuid4()}"
    survive(zygote, to, tmp_path, lambda: records_at(to))


def test_a_branch(tmp_path: Path, zygote: Zygote, remote: Path, git: Callable[..., str]) -> None:
    to = f"branch:perf-data@{remote}"
    survive(zygote, to, tmp_path, lambda: records_at(to))
    assert "error" not in git(remote, "fsck", "--strict")
