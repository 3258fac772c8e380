from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import torchperf_ci
from torchperf_ci.machine import tuning
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.interface import TuningChange
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.tuning import NotRestoredError, host_changes, tuned, untuned

CPU = "sys/devices/system/cpu"
SWITCHES = (
    "smt/control",
    "intel_pstate/no_turbo",
    "cpu*/cpufreq/scaling_governor",
    "cpu*/cpuidle/state*/disable",
)
PATIENCE = 300.0

# Whoever runs the tests may ignore signals, as nohup does, and a child would inherit that.
CHILD = """
import signal, sys, time
from pathlib import Path
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.tuning import tuned

signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
root = Path(sys.argv[2])
with tuned({"cpu": Cpu, "cuda": Cuda}[sys.argv[1]](), root) as report:
    print(dict(report.applied), flush=True)
    for _ in range(6000):
        time.sleep(0.1)  # a signal just before a sleep waits for its end
"""

SHIM = '''
"""NVML with its state in a folder, so that the processes of a test share one GPU."""
import os
from pathlib import Path

STATE = Path(os.environ["GPU_STATE"])
NVML_FEATURE_ENABLED, NVML_CLOCK_LIMIT_ID_TDP = 1, 0xFFFFFF01
class NVMLError(Exception): pass
class NVMLError_NoPermission(NVMLError): pass
class NVMLError_NotSupported(NVMLError): pass
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return "GPU-1"
def nvmlDeviceGetHandleByUUID(uuid): return uuid
def nvmlDeviceGetUUID(handle): return handle
def nvmlDeviceGetPersistenceMode(handle): return int((STATE / "persistence").read_text())
def nvmlDeviceSetPersistenceMode(handle, mode): (STATE / "persistence").write_text(str(mode))
def nvmlDeviceSetGpuLockedClocks(handle, low, high): (STATE / "clocks").write_text(f"locked {low:x}")
def nvmlDeviceResetGpuLockedClocks(handle): (STATE / "clocks").write_text("free")
'''


def switches(root):
    """What the tree's switches say now."""
    return {str(path): path.read_text() for pattern in SWITCHES for path in (root / CPU).glob(pattern)}


def refuse_writing(path: Path) -> None:
    """Make the system refuse to write the file, to root too."""
    if os.geteuid():
        path.chmod(0o444)
    else:
        path.unlink()
        path.symlink_to("/proc/version")


def start(device: str, root: Path, **environment: str) -> subprocess.Popen[str]:
    """A process that tunes the tree and then does nothing; it has tuned when this returns."""
    paths = [str(Path(torchperf_ci.__file__).parents[1]), *filter(None, [environment.pop("PYTHONPATH", "")])]
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, device, str(root)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("{")
    return process


def wait_until(condition) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the machine stayed changed"
        time.sleep(0.02)


def test_a_machine_is_tuned_for_the_block_and_restored_after_it(server):
    before = switches(server)
    with tuned(Cpu(server), server) as report:
        assert report.applied == {
            "smt": "off",
            "governor": "performance",
            "turbo": "off",
            "deep_idle_states": "off",
        }
        assert report.refused == {}
        during = switches(server)
        assert (server / CPU / "smt/control").read_text() == "off"
        assert (server / CPU / "intel_pstate/no_turbo").read_text() == "1"
        assert {text for name, text in during.items() if "governor" in name} == {"performance"}
        off = {Path(name).parent.name for name, text in during.items() if "state2" in name and text == "1"}
        assert off == {"state2"}
        assert {text for name, text in during.items() if "state1" in name} == {"0\n"}
    assert switches(server) == before


def test_an_error_in_the_block_restores_and_passes_on(server):
    before = switches(server)
    with pytest.raises(KeyError), tuned(Cpu(server), server):
        raise KeyError
    assert switches(server) == before


