"""``torchperf run`` as a user calls it, with real workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from measuring import FAST, records_in, torchperf

from torchperf_ci import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTY = Path(__file__).parent / "faulty_suite.py"
PINNED = "pinned" if sys.platform == "linux" else "unpinned"


IDENTITY = {"repo": "octo/perf", "head_branch": "refs/heads/main", "head_sha": "1f", "workflow_id": 71}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of a run of a job, which is configured, and what the run said."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "torchperf.yml").write_text(
        f"version: 1\nname: mine\nsuites:\n  ours: {{workloads: ['{FAULTY}'], modes: [inference], dtypes: [bf16]}}\n"
    )
    (folder / "temporary").mkdir()
    return folder, torchperf(*FINISHED, cwd=folder, **JOB, TMPDIR=str(folder / "temporary"))


NAMES = ("GITHUB_REPOSITORY", "GITHUB_REF", "GITHUB_SHA", "GITHUB_RUN_ID")
JOB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_OUTPUT": "output",
    "GITHUB_STEP_SUMMARY": "summary",
    "GITHUB_RUN_ATTEMPT": "2",
    **dict(zip(NAMES, map(str, IDENTITY.values()), strict=True)),
}
FINISHED = (
    "run",
    "--filter",
    "faulty/fine",
    "faulty/segfaults",
    "faulty/unsupported",
    "--processes",
    "1",
    *FAST,
)


def test_a_run_keeps_what_passed_and_says_what_failed(finished) -> None:
    folder, done = finished
    assert done.returncode == 3, done.stderr
    assert "1 of 3 cases measured, 1 crashed, 1 unsupported" in done.stderr
    machine, plan, *rest = [line for line in done.stderr.splitlines() if not line.startswith("::")]
    assert machine.startswith("this machine: ")
    assert re.match(r"3 cases, 1 process each, on cpu with torch \S+: about \d+ s; records go to torch", plan)
    why = next(place for place, line in enumerate(rest) if "unsupported: NotImplementedError" in line)
    assert any(line.startswith("    ") and "NotImplementedError" in line for line in rest[why + 1 :])
    found = records_in(folder / "torchperf-records")
    assert len(found["faulty/fine latency(ms)"]["metric"]["benchmark_values"]) == 1
    machine = found["faulty/fine latency(ms)"]["runners"][0]["extra_info"]
    assert (machine["cpus"], machine["pinned_to"] != "") == (PINNED, PINNED == "pinned")
    assert found["faulty/segfaults status"]["metric"]["benchmark_values"] == [0.0]
    assert all(record.items() >= {**IDENTITY, "run_attempt": 2}.items() for record in found.values())
    assert "faulty/segfaults latency(ms)" not in found
    assert "faulty/segfaults" in done.stdout
    assert "::error title=faulty/segfaults inference bf16 eager batch 2%3A crashed::" in done.stderr
    outputs = (folder / "output").read_text()
    assert f"\n{folder / 'torchperf-records'}\n" in outputs
    summary = (folder / "summary").read_text()
    assert "1 of 3 cases measured" in summary
    assert "SIGSEGV" in summary
    assert list((folder / "temporary").iterdir()) == []


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Half of the CPUs have other work, which ends by itself, too, where the test is killed."""
    loop = "import time; end = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
    with ExitStack() as stack:
        for _ in range(((os.cpu_count() or 1) + 1) // 2):
            stack.callback(stack.enter_context(subprocess.Popen([sys.executable, "-c", loop])).kill)
        yield


def test_a_run_on_a_busy_machine_says_so(tmp_path: Path, busy_machine: None) -> None:
    """The work of others is theirs although whoever started it has started the run, too."""
    job = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    argv = (
        "run",
        "--suite",
        FAULTY,
        "--filter",
        "faulty/fine",
        "--processes",
        "1",
        "--device",
        "cpu",
        "--json",
    )
    done = torchperf(*argv, "--target-ci", "0.000001", "--budget", "0.6", cwd=tmp_path, **job)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?s)\n⚠ this machine is busy: [^\n]*other work.*\n\[1/1, ", done.stderr)
    assert re.search(r"\n⚠ disturbed during the measurement: .*other work", done.stderr)
    assert "⚠ disturbed during the measurement" in unescape((tmp_path / "summary").read_text())
    (case,) = json.loads(done.stdout)
    status = records_in(tmp_path / "torchperf-records")["faulty/fine status"]["metric"]
    assert "other work" in case["disturbed"] == status["extra_info"]["disturbed"]


def test_the_config_names_benchmark_and_suites_and_the_table_is_data_when_asked(
    finished, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that has nothing left to measure."""
    folder, _ = finished
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    before = records_in(folder / "torchperf-records")
    resumed = ("--resume", "--out", "torchperf-records", "--on-failure", "warn", "--json")
    done = call(*FINISHED, *resumed, cwd=folder)
    assert done.returncode == 0, done.stderr
    cases = {case["status"]: case["metrics"] for case in json.loads(done.stdout)}
    assert cases.keys() == {"pass", "crashed", "unsupported"}
    assert cases["pass"]["latency(ms)"] > 0
    assert cases["crashed"] == {"status": 0.0}
    assert "faulty/fine" in done.stderr
    record = records_in(folder / "torchperf-records")["faulty/fine latency(ms)"]
    assert (record["benchmark"]["name"], record["benchmark"]["dtype"]) == ("mine", "bf16")
    assert (
        record["metric"]["benchmark_values"]
        == before["faulty/fine latency(ms)"]["metric"]["benchmark_values"]
    )


def test_what_ends_before_it_is_sampled_took_time_too(tmp_path: Path, call) -> None:
    crashing = ("--filter", "faulty/segfaults", "--batch-size", "auto")
    assert call("run", "--suite", FAULTY, *crashing, *FAST, cwd=tmp_path).returncode == 3
    (record,) = records_in(tmp_path / "torchperf-records").values()
    assert float(record["metric"]["extra_info"]["seconds"]) > 0


def test_what_fails_on_a_full_disk_is_not_broken_and_is_measured_again(
    tmp_path: Path, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("run", "--suite", FAULTY, "--filter", "faulty/raises", "--out", "records", *FAST)
    with monkeypatch.context() as full:
        full.setattr(scratch, "FULL_DISK", 2**62)
        done = call(*run, cwd=tmp_path)
    assert (done.returncode, records_in(tmp_path / "records")) == (2, {})
    assert re.search(r"the disk of .* is full: .*faulty/raises .*continue with --resume", done.stderr)
    done = call(*run, "--resume", cwd=tmp_path)
    assert (done.returncode, "--resume repeats none that failed" in done.stderr) == (3, True)
    assert records_in(tmp_path / "records")


def test_a_pair_that_fails_on_a_full_disk_is_measured_again(
    tmp_path: Path, anchor: str, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (
        "run",
        "--suite",
        FAULTY,
        "--filter",
        "faulty/newer",
        "--anchor",
        anchor,
        "--out",
        "records",
        *FAST,
    )
    with monkeypatch.context() as full:
        full.setattr(scratch, "FULL_DISK", 2**62)
        done = call(*run, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(
        r"the disk of .* is full: .*faulty/newer .*the anchor: .*continue with --resume", done.stderr
    )
    assert "unpaired" not in (tmp_path / "records/.torchperf/journal.jsonl").read_text()
