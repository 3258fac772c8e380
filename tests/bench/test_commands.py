"""Calls of ``torchperf run``, ``list`` and ``doctor`` that measure no workload.

Most run in this process, and what a worker says of its torch is asked for once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench import commands
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.results import CaseResult
from torchperf_ci.cli import main
from torchperf_ci.errors import NotRestoredError
from torchperf_ci.machine import examination
from torchperf_ci.machine.examination import DoctorFinding
from torchperf_ci.machine.tuning import TuningReport

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTY = Path(__file__).parent / "faulty_suite.py"


def test_records_of_an_earlier_run_are_safe(tmp_path: Path, call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a later step of a job on a runner that is kept take them for its own."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    out = tmp_path / "torchperf-records"
    out.mkdir()
    (out / "old.json").write_text("[]")
    done = call("run", "--suite", FAULTY, "--filter", "faulty/fine", "--out", out, cwd=tmp_path)
    assert done.returncode == 2
    assert "holds the records of an earlier run" in done.stderr
    assert "this machine" not in done.stderr
    assert [p.name for p in out.iterdir()] == ["old.json"]
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--suite", "nonsuch"), "unknown suite or workload 'nonsuch'"),
        (("--suite", "missing.py"), "/missing.py on this machine"),
        (("--suite", "quick", "--device", "xpu"), "sees no xpu device here"),
        (("--suite", "quick", "--python", "/nonsuch/python"), "there is no Python at /nonsuch/python"),
        (("--suite", "quick", "--python", "BARE"), "has no torch"),
        (("--suite", "quick", "--python", "/bin/true"), "the worker exited with code 0"),
        (("--suite", "quick", "--anchor", "/nonsuch/python"), "give the one that has torch with --anchor"),
        (("--suite", "quick", "--anchor", "BARE"), "give the Python that has it with --anchor"),
        (("--config", "nonsuch.yml"), "nonsuch.yml"),
        (("--resume", "--python", "/nonsuch/python"), "torchperf-records holds no run to resume"),
    ],
)
def test_a_bad_call_is_one_clear_error(tmp_path: Path, argv: tuple[str, ...], message: str, call) -> None:
    if "BARE" in argv:
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60
        )
        argv = tuple(str(tmp_path / "bare/bin/python") if a == "BARE" else a for a in argv)
    done = call("run", *argv, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "\ntorchperf: error: " in f"\n{done.stderr}"
    assert message in done.stderr
    assert not (tmp_path / "torchperf-records").exists()


def test_a_shard_without_a_case_has_nothing_that_later_steps_could_miss(
    tmp_path: Path, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    done = call("run", "--suite", FAULTY, "--filter", "faulty/fine", "--shard", "3/4", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert "shard 3/4 has nothing to measure: there are fewer cases than shards" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_dry_run_measures_nothing(tmp_path: Path, call) -> None:
    (tmp_path / "torchperf-records").mkdir()
    (tmp_path / "torchperf-records/old.json").write_text("[]")
    done = call("run", "--suite", FAULTY, "--dry-run", "--dtype", "fp32,bf16", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "faulty/hangs inference bf16 eager batch 2" in done.stdout
    assert done.stdout.endswith("; records to torchperf-records-2\n")
    assert [path.name for path in tmp_path.rglob("*")] == ["torchperf-records", "old.json"]


def test_what_was_measured_is_told_also_where_tuning_cannot_be_undone(
    tmp_path: Path, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def tuned(_device: object) -> Iterator[TuningReport]:
        yield TuningReport({"turbo": "off"})
        msg = "tuning left this machine changed"
        raise NotRestoredError(msg)

    monkeypatch.setattr(commands, "tuned", tuned)
    failed = [ProcessOutcome("oom", "too large")]
    monkeypatch.setattr(commands, "run", lambda plan: [CaseResult(case, failed) for case in plan.cases])
    done = call("run", "--suite", FAULTY, "--filter", "faulty/fine", "--tune", cwd=tmp_path)
    assert done.returncode == 3
    assert "oom" in done.stdout
    assert "tuning left this machine changed" in done.stderr


@pytest.fixture
def brief_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """How steady this machine is takes a second of it, and does not matter here."""
    monkeypatch.setattr(examination, "BLOCK_SECONDS", 0.0005)


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_doctor_looks_at_a_device_that_the_toolkits_own_torch_has_not(
    tmp_path: Path, call, brief_noise: None, device: str
) -> None:
    done = call("doctor", "--json", "--device", device, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "steadiness" in {finding["check"] for finding in json.loads(done.stdout)["findings"]}


def test_a_strict_doctor_fails_where_a_check_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unsteady = DoctorFinding("turbo", "warn", "on", "it depends on heat", "switch it off")
    calm = replace(unsteady, level="ok")
    monkeypatch.setattr(commands, "machine_state", lambda *_: None)
    for found, code in (([calm], 0), ([calm, unsteady], 1)):  # of the machine: no torch is asked
        monkeypatch.setattr(commands, "diagnose", lambda _state, found=found: found)
        assert main(["doctor", "--python", "/bin/true", "--strict"]) == code
        assert main(["doctor", "--python", "/bin/true"]) == 0
    assert "! turbo: on" in capsys.readouterr().out


def test_doctor_needs_no_torch(tmp_path: Path, call, brief_noise: None) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    done = call("doctor", "--json", "--python", tmp_path / "bare/bin/python", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "only the CPU is examined, because" in done.stderr
    assert "steadiness" in {finding["check"] for finding in json.loads(done.stdout)["findings"]}


def test_list_is_data_when_asked(tmp_path: Path, call) -> None:
    done = call("list", "--suite", "core", "--filter", "vision/*", "--json", cwd=tmp_path)
    listed = json.loads(done.stdout)
    assert {entry["name"].split("/")[0] for entry in listed["workloads"]} == {"vision"}
    assert {"quick", "core", "operators", "all"} <= set(listed["suites"])
