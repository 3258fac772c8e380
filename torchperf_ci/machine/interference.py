"""Detect what disturbed a measurement on this machine, as numbers for the record and one sentence for people."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.document import counted
from torchperf_ci.machine.devices.system_files import online_cpus, text
from torchperf_ci.machine.gpu_sampling import clock_limits, sample_gpu, share, summarize_samples
from torchperf_ci.machine.host import (
    IDLE,
    IOWAIT,
    MICROSECOND,
    STEAL,
    cpu_ticks,
    load,
    quota_stalled,
    throttle_events,
)
from torchperf_ci.processes import proc_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.machine.devices.interface import Device, GpuReading


PARENT, FIRST_TIME, LAST_TIME = 1, 11, 14
"""Indices in ``/proc/PID/stat`` (proc(5)), counted after the name: the parent, and the first and last of four times.

The times are user and system time, of the process and of its waited-for children.
"""
STEAL_LIMIT = 0.02
PRESSURE_LIMIT = 0.05
LOAD_PER_THREAD = 0.25
"""The largest share of the CPUs that other work may take unreported."""
NOTICEABLE = 0.05
"""The same share if tasks wait for a CPU. Below it, a workload with more threads than CPUs waits for itself."""
WARNING_MARK = "⚠ "
"""The beginning of a sentence that a reader must not overlook."""
MIN_SECONDS = 0.5
"""The shortest observation from which shares are computed; the kernel counts in ticks of 10 ms."""


@dataclass(frozen=True)
class CounterSnapshot:
    """Counters that only grow, and the load average; None if not available. Stalls and ``moment`` are in seconds.

    ``own_ticks`` is the CPU time of this process and its descendants.
    """

    moment: float
    stalled: float | None
    ticks: tuple[int, ...]
    throttle_events: int
    own_ticks: int = 0
    quota_stalled: float | None = None
    load: float | None = None
    cpus: int = 1


@contextmanager
def watch_interference(
    device: Device,
    *,
    workers: int = 1,
    closely: bool = True,
    readings: list[GpuReading] | None = None,
) -> Iterator[dict[str, str]]:
    """Observe the machine and ``device`` during the block; the facts are filled in when it ends.

    ``workers`` is how many of our own processes use the device. A GPU is sampled throughout, or, if not ``closely``,
    only at both ends; each reading is added to ``readings``.
    """
    observed: dict[str, str] = {}
    read: list[GpuReading] = []
    before, held = read_counters(), device.tools.throttle_counters()
    try:
        with sample_gpu(device, closely=closely) as read:
            yield observed
    finally:
        observed |= interference_between(before, read_counters())
        observed |= clock_limits(held, device.tools.throttle_counters(), read)
        observed |= summarize_samples(read) if closely else {}
        # Compare counts, not process ids: inside a container they differ from those the driver reports.
        if (others := max((reading.processes for reading in read), default=0) - workers) > 0:
            observed["other_gpu_processes"] = str(others)
        if readings is not None:
            readings += read


def read_counters(root: Path = Path("/"), own: int = 0) -> CounterSnapshot:
    """Read the counters of the machine, and of process ``own`` (this one by default) with its descendants."""
    stalled = text(root / "proc/pressure/cpu").partition("\n")[0].rpartition("total=")[2]
    return CounterSnapshot(
        time.monotonic(),
        int(stalled) * MICROSECOND if stalled else None,
        cpu_ticks(root),
        throttle_events(root) or 0,
        _ticks_of_family(own or os.getpid(), root),
        quota_stalled(root),
        load(root),
        len(online_cpus(root)) or os.cpu_count() or 1,
    )


def interference_between(before: CounterSnapshot, after: CounterSnapshot) -> Mapping[str, str]:
    """What others took between two snapshots, as flat strings for the record, without what is unknown.

    ``cpu_pressure`` is the share of the time in which some task on the machine waited for a CPU, ``cpu_steal`` the
    share of CPU time that the hypervisor gave to others, ``cpu_throttle_events`` how often heat slowed a core down,
    ``other_cpus`` the average number of CPUs that worked for others, and ``cpu_quota_throttled`` the share of the time
    in which a cgroup limit stalled us. ``load`` is the machine's load average at the end.
    """
    seconds = max(after.moment - before.moment, MICROSECOND)
    # Either is empty if it could not be read, so that nothing is known of the time between.
    ticks = [late - early for early, late in zip(before.ticks, after.ticks, strict=False)]
    quota = share(before.quota_stalled, after.quota_stalled, seconds)
    # A CPU that goes offline or comes back takes its count since boot with it.
    heat = after.throttle_events - before.throttle_events if after.cpus == before.cpus else 0
    facts = {
        "cpu_pressure": _shown(share(before.stalled, after.stalled, seconds), 3),
        "cpu_steal": _shown(ticks[STEAL] / sum(ticks) if sum(ticks) else None, 3),
        "cpu_throttle_events": str(heat) if heat else None,
        "cpu_quota_throttled": _shown(quota or None, 3),
        "other_cpus": _shown(_other_cpus(ticks, after.own_ticks - before.own_ticks, after.cpus), 2),
        "load": _shown(after.load, 2),
        "cpus": str(after.cpus),
        "seconds": f"{seconds:.3f}",
    }
    return {name: value for name, value in facts.items() if value is not None}


def _shown(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def _other_cpus(ticks: list[int], own: int, cpus: int) -> float | None:
    """The average number of CPUs that were busy with work other than ours; stolen time does not count."""
    if not sum(ticks):
        return None
    busy = sum(ticks) - ticks[IDLE] - ticks[IOWAIT] - ticks[STEAL]
    return min(max(busy - own, 0) / sum(ticks), 1) * cpus  # the count of idle ticks may fall


def _ticks_of_family(ancestor: int, root: Path) -> int:
    """CPU time of a process and its descendants, including descendants that have ended and were waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for pid, stat in proc_files("stat", f"{root}/proc"):
        # The name, in parentheses, may contain anything, so count the fields after it.
        words = stat.rpartition(b")")[2].split()
        parents[pid] = int(words[PARENT])
        ticks[pid] = sum(map(int, words[FIRST_TIME : LAST_TIME + 1]))
    family = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family)


