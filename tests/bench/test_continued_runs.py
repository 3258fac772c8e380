"""Runs that are stopped and continued, with an anchor."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import signal
import sys
import threading
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from measuring import FAST, Called, records_in

import torchperf_ci
from torchperf_ci.bench import pairs
from torchperf_ci.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTY = Path(__file__).parent / "faulty_suite.py"
PARTS = {"benchmark", "model", "metric", "runners", "dependencies"}
"""Of a record that is measured outside of a job: nothing of its commit and run is made up."""

SUITE = """
import torch
from torchperf_ci.suite import Task, workload

@workload("mine/net", "nothing", modes=("inference",))
def net(batch):
    return Task(torch.neg, (torch.ones(batch),))
"""


@dataclass(frozen=True)
class Stopped:
    """A run that SIGTERM has stopped once its first pair was kept: its command, what it said, and what it left."""

    command: list[str]
    first_pair: dict[str, Any]
    code: int
    said: str
    records: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Anchored:
    """An anchored run: how it was stopped, the same without an anchor, and what went on with it."""

    folder: Path
    stopped: Stopped
    without_anchor: list[str]
    resumed: Called


@pytest.fixture(scope="module")
def anchored(
    anchor: str,
    tmp_path_factory: pytest.TempPathFactory,
    outside_of_jobs: Callable[[pytest.MonkeyPatch], None],
) -> Anchored:
    folder = tmp_path_factory.mktemp("anchored")
    own = ["run", "--suite", FAULTY, "--filter", "faulty/fine,faulty/newer", "--processes", "2", *FAST]
    argv = [*map(str, own), "--anchor", anchor]
    with pytest.MonkeyPatch.context() as monkeypatch:
        outside_of_jobs(monkeypatch)
        monkeypatch.chdir(folder)
        monkeypatch.setattr(pairs, "BLOCK_SECONDS", 0.01)
        monkeypatch.setattr(sys, "argv", [str(Path(torchperf_ci.__file__).with_name("__main__.py")), *argv])
        stopped = _stopped_after_a_pair(argv, folder)
        resumed = _called(*argv, "--resume", "--json")
    assert resumed.returncode == 0, resumed.stderr
    return Anchored(folder, stopped, [*map(str, own)], resumed)


def _called(*argv: str) -> Called:
    """How a job's call ends that a fixture makes, whose output pytest does not give."""
    job = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    with patch.dict(os.environ, job), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main([*argv])
    return Called(code, out.getvalue(), err.getvalue())


def _stopped_after_a_pair(argv: list[str], folder: Path) -> Stopped:
    out = folder / "torchperf-records"
    journal = out / ".torchperf/journal.jsonl"
    entries: list[dict[str, Any]] = []
    over = threading.Event()

    def has_pair() -> bool:
        return over.is_set() or (journal.exists() and bool(re.search('"pair".*\n', journal.read_text())))

    def stop_after_a_pair() -> None:
        _wait_until(has_pair)
        if not over.is_set():
            entries.extend(json.loads(line) for line in journal.read_text().split("\n")[:-1])
            os.kill(os.getpid(), signal.SIGTERM)

    watching = threading.Thread(target=stop_after_a_pair)
    watching.start()
    with warnings.catch_warnings(), redirect_stderr(StringIO()) as said:
        warnings.simplefilter("ignore", ResourceWarning)  # a socket ends with its process
        code = main([*argv])
    over.set()
    watching.join()
    first_pair = next(entry["pair"] for entry in entries if "pair" in entry)
    command = [sys.executable, "-m", "torchperf_ci", *argv]
    return Stopped(command, first_pair, code, said.getvalue(), records_in(out))


