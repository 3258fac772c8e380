"""``torchperf run`` and ``torchperf list`` as a user calls them, with real workers.

Where nothing is measured, the command runs in this process, and what a worker says of its torch is asked for once.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci import scratch
from torchperf_ci.bench import commands, selection
from torchperf_ci.bench.case import Settings
from torchperf_ci.cli import main
from torchperf_ci.machine.examination import DoctorFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_ci.bench.worker.protocol import EnvironmentUnderTest

FAULTY = Path(__file__).parent / "faulty_suite.py"
PINNED = "pinned" if sys.platform == "linux" else "unpinned"
PARTS = {"benchmark", "model", "metric", "runners", "dependencies"}
"""Of a record that is measured outside of a job: nothing of its commit and run is made up."""
FAST = ("--device", "cpu", "--target-ci", "0.5", "--budget", "0.1")


def torchperf(*argv: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "TORCHPERF_"))} | environ
    command = [sys.executable, "-m", "torchperf_ci", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd, timeout=300)


@pytest.fixture(scope="module")
def described() -> EnvironmentUnderTest:
    """What a worker says of the torch beside this toolkit, with the suite of faults."""
    return selection.describe_environment(Settings(sys.executable, "auto", (str(FAULTY),)))


@pytest.fixture
def call(
    described: EnvironmentUnderTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Called]:
    """Call the command; another Python, suite or device than what is described is asked for itself."""
    ask = selection.describe_environment

    def describe(settings: Settings, *flag: str) -> EnvironmentUnderTest:
        here = settings.python == sys.executable and settings.device in ("auto", described.environment.device)
        return described if here and {*settings.files} <= {str(FAULTY)} else ask(settings, *flag)

    monkeypatch.setattr(selection, "describe_environment", describe)
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "TORCHPERF_"))]:
        monkeypatch.delenv(name)

    def called(*argv: str | Path, cwd: Path) -> Called:
        monkeypatch.chdir(cwd)
        return Called(main([*map(str, argv)]), *capsys.readouterr())

    return called


@dataclass(frozen=True)
class Called:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def records_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Records by workload and metric."""
    found = [record for file in sorted(folder.glob("*.json")) for record in json.loads(file.read_text())]
    return {f"{record['model']['name']} {record['metric']['name']}": record for record in found}


