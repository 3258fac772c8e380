"""Which CPUs a worker shall be pinned to."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.system_files import CPUS, number, numbers, online_cpus, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.machine.devices.base import Device

NODES = Path("sys/devices/system/node")
PCI = Path("sys/bus/pci/devices")

_held: set[str] = set()
"""The names of the CPUs that this process has taken: the system gives them back when it ends, however it does."""


def quiet_cpus(count: int, device: Device, root: Path = Path("/")) -> tuple[int, ...]:
    """The ``count`` quietest CPUs for a worker on ``device``; empty where there are too few, or no pinning.

    One thread gets a CPU that the kernel keeps free of other work (``isolcpus``), where there is one. Several never do:
    the kernel does not balance threads over isolated CPUs, and all would stay on one. CPUs that another torchperf has
    taken come last.
    """
    if sys.platform != "linux":
        return ()
    isolated = set(numbers(text(root / CPUS / "isolated")))
    node = number(root / PCI / device.identity().facts.get("gpu_pci", "none") / "numa_node")
    # The kernel leaves isolated CPUs out of the affinity that processes start with.
    reserved = [cpu for cpu in by_disturbance(isolated, root, node) if count == 1 and _may_use(cpu)]
    allowed = os.sched_getaffinity(0) & set(online_cpus(root)) - isolated
    chosen = _free_first(reserved or by_disturbance(allowed, root, node), count, root)
    return tuple(sorted(chosen)) if len(chosen) == count else ()


def _free_first(cpus: list[int], count: int, root: Path) -> list[int]:
    """The first ``count`` that this process can take for itself; where all are taken, each process shares others."""
    mine: list[int] = []
    for cpu in cpus:
        if len(mine) < count and _take(cpu, root):
            mine.append(cpu)
    taken = [cpu for cpu in cpus if cpu not in mine]
    first = os.getpid() % len(taken) if taken else 0
    return [*mine, *taken[first:], *taken[:first]][:count]


def _take(cpu: int, root: Path) -> bool:
    """Take the CPU for as long as this process lives, by a name that only one socket of this network can have."""
    name = f"\0torchperf {root} cpu {cpu}"
    if name not in _held:
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(name)
        except OSError:
            holder.close()
            return False
        holder.detach()  # open for as long as the process lives
        _held.add(name)
    return True


def by_disturbance(cpus: Iterable[int], root: Path, near: int | None = None) -> list[int]:
    """``cpus``, the quietest first.

    One CPU a core comes before its siblings, NUMA node ``near`` before the others, one node before the next,
    and within a node the machine's first core comes last, because interrupts and daemons live there.
    """
    nodes = {
        cpu: node
        for node in numbers(text(root / NODES / "online"))
        for cpu in numbers(text(root / NODES / f"node{node}" / "cpulist"))
    }

    def disturbance(cpu: int) -> tuple[int, bool, int, bool, int]:
        siblings, node = _siblings(root, cpu), nodes.get(cpu, 0)
        return siblings.index(cpu), node != near, node, 0 in siblings, cpu

    return sorted(cpus, key=disturbance)


def _siblings(root: Path, cpu: int) -> tuple[int, ...]:
    """The CPUs of the same core, this one among them."""
    listed = numbers(text(root / CPUS / f"cpu{cpu}" / "topology/thread_siblings_list"))
    return listed if cpu in listed else (cpu,)


def _may_use(cpu: int) -> bool:
    """Whether a container's CPU set lets this process onto ``cpu``: only trying tells."""
    if sys.platform != "linux":
        return False
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return False
    os.sched_setaffinity(0, before)
    return True
