"""From a real run through the store to the shards of the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from torchperf_ci.bench.case import read_costs

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
version: 1
runners: {here: {device: cpu}}
suites: {road: {workloads: [suite.py], runners: [here], shards: 2}}
"""
SUITE = """
import torch
from torchperf_ci.suite import Task, workload

def named(name):
    return workload(f"road/{name}", "", modes=("inference",))(lambda size: Task(torch.relu, (torch.ones(size),)))

a, b = map(named, "ab")
"""


def test_a_run_costs_what_the_next_one_is_split_by(tmp_path: Path) -> None:
    (tmp_path / "torchperf.yml").write_text(CONFIG)
    (tmp_path / "suite.py").write_text(SUITE)
    store = f"chdb://{tmp_path}/store"

    def torchperf(*argv: str) -> str:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "TORCHPERF_"))}
        command = [sys.executable, "-m", "torchperf_ci", *argv]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    torchperf(
        "run",
        "--suite",
        "road",
        "--processes",
        "1",
        "--budget",
        "0.1",
        "--target-ci",
        "0.5",
        "--out",
        "records",
    )
    head = ("--head-branch", "main", "--head-sha", "f" * 40)
    torchperf("upload", "records", "--to", store, "--repo-name", "octo/road", *head)
    torchperf("plan", "--costs", "costs.json", "--store", store)
    known = read_costs(tmp_path / "costs.json")
    assert set(known["cpu"]) == {f"road-{name}.inference.fp32.eager" for name in "ab"}
    assert min(known["cpu"].values()) > 0

    longest = max(known["cpu"], key=lambda key: known["cpu"][key])
    first = ("run", "--suite", "road", "--shard", "1/2", "--costs", "costs.json", "--dry-run")
    alone, _ = torchperf(*first).splitlines()
    assert alone == f"road/{longest.partition('.')[0][-1]} inference fp32 eager batch 1"
