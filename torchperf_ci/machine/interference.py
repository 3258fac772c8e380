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
from torchperf_ci.machine.gpu_sampling import clock_limits, sample_gpu, summarize_samples
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
SHORTEST_SECONDS = 0.5
"""The shortest observation from which shares are computed; the kernel counts in ticks of 10 ms."""


@dataclass(frozen=True)
class CounterSnapshot:
    """Counters that only grow, and the load average; None if not available. Stalls and ``moment`` are in seconds.

    ``own_ticks`` is the CPU time of this process and its descendants.
    """

    moment: float
    stalled: float | None
    involuntary_switches: int | None
    ticks: tuple[int, ...]
    throttle_events: int
    own_ticks: int = 0
    quota_stalled: float | None = None
    load: float | None = None
    cpus: int = 1


@dataclass(frozen=True)
class Interference:
    """What others took from a measured process between two snapshots.

    ``cpu_pressure`` is the share of the time in which some task on the machine waited for a CPU, ``steal`` the share
    of CPU time that the hypervisor gave to others, ``throttle_events`` how often heat slowed a core down,
    ``other_cpus`` the average number of CPUs that worked for others, and ``quota`` the share of the time in which a
    cgroup limit stalled us. ``load`` is the machine's load average at the end.
    """

    seconds: float
    cpu_pressure: float | None
    involuntary_switches: int | None
    steal: float | None
    throttle_events: int
    other_cpus: float | None
    quota: float | None
    load: float | None
    cpus: int

    def facts(self) -> Mapping[str, str]:
        """The numbers as flat strings for the record, without those that are unknown."""
        facts = {
            "cpu_pressure": None if self.cpu_pressure is None else f"{self.cpu_pressure:.3f}",
            "involuntary_switches_per_second": (
                None
                if self.involuntary_switches is None
                else f"{self.involuntary_switches / self.seconds:.1f}"
            ),
            "cpu_steal": None if self.steal is None else f"{self.steal:.3f}",
            "cpu_throttle_events": str(self.throttle_events) if self.throttle_events else None,
            "cpu_quota_throttled": f"{self.quota:.3f}" if self.quota else None,
            "other_cpus": None if self.other_cpus is None else f"{self.other_cpus:.2f}",
            "load": None if self.load is None else f"{self.load:.2f}",
            "cpus": str(self.cpus),
            "seconds": f"{self.seconds:.3f}",
        }
        return {name: value for name, value in facts.items() if value is not None}


@contextmanager
def watch_interference(
    device: Device,
    pid: int | None = None,
    workers: int = 1,
    *,
    closely: bool = True,
    found: list[GpuReading] | None = None,
) -> Iterator[dict[str, str]]:
    """Observe the machine, process ``pid``, and ``device`` during the block; the facts are filled in when it ends.

    ``workers`` is how many of our own processes use the device. A GPU is sampled throughout, or, if not ``closely``,
    only at both ends; the readings are added to ``found``.
    """
    observed: dict[str, str] = {}
    before, held = read_counters(pid), device.throttle_counters()
    try:
        with sample_gpu(device, closely=closely) as read:
            yield observed
    finally:
        observed |= interference_between(before, read_counters(pid)).facts()
        observed |= clock_limits(held, device.throttle_counters(), read)
        observed |= summarize_samples(read) if closely else {}
        # Compare counts, not process ids: inside a container they differ from those the driver reports.
        if (others := max((reading.processes for reading in read), default=0) - workers) > 0:
            observed["other_gpu_processes"] = str(others)
        if found is not None:
            found += read


def read_counters(pid: int | None = None, root: Path = Path("/"), own: int = 0) -> CounterSnapshot:
    """Read the counters of the machine, of process ``pid`` with its threads, and of ``own`` with its descendants.

    ``own`` is a process id and defaults to this process.
    """
    stalled = text(root / "proc/pressure/cpu").partition("\n")[0].rpartition("total=")[2]
    return CounterSnapshot(
        time.monotonic(),
        int(stalled) * MICROSECOND if stalled else None,
        None if pid is None else _involuntary_switches(pid, root),
        cpu_ticks(root),
        throttle_events(root),
        _ticks_of_family(own or os.getpid(), root),
        quota_stalled(root),
        load(root),
        len(online_cpus(root)) or os.cpu_count() or 1,
    )


