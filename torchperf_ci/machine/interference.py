"""What happened on the machine around a measurement."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.system_files import text
from torchperf_ci.machine.host import STEAL, cpu_ticks, throttle_events

if TYPE_CHECKING:
    from collections.abc import Mapping

MICROSECOND = 1e-6


@dataclass(frozen=True)
class Snapshot:
    """Counters that only grow, None where there are none; ``stalled`` and ``moment`` in seconds."""

    moment: float
    stalled: float | None
    involuntary_switches: int | None
    ticks: tuple[int, ...]
    throttle_events: int


@dataclass(frozen=True)
class Interference:
    """What others took from a measured process between two snapshots.

    ``cpu_pressure`` is the share of the time in which some task on the machine waited for a CPU, ``steal``
    the share of CPU time that the hypervisor gave to others, ``throttle_events`` how often a core was slowed
    down by heat.
    """

    seconds: float
    cpu_pressure: float | None
    involuntary_switches: int | None
    steal: float | None
    throttle_events: int

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
        }
        return {name: value for name, value in facts.items() if value is not None}


def snapshot(pid: int, root: Path = Path("/")) -> Snapshot:
    """Read the counters of the machine and of process ``pid`` with all its threads."""
    stalled = text(root / "proc/pressure/cpu").partition("\n")[0].rpartition("total=")[2]
    return Snapshot(
        time.monotonic(),
        int(stalled) * MICROSECOND if stalled else None,
        _involuntary_switches(pid, root),
        cpu_ticks(root),
        throttle_events(root),
    )


def between(before: Snapshot, after: Snapshot) -> Interference:
    """What happened from ``before`` to ``after``."""
    seconds = max(after.moment - before.moment, MICROSECOND)
    ticks = [late - early for early, late in zip(before.ticks, after.ticks, strict=True)]
    stalled = _difference(before.stalled, after.stalled)
    switches = _difference(before.involuntary_switches, after.involuntary_switches)
    return Interference(
        seconds,
        None if stalled is None else min(stalled / seconds, 1.0),
        None if switches is None else max(int(switches), 0),
        ticks[STEAL] / sum(ticks) if sum(ticks) else None,
        after.throttle_events - before.throttle_events,
    )


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
