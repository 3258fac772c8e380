"""Whatever a worker does, the parent gets one outcome in time, and no process stays behind."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from process_table import mentioning, runs, wait_until

from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.process import (
    MAX_TIMEOUTS,
    STEPS_GRANTED,
    ProcessOutcome,
    WorkerConversation,
    _disagreement,
    build,
    measure,
    open_worker,
    start_worker,
)
from torchperf_ci.bench.worker.protocol import Agreement, Block, Done, FirstStep
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.errors import SystemRefusalError
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.interface import GpuReading, ThrottleCounters, VendorReadings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.worker_client import Worker

Measure = Callable[..., ProcessOutcome]


@pytest.fixture
def outcome_of(faulty: Callable[[str], Case], quick: Settings, tmp_path: Path) -> Measure:
    def outcome(name: str, *, first: bool = False, **changes: object) -> ProcessOutcome:
        return measure(faulty(name), replace(quick, **changes), tmp_path, first=first)

    return outcome


@pytest.fixture(scope="module")
def one_worker(quick: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with start_worker(quick, tmp_path_factory.mktemp("one")) as worker:
        yield worker


@pytest.fixture
def in_one_worker(one_worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes that leave a worker as it was come from one, since it takes seconds to start."""
    monkeypatch.setattr("torchperf_ci.bench.process.open_worker", lambda *_: nullcontext(one_worker))


@pytest.mark.usefixtures("in_one_worker")
def test_a_healthy_workload_passes_with_all_that_one_process_can_tell(outcome_of: Measure) -> None:
    outcome = outcome_of("fine", first=True, budget=1.0)
    assert (outcome.status, outcome.reason) == ("pass", "")
    assert given(outcome) == {
        "build",
        "first_step",
        "warm_up",
        "sample",
        "peak",
        "leak",
        "phases",
        "flops",
    }
    assert outcome.answers.flops == 2 * 2 * 2 * 4
    assert 50 * 2**20 < outcome.answers.peak.host < 2 * 2**30
    assert abs(outcome.answers.leak.host) < 64 * 1024


def given(outcome: ProcessOutcome) -> set[str]:
    return {verb for verb, answer in vars(outcome.answers).items() if answer is not None}


@pytest.mark.usefixtures("in_one_worker")
def test_what_a_workload_prints_does_not_reach_the_protocol(outcome_of: Measure) -> None:
    assert outcome_of("prints").status == "pass"


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("writes", "crashed", "out of protocol"),
        ("segfaults", "crashed", "killed by SIGSEGV during first_step"),
        ("exits", "crashed", "exited with code 7 during first_step"),
        ("kills", "crashed", "killed by SIGKILL during first_step"),
        ("gives_up", "failed", "SystemExit: no data"),
        ("raises", "failed", "ZeroDivisionError: on purpose"),
        ("odd_file", "failed", r"RuntimeError: no weights in \udce9.pt"),
        ("oom", "oom", "can't allocate memory"),
        ("unsupported", "unsupported", "not implemented for 'UInt16'"),
        ("pretends", "failed", "NotImplementedError"),
    ],
)
def test_each_fault_has_its_word_and_reason(
    outcome_of: Measure, name: str, status: str, reason: str, request: pytest.FixtureRequest
) -> None:
    if status != "crashed":
        request.getfixturevalue("in_one_worker")
    outcome = outcome_of(name)
    assert outcome.status == status
    assert reason in outcome.reason
    assert "\n" not in outcome.reason
    has_traceback = status != "crashed" or name == "segfaults"
    assert ("faulty_suite.py" in outcome.log) == has_traceback


@pytest.mark.usefixtures("in_one_worker")
def test_a_missing_library_is_named_with_its_command_alone(
    faulty: Callable[[str], Case], quick: Settings, tmp_path: Path
) -> None:
    case = replace(faulty("fine"), workload="reinforcement/diffusers_planner")
    outcome = measure(case, quick, tmp_path, first=True)
    expected = f"needs diffusers: {quick.python} -m pip install diffusers"
    assert (outcome.status, outcome.reason, outcome.log) == ("unsupported", expected, "")