def describe_interference(observed: Sequence[Mapping[str, str]]) -> str | None:
    """Describe what disturbed the processes whose facts are ``observed``; None if nothing is known to have."""
    return "; ".join([*_others(observed), *_throttling(observed)]) or None


def interference_note(observed: Sequence[Mapping[str, str]], which: str = "") -> str:
    """The same description as a marked note for a report; empty if no disturbance is known."""
    words = describe_interference(observed)
    return f"{WARNING_MARK}disturbed during the measurement{which}: {words}" if words else ""


def busy_warning(before: CounterSnapshot) -> str:
    """Warn, before a measurement, if other work has kept this machine busy since ``before``; else empty."""
    time.sleep(max(before.moment + MIN_SECONDS - time.monotonic(), 0.0))
    words = describe_interference([interference_between(before, read_counters())])
    return f"{WARNING_MARK}this machine is busy: {words}; expect noise until that ends" if words else ""


def is_void(observed: Mapping[str, str]) -> bool:
    """Whether the GPU was throttled, so that the measurement reflects cooling and power supply instead of the code."""
    return bool(observed.get("throttling"))


def power_limit_note(cases: Sequence[Sequence[Mapping[str, str]]]) -> str:
    """Say in how many ``cases`` a GPU ran at its power limit, given the facts of each case's processes; else empty.

    This is normal under a heavy load and not a disturbance.
    """
    capped = [[facts for facts in observed if "power_capped" in facts] for observed in cases]
    together = [facts for observed in capped for facts in observed]
    if not together:
        return ""
    clocks = _numbers(together, "gpu_sm_mhz")
    at = f", its clock at {min(clocks):.0f} MHz" if clocks else ""
    return (
        f"in {sum(map(bool, capped))} of {counted(len(cases), 'case')} the GPU was at its power limit up to "
        f"{max(_numbers(together, 'power_capped')):.0%} of the time{at}: its speed under sustained load"
    )


def _others(observed: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Sentences on what others did meanwhile."""
    if sum(_numbers(observed, "seconds")) < MIN_SECONDS:
        return
    yield from _other_work(observed)
    if (steal := _mean(observed, "cpu_steal") or 0) > STEAL_LIMIT:
        yield f"the hypervisor gave {steal:.0%} of the CPU time to others"
    if (quota := _mean(observed, "cpu_quota_throttled") or 0) > PRESSURE_LIMIT:
        yield f"the CPU quota throttled processes {quota:.0%} of the time"


def _other_work(observed: Sequence[Mapping[str, str]]) -> Iterator[str]:
    others, pressure = _mean(observed, "other_cpus"), _mean(observed, "cpu_pressure") or 0.0
    cpus = int(max(_numbers(observed, "cpus"), default=0))
    load = max(_numbers(observed, "load"), default=0.0)
    if others is None:
        # macOS does not say whose load it is. We run at most one thread per CPU, so over half of it is not ours.
        if cpus and load > 2 * cpus:
            yield f"load {load:.1f} on {cpus} CPUs"
        return
    waited = pressure > PRESSURE_LIMIT and others > NOTICEABLE * cpus
    if others > LOAD_PER_THREAD * cpus or waited:
        # The one-minute load average lags behind work that has just begun.
        shown = f"load {load:.1f} on {cpus} CPUs, {others:.1f} of them used by other work"
        yield shown if load > others else f"other work took {others:.1f} of {cpus} CPUs"
        if waited:
            yield f"tasks waited for a CPU {pressure:.0%} of the time"


def _throttling(observed: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Sentences on heat, on why the GPU was throttled and for which share of the time, and on who else used it."""
    if events := int(sum(_numbers(observed, "cpu_throttle_events"))):
        yield f"heat slowed cores down {'once' if events == 1 else f'{events} times'}"
    reasons = {reason for facts in observed if is_void(facts) for reason in facts["throttling"].split(", ")}
    if reasons:
        shares = _numbers(observed, "throttled_share")
        share = f" up to {max(shares):.0%} of the time" if shares else ""
        yield f"the GPU was throttled{share} ({', '.join(sorted(reasons))})"
    if neighbours := int(max(_numbers(observed, "other_gpu_processes"), default=0)):
        others = "another process" if neighbours == 1 else f"{neighbours} other processes"
        yield f"{others} also computed on the GPU"


def _numbers(observed: Sequence[Mapping[str, str]], name: str) -> list[float]:
    return [float(facts[name]) for facts in observed if name in facts]


def _mean(observed: Sequence[Mapping[str, str]], name: str) -> float | None:
    """The mean weighted by time, over the facts that contain ``name``; None if none does."""
    known = [(float(facts[name]), float(facts.get("seconds", 0))) for facts in observed if name in facts]
    seconds = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / seconds if seconds else None
