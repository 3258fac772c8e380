from __future__ import annotations

import os
import subprocess
import sys

from torchperf_ci.machine.devices import host_memory

BLOCK = 128 * 2**20


def test_the_peak_sees_what_is_already_freed():
    host_memory.reset_peak()
    before = host_memory.allocated()
    block = b"x" * BLOCK
    during = host_memory.allocated()
    del block
    assert during - before > 0.9 * BLOCK
    assert host_memory.peak() - before > 0.9 * BLOCK


def test_a_reset_begins_a_new_peak_where_the_system_can():
    before = host_memory.peak()
    block = b"x" * BLOCK
    del block
    high = host_memory.peak()
    host_memory.reset_peak()
    if host_memory.peak_method() == "VmHWM":
        assert host_memory.peak() < high - 0.5 * BLOCK
    else:
        assert host_memory.peak() >= high >= before


def test_without_a_reset_the_peak_is_that_of_the_whole_process(monkeypatch, tmp_path):
    monkeypatch.setattr(host_memory, "SELF", tmp_path)
    assert host_memory.peak_method() == "ru_maxrss"
    host_memory.reset_peak()
    assert host_memory.peak() > 0.9 * host_memory.allocated() > 2**20  # the kernel counts in batches


def test_another_process_is_seen_until_it_is_gone():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert host_memory.resident(process.pid) > 0
        process.communicate(b"\n", timeout=60)
    assert host_memory.resident(process.pid) == 0


def test_available_memory_is_less_than_there_is():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    assert 0 <= host_memory.available() < pages