def test_a_workload_that_allocates_without_end_is_stopped_at_the_limit(
    faulty: Callable[[str], Case], quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.process.available_memory", lambda: 2**31)
    # However steady the steps are, sampling must not end before the memory is full.
    settings = replace(quick, budget=60, target_ci=1e-9)
    outcome = measure(faulty("allocates"), settings, tmp_path, first=False)
    assert outcome.status == "oom"
    assert "the limit is 1843 MiB" in outcome.reason


def test_it_is_the_kernels_own_count_that_tells_whether_memory_ran_out(
    outcome_of: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.worker_client.oom_kills", iter([3, 4]).__next__)
    (python := tmp_path / "python").write_text("#!/bin/sh\nkill -9 $$\n")
    python.chmod(0o755)
    outcome = outcome_of("fine", python=str(python))
    assert (outcome.status, outcome.reason) == (
        "oom",
        "the kernel killed the worker during build: out of memory",
    )


@pytest.mark.usefixtures("in_one_worker")
def test_a_look_that_fails_loses_only_itself(outcome_of: Measure) -> None:
    outcome = outcome_of("uncounted", first=True)
    assert outcome.status == "pass"
    assert {"sample", "peak", "leak", "phases"} <= given(outcome)
    assert outcome.missing == {"flops": "failed: ValueError: not while operators are counted"}


def leave_no_time_for(hurried: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's time is up when this verb is asked."""
    ask = WorkerConversation.ask

    def hurry(self: WorkerConversation, verb: str, kind: type, **arguments: object) -> object:
        self._left = 0.0 if verb == hurried else self._left
        return ask(self, verb, kind, **arguments)

    monkeypatch.setattr(WorkerConversation, "ask", hurry)


def test_a_look_that_has_no_time_left_costs_no_number(
    outcome_of: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_no_time_for("leak", monkeypatch)
    outcome = outcome_of("fine", first=True)
    assert outcome.status == "pass"
    assert outcome.answers.sample.seconds
    assert outcome.missing == dict.fromkeys(("leak", "phases", "flops"), "timeout: no time was left for leak")


def test_a_step_that_is_too_slow_to_warm_up_is_told_the_option(
    outcome_of: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_no_time_for("warm_up", monkeypatch)
    outcome = outcome_of("fine")
    assert outcome.status == "timeout"
    told = "no time was left for warm_up: raise --timeout (60 s for the first step, and at least as long for the rest)"
    assert outcome.reason == told


def test_a_result_of_another_shape_is_not_called_a_number() -> None:
    text = _disagreement(Agreement(False, None, 0.0123, "fp64", "outputs"))
    assert "compiled step are of another shape or not finite, those of the eager one 1.23% off" in text


def test_a_hang_in_c_ends_with_the_timeout(
    faulty: Callable[[str], Case], quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, reached = faulty("hangs"), tmp_path / "reached"
    monkeypatch.setenv("REACHED", str(reached))
    monkeypatch.setattr("torchperf_ci.bench.worker_client.GRACE_SECONDS", 60.0)
    with open_worker(case, quick, tmp_path) as worker:
        build(WorkerConversation(worker, 120), case, quick)
        monkeypatch.setattr("torchperf_ci.bench.worker_client.time.monotonic", lambda: 2.0 * reached.exists())
        with pytest.raises(WorkerFailure, match="first_step took longer than 1 s") as failure:
            worker.ask("first_step", 1.0, FirstStep)
    assert failure.value.status == "timeout"
    assert "faulty_suite.py" in failure.value.log
    assert "in _hangs_in_c" in failure.value.log


@pytest.mark.parametrize("spare", [0, -1])
def test_workers_leave_temporary_files_in_the_scratch_folder_unless_its_path_is_too_long(
    spare: int,
    faulty: Callable[[str], Case],
    quick: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.process.Worker", lambda _python, _log, environ, *_: environ)
    monkeypatch.setattr("torchperf_ci.bench.process.MAX_TEMPORARY_LENGTH", len(str(tmp_path)) + spare)
    environ = open_worker(faulty("fine"), quick, tmp_path)
    assert environ.get("TMPDIR") == (None if spare else str(tmp_path))


def test_only_the_workers_own_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, granted = 0.0, []
    monkeypatch.setattr("torchperf_ci.bench.process.time.monotonic", lambda: clock)

    class Busy:
        def ask(self, verb: str, timeout: float, kind: type) -> None:
            nonlocal clock
            clock += 3
            granted.append(timeout)

    conversation = WorkerConversation(Busy(), timeout=10)
    for _ in range(2):
        conversation.ask("block", Block)
        clock += 100  # the other side's turn
    assert granted == [10, 7]


def test_compiling_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, granted = 0.0, []
    monkeypatch.setattr("torchperf_ci.bench.process.time.monotonic", lambda: clock)

    class Compiling:
        def ask(self, verb: str, timeout: float, kind: type) -> None:
            nonlocal clock
            clock += 9 if verb == "build" else 0.6
            granted.append((verb, timeout))

    conversation = WorkerConversation(Compiling(), timeout=10)
    for verb in ("build", "first_step", "warm_up"):
        conversation.ask(verb, Done)
    assert granted == [("build", 10), ("first_step", 10), ("warm_up", 1)]


@pytest.mark.parametrize(
    ("first_step", "rest"), [(0.5, 10), (2.0, 2.0 * STEPS_GRANTED), (9.0, 10 * MAX_TIMEOUTS)]
)
def test_after_a_long_first_step_the_rest_may_take_longer_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, first_step: float, rest: float
) -> None:
    clock, granted = 0.0, []
    monkeypatch.setattr("torchperf_ci.bench.process.time.monotonic", lambda: clock)

    class Long:
        def ask(self, verb: str, timeout: float, kind: type) -> None:
            nonlocal clock
            clock += first_step
            granted.append(timeout)

    conversation = WorkerConversation(Long(), timeout=10)
    for verb in ("first_step", "warm_up", "first_step", "sample"):
        conversation.ask(verb, Done)
    assert granted == [10, rest, 10, rest - first_step]


class Readings(VendorReadings):
    """What a GPU's tools would report."""

    def throttle_counters(self) -> ThrottleCounters:
        now = time.monotonic()
        return ThrottleCounters(now, {"hardware thermal slowdown": 0.2 * now}, 0.97 * now)

    def reading(self) -> GpuReading:
        now = time.monotonic()
        return GpuReading(now, sm_mhz=1395, watts=698.0, temperature=56, joules=698.0 * now, processes=2)


class Readable(Cpu):
    """A CPU that can be read as if it were a GPU."""

    tools = Readings()


@pytest.mark.usefixtures("in_one_worker")
def test_what_a_gpu_showed_under_the_samples_is_kept_and_heat_voids_them(
    faulty: Callable[[str], Case], quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "hardware", Readable())
    settings = replace(quick, budget=1.0, target_ci=1e-9)
    outcome = measure(faulty("fine"), settings, tmp_path, first=False)
    told = {name: outcome.observed.get(name) for name in ("gpu_sm_mhz", "gpu_watts", "gpu_celsius")}
    assert told == {"gpu_sm_mhz": "1395", "gpu_watts": "698", "gpu_celsius": "56"}
    assert float(outcome.observed["energy_watts"]) == pytest.approx(698, rel=0.001)
    assert float(outcome.observed["power_capped"]) == pytest.approx(0.97, abs=0.01)
    assert outcome.observed["other_gpu_processes"] == "1"
    assert outcome.observed["throttling"] == "hardware thermal slowdown"
    assert (outcome.status, outcome.void) == ("pass", True)


@pytest.mark.usefixtures("in_one_worker")
def test_a_process_that_fails_beside_another_one_on_its_gpu_says_so(
    outcome_of: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Readings, "reading", lambda _: GpuReading(time.monotonic(), processes=1))
    monkeypatch.setattr(Settings, "hardware", Readable())
    outcome = outcome_of("raises")
    assert (outcome.status, outcome.observed["other_gpu_processes"]) == ("failed", "1")


@pytest.mark.usefixtures("in_one_worker")
def test_a_child_that_returns_into_the_worker_does_not_answer_for_it(outcome_of: Measure) -> None:
    assert outcome_of("forks").status == "pass"


@pytest.mark.usefixtures("in_one_worker")
def test_a_process_that_a_workload_spawns_finds_the_suite_file(outcome_of: Measure) -> None:
    assert outcome_of("spawns").status == "pass"


def test_nothing_that_a_workload_forked_stays_behind(outcome_of: Measure, tmp_path: Path) -> None:
    assert outcome_of("straggles").status == "pass"
    wait_until(lambda: not mentioning(str(tmp_path)))


def test_a_leak_is_measured(outcome_of: Measure) -> None:
    leak = outcome_of("leaks", first=True, budget=2.0).answers.leak
    assert leak.host / 1024 == pytest.approx(1024, rel=0.05)


KILLED = {
    "worker": """
from torchperf_ci.bench.worker_client import Worker
Worker(str(program), folder / "log", {}).ask("build", 600, dict)
""",
    "command": """
from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.user_command import InstalledBuild
from torchperf_ci.bench.user_command import run_user_command
run_user_command(str(program), InstalledBuild(Settings(sys.executable, "cpu", timeout=600), None, None, folder), None)
""",
    "build": """
import os
from torchperf_ci.environments.build_environment import run_program
run_program([str(program)], "--build", 600, cwd=folder, environ=os.environ)
""",
}
IN_A_FOLDER = (
    "import sys\nfrom pathlib import Path\nfolder = Path(sys.argv[1])\nprogram = folder / 'program'\n"
)


@pytest.mark.parametrize("what", KILLED)
def test_nothing_goes_on_where_torchperf_was_killed(what: str, tmp_path: Path) -> None:
    program, told = tmp_path / "program", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\nsetsid sleep 600 & echo $! >{told}.new; mv {told}.new {told}; wait\n")
    program.chmod(0o755)
    command = [sys.executable, "-c", IN_A_FOLDER + KILLED[what], str(tmp_path)]
    with subprocess.Popen(command) as parent:
        while not told.exists():
            assert parent.poll() is None
            time.sleep(0.02)
        parent.kill()
    wait_until(lambda: not runs(int(told.read_text())))


def test_a_python_that_is_gone_is_one_clear_error(outcome_of: Measure, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with pytest.raises(SystemRefusalError, match=f"{gone} has been removed since it was first used"):
        outcome_of("fine", python=gone)
