"""The checks of ``torchperf doctor``, one function each: can this machine's numbers be trusted, and what would help?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.examination import (
    DoctorFinding,
    MachineState,
    device_steadiness,
    finding,
    steadiness,
)
from torchperf_ci.machine.host import GIB, MIB
from torchperf_ci.machine.interference import LOAD_PER_THREAD, PRESSURE_LIMIT, STEAL_LIMIT
from torchperf_ci.machine.tuning import DEEP_MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.machine.devices.interface import GpuCondition
    from torchperf_ci.machine.examination import FindingLevel


COOL_MARGIN = 10
"""An idle GPU that is within so many degrees of its slowdown temperature is too warm to start."""
HOT_CELSIUS = 75
"""The limit in °C for a GPU that does not report its own."""
ENOUGH_MEMORY = 4.0
"""In GiB."""
TUNE = "run with --tune (needs root, and a container --privileged)"
PAIRS = "measure in pairs: --anchor, or torchperf compare"


def diagnose(machine: MachineState) -> tuple[DoctorFinding, ...]:
    """Judge the state of a machine: the measured noise first, then what may explain it."""
    return (
        steadiness(machine),
        *device_steadiness(machine),
        *gpu_findings(machine),
        *(check(machine) for check in CHECKS),
    )


def verdict(findings: Sequence[DoctorFinding]) -> str:
    """Summarize the findings in one plain sentence."""
    bad = [finding.check for finding in findings if finding.level == "bad"]
    warned = [finding.check for finding in findings if finding.level == "warn"]
    if bad:
        return f"Do not trust absolute numbers from this machine: first deal with {_listed(bad)}."
    if warned:
        return (
            f"Numbers from this machine are usable, and best in pairs: {_listed(warned)} may make them noisy."
        )
    return "This machine gives trustworthy numbers."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def governor(machine: MachineState) -> DoctorFinding:
    """Does the governor change the clock with the load?"""
    why = "other governors raise the clock only once load has begun, so short steps run slower"
    state = ", ".join(machine.host.governors)
    do = f"{TUNE}, or: cpupower frequency-set --governor performance"
    shown = state or "the machine shows no frequency scaling"
    return finding("governor", state in ("", "performance"), shown, why, do)


def turbo(machine: MachineState) -> DoctorFinding:
    """Can the clock exceed what the processor can sustain?"""
    why = "a boosted clock depends on temperature and on what other cores do"
    states = {None: "the machine has no switch for it", False: "off", True: "on"}
    do = f"{TUNE}, or switch it off in the firmware"
    return finding("turbo", not machine.host.turbo, states[machine.host.turbo], why, do)


def smt(machine: MachineState) -> DoctorFinding:
    """Do two hardware threads share a core?"""
    why = "a sibling on the same core takes up to half of it, whenever it has work"
    processor = machine.host.processor
    state = f"{processor.threads} threads on {processor.cores} cores"
    do = f"{TUNE}, or switch it off in the firmware"
    return finding("smt", processor.threads <= processor.cores, state, why, do)


def idle_states(machine: MachineState) -> DoctorFinding:
    """Do idle cores enter states so deep that waking from them is noticeable?"""
    why = f"waking from a state with more than {DEEP_MICROSECONDS} µs of latency delays small kernels"
    deep = [
        f"{state.name} ({state.latency_us} µs)"
        for state in machine.host.idle_states
        if state.latency_us > DEEP_MICROSECONDS and not state.disabled
    ]
    return finding("idle states", not deep, ", ".join(deep) or "none is deep", why, TUNE)


def isolation(machine: MachineState) -> DoctorFinding:
    """Are there CPUs that the scheduler keeps free of other work?"""
    why = "daemons, interrupts and the timer tick take time from a worker on a shared CPU"
    isolated, tickless = set(machine.host.isolated), set(machine.host.tickless)
    tick = "free of the tick" if isolated <= tickless else "but not free of the tick (nohz_full)"
    state = f"CPUs isolated: {len(isolated)}, {tick}" if isolated else "no CPU is isolated"
    do = "boot a dedicated Linux runner with isolcpus= and nohz_full="
    return finding("isolation", bool(isolated), state, why, do)


def heat(machine: MachineState) -> DoctorFinding:
    """Has heat throttled a core since boot?"""
    why = "a core that is too hot lowers its clock"
    events = machine.host.throttle_events
    known = f"cores were throttled {events} times since boot"
    state = "the machine does not count it" if events is None else known
    return finding("heat", not events, state, why, "improve the cooling")


def gpu_findings(machine: MachineState) -> list[DoctorFinding]:
    """All findings about the GPU; empty for a device without vendor tools."""
    condition = machine.condition
    if condition is None:
        return []
    if condition.problem:
        do = "install the vendor's driver and its Python package (nvidia-ml-py, or ROCm's amdsmi)"
        why = "without them clocks, throttling, energy and other users of the GPU are invisible"
        return [DoctorFinding("gpu tools", "bad", condition.problem, why, do)]
    findings = [gpu_processes(condition), clock_rights(machine), gpu_throttling(machine)]
    if condition.persistence is not None:
        findings.append(gpu_persistence(on=condition.persistence))
    if condition.temperature is not None:
        findings.append(gpu_temperature(condition.temperature, condition.slowdown_temperature))
    return findings


def gpu_processes(condition: GpuCondition) -> DoctorFinding:
    """Do other processes compute on the GPU?"""
    why = "another process takes turns on the GPU and fills its memory and caches"
    others = condition.processes
    none = "not reported" if others is None else "none"
    state = f"{len(others)} compute on it: {', '.join(map(str, others))}" if others else none
    do = "end them, or choose another GPU (CUDA_VISIBLE_DEVICES)"
    return finding("gpu processes", not others, state, why, do, "bad")


def clock_rights(machine: MachineState) -> DoctorFinding:
    """Are we allowed to lock the GPU's clock?"""
    why = "a free clock follows temperature and power from run to run"
    may = machine.administrator
    state = "--tune can lock the clock" if may else "this process may not lock the clock (CAP_SYS_ADMIN)"
    do = f"{TUNE}, or let an administrator lock it (nvidia-smi --lock-gpu-clocks)"
    return finding("gpu clock rights", may, state, why, do)


