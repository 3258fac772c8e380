from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from types import SimpleNamespace

import pynvml
import pytest

from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.interference import (
    CounterSnapshot,
    describe_interference,
    interference_between,
    read_counters,
    watch_interference,
)

BEFORE = CounterSnapshot(10.0, 1.0, (50, 0, 0, 100, 0, 0, 0, 0), 3, 20, 0.5, 7.0, 2)
AFTER = CounterSnapshot(12.0, 1.5, (100, 0, 10, 120, 10, 0, 0, 10), 5, 40, 1.0, 9.0, 2)


def test_what_happened_in_between():
    assert interference_between(BEFORE, AFTER) == {
        "cpu_pressure": "0.250",
        "cpu_steal": "0.100",
        "cpu_throttle_events": "2",
        "cpu_quota_throttled": "0.250",
        "other_cpus": "0.80",  # 60 ticks of 100 were work, 20 of them ours, on 2 CPUs
        "load": "9.00",
        "cpus": "2",
        "seconds": "2.000",
    }


def test_shares_of_the_cpus_are_unknown_where_they_could_be_read_only_once():
    """As in a container whose lxcfs was restarted."""
    missing = (
        interference_between(BEFORE, AFTER).keys()
        - interference_between(BEFORE, replace(AFTER, ticks=())).keys()
    )
    assert missing == {"cpu_steal", "other_cpus"}


def test_others_have_no_more_than_all_cpus():
    """The kernel's counts of idle time may fall, and most in a short while."""
    after = replace(AFTER, ticks=(100, 0, 10, 99, -10, 0, 0, 0), own_ticks=20)
    assert interference_between(BEFORE, after)["other_cpus"] == "2.00"


@pytest.mark.parametrize("events", [1, 9])
def test_the_events_of_a_cpu_that_went_offline_or_came_back_were_not_now(events):
    """As when another run has switched siblings off, or on again."""
    assert "cpu_throttle_events" not in interference_between(
        BEFORE, replace(AFTER, throttle_events=events, cpus=1)
    )


def test_counters_are_read(server):
    for cpu in (0, 3, 7):  # the last two are one core
        (server / f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count").write_text("3\n")
    found = read_counters(server)
    assert found.throttle_events == 6
    assert found.stalled == pytest.approx(3.0)
    assert found.ticks == (100, 0, 100, 790, 0, 0, 0, 10)
    assert (found.load, found.cpus) == (0.25, 8)


def process(server, pid, parent, *times):
    folder = server / f"proc/{pid}"
    folder.mkdir(parents=True, exist_ok=True)
    before = "S " + f"{parent} " + "0 " * 9  # state, parent, then what nobody asks for
    (folder / "stat").write_text(f"{pid} (a) b (c) {before}{' '.join(map(str, times))} 20 0 1 0\n")


def test_what_we_started_is_ours_and_the_rest_is_others(server):
    """A worker, what it forked, and what has ended and was waited for."""
    process(server, 1, 0, 1000, 1000, 1000, 1000)
    process(server, 50, 1, 1, 2, 3, 4)
    process(server, 51, 50, 10, 20, 0, 0)
    process(server, 52, 51, 100, 200, 0, 0)
    process(server, 60, 1, 5000, 0, 0, 0)
    assert read_counters(server, own=50).own_ticks == 10 + 30 + 300


def test_a_worker_that_has_ended_meanwhile_is_still_ours(server):
    process(server, 50, 1, 10, 0, 0, 0)
    process(server, 51, 50, 60, 0, 0, 0)
    before = read_counters(server, own=50)
    (server / "proc/51/stat").unlink()
    process(server, 50, 1, 12, 0, 70, 0)  # it was waited for: its time is its parent's children's
    (server / "proc/stat").write_text("cpu  150 0 110 830 0 0 0 10 0 0\n")
    found = interference_between(before, read_counters(server, own=50))
    assert found["other_cpus"] == f"{(60 - 12) / 100 * 8:.2f}"


def test_a_process_that_ends_while_it_is_looked_at_is_left_out(server):
    """The system then answers "no such process", as it does for a folder that was opened while the process lived."""
    process(server, 50, 1, 1, 2, 3, 4)
    with subprocess.Popen(["sleep", "60"]) as ended:
        folder = os.open(f"/proc/{ended.pid}", os.O_RDONLY)
        ended.kill()
    (server / "proc/51").symlink_to(f"/proc/self/fd/{folder}")
    with pytest.raises(ProcessLookupError):
        (server / "proc/51/stat").stat()
    assert read_counters(server, own=50).own_ticks == 10
    os.close(folder)


def test_the_limit_of_a_control_group_is_read(server):
    (server / "sys/fs/cgroup/cpu.stat").write_text("throttled_usec 250000\n")
    (server / "sys/fs/cgroup/ci/cpu.stat").write_text("usage_usec 900\nthrottled_usec 2000000\n")
    (server / "sys/fs/cgroup/ci/job").mkdir()
    (server / "sys/fs/cgroup/ci/job/cpu.stat").write_text("throttled_usec 500000\n")
    assert read_counters(server).quota_stalled == pytest.approx(2.75)


def test_a_quiet_machine_disturbs_nothing(server):
    """What the fixture shows, and a second later, with one of its eight CPUs at work for us."""
    process(server, 50, 1, 0, 0, 0, 0)
    before = read_counters(server, own=50)
    process(server, 50, 1, 100, 0, 0, 0)
    (server / "proc/stat").write_text("cpu  204 0 106 1480 0 0 0 10 0 0\n")
    found = {**interference_between(before, read_counters(server, own=50)), "seconds": "1.000"}
    assert found["other_cpus"] == "0.10"
    assert describe_interference([found]) is None


def test_a_system_without_counters_has_no_facts(tmp_path):
    facts = interference_between(read_counters(tmp_path), read_counters(tmp_path))
    assert set(facts) == {"cpus", "seconds"}
    assert describe_interference([facts]) is None


def test_this_process_on_this_machine():
    before = read_counters()
    time.sleep(0.01)
    found = interference_between(before, read_counters())
    assert float(found["seconds"]) > 0
    assert 0 <= float(found.get("cpu_pressure", 0)) <= 1
    assert 0 <= float(found.get("other_cpus", 0)) <= int(found["cpus"])


def test_what_is_watched_is_told_after_the_block_also_where_it_failed(nvidia):
    nvidia.nvmlDeviceGetFieldValues.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    nvidia.nvmlDeviceGetCurrentClocksEventReasons.side_effect = lambda _: 0x8
    with pytest.raises(ZeroDivisionError), watch_interference(Cuda()) as told:
        _ = 1 / 0
    assert told["throttling"] == "hardware slowdown"
    assert (told["gpu_sm_mhz"], told["gpu_watts"], told["gpu_celsius"]) == ("1980", "72", "41")
    assert float(told["seconds"]) >= 0


@pytest.mark.parametrize(("workers", "told"), [(1, {"other_gpu_processes": "1"}), (2, {}), (3, {})])
def test_others_on_the_gpu_are_counted(nvidia, workers, told):
    nvidia.nvmlDeviceGetComputeRunningProcesses.side_effect = lambda _: [
        SimpleNamespace(pid=n) for n in (7, 8)
    ]
    with watch_interference(Cuda(), workers=workers) as observed:
        pass
    assert {name: value for name, value in observed.items() if name.startswith("other_gpu")} == told


def test_a_signal_before_the_first_reading_is_not_hidden(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("torchperf_ci.machine.interference.sample_gpu", interrupted)
    with pytest.raises(KeyboardInterrupt), watch_interference(Cuda()):
        pass
