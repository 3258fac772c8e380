from __future__ import annotations

import os
import platform

import pytest

from torchperf_ci.machine.devices import cpu
from torchperf_ci.machine.host import available_memory, oom_kills, quota_stalled, read_host, usable_cpus

CPU = "sys/devices/system/cpu"


@pytest.fixture(autouse=True)
def linux(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")


def test_everything_is_read(server):
    host = read_host(server)
    assert host.processor.model == "Intel(R) Xeon(R) Platinum 8488C"
    assert host.kernel == "6.8.0-1021-aws"
    assert host.governors == ("powersave",)
    assert host.turbo is True
    assert [(s.name, s.latency_us, s.disabled) for s in host.idle_states][2] == ("C6", 133, False)
    assert host.memory_total == 64 << 30
    assert host.swap_used == 0
    assert host.load == 0.25
    assert host.cpu_pressure == pytest.approx(0.015)
    assert host.steal == pytest.approx(0.01)
    assert host.hypervisor == ""
    assert host.cpu_quota is None


def test_a_mac_is_read(monkeypatch):
    told = {
        "machdep.cpu.brand_string": "Apple M2\n",
        "hw.physicalcpu": "8\n",
        "hw.memsize": f"{24 << 30}\n",
        "vm.swapusage": "total = 3072.00M  used = 1969.50M  free = 1102.50M  (encrypted)\n",
    }
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(cpu.system_files, "program_output", lambda *command: told.get(command[-1], ""))
    host = read_host()
    assert (host.processor.model, host.processor.cores, host.memory_total) == ("Apple M2", 8, 24 << 30)
    assert host.swap_used == 1969.5 * 2**20


def test_a_machine_that_tells_nothing_is_read_all_the_same(tmp_path):
    host = read_host(tmp_path)
    assert host.governors == ()
    assert host.turbo is None
    assert host.cpu_pressure is None
    assert host.steal is None
    assert host.memory_total == 0


@pytest.mark.parametrize(("value", "turbo"), [("1", True), ("0", False)])
def test_turbo_without_intels_driver(server, value, turbo):
    (server / CPU / "intel_pstate/no_turbo").unlink()
    (server / CPU / "cpufreq").mkdir()
    (server / CPU / "cpufreq/boost").write_text(value)
    assert read_host(server).turbo is turbo


@pytest.mark.parametrize(
    ("flags", "vendor", "product", "expected"),
    [
        ("flags\t: fpu hypervisor\n", "QEMU", "Standard PC", "QEMU"),
        ("flags\t: fpu hypervisor\n", "", "", "unknown"),
        ("flags\t: fpu\n", "Amazon EC2", "c7i.metal-24xl", ""),
        ("flags\t: fpu\n", "Dell Inc.", "PowerEdge", ""),
        ("Features\t: fp asimd\n", "Amazon EC2", "m7g.4xlarge", "Amazon EC2"),
        ("Features\t: fp asimd\n", "Amazon EC2", "m7g.metal", ""),
        ("Features\t: fp asimd\n", "Hetzner", "vServer", "Hetzner"),
        ("Features\t: fp asimd\n", "Apple Inc.", "Apple Virtualization Generic Platform", "Apple Inc."),
        ("Features\t: fp asimd\n", "NVIDIA", "Grace CPU", ""),
    ],
)
def test_hypervisors(server, flags, vendor, product, expected):
    (server / "proc/cpuinfo").write_text(f"model name\t: CPU\n{flags}")
    (server / "sys/class/dmi/id/sys_vendor").write_text(vendor)
    (server / "sys/class/dmi/id/product_name").write_text(product)
    assert read_host(server).hypervisor == expected


def test_the_tightest_quota_above_this_process_counts(server, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert usable_cpus(server) == 3
    groups = server / "sys/fs/cgroup"
    (groups / "ci/cpu.max").write_text("400000 100000\n")
    (groups / "ci/job").mkdir()
    (groups / "ci/job/cpu.max").write_text("150000 100000\n")
    assert read_host(server).cpu_quota == usable_cpus(server) == 1.5


def test_a_containers_own_quota_is_at_the_root_of_its_tree(server):
    (server / "proc/self/cgroup").write_text("0::/\n")
    (server / "sys/fs/cgroup/cpu.max").write_text("200000 100000\n")
    assert read_host(server).cpu_quota == 2.0


def test_the_limits_of_a_container_count_with_cgroup_v1_too(server):
    """As of Docker, which shows a container its own group as the whole tree, but the machine's path to it."""
    (server / "proc/self/cgroup").write_text(
        "4:memory:/docker/a:b\n3:cpuacct,cpu:/docker/a:b\n1:name=systemd:/x\n"
    )
    cpu, memory = (server / "sys/fs/cgroup" / name for name in ("cpu", "memory"))
    cpu.mkdir()
    memory.mkdir()
    (cpu / "cpu.cfs_quota_us").write_text("-1\n")
    (cpu / "cpu.cfs_period_us").write_text("100000\n")
    (cpu / "cpu.stat").write_text("nr_periods 9\nnr_throttled 3\nthrottled_time 1500000000\n")
    (memory / "memory.limit_in_bytes").write_text(f"{2**63 - 4096}\n")
    (memory / "memory.usage_in_bytes").write_text(f"{3 << 29}\n")
    (memory / "memory.stat").write_text(
        f"active_file 1\ntotal_inactive_file {1 << 29}\ntotal_active_file {1 << 28}\n"
    )
    assert (read_host(server).cpu_quota, available_memory(server)) == (None, 60 << 30)
    (cpu / "cpu.cfs_quota_us").write_text("150000\n")
    (memory / "memory.limit_in_bytes").write_text(f"{2 << 30}\n")
    assert (read_host(server).cpu_quota, available_memory(server)) == (1.5, 5 << 28)
    assert quota_stalled(server) == 1.5


def test_available_memory_is_less_than_there_is():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    assert 0 <= available_memory() < pages


def test_available_memory_is_unknown_where_only_processes_are_shown(tmp_path):
    """As in a service with ``ProcSubset=pid``."""
    assert available_memory(tmp_path) == 0


def test_a_containers_memory_is_what_its_limit_leaves_with_the_files_in_its_cache(server):
    """Kubernetes has the kernel end the whole container, with what has been measured, if a workload needs more."""
    (server / "proc/self/cgroup").write_text("0::/\n")
    group = server / "sys/fs/cgroup"
    (group / "memory.max").write_text(f"{2 << 30}\n")
    (group / "memory.current").write_text(f"{3 << 29}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {1 << 29}\nactive_file {1 << 28}\n")
    assert available_memory(server) == read_host(server).memory_available == 5 << 28
    (group / "memory.max").write_text("max\n")
    assert available_memory(server) == 60 << 30


def test_a_control_group_counts_its_own_kills_and_the_machine_all(server):
    assert oom_kills(server) is None
    (server / "proc/vmstat").write_text("nr_free_pages 9\noom_kill 7\n")
    assert oom_kills(server) == 7
    (server / "sys/fs/cgroup/ci/job").mkdir()
    (server / "sys/fs/cgroup/ci/job/memory.events").write_text("oom 3\noom_kill 2\noom_group_kill 0\n")
    assert oom_kills(server) == 2
