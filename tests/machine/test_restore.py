from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pynvml
import pytest

from torchperf_ci.machine import restorer as program
from torchperf_ci.machine.tuning import CannotRestoreError, NotRestoredError, Restorer
from torchperf_ci.processes import MARKS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def switch(tmp_path):
    path = tmp_path / "switch"
    path.write_text("before")
    return path


@contextmanager
def restoring() -> Iterator[Restorer]:
    restorer = Restorer()
    try:
        yield restorer
    finally:
        restorer.restore()


def state_of(path: Path) -> dict[str, str]:
    return {"kind": "file", "path": str(path)}


def test_states_come_back_last_first(switch):
    with restoring() as restorer:
        restorer.remember(state_of(switch))
        switch.write_text("between")
        restorer.remember(state_of(switch))
        switch.write_text("after")
    assert switch.read_text() == "before"


def test_what_holds_its_content_still_is_not_written(switch):
    with restoring() as restorer:
        restorer.remember(state_of(switch))
        written = switch.stat().st_mtime_ns
    assert switch.stat().st_mtime_ns == written


def test_an_absent_switch_cannot_be_remembered(tmp_path):
    with restoring() as restorer, pytest.raises(CannotRestoreError, match="No such file or directory"):
        restorer.remember(state_of(tmp_path / "absent"))


def test_an_unknown_kind_cannot_be_remembered():
    with restoring() as restorer, pytest.raises(CannotRestoreError):
        restorer.remember({"kind": "miracle", "path": "/"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_whoever_stops_the_parent_does_not_stop_the_restoring(switch, number):
    restorer = Restorer()
    restorer.remember(state_of(switch))
    switch.write_text("after")
    os.kill(restorer._process.pid, number)
    restorer.restore()
    assert switch.read_text() == "before"


def test_it_is_in_a_session_of_its_own_and_unmarked(switch, monkeypatch):
    """Otherwise a runner, or an outer torchperf that ends this one, would kill it before it has restored anything."""
    for mark in MARKS:
        monkeypatch.setenv(mark, "0000")
    restorer = Restorer()
    restorer.remember(state_of(switch))
    pid = restorer._process.pid
    session = os.getsid(pid)
    environment = Path(f"/proc/{pid}/environ").read_bytes() if sys.platform == "linux" else b"PATH="
    restorer.restore()
    assert session == pid
    assert b"PATH=" in environment
    assert not any(mark.encode() in environment for mark in MARKS)


def test_a_restorer_that_died_changes_nothing_more_and_is_told(switch):
    restorer = Restorer()
    restorer.remember(state_of(switch))
    restorer._process.kill()
    restorer._process.wait()
    with pytest.raises(CannotRestoreError, match="does not answer"):
        restorer.remember(state_of(switch))
    with pytest.raises(NotRestoredError, match="does not answer"):
        restorer.restore()


GPU = {"uuid": "GPU-aaaa1111"}


def test_a_restorer_that_hangs_is_not_waited_for_forever(switch, monkeypatch):
    monkeypatch.setattr("torchperf_ci.machine.tuning.ANSWER_SECONDS", 0.2)
    restorer = Restorer()
    os.kill(restorer._process.pid, signal.SIGSTOP)
    with pytest.raises(CannotRestoreError):
        restorer.remember(state_of(switch))
    os.kill(restorer._process.pid, signal.SIGCONT)
    with pytest.raises(CannotRestoreError):
        restorer.remember(state_of(switch))
    os.kill(restorer._process.pid, signal.SIGSTOP)
    with pytest.raises(NotRestoredError, match="does not answer"):
        restorer.restore()
    os.kill(restorer._process.pid, signal.SIGCONT)
    restorer._process.communicate()


def test_persistence_comes_back_if_it_was_changed(nvidia):
    undo = program.remember_nvml_persistence(GPU)
    undo()
    nvidia.nvmlDeviceSetPersistenceMode.assert_not_called()
    nvidia.nvmlDeviceGetPersistenceMode.side_effect = lambda _: pynvml.NVML_FEATURE_ENABLED
    undo()
    nvidia.nvmlDeviceSetPersistenceMode.assert_called_once_with("GPU-aaaa1111", pynvml.NVML_FEATURE_DISABLED)


def test_clocks_are_freed(nvidia):
    undo = program.remember_nvml_clocks(GPU)
    nvidia.nvmlDeviceResetGpuLockedClocks.assert_not_called()
    undo()
    nvidia.nvmlDeviceResetGpuLockedClocks.assert_called_once_with("GPU-aaaa1111")


def test_clocks_that_could_not_be_locked_need_not_be_freed(nvidia):
    refusal = pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
    nvidia.nvmlDeviceResetGpuLockedClocks.side_effect = refusal
    program.remember_nvml_clocks(GPU)()


def test_clocks_that_stay_locked_are_an_error(nvidia):
    nvidia.nvmlDeviceResetGpuLockedClocks.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(pynvml.NVMLError, match="lost"):
        program.remember_nvml_clocks(GPU)()


def test_an_amd_gpus_level_comes_back(amdsmi):
    second = list(amdsmi.levels)[1]
    undo = program.remember_amdsmi_perf_level({"uuid": second})
    amdsmi.levels[second] = "DETERMINISM"
    undo()
    assert amdsmi.levels[second] == "AUTO"