def test_two_processes_do_not_tune_at_once(server):
    """The end of the first would undo what the second measures with."""
    before = switches(server)
    with start("cpu", server) as other:
        with tuned(Cpu(server), server) as report:
            pass
        beside = untuned(server)
        during = switches(server)
        os.killpg(other.pid, signal.SIGTERM)
        other.wait(PATIENCE)
    assert report.applied == {}
    assert report.refused == {"all": "another torchperf is tuning this machine"}
    assert (str(report), beside) == ("another run's", report)
    assert during != before
    wait_until(lambda: (switches(server), str(untuned(server))) == (before, "none"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_killed_process_leaves_the_machine_as_it_was(server, number):
    before = switches(server)
    with start("cpu", server) as process:
        assert switches(server) != before
        os.killpg(process.pid, number)
        process.wait(PATIENCE)
    wait_until(lambda: switches(server) == before)


def test_nobody_tunes_a_machine_that_is_still_being_restored(server):
    """As where a killed run is called again at once: it would end by bringing back what the first had tuned."""
    turbo = server / CPU / "intel_pstate/no_turbo"
    with start("cpu", server) as process:
        turbo.unlink()
        os.mkfifo(turbo)  # restoring it waits for us
        process.kill()
        process.wait(PATIENCE)
    assert str(untuned(server)) == "another run's"
    turbo.write_text("1")
    assert turbo.read_text() == "0\n"
    wait_until(lambda: str(untuned(server)) == "none")


def test_a_gpu_is_restored_when_its_process_is_killed(tmp_path):
    (tmp_path / "pynvml.py").write_text(SHIM)
    persistence, clocks = tmp_path / "persistence", tmp_path / "clocks"
    persistence.write_text("0")
    clocks.write_text("free")
    shim = {"PYTHONPATH": str(tmp_path), "GPU_STATE": str(tmp_path)}
    with start("cuda", tmp_path / "no-host-switches", **shim) as process:
        assert (persistence.read_text(), clocks.read_text()) == ("1", "locked ffffff01")
        process.kill()
    wait_until(lambda: (persistence.read_text(), clocks.read_text()) == ("0", "free"))


def test_a_switch_that_may_not_be_moved_is_refused_with_the_reason(server):
    refuse_writing(server / CPU / "intel_pstate/no_turbo")
    with tuned(Cpu(server), server) as report:
        assert report.refused.keys() == {"turbo"}
        assert report.refused["turbo"] in ("Permission denied", "Input/output error")
        assert "governor" in report.applied


def test_a_virtual_machine_has_nothing_to_tune_and_says_why(tmp_path):
    (tmp_path / CPU / "smt").mkdir(parents=True)
    (tmp_path / CPU / "smt/control").write_text("notsupported\n")
    with tuned(Cpu(tmp_path), tmp_path) as report:
        assert report.applied == {}
        assert report.refused.keys() == {"smt", "governor", "turbo", "deep_idle_states"}
        assert report.refused["smt"] == "the kernel says 'notsupported'"


def test_a_state_that_cannot_be_brought_back_is_not_changed(server, nvidia):
    """Here the restorer, a real process, finds no NVIDIA driver."""
    with tuned(Cuda(), server) as report:
        assert report.refused.keys() == {"gpu_persistence", "gpu_clocks"}
        assert all(report.refused.values())
    nvidia.nvmlDeviceSetPersistenceMode.assert_not_called()
    nvidia.nvmlDeviceSetGpuLockedClocks.assert_not_called()


def test_switches_are_found_when_their_turn_comes(server):
    """Once the siblings are off, only the CPUs that are left have a governor."""
    changes = host_changes(server)
    next(changes).apply()
    (server / CPU / "online").write_text("0-3\n")
    assert len(next(changes).undo) == 4


def test_a_change_is_made_before_the_next_is_looked_for(server, monkeypatch):
    made = []

    def changes(root):
        yield TuningChange("first", "on", (), lambda: made.append("first"))
        assert made == ["first"]

    monkeypatch.setattr(tuning, "host_changes", changes)
    with tuned(Cpu(server), server) as report:
        assert report.applied == {"first": "on"}


def test_what_did_not_come_back_is_an_error_that_names_it_and_is_logged_if_nobody_waits_for_it(server, capfd):
    governor = server / CPU / "cpu3/cpufreq/scaling_governor"
    lost = r"cpu3/cpufreq/scaling_governor: No such file or directory"
    with pytest.raises(NotRestoredError, match=lost), tuned(Cpu(server), server):
        governor.unlink()
    assert (server / CPU / "smt/control").read_text() == "on\n"
    assert (server / CPU / "cpu2/cpufreq/scaling_governor").read_text() == "powersave\n"
    assert "torchperf: not restored: " in capfd.readouterr().err


def test_a_machine_of_which_nothing_can_be_tuned_is_the_same_for_other_runs(tmp_path):
    with tuned(Cpu(tmp_path), tmp_path) as report:
        assert (report.applied, str(untuned(tmp_path))) == ({}, "none")


def test_what_ended_the_block_is_not_replaced_by_what_did_not_come_back(server, capfd):
    def stop() -> None:
        (server / CPU / "cpu3/cpufreq/scaling_governor").unlink()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), tuned(Cpu(server), server):
        stop()
    assert "torchperf: error: tuning left this machine changed" in capfd.readouterr().err
