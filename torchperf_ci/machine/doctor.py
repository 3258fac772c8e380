"""The checks of ``torchperf doctor``, one function each: can this machine's numbers be trusted, and what would help?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.examination import (
    DoctorFinding,
    MachineState,
    device_steadiness,
    machine_state,
    steadiness,
)
from torchperf_ci.machine.interference import LOAD_PER_THREAD, PRESSURE_LIMIT, STEAL_LIMIT
from torchperf_ci.machine.tuning import DEEP_MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.machine.devices.interface import Device, GpuCondition
    from torchperf_ci.machine.examination import DeviceExercise, FindingLevel


COOL_MARGIN = 10
"""An idle GPU that is within so many degrees of its slowdown temperature is too warm to start."""
HOT_CELSIUS = 75
"""The limit in °C for a GPU that does not report its own."""
GIB = 2**30
ENOUGH_MEMORY = 4 * GIB
ENOUGH_DISK = 5 * GIB
CLOCK_STEP = 1e-6
FAST_CLOCKS = ("", "tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase", "tod")
"""Clock sources that are read without a system call; empty where the system does not name its source."""
TUNE = "run with --tune (needs root)"
PAIRS = "measure in pairs: --anchor, or torchperf compare"


def examine(device: Device, exercise: DeviceExercise | None = None) -> tuple[DoctorFinding, ...]:
    """Examine this machine and ``device``; takes about a second and changes nothing.

    ``exercise`` is how the device performed under work from torch, if a torch was available.
    """
    return diagnose(machine_state(device, exercise))


def diagnose(machine: MachineState) -> tuple[DoctorFinding, ...]:
    """Judge the state of a machine: the measured noise first, then what may explain it."""
    return (
        steadiness(machine),
        *device_steadiness(machine),
        *gpu_findings(machine),
        *(check(machine) for check in (*CPU_CHECKS, *SYSTEM_CHECKS)),
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
    if not state:
        return DoctorFinding("governor", "ok", "the machine shows no frequency scaling", why)
    if state == "performance":
        return DoctorFinding("governor", "ok", "performance", why)
    return DoctorFinding(
        "governor", "warn", state, why, f"{TUNE}, or: cpupower frequency-set --governor performance"
    )


def turbo(machine: MachineState) -> DoctorFinding:
    """Can the clock exceed what the processor can sustain?"""
    why = "a boosted clock depends on temperature and on what other cores do"
    if machine.host.turbo is None:
        return DoctorFinding("turbo", "ok", "the machine has no switch for it", why)
    if not machine.host.turbo:
        return DoctorFinding("turbo", "ok", "off", why)
    return DoctorFinding("turbo", "warn", "on", why, f"{TUNE}, or switch it off in the firmware")


def smt(machine: MachineState) -> DoctorFinding:
    """Do two hardware threads share a core?"""
    why = "a sibling on the same core takes up to half of it, whenever it has work"
    processor = machine.host.processor
    if processor.threads <= processor.cores:
        return DoctorFinding("smt", "ok", f"one thread on each of {processor.cores} cores", why)
    state = f"{processor.threads} threads on {processor.cores} cores"
    return DoctorFinding("smt", "warn", state, why, f"{TUNE}, or switch it off in the firmware")


def idle_states(machine: MachineState) -> DoctorFinding:
    """Do idle cores enter states so deep that waking from them is noticeable?"""
    why = f"waking from a state with more than {DEEP_MICROSECONDS} µs of latency delays small kernels"
    deep = [
        f"{state.name} ({state.latency_us} µs)"
        for state in machine.host.idle_states
        if state.latency_us > DEEP_MICROSECONDS and not state.disabled
    ]
    if not deep:
        return DoctorFinding("idle states", "ok", "none is deep", why)
    return DoctorFinding("idle states", "warn", ", ".join(deep), why, TUNE)


def isolation(machine: MachineState) -> DoctorFinding:
    """Are there CPUs that the scheduler keeps free of other work?"""
    why = "daemons, interrupts and the timer tick take time from a worker on a shared CPU"
    isolated, tickless = set(machine.host.isolated), set(machine.host.tickless)
    if isolated and isolated <= tickless:
        return DoctorFinding(
            "isolation", "ok", f"{len(isolated)} CPUs are isolated and free of the tick", why
        )
    if isolated:
        state, do = f"{len(isolated)} CPUs are isolated, but not free of the tick", "add nohz_full for them"
    else:
        state, do = "no CPU is isolated", "boot a dedicated runner with isolcpus= and nohz_full="
    return DoctorFinding("isolation", "ok" if isolated else "warn", state, why, do)


def numa(machine: MachineState) -> DoctorFinding:
    """Does the machine have several NUMA nodes?"""
    why = "memory on another node takes longer to reach, and a worker that moves leaves its memory behind"
    nodes = machine.host.numa_nodes
    if nodes == 1:
        return DoctorFinding("numa", "ok", "one node", why)
    do = "nothing, if the threads fit on one node: workers are pinned there"
    return DoctorFinding("numa", "ok", f"{nodes} nodes", why, do)


def heat(machine: MachineState) -> DoctorFinding:
    """Has heat throttled a core since boot?"""
    why = "a core that is too hot lowers its clock"
    events = machine.host.throttle_events
    if not events:
        return DoctorFinding("heat", "ok", "no core has been throttled since boot", why)
    return DoctorFinding(
        "heat", "warn", f"cores were throttled {events} times since boot", why, "improve the cooling"
    )


CPU_CHECKS = (governor, turbo, smt, idle_states, isolation, numa, heat)


def gpu_findings(machine: MachineState) -> list[DoctorFinding]:
    """All findings about the GPU; empty for a device without vendor tools."""
    condition = machine.condition
    if condition is None:
        return []
    if condition.problem:
        do = "install the vendor's driver and its Python package (nvidia-ml-py, or ROCm's amdsmi)"
        why = "without them clocks, throttling, energy and other users of the GPU are invisible"
        return [DoctorFinding("gpu tools", "bad", condition.problem, why, do)]
    return [
        gpu_processes(condition),
        clock_rights(machine),
        *gpu_persistence(condition),
        gpu_throttling(machine),
        *gpu_temperature(condition),
    ]


def gpu_processes(condition: GpuCondition) -> DoctorFinding:
    """Do other processes compute on the GPU?"""
    why = "another process takes turns on the GPU and fills its memory and caches"
    count = len(condition.processes)
    if not count:
        return DoctorFinding("gpu processes", "ok", "none", why)
    state = f"{count} compute on it: {', '.join(map(str, condition.processes))}"
    return DoctorFinding(
        "gpu processes", "bad", state, why, "end them, or choose another GPU (CUDA_VISIBLE_DEVICES)"
    )


def clock_rights(machine: MachineState) -> DoctorFinding:
    """Are we allowed to lock the GPU's clock?"""
    why = "a free clock follows temperature and power from run to run"
    if machine.administrator:
        return DoctorFinding("gpu clock rights", "ok", "running as root: --tune can lock the clock", why)
    do = "run as root with --tune, or let an administrator lock it (nvidia-smi --lock-gpu-clocks)"
    return DoctorFinding("gpu clock rights", "warn", "not root: the clock cannot be locked", why, do)


