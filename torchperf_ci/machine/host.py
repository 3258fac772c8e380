"""Facts that this machine reports about itself, its fingerprint of those that matter, and its entry in records."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.cpu import Processor, cpuinfo, read_processor, sysctl
from torchperf_ci.machine.devices.system_files import (
    CPUS,
    cpu_files,
    memory_in,
    number,
    numbers,
    online_cpus,
    program_output,
    siblings,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_ci.machine.devices.interface import Device, DeviceIdentity
    from torchperf_ci.machine.tuning import TuningReport


MIB = 2**20
GIB = 2**30
MICROSECOND = 1e-6
NANOSECOND = 1e-9
IDLE, IOWAIT, STEAL = 3, 4, 7
"""Columns of the ``cpu`` line in ``/proc/stat`` (proc(5)); ``steal`` is time that the hypervisor gave to others."""
GUEST = 8
"""The first column whose time is already included in earlier columns."""
VIRTUAL = (
    *("QEMU", "KVM", "OpenStack", "KubeVirt", "VMware", "Xen", "innotek GmbH", "Parallels"),
    *("Amazon EC2", "Microsoft Corporation", "Google", "Alibaba Cloud", "Hetzner", "Apple Virtualization"),
)
"""What the firmware of virtual machines calls its vendor or product, at the beginning."""


@dataclass(frozen=True)
class IdleState:
    """A sleep state of an idle CPU; waking from it takes ``latency_us`` microseconds."""

    name: str
    latency_us: int
    disabled: bool


@dataclass(frozen=True)
class Host:
    """Facts about a machine. Memory is in bytes; empty and None mean that the system does not say.

    ``governors`` are the distinct governors of all CPUs. ``huge_pages`` is the kernel's word for transparent huge pages
    (``always``, ``madvise``, ``never``). ``cpu_quota`` is a limit in CPUs, ``cpu_pressure`` the share of the last 10 s
    in which some task waited for a CPU, and ``steal`` the share of all CPU time since boot that went to other guests.
    """

    processor: Processor
    system: str
    kernel: str
    boot_id: str = ""
    hypervisor: str = ""
    governors: tuple[str, ...] = ()
    turbo: bool | None = None
    idle_states: tuple[IdleState, ...] = ()
    isolated: tuple[int, ...] = ()
    tickless: tuple[int, ...] = ()
    cpu_quota: float | None = None
    memory_total: int = 0
    memory_available: int = 0
    swap_used: int = 0
    load: float = 0.0
    cpu_pressure: float | None = None
    steal: float | None = None
    throttle_events: int | None = None
    huge_pages: str = ""


def read_host(root: Path = Path("/")) -> Host:
    """Read this machine."""
    if platform.system() == "Darwin":
        return _read_apple()
    memory = text(root / "proc/meminfo")
    ticks = cpu_ticks(root)
    pressure = text(root / "proc/pressure/cpu").partition("avg10=")[2].split(" ")[0]
    huge_pages = text(root / "sys/kernel/mm/transparent_hugepage/enabled")  # always [madvise] never
    return Host(
        processor=read_processor(root),
        system="Linux",
        kernel=text(root / "proc/sys/kernel/osrelease"),
        boot_id=text(root / "proc/sys/kernel/random/boot_id"),
        hypervisor=_hypervisor(root),
        governors=tuple(sorted({text(path) for path in cpu_files(root, "cpufreq/scaling_governor")})),
        turbo=_turbo(root),
        idle_states=tuple(_idle_states(root)),
        isolated=numbers(text(root / CPUS / "isolated")),
        tickless=numbers(text(root / CPUS / "nohz_full")),
        cpu_quota=_cpu_quota(root),
        memory_total=memory_in(memory, "MemTotal"),
        memory_available=available_memory(root),
        swap_used=memory_in(memory, "SwapTotal") - memory_in(memory, "SwapFree"),
        load=load(root) or 0.0,
        cpu_pressure=float(pressure) / 100 if pressure else None,
        steal=ticks[STEAL] / sum(ticks) if sum(ticks) else None,
        throttle_events=throttle_events(root),
        huge_pages=huge_pages.partition("[")[2].partition("]")[0],
    )


def machine_text(host: Host) -> str:
    """A short description of the machine: processor, CPUs, memory."""
    memory = f", {host.memory_total / GIB:.0f} GiB" if host.memory_total else ""
    cpus = "1 CPU" if host.processor.threads == 1 else f"{host.processor.threads} CPUs"
    return f"{host.processor.model}, {cpus}{memory}"


def cpu_ticks(root: Path) -> tuple[int, ...]:
    """Ticks of all CPUs since boot by kind of use, up to and including ``steal``; empty if unknown."""
    first = text(root / "proc/stat").partition("\n")[0].split()
    return tuple(int(value) for value in first[1 : GUEST + 1]) if len(first) > GUEST else ()


def load(root: Path) -> float | None:
    """The one-minute load average; None if unknown."""
    if platform.system() == "Darwin":
        return os.getloadavg()[0]
    words = text(root / "proc/loadavg").split()
    return float(words[0]) if words else None


def throttle_events(root: Path) -> int | None:
    """How often heat has slowed a core down since boot, summed over the cores; None if unknown (only Intel's count).

    Each hardware thread of a core counts the core's events; one that was offline missed some.
    """
    counts = {
        cpu: number(root / CPUS / f"cpu{cpu}/thermal_throttle/core_throttle_count")
        for cpu in online_cpus(root)
    }
    known = sorted((siblings(root, cpu), count) for cpu, count in counts.items() if count is not None)
    return sum(dict(known).values()) if known else None  # of each core the highest, which comes last


def _read_apple() -> Host:
    swapped = re.search(r"used = ([\d.]+)M", sysctl("vm.swapusage"))
    return Host(
        processor=read_processor(),
        system="Darwin",
        kernel=platform.release(),
        boot_id=sysctl("kern.bootsessionuuid"),
        hypervisor="Apple Virtualization" if sysctl("kern.hv_vmm_present") == "1" else "",
        memory_total=int(sysctl("hw.memsize") or 0),
        swap_used=int(float(swapped[1]) * MIB) if swapped else 0,
        load=load(Path("/")) or 0.0,
    )


def _turbo(root: Path) -> bool | None:
    no_turbo, boost = number(root / CPUS / "intel_pstate/no_turbo"), number(root / CPUS / "cpufreq/boost")
    if no_turbo is not None:
        return no_turbo == 0
    return None if boost is None else boost == 1


def _idle_states(root: Path) -> Iterator[IdleState]:
    for folder in sorted((root / CPUS / "cpu0/cpuidle").glob("state*")):
        yield IdleState(
            text(folder / "name"), number(folder / "latency") or 0, number(folder / "disable") == 1
        )


def _hypervisor(root: Path) -> str:
    """The vendor of the hypervisor; empty on bare metal. x86 has a CPU flag for it, Arm only the firmware's strings."""
    dmi = root / "sys/class/dmi/id"
    vendor, product = text(dmi / "sys_vendor"), text(dmi / "product_name")
    if "hypervisor" in cpuinfo(root).get("flags", "").split():
        return vendor or text(root / "sys/hypervisor/type") or "unknown"
    virtual = (vendor.startswith(VIRTUAL) or product.startswith(VIRTUAL)) and "metal" not in product
    return vendor if virtual and "flags" not in cpuinfo(root) else ""


def quota_stalled(root: Path) -> float | None:
    """Total seconds for which cgroup limits have stalled this process; None if unknown."""
    units = {"throttled_usec": MICROSECOND, "throttled_time": NANOSECOND}  # the second in cgroup v1
    folders = [*_groups(root), *_groups(root, "cpu")]
    lines = [line.split() for folder in folders for line in text(folder / "cpu.stat").splitlines()]
    waits = [int(words[1]) * units[words[0]] for words in lines if words[0] in units]
    return sum(waits) if waits else None


def oom_kills(root: Path = Path("/")) -> int | None:
    """The number of processes that the kernel has killed for lack of memory; None if unknown.

    Counted in this process's control group if it keeps a count, else on the whole machine.
    """
    files = [_groups(root)[0] / "memory.events", root / "proc/vmstat"]
    lines = [line.split() for file in files for line in text(file).splitlines()]
    return next((int(words[1]) for words in lines if words[0] == "oom_kill"), None)


def available_memory(root: Path = Path("/")) -> int:
    """Memory available to new work without swapping, also within control groups; 0 if the system does not say."""
    available = memory_in(text(root / "proc/meminfo"), "MemAvailable")
    rooms = [_room_in(folder, "memory.max", "memory.current") for folder in _groups(root)]
    rooms += [
        _room_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes")
        for folder in _groups(root, "memory")
    ]
    return min([available, *filter(None, rooms)])


def _room_in(group: Path, limit_file: str, used_file: str) -> int | None:
    """What is left of a control group's memory limit, if it has one. The kernel gives up cached files first."""
    limit, used = number(group / limit_file), number(group / used_file)
    cached = {
        name.removeprefix("total_"): int(value)  # in cgroup v1, the total is that with all groups below
        for name, _, value in (line.partition(" ") for line in text(group / "memory.stat").splitlines())
        if name.removeprefix("total_") in ("active_file", "inactive_file")
    }
    return None if limit is None or used is None else max(limit - used + sum(cached.values()), 1)


def _groups(root: Path, controller: str = "") -> list[Path]:
    """The folders of this process's control groups, innermost first: of cgroup v2, or of a controller of v1."""
    lines = [line.split(":", 2) for line in text(root / "proc/self/cgroup").splitlines()]
    group = next((path.strip("/") for _, names, path in lines if controller in names.split(",")), "")
    base = root / "sys/fs/cgroup" / controller
    folders = [base / group, *(base / group).parents]
    return [folder for folder in folders if folder.is_relative_to(base)]


def _cpu_quota(root: Path) -> float | None:
    """The tightest CPU limit of this process's control groups, in CPUs."""
    limits = [text(folder / "cpu.max").split() for folder in _groups(root)]
    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")  # of cgroup v1, where -1 is no limit
    limits += [[text(folder / name) for name in files] for folder in _groups(root, "cpu")]
    quotas = [int(words[0]) / int(words[1]) for words in limits if len(words) == 2 and words[0].isdigit()]
    return min(quotas, default=None)


def usable_cpus(root: Path = Path("/")) -> float:
    """How many CPUs this process may use: a container's CPU set or quota leaves some of the machine's out."""
    there = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(there, _cpu_quota(root) or there)


def cxx_compiler() -> str:
    """The first line that inductor's C++ compiler prints of itself; empty if it does not run.

    Inductor tries no other one (``torch._inductor.config.cpp.cxx``), and takes ``CXX`` for a program without arguments.
    """
    default = "clang++" if platform.system() == "Darwin" else "g++"
    return program_output(os.environ.get("CXX", default), "--version").partition("\n")[0]


DIGEST_LENGTH = 12
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fingerprint:
    """A machine and its settings as flat facts.

    ``comparable`` must be equal for two records to be compared; ``observed`` may differ from run to run. They share
    no names.
    """

    comparable: Mapping[str, str]
    observed: Mapping[str, str]

    @property
    def digest(self) -> str:
        """12 hexadecimal digits that identify ``comparable``."""
        canonical = json.dumps(dict(self.comparable), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_LENGTH]

    def facts(self) -> dict[str, str]:
        """All facts, as stored in a record; ``fingerprint_of`` names those in the digest."""
        return {
            **self.observed,
            **self.comparable,
            "fingerprint": self.digest,
            "fingerprint_of": ",".join(sorted(self.comparable)),
        }


def take_fingerprint(
    device: Device,
    torch_facts: Mapping[str, str],
    comparable_torch: Mapping[str, str],
    tuning: TuningReport | None = None,
    root: Path = Path("/"),
    *,
    cpus: tuple[int, ...] = (),
) -> Fingerprint:
    """Fingerprint this machine in its present state. If it is tuned, call this inside the :func:`tuning.tuned` block.

    The facts about torch come from the environment under test: ``torch_facts`` are recorded, and ``comparable_torch``
    (threads, variables that affect kernels) must match for a comparison. Workers are pinned to ``cpus``.
    """
    host, identity = read_host(root), device.identity()
    pinned = {"cpus": "pinned" if cpus else "unpinned"}
    comparable = {**_comparable(host, identity, tuning), **pinned, **comparable_torch}
    observed = {
        **_observed(host),
        "driver_version": identity.driver,
        "pinned_to": ",".join(map(str, cpus)),
        **identity.facts,
        **device.tools.clocks(),
        **{f"tuning_refused_{name}": why for name, why in (tuning.refused if tuning else {}).items()},
        **torch_facts,
    }
    observed = {name: value for name, value in observed.items() if value}
    throttling = device.tools.throttling()
    if reasons := (*throttling.voiding, *throttling.warning):
        observed["throttling"] = ", ".join(reasons)
    return Fingerprint(comparable, {name: v for name, v in observed.items() if name not in comparable})


def _comparable(host: Host, identity: DeviceIdentity, tuning: TuningReport | None) -> dict[str, str]:
    applied = tuning.applied if tuning else {}
    return {
        "device": identity.name,
        "device_type": identity.type,
        "driver": identity.driver_branch or "none",
        **identity.settings,
        "gpu_clocks": applied.get("gpu_clocks", "free") if identity.gpu_count else "none",
        "cpu": host.processor.model,
        "cores": str(host.processor.cores),
        "cpu_quota": "none" if host.cpu_quota is None else f"{host.cpu_quota:g}",
        "smt": "on" if host.processor.threads > host.processor.cores else "off",
        "governor": ",".join(host.governors) or UNKNOWN,
        "turbo": UNKNOWN if host.turbo is None else "on" if host.turbo else "off",
        "huge_pages": host.huge_pages or UNKNOWN,
        # The nearest power of two: kernels reserve a varying amount for themselves.
        "memory": f"{1 << round(math.log2(max(host.memory_total / GIB, 1)))} GiB",
        "system": f"{host.system} {'.'.join(host.kernel.split('.')[:2])}",
        "tuning": str(tuning or "none"),
    }


def _observed(host: Host) -> dict[str, str]:
    return {
        "hostname": socket.gethostname(),
        "boot_id": host.boot_id,
        "kernel": host.kernel,
        "hypervisor": host.hypervisor or "none",
        "microcode": host.processor.microcode,
        "isolated_cpus": ",".join(map(str, host.isolated)),
        "load": f"{host.load:.2f}",
        "cpu_pressure": "" if host.cpu_pressure is None else f"{host.cpu_pressure:.3f}",
        "toolkit_python": platform.python_version(),
        "compiler_cxx": cxx_compiler(),
    }


def runner_entry(
    identity: DeviceIdentity, fingerprint: Fingerprint, root: Path = Path("/")
) -> dict[str, object]:
    """Describe this machine and its device with the fields and types of the table ``oss_ci_benchmark_v3``.

    Counts and ``…_in_gb`` are unsigned integers, whole GiB rounded down; ``avail_…`` means the total, as the
    PyTorch benchmark infrastructure uses it, over all visible GPUs. ``extra_info`` holds the fingerprint.
    """
    host = read_host(root)
    gpu_bytes = identity.gpu_memory_mib * MIB
    return {
        "name": identity.name,
        "type": identity.type,
        "cpu_info": f"{platform.machine()} {host.processor.model}",
        "cpu_count": host.processor.cores,
        "mem_info": f"{host.memory_total // MIB} MiB",
        "avail_mem_in_gb": host.memory_total // GIB,
        "gpu_info": identity.type if identity.gpu_count else "",
        "gpu_count": identity.gpu_count,
        "gpu_mem_info": f"{identity.gpu_memory_mib} MiB" if identity.gpu_memory_mib else "",
        "avail_gpu_mem_in_gb": identity.gpu_count * gpu_bytes // GIB,
        "extra_info": fingerprint.facts(),
    }