IDENTITY = {"repo": "octo/perf", "head_branch": "refs/heads/main", "head_sha": "1f", "workflow_id": 71}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of a run of a job, which is configured, and what the run said."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "torchperf.yml").write_text(
        f"version: 1\nname: mine\nsuites:\n  ours: {{workloads: ['{FAULTY}'], modes: [inference], dtypes: [bf16]}}\n"
    )
    (folder / "temporary").mkdir()
    names = ("GITHUB_REPOSITORY", "GITHUB_REF", "GITHUB_SHA", "GITHUB_RUN_ID")
    job = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    job |= {"GITHUB_RUN_ATTEMPT": "2", **dict(zip(names, map(str, IDENTITY.values()), strict=True))}
    return folder, torchperf(*FINISHED, cwd=folder, **job, TMPDIR=str(folder / "temporary"))


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
    done = torchperf(*argv, "--target-ci", "0.000001", "--budget", "1", cwd=tmp_path, **job)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?s)\n⚠ this machine is busy: [^\n]*other work.*\n\[1/1, ", done.stderr)
    assert re.search(r"\n⚠ disturbed during the measurement: .*other work", done.stderr)
    assert "⚠ disturbed during the measurement" in unescape((tmp_path / "summary").read_text())
    (case,) = json.loads(done.stdout)
    status = records_in(tmp_path / "torchperf-records")["faulty/fine status"]["metric"]
    assert "other work" in case["disturbed"] == status["extra_info"]["disturbed"]


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
    resumed: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> Anchored:
    """The anchor is the same torch, but its suite has no ``faulty/newer``."""
    folder = tmp_path_factory.mktemp("anchored")
    anchor = folder / "anchor-python"
    anchor.write_text(f'#!/bin/sh\nANCHOR=1 exec {sys.executable} "$@"\n')
    anchor.chmod(0o755)
    job = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    own = ["run", "--suite", FAULTY, "--filter", "faulty/fine,faulty/newer", "--processes", "2", *FAST]
    argv = [*map(str, own), "--anchor", str(anchor)]
    stopped = _stopped_after_a_pair(argv, folder)
    resumed = torchperf(*argv, "--resume", "--json", cwd=folder, **job)
    assert resumed.returncode == 0, resumed.stderr
    return Anchored(folder, stopped, [*map(str, own)], resumed)


def _stopped_after_a_pair(argv: list[str], folder: Path) -> Stopped:
    command, out = [sys.executable, "-m", "torchperf_ci", *argv], folder / "torchperf-records"
    journal = out / ".torchperf/journal.jsonl"
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as running:
        _wait_until(lambda: journal.exists() and re.search('"pair".*\n', journal.read_text()))
        entries = [json.loads(line) for line in journal.read_text().split("\n")[:-1]]
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=30)[1]
    first_pair = next(entry["pair"] for entry in entries if "pair" in entry)
    return Stopped(command, first_pair, running.returncode, said, records_in(out))


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
    assert [p.name for p in out.iterdir()] == ["old.json"]
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--suite", "nonsuch"), "unknown suite or workload 'nonsuch'"),
        (("--suite", "missing.py"), "missing.py"),
        (("--suite", "quick", "--device", "xpu"), "sees no xpu device here"),
        (("--suite", "quick", "--python", "/nonsuch/python"), "there is no Python at /nonsuch/python"),
        (("--suite", "quick", "--python", "BARE"), "has no torch"),
        (("--suite", "quick", "--python", "/bin/true"), "the worker exited with code 0"),
        (("--suite", "quick", "--anchor", "/nonsuch/python"), "give the one that has torch with --anchor"),
        (("--suite", "quick", "--anchor", "BARE"), "give the Python that has it with --anchor"),
        (("--config", "nonsuch.yml"), "nonsuch.yml"),
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


def test_the_config_names_benchmark_and_suites_and_the_table_is_data_when_asked(finished, call) -> None:
    """Of a run that has nothing left to measure."""
    folder, _ = finished
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


def test_what_ends_before_it_is_sampled_took_time_too(tmp_path: Path) -> None:
    crashing = ("--filter", "faulty/segfaults", "--batch-size", "auto")
    assert torchperf("run", "--suite", FAULTY, *crashing, *FAST, cwd=tmp_path).returncode == 3
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
    assert call(*run, "--resume", cwd=tmp_path).returncode == 3
    assert records_in(tmp_path / "records")


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


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_doctor_looks_at_a_device_that_the_toolkits_own_torch_has_not(tmp_path: Path, device: str) -> None:
    done = torchperf("doctor", "--json", "--device", device, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "steadiness" in {finding["check"] for finding in json.loads(done.stdout)["findings"]}


def test_a_strict_doctor_fails_where_a_check_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unsteady = DoctorFinding("turbo", "warn", "on", "it depends on heat", "switch it off")
    calm = replace(unsteady, level="ok")
    for found, code in (([calm], 0), ([calm, unsteady], 1)):  # of the machine: no torch is asked
        monkeypatch.setattr(commands, "examine", lambda *_, found=found, **__: found)
        assert main(["doctor", "--python", "/bin/true", "--strict"]) == code
        assert main(["doctor", "--python", "/bin/true"]) == 0
    assert "! turbo: on" in capsys.readouterr().out


def test_doctor_needs_no_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    done = torchperf("doctor", "--json", "--python", tmp_path / "bare/bin/python", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "only the CPU is examined, because" in done.stderr
    assert "steadiness" in {finding["check"] for finding in json.loads(done.stdout)["findings"]}


def test_list_is_data_when_asked(tmp_path: Path, call) -> None:
    done = call("list", "--suite", "core", "--filter", "vision/*", "--json", cwd=tmp_path)
    listed = json.loads(done.stdout)
    assert {entry["name"].split("/")[0] for entry in listed["workloads"]} == {"vision"}
    assert {"quick", "core", "operators", "all"} <= set(listed["suites"])
