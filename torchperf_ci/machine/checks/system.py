"""Checks of everything around the processor: other load, memory, clock, tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.checks.finding import Finding
from torchperf_ci.machine.disturbance import LOAD_PER_THREAD, PRESSURE, STEAL

if TYPE_CHECKING:
    from torchperf_ci.machine.checks.facts import Facts
    from torchperf_ci.machine.checks.finding import Level

GIB = 2**30
MEMORY = 4 * GIB
DISK = 5 * GIB
CLOCK_STEP = 1e-6
FAST_CLOCKS = ("", "tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase", "tod")
"""Read without entering the kernel; empty where the system does not say."""
PAIRS = "measure in pairs: --anchor, or torchperf compare"


def virtual_machine(facts: Facts) -> Finding:
    """Does a hypervisor share this machine out?"""
    why = "other guests take CPU time, caches and memory bandwidth, and nothing here can see it all"
    host = facts.host
    if not host.hypervisor:
        return Finding("virtual machine", "ok", "bare metal", why)
    maker = "" if host.hypervisor == "unknown" else f" ({host.hypervisor})"
    found = f"virtual{maker}, {host.steal or 0:.1%} of CPU time was stolen since boot"
    level: Level = "bad" if (host.steal or 0) > STEAL else "warn"
    return Finding("virtual machine", level, found, why, f"{PAIRS}; or use a bare-metal runner")


def cpu_quota(facts: Facts) -> Finding:
    """Does a control group stop processes that have used up their share?"""
    why = "whoever has used up a quota stands still until the next period, which shows as a slow step"
    quota = facts.host.cpu_quota
    if quota is None:
        return Finding("cpu quota", "ok", "none", why)
    do = "give the container CPUs (--cpuset-cpus) instead of a quota (--cpus)"
    return Finding("cpu quota", "warn", f"{quota:g} CPUs", why, do)


def other_load(facts: Facts) -> Finding:
    """Is somebody else at work?"""
    why = "other work takes CPUs, caches and memory bandwidth"
    host = facts.host
    pressure = host.cpu_pressure or 0
    found = (
        f"load {host.load:.2f} on {host.processor.threads} CPUs, some task waited {pressure:.0%} of the time"
    )
    if pressure <= PRESSURE and host.load <= LOAD_PER_THREAD * host.processor.threads:
        return Finding("other load", "ok", found, why)
    do = f"stop other jobs on this machine, or {PAIRS}"
    return Finding("other load", "bad" if pressure > PRESSURE else "warn", found, why, do)


def memory(facts: Facts) -> Finding:
    """Is there memory to work with?"""
    why = "a machine short of memory reclaims it while it measures, or ends the worker"
    host = facts.host
    if not host.memory_available:
        return Finding("memory", "ok", f"{host.memory_total / GIB:.1f} GiB in all", why)
    found = f"{host.memory_available / GIB:.1f} of {host.memory_total / GIB:.1f} GiB are free"
    if host.memory_available >= MEMORY:
        return Finding("memory", "ok", found, why)
    return Finding("memory", "warn", found, why, "stop what holds the memory, or select smaller workloads")


def swap(facts: Facts) -> Finding:
    """Is memory on disk?"""
    why = "what is swapped out comes back in the middle of a measurement"
    used = facts.host.swap_used
    if not used:
        return Finding("swap", "ok", "none is used", why)
    return Finding("swap", "warn", f"{used / GIB:.1f} GiB are used", why, "swapoff -a")


def disk(facts: Facts) -> Finding:
    """Is there room for compiled code?"""
    why = "the compiler's cache, a fresh one for each cold compilation, must fit"
    found = f"{facts.disk_free / GIB:.1f} GiB are free for it"
    if facts.disk_free >= DISK:
        return Finding("disk", "ok", found, why)
    return Finding("disk", "warn", found, why, "free some space, or point TMPDIR elsewhere")


def timer(facts: Facts) -> Finding:
    """Is the clock fine and cheap enough?"""
    why = "steps of some microseconds are timed with it"
    source = facts.host.clock_source
    found = f"{source + ', ' if source else ''}steps of {facts.clock_step * 1e9:.0f} ns"
    if source in FAST_CLOCKS and facts.clock_step <= CLOCK_STEP:
        return Finding("timer", "ok", found, why)
    do = "boot with the processor's own clock (clocksource=tsc on x86)"
    return Finding("timer", "warn", found, why, do)


def compiler(facts: Facts) -> Finding:
    """Can inductor compile for the CPU?"""
    why = "inductor writes C++ for the CPU, and a launcher for each GPU kernel"
    found = (facts.compilers or {}).get("cxx")
    if found:
        return Finding("compiler", "ok", found, why)
    return Finding(
        "compiler", "bad", "no C++ compiler", why, "install g++ (on macOS: xcode-select --install)"
    )


def instruction_counts(facts: Facts) -> Finding:
    """May instructions be counted in hardware?"""
    why = "instruction counts are the quiet metric where wall time on a CPU is hopeless"
    level = facts.host.perf_event_paranoid
    if level is None:
        return Finding("instruction counts", "ok", "this system has no perf events", why)
    if facts.host.hypervisor:
        found = "a virtual machine has no hardware events, or few"
        return Finding("instruction counts", "ok", found, why)
    if level <= 2 or facts.administrator:  # perf_event_open(2): 2 allows one's own user code
        return Finding("instruction counts", "ok", f"allowed (perf_event_paranoid is {level})", why)
    found = f"not allowed (perf_event_paranoid is {level})"
    return Finding("instruction counts", "warn", found, why, "sysctl kernel.perf_event_paranoid=2")


CHECKS = (
    virtual_machine,
    cpu_quota,
    other_load,
    memory,
    swap,
    disk,
    timer,
    compiler,
    instruction_counts,
)
