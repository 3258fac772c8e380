"""Checks of the processor and of how the kernel runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.checks.finding import Finding
from torchperf_ci.machine.knobs import DEEP_MICROSECONDS

if TYPE_CHECKING:
    from torchperf_ci.machine.checks.facts import Facts

TUNE = "run with --tune (needs root)"


def governor(facts: Facts) -> Finding:
    """Does the kernel change the clock with the load?"""
    why = "other governors raise the clock only after load has begun, so that short steps run slower"
    found = ", ".join(facts.host.governors)
    if not found:
        return Finding("governor", "ok", "the machine shows no frequency scaling", why)
    if found == "performance":
        return Finding("governor", "ok", "performance", why)
    return Finding(
        "governor", "warn", found, why, f"{TUNE}, or: cpupower frequency-set --governor performance"
    )


def turbo(facts: Facts) -> Finding:
    """May the clock exceed what the processor can sustain?"""
    why = "a boosted clock depends on temperature and on what other cores do"
    if facts.host.turbo is None:
        return Finding("turbo", "ok", "the machine has no switch for it", why)
    if not facts.host.turbo:
        return Finding("turbo", "ok", "off", why)
    return Finding("turbo", "warn", "on", why, f"{TUNE}, or switch it off in the firmware")


def smt(facts: Facts) -> Finding:
    """Do two hardware threads share a core?"""
    why = "a sibling on the same core takes up to half of it, whenever it has work"
    processor = facts.host.processor
    if processor.threads <= processor.cores:
        return Finding("smt", "ok", f"one thread on each of {processor.cores} cores", why)
    found = f"{processor.threads} threads on {processor.cores} cores"
    return Finding("smt", "warn", found, why, f"{TUNE}, or switch it off in the firmware")


def idle_states(facts: Facts) -> Finding:
    """Do idle cores sleep so deeply that waking up is felt?"""
    why = f"waking from a state with more than {DEEP_MICROSECONDS} µs of latency delays small kernels"
    deep = [
        f"{state.name} ({state.latency_us} µs)"
        for state in facts.host.idle_states
        if state.latency_us > DEEP_MICROSECONDS and not state.disabled
    ]
    if not deep:
        return Finding("idle states", "ok", "none is deep", why)
    return Finding("idle states", "warn", ", ".join(deep), why, TUNE)


def isolation(facts: Facts) -> Finding:
    """Are there CPUs that the kernel gives to nobody by itself?"""
    why = "daemons, interrupts and the timer tick take time from a worker on a shared CPU"
    isolated, tickless = set(facts.host.isolated), set(facts.host.tickless)
    if isolated and isolated <= tickless:
        return Finding("isolation", "ok", f"{len(isolated)} CPUs are isolated and free of the tick", why)
    if isolated:
        found, do = f"{len(isolated)} CPUs are isolated, but not free of the tick", "add nohz_full for them"
    else:
        found, do = "no CPU is isolated", "boot a dedicated runner with isolcpus= and nohz_full="
    return Finding("isolation", "ok" if isolated else "warn", found, why, do)


def numa(facts: Facts) -> Finding:
    """Is some memory farther away than other?"""
    why = "memory of another node takes longer to reach, and a worker that moves leaves its memory behind"
    nodes = facts.host.numa_nodes
    if nodes == 1:
        return Finding("numa", "ok", "one node", why)
    do = "nothing, if the threads fit on one node: workers are pinned there"
    return Finding("numa", "ok", f"{nodes} nodes", why, do)


def heat(facts: Facts) -> Finding:
    """Has heat slowed a core down since boot?"""
    why = "a core that is too hot lowers its clock"
    events = facts.host.throttle_events
    if not events:
        return Finding("heat", "ok", "no core was slowed down since boot", why)
    return Finding(
        "heat", "warn", f"cores were slowed down {events} times since boot", why, "improve the cooling"
    )


CHECKS = (governor, turbo, smt, idle_states, isolation, numa, heat)
