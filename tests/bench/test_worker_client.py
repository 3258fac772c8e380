"""A worker process is started, asked and ended; whatever it is, the parent gets an answer or the reason why not."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from torchperf_ci.bench.worker.protocol import Done, EnvironmentUnderTest
from torchperf_ci.bench.worker_client import Worker, WorkerFailure, last_lines

if TYPE_CHECKING:
    from pathlib import Path


def python_that(folder: Path, script: str) -> str:
    """The path of a program in the place of a Python, which runs ``script``."""
    program = folder / "python"
    program.write_text(script)
    program.chmod(0o755)
    return str(program)


def test_a_worker_has_none_of_the_jobs_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ENV", "file")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "token")
    log, program = tmp_path / "log", python_that(tmp_path, "#!/bin/sh\nenv\n")
    with Worker(program, log, {"GIVEN": "value"}) as worker, pytest.raises(WorkerFailure):
        worker.ask("ready", 30, Done)
    told = log.read_text()
    assert "\nGIVEN=value\n" in f"\n{told}"
    assert "GITHUB_ENV" not in told
    assert "ACTIONS_ID_TOKEN" not in told


def test_the_log_of_a_crash_ends_with_the_calls_that_led_to_it(tmp_path: Path) -> None:
    calls = [f'  File "model.py", line {n} in forward' for n in range(1, 60)]
    log = tmp_path / "log"
    log.write_text(
        "\n".join(["Fatal Python error: Aborted", "", "Current thread 0x1 (most recent call first):", *calls])
    )
    assert last_lines(log).splitlines()[-6:] == ["Current thread 0x1 (most recent call first):", *calls[:5]]


def test_a_worker_that_ends_before_it_is_asked_is_a_failure_not_an_exception(tmp_path: Path) -> None:
    with Worker("/bin/true", tmp_path / "log", {}) as worker:
        time.sleep(0.5)
        with pytest.raises(WorkerFailure, match="exited with code 0"):
            worker.ask("describe", 10, EnvironmentUnderTest)


def test_what_a_failure_tells_holds_no_credential(tmp_path: Path) -> None:
    program = python_that(tmp_path, "#!/bin/sh\necho 401 for https://me:s3cret@host/weights >&2\nexit 1\n")
    with Worker(program, tmp_path / "log", {}) as worker, pytest.raises(WorkerFailure) as caught:
        worker.ask("ready", 30, Done)
    assert caught.value.log == "401 for https://***host/weights"
    assert str(WorkerFailure("failed", "for https://me:s3cret@host")) == "failed: for https://***host"


def test_a_signal_without_a_name_is_told_by_its_number(tmp_path: Path) -> None:
    killed = python_that(tmp_path, "#!/bin/sh\nkill -35 $$\n")
    with (
        Worker(killed, tmp_path / "log", {}) as worker,
        pytest.raises(WorkerFailure, match="killed by signal 35"),
    ):
        worker.ask("describe", 10, EnvironmentUnderTest)


def test_a_worker_whose_log_is_removed_meanwhile_is_a_failure_without_a_log(tmp_path: Path) -> None:
    """As by a job that cleans the temporary directory."""
    log = tmp_path / "log"
    cleaning = python_that(tmp_path, f"#!/bin/sh\nrm '{log}'\n")
    with Worker(cleaning, log, {}) as worker, pytest.raises(WorkerFailure, match="code 0") as failure:
        worker.ask("describe", 10, EnvironmentUnderTest)
    assert failure.value.log == ""


def test_what_a_workload_prints_at_each_step_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.worker_client.MAX_LOG_BYTES", 1000)
    step = 'read -r request <&"$2"; printf "%0800d\\n" $n; echo \'{"ok": null}\' >&"$2"'
    printing = python_that(tmp_path, f"#!/bin/bash\nfor n in {{1..9}}; do {step}; done\n")
    log = tmp_path / "log"
    with Worker(printing, log, {}) as worker:
        for _ in range(9):
            worker.ask("block", 30, Done)
    assert last_lines(log)[-1:] in ("9", "")  # empty if it was the last that was too much
    assert log.stat().st_size < 2000


@pytest.mark.parametrize("answers", [0, 1])
def test_a_worker_that_has_not_answered_yet_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.worker_client.GRACE_SECONDS", 120.0)
    # It would end by itself, as one that has imported torch or has done its work.
    answer = 'read -r request <&"$2"; echo \'{"ok": null}\' >&"$2"\n'
    busy = python_that(tmp_path, f"#!/bin/bash\n{answers * answer}exec sleep 60\n")
    worker = Worker(busy, tmp_path / "log", {})
    for _ in range(answers):
        worker.ask("ready", 30, Done)
        monkeypatch.setattr(worker, "_enforce_memory_limit", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            worker.ask("sample", 30, Done)
    worker.close()
    assert worker._process.returncode == -signal.SIGKILL


def test_an_answer_without_an_end_is_cut_off(tmp_path: Path) -> None:
    noisy = python_that(tmp_path, '#!/bin/bash\nexec head -c 100000000 /dev/zero >&"$2"\n')
    with (
        Worker(noisy, tmp_path / "log", {}) as worker,
        pytest.raises(WorkerFailure, match="does not end"),
    ):
        worker.ask("describe", 30, EnvironmentUnderTest)


def test_a_worker_that_answers_out_of_protocol_is_not_asked_again(tmp_path: Path) -> None:
    answers = 'echo garbage >&"$2"; sleep 0.2; echo \'{"ok": null}\' >&"$2"; exec sleep 60'
    talking = python_that(tmp_path, f'#!/bin/bash\nread -r request <&"$2"; {answers}\n')
    with Worker(talking, tmp_path / "log", {}) as worker:
        with pytest.raises(WorkerFailure, match="out of protocol"):
            worker.ask("peak", 30, Done)
        assert not worker.alive


def test_the_environment_under_test_sees_nothing_of_the_toolkits(tmp_path: Path) -> None:
    """In a fresh virtual environment the worker's own package loads, and the toolkit's numpy does not."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    log = tmp_path / "log"
    with (
        Worker(str(tmp_path / "bare/bin/python"), log, {}) as worker,
        pytest.raises(WorkerFailure) as failure,
    ):
        worker.ask("describe", 30, EnvironmentUnderTest, device="cpu", files=[])
    assert "No module named 'torch'" in failure.value.log


def test_a_python_that_is_too_old_is_told(tmp_path: Path) -> None:
    """Such as the one of macOS, for which there is a torch that could be measured otherwise."""
    program = (
        "import runpy, sys; sys.version_info = (3, 9, 6); sys.version = '3.9.6 (default)'; del sys.argv[0]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    old = python_that(tmp_path, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{program}" "$@"\n')
    with Worker(old, tmp_path / "log", {}) as worker, pytest.raises(WorkerFailure) as failure:
        worker.ask("describe", 30, EnvironmentUnderTest, device="cpu", files=[])
    assert failure.value.log == "this is Python 3.9.6, and measuring needs 3.10 or newer"
