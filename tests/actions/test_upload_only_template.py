"""The template for users with their own harness, after one has adapted the lines marked "edit"."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from act_runner import standing_in
from contents import contents
from copied import copied
from seaweedfs import BUCKET

from torchperf_ci.places import open_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Runner
    from oidc_issuer import Issuer
    from seaweedfs import S3Server

    Git = Callable[..., str]

WHERE = f"s3://{BUCKET}/granted/upload-only"
HARNESS = """
import json, pathlib, sys
record = {
    "benchmark": {"name": "Own harness"},
    "model": {"name": "blend"},
    "metric": {"name": "latency(ms)", "benchmark_values": [1.5, 1.75]},
}
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
(folder / "blend.json").write_text(json.dumps([record]))
raise SystemExit("one of two workloads failed")
"""


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    """A repository of a harness, with the template."""
    folder = tmp_path / "repository"
    files = {
        "benchmarks/measure.py": HARNESS,
        ".github/workflows/upload-only.yml": copied("workflows-templates/upload-only.yml"),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A harness")
    return folder


@pytest.mark.usefixtures("aws")
def test_what_a_harness_has_measured_is_kept_also_where_it_failed_in_the_end(
    runner: Runner, repository: Path, tmp_path: Path, s3_server: S3Server, issuer: Issuer
) -> None:
    environ = {
        **issuer.job(),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "GITHUB_REPOSITORY": "octo/perf",
        "ORIGIN": repository,
    }
    done = replace(runner, caller=repository, folder=tmp_path / "act").run(
        "schedule",
        {},
        "upload-only",
        *standing_in([copied("workflows-templates/upload-only.yml")]),
        *(f"--env={name}={value}" for name, value in environ.items()),
    )
    assert done.results == {"measure": "failure"}, done.log
    assert "one of two workloads failed" in done.log
    (kept,) = contents(open_place(WHERE)).values()
    (record,) = map(json.loads, gzip.decompress(kept).decode().splitlines())
    assert record["benchmark"]["name"] == "Own harness"
    assert record["metric"]["benchmark_values"] == [1.5, 1.75]
    assert record["repo"] == "octo/perf"
    assert record["runners"][0]["type"]