def _wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_an_interrupted_run_keeps_its_records_and_resumes(anchored: Anchored) -> None:
    stopped = anchored.stopped
    goes_on = f"to continue: {shlex.join([*stopped.command, '--resume', '--out', 'torchperf-records'])}\n"
    assert f"stopped by SIGTERM; what was measured is in torchperf-records; {goes_on}" in stopped.said
    assert stopped.code == 143
    assert {key for record in stopped.records.values() for key in record} <= PARTS
    kept = stopped.records["faulty/fine latency(ms)"]["metric"]["benchmark_values"]
    values = records_in(anchored.folder / "torchperf-records")["faulty/fine latency(ms)"]["metric"][
        "benchmark_values"
    ]
    assert len(values) == 2
    assert values[0] == kept[0]
    assert "[1/6, " in anchored.resumed.stderr, "of eight, the first process and the first pair are known"


def test_an_anchored_run_continues_with_the_pairs_that_it_has(anchored: Anchored) -> None:
    records = records_in(anchored.folder / "torchperf-records")
    metric = records["faulty/fine latency_vs_anchor(ratio)"]["metric"]
    assert len(metric["benchmark_values"]) == 2
    assert metric["benchmark_values"][0] == pytest.approx(
        math.exp(median(anchored.stopped.first_pair["log_ratios"]))
    )
    assert metric["extra_info"]["anchor"].startswith("torch 2.")


def test_another_anchor_cannot_continue_a_run(anchored: Anchored, call) -> None:
    done = call(*anchored.without_anchor, "--resume", cwd=anchored.folder)
    assert done.returncode == 2
    assert 'anchor changed (anchor: "torch ' in done.stderr


def test_what_has_changed_is_not_measured_to_the_end_under_the_same_name(
    tmp_path: Path, git: Callable[..., str], call: Callable[..., Called], monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = tmp_path / "suite.py"
    suite.write_text(f"import layers\n{SUITE}")
    (layers := tmp_path / "layers.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "remote", "add", "origin", "git@github.com:octo/net.git")
    git(tmp_path, "add", "suite.py")
    git(tmp_path, "commit", "--quiet", "--message", "One")
    argv = ["run", "--repo", ".", "--suite", "suite.py", "--processes", "1", *FAST]
    assert call(*argv, cwd=tmp_path).returncode == 0
    layers.write_text("width = 8\n")
    done = call(*argv, "--resume", cwd=tmp_path)
    changed = r'another run: suite files and their imports changed \(.*: \["layers.py \w+"\] → \["layers.py \w+"\]\)'
    assert done.returncode == 2
    assert re.search(changed, done.stderr)
    layers.write_text("")
    suite.write_text(f"import layers\n{SUITE.replace('neg', 'sin')}")
    done = call(*argv, "--resume", cwd=tmp_path)
    assert (done.returncode, "another run: suite files and their imports changed" in done.stderr) == (2, True)
    git(tmp_path, "commit", "--quiet", "--all", "--message", "Two")
    done = call(*argv, "--resume", cwd=tmp_path)
    assert (done.returncode, "another run: commit, suite files and their imports changed" in done.stderr) == (
        2,
        True,
    )


def test_a_workload_that_the_anchor_lacks_is_measured_all_the_same(anchored: Anchored) -> None:
    records = records_in(anchored.folder / "torchperf-records")
    assert len(records["faulty/newer latency(ms)"]["metric"]["benchmark_values"]) == 2
    status = records["faulty/newer status"]["metric"]
    assert status["benchmark_values"] == [1.0]
    why = json.loads(status["extra_info"]["not_measured"])["latency_vs_anchor(ratio)"]
    assert "the anchor: unsupported" in why
    assert "there is no workload faulty/newer in this environment" in why


def test_table_summary_and_json_have_the_ratio_or_the_reason(anchored: Anchored) -> None:
    fine, newer = json.loads(anchored.resumed.stdout)
    assert 0.5 < fine["metrics"]["latency_vs_anchor(ratio)"] < 2
    assert "no workload faulty/newer" in newer["not_measured"]["latency_vs_anchor(ratio)"]
    assert "vs anchor" in anchored.resumed.stderr
    assert "not measured" in anchored.resumed.stderr
    summary = (anchored.folder / "summary").read_text()
    assert "| vs anchor |" in summary
    assert "no workload faulty/newer" in summary