def interference_between(before: CounterSnapshot, after: CounterSnapshot) -> Interference:
    """The interference from ``before`` to ``after``."""
    seconds = max(after.moment - before.moment, MICROSECOND)
    ticks = [late - early for early, late in zip(before.ticks, after.ticks, strict=True)]
    stalled = _difference(before.stalled, after.stalled)
    switches = _difference(before.involuntary_switches, after.involuntary_switches)
    quota = _difference(before.quota_stalled, after.quota_stalled)
    return Interference(
        seconds,
        None if stalled is None else min(stalled / seconds, 1.0),
        None if switches is None else max(int(switches), 0),
        ticks[STEAL] / sum(ticks) if sum(ticks) else None,
        after.throttle_events - before.throttle_events,
        _other_cpus(ticks, after.own_ticks - before.own_ticks, after.cpus),
        None if quota is None else min(quota / seconds, 1.0),
        after.load,
        after.cpus,
    )


def _other_cpus(ticks: list[int], own: int, cpus: int) -> float | None:
    """The average number of CPUs that were busy with work other than ours; stolen time does not count."""
    if not sum(ticks):
        return None
    busy = sum(ticks) - ticks[IDLE] - ticks[IOWAIT] - ticks[STEAL]
    return max(busy - own, 0) / sum(ticks) * cpus


def _ticks_of_family(ancestor: int, root: Path) -> int:
    """CPU time of a process and its descendants, including descendants that have ended and were waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in root.glob("proc/[0-9]*/stat"):
        # The name, in parentheses, may contain anything, so count the fields after it.
        words = text(path).rpartition(")")[2].split()
        if len(words) > LAST_TIME:
            parents[int(path.parent.name)] = int(words[PARENT])
            ticks[int(path.parent.name)] = sum(map(int, words[FIRST_TIME : LAST_TIME + 1]))
    family = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family)


def _involuntary_switches(pid: int, root: Path) -> int | None:
    """How often a thread of the process was preempted; None if the process is gone."""
    threads = [text(path) for path in root.glob(f"proc/{pid}/task/*/status")]
    counts = [
        int(line.split()[1])
        for status in threads
        for line in status.splitlines()
        if line.startswith("nonvoluntary_ctxt_switches:")
    ]
    return sum(counts) if counts else None


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


@dataclass(frozen=True)
class Conditions:
    """The conditions under which several processes were measured, weighted by time; None where unknown.

    ``others`` is how many of the ``cpus`` other work took, ``load`` the highest one-minute load average (which
    includes our own work), and the other numbers are shares of the time. ``gpu_neighbours`` counts other processes on
    the GPU. ``throttling`` lists the GPU's reasons, and ``throttled`` is the share of the time of the longest one.
    """

    seconds: float = 0.0
    cpus: int = 0
    load: float | None = None
    others: float | None = None
    pressure: float | None = None
    steal: float | None = None
    quota: float | None = None
    throttle_events: int = 0
    gpu_neighbours: int = 0
    throttling: tuple[str, ...] = ()
    throttled: float | None = None


def describe_interference(observed: Sequence[Mapping[str, str]]) -> str | None:
    """Describe what disturbed the processes whose facts are ``observed``; None if nothing is known to have."""
    return "; ".join(_sentences(conditions(observed))) or None


def interference_note(observed: Sequence[Mapping[str, str]], which: str = "") -> str:
    """The same description as a marked note for a report; empty if no disturbance is known."""
    words = describe_interference(observed)
    return f"{WARNING_MARK}disturbed during the measurement{which}: {words}" if words else ""


def conditions(observed: Sequence[Mapping[str, str]]) -> Conditions:
    """Combine the facts of several processes, as given by :meth:`Interference.facts`."""
    reasons = {reason for facts in observed for reason in facts.get("throttling", "").split(", ") if reason}
    shares = [facts["throttled_share"] for facts in observed if "throttled_share" in facts]
    return Conditions(
        seconds=sum(_seconds(facts) for facts in observed),
        cpus=max((int(facts.get("cpus", 0)) for facts in observed), default=0),
        load=max((float(facts["load"]) for facts in observed if "load" in facts), default=None),
        others=_mean(observed, "other_cpus"),
        pressure=_mean(observed, "cpu_pressure"),
        steal=_mean(observed, "cpu_steal"),
        quota=_mean(observed, "cpu_quota_throttled"),
        throttle_events=sum(int(facts.get("cpu_throttle_events", 0)) for facts in observed),
        gpu_neighbours=max((int(facts.get("other_gpu_processes", 0)) for facts in observed), default=0),
        throttling=tuple(sorted(reasons)),
        throttled=max(map(float, shares), default=None),
    )


def busy_warning(before: CounterSnapshot) -> str:
    """Warn, before a measurement, if other work has kept this machine busy since ``before``; else empty."""
    time.sleep(max(before.moment + SHORTEST_SECONDS - time.monotonic(), 0.0))
    words = describe_interference([interference_between(before, read_counters()).facts()])
    return f"{WARNING_MARK}this machine is busy: {words}; expect noise until that ends" if words else ""


def is_void(observed: Mapping[str, str]) -> bool:
    """Whether the GPU was throttled, so that the measurement reflects cooling and power supply instead of the code."""
    return bool(observed.get("throttling"))


def describe_power_limit(observed: Sequence[Mapping[str, str]]) -> str:
    """Say how long a GPU ran at its power limit; empty if it did not.

    This is normal under a heavy load and not a disturbance.
    """
    capped = [facts for facts in observed if "power_capped" in facts]
    if not capped:
        return ""
    share = max(float(facts["power_capped"]) for facts in capped)
    clocks = [float(facts["gpu_sm_mhz"]) for facts in capped if "gpu_sm_mhz" in facts]
    at = f", its clock at {min(clocks):.0f} MHz" if clocks else ""
    return f"the GPU was at its power limit up to {share:.0%} of the time{at}"


def power_limit_note(cases: Sequence[Sequence[Mapping[str, str]]]) -> str:
    """Say in how many ``cases`` a GPU ran at its power limit, given the facts of each case's processes; else empty."""
    capped = [observed for observed in cases if describe_power_limit(observed)]
    if not capped:
        return ""
    words = describe_power_limit([facts for observed in capped for facts in observed])
    return f"in {len(capped)} of {counted(len(cases), 'case')} {words}: its speed under sustained load"


