from __future__ import annotations

import subprocess
import sys

from torchperf_ci.machine.devices import system_files
from torchperf_ci.machine.devices.system_files import (
    peak_memory,
    peak_memory_method,
    reset_peak_memory,
    resident_memory,
)

BLOCK = 128 * 2**20


def test_the_peak_sees_what_is_already_freed():
    reset_peak_memory()
    before = resident_memory()
    block = b"x" * BLOCK
    during = resident_memory()
    del block
    assert during - before > 0.9 * BLOCK
    assert peak_memory() - before > 0.9 * BLOCK


def test_a_reset_begins_a_new_peak_where_the_system_can():
    before = peak_memory()
    block = b"x" * BLOCK
    del block
    high = peak_memory()
    reset_peak_memory()
    if peak_memory_method() == "VmHWM":
        assert peak_memory() < high - 0.5 * BLOCK
    else:
        assert peak_memory() >= high >= before


def test_memory_that_the_allocator_keeps_is_in_no_new_peak():
    blocks = [bytearray(b"x" * 2**16) for _ in range(BLOCK // 2**16)]
    end = bytearray(b"x" * 2**16)  # what lies below it cannot be given back by freeing alone
    high = resident_memory()
    del blocks
    reset_peak_memory()
    if peak_memory_method() == "VmHWM":
        assert peak_memory() < high - 0.9 * BLOCK
    assert end


def test_without_a_reset_the_peak_is_that_of_the_whole_process(monkeypatch, tmp_path):
    monkeypatch.setattr(system_files, "SELF", tmp_path)
    assert peak_memory_method() == "ru_maxrss"
    reset_peak_memory()
    assert peak_memory() > 0.9 * resident_memory() > 2**20  # the kernel counts in batches


def test_another_process_is_seen_until_it_is_gone():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert resident_memory(process.pid) > 0
        process.communicate(b"\n", timeout=60)
    assert resident_memory(process.pid) == 0


def test_a_process_whose_name_is_cut_within_a_character_has_a_peak(monkeypatch, tmp_path):
    """Linux keeps 15 bytes of a name."""
    (tmp_path / "clear_refs").touch()
    (tmp_path / "status").write_bytes(b"Name:\tbenchmark-mod\xc3\nVmHWM:\t      12 kB\n")
    monkeypatch.setattr(system_files, "SELF", tmp_path)
    assert peak_memory() == 12 * 1024