def gpu_persistence(condition: GpuCondition) -> list[DoctorFinding]:
    """Does the driver stay loaded between processes?"""
    why = "otherwise the GPU is initialized again, with cold clocks, for each process"
    if condition.persistence is None:
        return []
    if condition.persistence:
        return [DoctorFinding("gpu persistence", "ok", "on", why)]
    return [
        DoctorFinding(
            "gpu persistence", "warn", "off", why, "run with --tune, or: nvidia-smi --persistence-mode=1"
        )
    ]


def gpu_throttling(machine: MachineState) -> DoctorFinding:
    """Is the GPU's clock throttled right now?"""
    why = "a throttled GPU measures its cooling and its power supply"
    voiding, warning = machine.throttling.voiding, machine.throttling.warning
    if voiding:
        do = "improve the cooling or the power supply; samples taken now are void"
        return DoctorFinding("gpu throttling", "bad", ", ".join(voiding), why, do)
    if warning:
        return DoctorFinding(
            "gpu throttling", "warn", ", ".join(warning), why, "lock a lower clock: run with --tune"
        )
    if not machine.throttling.known:
        return DoctorFinding(
            "gpu throttling", "warn", "not told", why, "install a newer driver from the vendor"
        )
    return DoctorFinding("gpu throttling", "ok", "none", why)


def gpu_temperature(condition: GpuCondition) -> list[DoctorFinding]:
    """Is the GPU too warm to start?"""
    why = "leakage and throttling grow with temperature"
    if condition.temperature is None:
        return []
    limit = condition.slowdown_temperature
    state = f"{condition.temperature} °C" + (f", slows down at {limit} °C" if limit else "")
    if condition.temperature < (limit - COOL_MARGIN if limit else HOT_CELSIUS):
        return [DoctorFinding("gpu temperature", "ok", state, why)]
    return [DoctorFinding("gpu temperature", "warn", state, why, "let it cool down, or improve the cooling")]