def gpu_persistence(*, on: bool) -> DoctorFinding:
    """Does the driver stay loaded between processes?"""
    why = "otherwise the GPU is initialized again, with cold clocks, for each process"
    do = "run with --tune, or: nvidia-smi --persistence-mode=1"
    return finding("gpu persistence", on, "on" if on else "off", why, do)


def gpu_throttling(machine: MachineState) -> DoctorFinding:
    """Is the GPU's clock throttled right now?"""
    why = "a throttled GPU measures its cooling and its power supply"
    now = machine.throttling
    if now.voiding:
        do = "improve the cooling or the power supply; samples taken now are void"
        return finding("gpu throttling", False, ", ".join(now.voiding), why, do, "bad")
    state = ", ".join(now.warning) or ("none" if now.known else "not reported")
    do = "lock a lower clock: run with --tune" if now.warning else "install a newer driver from the vendor"
    return finding("gpu throttling", state == "none", state, why, do)


def gpu_temperature(celsius: int, limit: int | None) -> DoctorFinding:
    """Is the GPU too warm to start?"""
    why = "leakage and throttling grow with temperature"
    state = f"{celsius} °C" + (f", slows down at {limit} °C" if limit else "")
    cool = celsius < (limit - COOL_MARGIN if limit else HOT_CELSIUS)
    return finding("gpu temperature", cool, state, why, "let it cool down, or improve the cooling")


def virtual_machine(machine: MachineState) -> DoctorFinding:
    """Is this a virtual machine, and does the hypervisor give CPU time to others?"""
    why = "other guests take CPU time, caches and memory bandwidth, which cannot all be seen from here"
    host = machine.host
    if not host.hypervisor:
        return finding("virtual machine", True, "no hypervisor is known", why, "")
    maker = "" if host.hypervisor == "unknown" else f" ({host.hypervisor})"
    stolen = "" if host.steal is None else f", {host.steal:.1%} of CPU time was stolen since boot"
    level: FindingLevel = "bad" if (host.steal or 0) > STEAL_LIMIT else "warn"
    return DoctorFinding(
        "virtual machine", level, f"virtual{maker}{stolen}", why, f"{PAIRS}; or use a bare-metal runner"
    )


def cpu_quota(machine: MachineState) -> DoctorFinding:
    """Does a cgroup limit stop processes that have used up their CPU quota?"""
    why = (
        "a process that has used up its quota is paused until the next period, which shows up as a slow step"
    )
    quota = machine.host.cpu_quota
    do = "give the container CPUs (--cpuset-cpus) instead of a quota (--cpus)"
    return finding("cpu quota", quota is None, "none" if quota is None else f"{quota:g} CPUs", why, do)


def other_load(machine: MachineState) -> DoctorFinding:
    """Does other work run on this machine?"""
    why = "other work takes CPUs, caches and memory bandwidth"
    host = machine.host
    pressure = host.cpu_pressure
    waited = "" if pressure is None else f", some task waited {pressure:.0%} of the time"
    state = f"load {host.load:.2f} on {host.processor.threads} CPUs{waited}"
    waits, do = (pressure or 0) > PRESSURE_LIMIT, f"stop other jobs on this machine, or {PAIRS}"
    quiet = not waits and host.load <= LOAD_PER_THREAD * host.processor.threads
    return finding("other load", quiet, state, why, do, "bad" if waits else "warn")


def memory(machine: MachineState) -> DoctorFinding:
    """Is enough memory free? macOS only says how much there is."""
    why = "a machine short of memory reclaims it during the measurement, or kills the worker"
    total, free = machine.host.memory_total / GIB, machine.host.memory_available / GIB
    state = f"{free:.1f} of {total:.1f} GiB are free" if free else f"{total:.1f} GiB in total"
    do = "stop what uses the memory, or select smaller workloads"
    return finding("memory", not 0 < free < ENOUGH_MEMORY, state, why, do)


def swap(machine: MachineState) -> DoctorFinding:
    """Is memory swapped out?"""
    why = "swapped-out memory comes back in the middle of a measurement"
    used = machine.host.swap_used // MIB
    return finding("swap", not used, f"{used:,} MiB are used", why, "free memory, then, on Linux: swapoff -a")


def compiler(machine: MachineState) -> DoctorFinding:
    """Can inductor compile for the CPU?"""
    why = "inductor writes C++ for the CPU, and a launcher for each GPU kernel"
    compiler = machine.compiler
    do = "install g++ (on macOS: xcode-select --install), or name in CXX a compiler that is there"
    return finding("compiler", bool(compiler), compiler or "no C++ compiler", why, do, "bad")


CHECKS = (
    *(governor, turbo, smt, idle_states, isolation, heat),
    *(virtual_machine, cpu_quota, other_load, memory, swap, compiler),
)
