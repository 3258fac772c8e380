"""Was the machine left alone while it measured? In one sentence, from what was observed around each process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STEAL = 0.02
PRESSURE = 0.05
LOAD_PER_THREAD = 0.25
"""Share of the CPUs that other work may take."""
NOTICEABLE = 0.05
"""The same where tasks wait for a CPU: below, it is a workload with more threads than CPUs that waits for itself."""
MARK = "⚠ "
"""How a sentence begins that a reader must not overlook."""
SHORTEST = 0.5
"""Seconds observed, below which the kernel's ticks of 10 ms tell no share."""


@dataclass(frozen=True)
class Conditions:
    """What several processes were measured under, weighted by their time; None where the system does not say.

    ``others`` is how many of the ``cpus`` work took that was not ours, ``load`` the highest load average (which is of
    the last minute, and counts what we do, too), the other numbers are shares of the time. ``gpu_neighbours`` counts
    other processes on the GPU, ``throttling`` holds the reasons that it gave, the longest of them for ``throttled``.
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


def disturbance(observed: Sequence[Mapping[str, str]]) -> str | None:
    """What disturbed the processes around which ``observed`` was noted, in words; None if nothing is known to have."""
    return "; ".join(_found(conditions(observed))) or None


def note(observed: Sequence[Mapping[str, str]], which: str = "") -> str:
    """The same for a report, with its mark; empty if nothing is known to have disturbed what was measured."""
    words = disturbance(observed)
    return f"{MARK}disturbed while this was measured{which}: {words}" if words else ""


def conditions(observed: Sequence[Mapping[str, str]]) -> Conditions:
    """Taken together, from the facts that :meth:`torchperf_ci.machine.interference.Interference.facts` gives."""
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


def is_void(observed: Mapping[str, str]) -> bool:
    """Whether what was measured meanwhile tells of the cooling and the power supply, and not of what was measured."""
    return bool(observed.get("throttling"))


def power_limit(observed: Sequence[Mapping[str, str]]) -> str:
    """That a GPU worked at its power limit, which is its usual state under a heavy load and no disturbance; empty if it
    did not.
    """
    capped = [facts for facts in observed if "power_capped" in facts]
    if not capped:
        return ""
    share = max(float(facts["power_capped"]) for facts in capped)
    clocks = [float(facts["gpu_sm_mhz"]) for facts in capped if "gpu_sm_mhz" in facts]
    at = f", its clock at {min(clocks):.0f} MHz" if clocks else ""
    return f"the GPU was at its power limit up to {share:.0%} of the time{at}"


def _found(now: Conditions) -> Iterator[str]:
    if now.seconds >= SHORTEST:
        yield from _busy(now)
        if now.steal is not None and now.steal > STEAL:
            yield f"the hypervisor gave {now.steal:.0%} of the CPU time to others"
        if now.quota is not None and now.quota > PRESSURE:
            yield f"the CPU quota held processes up {now.quota:.0%} of the time"
    if now.throttle_events:
        yield f"heat slowed cores down {'once' if now.throttle_events == 1 else f'{now.throttle_events} times'}"
    if now.throttling:
        share = "" if now.throttled is None else f" up to {now.throttled:.0%} of the time"
        yield f"the GPU was throttled{share} ({', '.join(now.throttling)})"
    if now.gpu_neighbours:
        others = "another process" if now.gpu_neighbours == 1 else f"{now.gpu_neighbours} other processes"
        yield f"{others} computed on the GPU, too"


def _busy(now: Conditions) -> Iterator[str]:
    load = now.load or 0.0
    if now.others is None:
        # Who made the load is not told (macOS). Our own threads are one a CPU at most: half of it is not ours.
        if now.cpus and load > 2 * now.cpus:
            yield f"load {load:.1f} on {now.cpus} CPUs"
        return
    waited = now.pressure is not None and now.pressure > PRESSURE and now.others > NOTICEABLE * now.cpus
    if now.others > LOAD_PER_THREAD * now.cpus or waited:
        # The load average of a minute lags behind what has just begun.
        shown = f"load {load:.1f} on {now.cpus} CPUs, {now.others:.1f} of them taken by other work"
        yield shown if load > now.others else f"other work took {now.others:.1f} of {now.cpus} CPUs"
        if waited:
            yield f"tasks waited for a CPU {now.pressure:.0%} of the time"


def _mean(observed: Sequence[Mapping[str, str]], name: str) -> float | None:
    """Weighted by time, over those that say it."""
    told = [facts for facts in observed if name in facts]
    seconds = sum(map(_seconds, told))
    return sum(float(facts[name]) * _seconds(facts) for facts in told) / seconds if seconds else None


def _seconds(facts: Mapping[str, str]) -> float:
    return float(facts.get("seconds", 0.0))
