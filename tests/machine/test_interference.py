from __future__ import annotations

import os
import time

import pytest

from torchperf_ci.machine.interference import Snapshot, between, snapshot

BEFORE = Snapshot(10.0, 1.0, 100, (50, 0, 0, 100, 0, 0, 0, 0), 3)
AFTER = Snapshot(12.0, 1.5, 130, (100, 0, 0, 140, 0, 0, 0, 10), 5)


def test_what_happened_in_between():
    found = between(BEFORE, AFTER)
    assert found.cpu_pressure == pytest.approx(0.25)
    assert found.involuntary_switches == 30
    assert found.steal == pytest.approx(0.1)
    assert found.facts() == {
        "cpu_pressure": "0.250",
        "involuntary_switches_per_second": "15.0",
        "cpu_steal": "0.100",
        "cpu_throttle_events": "2",
    }


def test_counters_are_read(server):
    threads = {101: 4, 102: 5}
    for thread, switches in threads.items():
        status = server / f"proc/100/task/{thread}/status"
        status.parent.mkdir(parents=True)
        status.write_text(f"Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t{switches}\n")
    for cpu in (0, 7):
        (server / f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count").write_text("3\n")
    found = snapshot(100, server)
    assert found.throttle_events == 6
    assert found.stalled == pytest.approx(3.0)
    assert found.involuntary_switches == 9
    assert found.ticks == (100, 0, 100, 790, 0, 0, 0, 10)


def test_a_system_without_counters_has_no_facts(tmp_path):
    assert between(snapshot(1, tmp_path), snapshot(1, tmp_path)).facts() == {}


def test_a_process_that_ended_has_no_switches(server):
    gone = snapshot(100, server)
    assert gone.involuntary_switches is None
    assert "involuntary_switches_per_second" not in between(BEFORE, gone).facts()


def test_this_process_on_this_machine():
    before = snapshot(os.getpid())
    time.sleep(0.01)
    found = between(before, snapshot(os.getpid()))
    assert found.seconds > 0
    assert 0 <= (found.cpu_pressure or 0) <= 1
    assert (found.involuntary_switches or 0) >= 0