def _sentences(now: Conditions) -> Iterator[str]:
    if now.seconds >= SHORTEST_SECONDS:
        yield from _busy(now)
        if now.steal is not None and now.steal > STEAL_LIMIT:
            yield f"the hypervisor gave {now.steal:.0%} of the CPU time to others"
        if now.quota is not None and now.quota > PRESSURE_LIMIT:
            yield f"the CPU quota throttled processes {now.quota:.0%} of the time"
    if now.throttle_events:
        yield f"heat slowed cores down {'once' if now.throttle_events == 1 else f'{now.throttle_events} times'}"
    if now.throttling:
        share = "" if now.throttled is None else f" up to {now.throttled:.0%} of the time"
        yield f"the GPU was throttled{share} ({', '.join(now.throttling)})"
    if now.gpu_neighbours:
        others = "another process" if now.gpu_neighbours == 1 else f"{now.gpu_neighbours} other processes"
        yield f"{others} also computed on the GPU"


def _busy(now: Conditions) -> Iterator[str]:
    load = now.load or 0.0
    if now.others is None:
        # macOS does not say whose load it is. We run at most one thread per CPU, so over half of it is not ours.
        if now.cpus and load > 2 * now.cpus:
            yield f"load {load:.1f} on {now.cpus} CPUs"
        return
    waited = now.pressure is not None and now.pressure > PRESSURE_LIMIT and now.others > NOTICEABLE * now.cpus
    if now.others > LOAD_PER_THREAD * now.cpus or waited:
        # The one-minute load average lags behind work that has just begun.
        shown = f"load {load:.1f} on {now.cpus} CPUs, {now.others:.1f} of them used by other work"
        yield shown if load > now.others else f"other work took {now.others:.1f} of {now.cpus} CPUs"
        if waited:
            yield f"tasks waited for a CPU {now.pressure:.0%} of the time"


def _mean(observed: Sequence[Mapping[str, str]], name: str) -> float | None:
    """The mean weighted by time, over the facts that contain ``name``."""
    known = [facts for facts in observed if name in facts]
    seconds = sum(map(_seconds, known))
    return sum(float(facts[name]) * _seconds(facts) for facts in known) / seconds if seconds else None


def _seconds(facts: Mapping[str, str]) -> float:
    return float(facts.get("seconds", 0.0))