def virtual_machine(machine: MachineState) -> DoctorFinding:
    """Is this a virtual machine, and does the hypervisor give CPU time to others?"""
    why = "other guests take CPU time, caches and memory bandwidth, and nothing here can see it all"
    host = machine.host
    if not host.hypervisor:
        return DoctorFinding("virtual machine", "ok", "bare metal", why)
    maker = "" if host.hypervisor == "unknown" else f" ({host.hypervisor})"
    state = f"virtual{maker}, {host.steal or 0:.1%} of CPU time was stolen since boot"
    level: FindingLevel = "bad" if (host.steal or 0) > STEAL_LIMIT else "warn"
    return DoctorFinding("virtual machine", level, state, why, f"{PAIRS}; or use a bare-metal runner")


def cpu_quota(machine: MachineState) -> DoctorFinding:
    """Does a cgroup limit stop processes that have used up their CPU quota?"""
    why = (
        "a process that has used up its quota is paused until the next period, which shows up as a slow step"
    )
    quota = machine.host.cpu_quota
    if quota is None:
        return DoctorFinding("cpu quota", "ok", "none", why)
    do = "give the container CPUs (--cpuset-cpus) instead of a quota (--cpus)"
    return DoctorFinding("cpu quota", "warn", f"{quota:g} CPUs", why, do)


def other_load(machine: MachineState) -> DoctorFinding:
    """Does other work run on this machine?"""
    why = "other work takes CPUs, caches and memory bandwidth"
    host = machine.host
    pressure = host.cpu_pressure or 0
    state = (
        f"load {host.load:.2f} on {host.processor.threads} CPUs, some task waited {pressure:.0%} of the time"
    )
    if pressure <= PRESSURE_LIMIT and host.load <= LOAD_PER_THREAD * host.processor.threads:
        return DoctorFinding("other load", "ok", state, why)
    do = f"stop other jobs on this machine, or {PAIRS}"
    return DoctorFinding("other load", "bad" if pressure > PRESSURE_LIMIT else "warn", state, why, do)


def memory(machine: MachineState) -> DoctorFinding:
    """Is enough memory free?"""
    why = "a machine short of memory reclaims it during the measurement, or kills the worker"
    host = machine.host
    if not host.memory_available:
        return DoctorFinding("memory", "ok", f"{host.memory_total / GIB:.1f} GiB in total", why)
    state = f"{host.memory_available / GIB:.1f} of {host.memory_total / GIB:.1f} GiB are free"
    if host.memory_available >= ENOUGH_MEMORY:
        return DoctorFinding("memory", "ok", state, why)
    return DoctorFinding(
        "memory", "warn", state, why, "stop what uses the memory, or select smaller workloads"
    )


def swap(machine: MachineState) -> DoctorFinding:
    """Is memory swapped out?"""
    why = "swapped-out memory comes back in the middle of a measurement"
    used = machine.host.swap_used
    if not used:
        return DoctorFinding("swap", "ok", "none is used", why)
    return DoctorFinding("swap", "warn", f"{used / GIB:.1f} GiB are used", why, "swapoff -a")


def disk(machine: MachineState) -> DoctorFinding:
    """Is there enough disk space for compiled code?"""
    why = "the compiler's cache, a fresh one for each cold compilation, must fit"
    state = f"{machine.disk_free / GIB:.1f} GiB free for it"
    if machine.disk_free >= ENOUGH_DISK:
        return DoctorFinding("disk", "ok", state, why)
    return DoctorFinding("disk", "warn", state, why, "free some space, or point TMPDIR elsewhere")


def timer(machine: MachineState) -> DoctorFinding:
    """Is the clock precise and cheap to read?"""
    why = "steps of a few microseconds are timed with it"
    source = machine.host.clock_source
    state = f"{source + ', ' if source else ''}steps of {machine.clock_step * 1e9:.0f} ns"
    if source in FAST_CLOCKS and machine.clock_step <= CLOCK_STEP:
        return DoctorFinding("timer", "ok", state, why)
    do = "boot with the processor's own clock (clocksource=tsc on x86)"
    return DoctorFinding("timer", "warn", state, why, do)


def compiler(machine: MachineState) -> DoctorFinding:
    """Can inductor compile for the CPU?"""
    why = "inductor writes C++ for the CPU, and a launcher for each GPU kernel"
    state = (machine.compilers or {}).get("cxx")
    if state:
        return DoctorFinding("compiler", "ok", state, why)
    return DoctorFinding(
        "compiler", "bad", "no C++ compiler", why, "install g++ (on macOS: xcode-select --install)"
    )


SYSTEM_CHECKS = (
    virtual_machine,
    cpu_quota,
    other_load,
    memory,
    swap,
    disk,
    timer,
    compiler,
)
