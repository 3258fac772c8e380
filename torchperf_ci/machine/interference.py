"""What happened on the machine around a measurement."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.system_files import online_cpus, text
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
from torchperf_ci.machine.watching import held_down, readings, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_ci.machine.devices.base import Device, Reading


PARENT, FIRST_TIME, LAST_TIME = 1, 11, 14
"""Columns of ``/proc/PID/stat`` (proc(5)) after the name: the parent, and own and children's user and system time."""


@dataclass(frozen=True)
class Snapshot:
    """Counters that only grow, and the load average; None where there are none. Stalls and ``moment`` in seconds.

    ``own_ticks`` is the CPU time of this process and of all that it has started.
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

    ``cpu_pressure`` is the share of the time in which some task on the machine waited for a CPU, ``steal``
    the share of CPU time that the hypervisor gave to others, ``throttle_events`` how often a core was slowed
    down by heat, ``other_cpus`` how many CPUs worked for others on average, ``quota`` the share of the time in which
    a control group's limit held us up. ``load`` is the machine's load average at the end.
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
        """As flat strings for the record; what is not known is left out."""
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
def watched(
    device: Device,
    pid: int | None = None,
    workers: int = 1,
    *,
    closely: bool = True,
    found: list[Reading] | None = None,
) -> Iterator[dict[str, str]]:
    """The facts of the block, which are there after it: of the machine, of process ``pid``, and of ``device``, which so
    many ``workers`` of ours use.

    A GPU is read all the time, or only at both ends if not ``closely``; ``found`` gets the readings.
    """
    observed: dict[str, str] = {}
    before, held = snapshot(pid), device.throttle_counters()
    try:
        with readings(device, closely=closely) as read:
            yield observed
    finally:
        observed |= between(before, snapshot(pid)).facts()
        observed |= held_down(held, device.throttle_counters(), read)
        observed |= shown(read) if closely else {}
        # Counted, because a container's process ids are not those that a driver tells.
        if (others := max((reading.processes for reading in read), default=0) - workers) > 0:
            observed["other_gpu_processes"] = str(others)
        if found is not None:
            found += read


def snapshot(pid: int | None = None, root: Path = Path("/"), own: int = 0) -> Snapshot:
    """Read the counters of the machine, of process ``pid`` with all its threads, and of process ``own`` (default: this
    one) with all its descendants.
    """
    stalled = text(root / "proc/pressure/cpu").partition("\n")[0].rpartition("total=")[2]
    return Snapshot(
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


def between(before: Snapshot, after: Snapshot) -> Interference:
    """What happened from ``before`` to ``after``."""
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
    """Of the CPUs' time, what was neither idle, nor stolen, nor ours."""
    if not sum(ticks):
        return None
    busy = sum(ticks) - ticks[IDLE] - ticks[IOWAIT] - ticks[STEAL]
    return max(busy - own, 0) / sum(ticks) * cpus


def _ticks_of_family(ancestor: int, root: Path) -> int:
    """CPU time of a process and of its descendants, those included that have ended and were waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in root.glob("proc/[0-9]*/stat"):
        # The name, in parentheses, may hold anything. After it come state, parent, and, twelfth, the four times.
        words = text(path).rpartition(")")[2].split()
        if len(words) > LAST_TIME:
            parents[int(path.parent.name)] = int(words[PARENT])
            ticks[int(path.parent.name)] = sum(map(int, words[FIRST_TIME : LAST_TIME + 1]))
    family = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family)


def _involuntary_switches(pid: int, root: Path) -> int | None:
    """How often one of the process's threads lost its CPU to another; None if the process is gone."""
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
