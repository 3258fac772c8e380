from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.tuning import quiet_cpus, quietest_first

EVERY = range(8)


@pytest.fixture
def on_the_server(server, monkeypatch):
    """This process, as if it were on the made-up machine, whose CPU 0 it may not use alone."""

    def set_affinity(_, cpus):
        if cpus == {0}:
            raise OSError

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(EVERY), raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", set_affinity, raising=False)
    return server


def test_cores_before_siblings_and_the_first_core_last_of_its_node(server):
    assert quietest_first(EVERY, server) == [1, 0, 2, 3, 5, 4, 6, 7]


def test_the_nearest_node_comes_first(server):
    assert quietest_first(EVERY, server, near=1) == [2, 3, 1, 0, 6, 7, 5, 4]


def test_efficiency_cores_come_last(server):
    """As the kernel estimates those of Arm, and as Intel's driver lists its own."""
    cpus = server / "sys/devices/system/cpu"
    for cpu in EVERY:
        (cpus / f"cpu{cpu}/cpu_capacity").write_text("530\n" if cpu % 4 < 2 else "1024\n")
    assert quietest_first(EVERY, server) == [2, 3, 6, 7, 1, 0, 5, 4]
    for cpu in EVERY:
        (cpus / f"cpu{cpu}/cpu_capacity").write_text("1000\n" if cpu % 4 < 2 else "1024\n")
    assert quietest_first(EVERY, server) == [1, 0, 2, 3, 5, 4, 6, 7], "none of them is slow"
    (server / "sys/devices/cpu_atom").mkdir()
    (server / "sys/devices/cpu_atom/cpus").write_text("0-1,4-5\n")
    assert quietest_first(EVERY, server) == [2, 3, 6, 7, 1, 0, 5, 4]


@pytest.mark.parametrize(("count", "expected"), [(1, (1,)), (2, (0, 1)), (8, tuple(EVERY)), (9, ())])
def test_the_quietest_are_chosen(on_the_server, count, expected):
    assert quiet_cpus(count, Cpu(on_the_server), on_the_server) == expected


def test_none_is_chosen_where_the_system_forbids_to_pin(on_the_server, monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    assert quiet_cpus(1, Cpu(on_the_server), on_the_server) == ()


def test_two_runs_at_once_are_on_different_cpus_and_a_third_shares_one(on_the_server):
    (on_the_server / "sys/devices/system/cpu/online").write_text("1-2\n")
    with ExitStack() as stack:
        for expected in ({1}, {2}, {1, 2}):
            other = stack.enter_context(another_run_on(on_the_server))
            assert other.stdout
            assert json.loads(other.stdout.readline())[0] in expected


def test_beside_another_run_several_threads_stay_on_one_node_if_one_has_the_cores(on_the_server):
    with another_run_on(on_the_server) as other:
        assert json.loads(other.stdout.readline()) == [1]
        assert quiet_cpus(2, Cpu(on_the_server), on_the_server) == (2, 3)
        assert quiet_cpus(3, Cpu(on_the_server), on_the_server) == (0, 2, 3), "none has: cores of both"


@contextmanager
def another_run_on(root):
    """A process that has chosen its CPU, for the length of the block."""
    program = (
        "import os, sys; from pathlib import Path; from torchperf_ci.machine.devices.cpu import Cpu\n"
        "from torchperf_ci.machine.tuning import quiet_cpus; os.sched_getaffinity = lambda _: set(range(8))\n"
        f"root = Path({str(root)!r}); print(list(quiet_cpus(1, Cpu(root), root)), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_one_thread_gets_an_isolated_cpu_that_may_be_used_and_several_never_do(on_the_server):
    (on_the_server / "sys/devices/system/cpu/isolated").write_text("0-1\n")
    assert quiet_cpus(1, Cpu(on_the_server), on_the_server) == (1,)
    assert quiet_cpus(2, Cpu(on_the_server), on_the_server) == (2, 3)


@pytest.mark.usefixtures("nvidia")
def test_a_gpus_worker_sits_beside_it(on_the_server):
    home = on_the_server / "sys/bus/pci/devices/0000:3b:00.0"
    home.mkdir(parents=True)
    (home / "numa_node").write_text("1\n")
    assert quiet_cpus(2, Cuda(), on_the_server) == (2, 3)


def test_this_process_may_use_what_is_chosen_here():
    chosen = quiet_cpus(1, Cpu())
    if sys.platform != "linux":
        assert chosen == ()
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    assert os.sched_getaffinity(0) == set(chosen)
    os.sched_setaffinity(0, before)
