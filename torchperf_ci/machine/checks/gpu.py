"""Checks of the GPU that is to be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.checks.finding import Finding

if TYPE_CHECKING:
    from torchperf_ci.machine.checks.facts import Facts
    from torchperf_ci.machine.devices.base import Condition

MARGIN = 10
"""Degrees below the slow-down temperature at which an idle GPU is too warm to begin."""
HOT = 75
"""°C, where the GPU does not tell its own limit."""


def gpu_findings(facts: Facts) -> list[Finding]:
    """Everything about the GPU; nothing where there is none with tools of its own."""
    condition = facts.condition
    if condition is None:
        return []
    if condition.problem:
        do = "install the vendor's driver and its Python package (nvidia-ml-py, or ROCm's amdsmi)"
        why = "without them clocks, throttling, energy and other users of the GPU stay unseen"
        return [Finding("gpu tools", "bad", condition.problem, why, do)]
    return [
        processes(condition),
        clock_rights(facts),
        *persistence(condition),
        throttling(facts),
        *temperature(condition),
    ]


def processes(condition: Condition) -> Finding:
    """Does anybody else compute on it?"""
    why = "another process takes turns on the GPU and fills its memory and caches"
    count = len(condition.processes)
    if not count:
        return Finding("gpu processes", "ok", "none", why)
    found = f"{count} compute on it: {', '.join(map(str, condition.processes))}"
    return Finding(
        "gpu processes", "bad", found, why, "end them, or choose another GPU (CUDA_VISIBLE_DEVICES)"
    )


def clock_rights(facts: Facts) -> Finding:
    """May the clock be held at one frequency?"""
    why = "a free clock follows temperature and power from run to run"
    if facts.administrator:
        return Finding("gpu clock rights", "ok", "running as root: --tune can lock the clock", why)
    do = "run as root with --tune, or let an administrator lock it (nvidia-smi --lock-gpu-clocks)"
    return Finding("gpu clock rights", "warn", "not root: the clock cannot be locked", why, do)


def persistence(condition: Condition) -> list[Finding]:
    """Does the driver stay loaded between processes?"""
    why = "otherwise the GPU starts anew, with cold clocks, for each process"
    if condition.persistence is None:
        return []
    if condition.persistence:
        return [Finding("gpu persistence", "ok", "on", why)]
    return [
        Finding("gpu persistence", "warn", "off", why, "run with --tune, or: nvidia-smi --persistence-mode=1")
    ]


def throttling(facts: Facts) -> Finding:
    """Is its clock being held down right now?"""
    why = "a throttled GPU measures its cooling and its power supply"
    voiding, warning = facts.throttling.voiding, facts.throttling.warning
    if voiding:
        do = "improve the cooling or the power supply; samples taken now are void"
        return Finding("gpu throttling", "bad", ", ".join(voiding), why, do)
    if warning:
        return Finding(
            "gpu throttling", "warn", ", ".join(warning), why, "lock a lower clock: run with --tune"
        )
    if not facts.throttling.known:
        return Finding("gpu throttling", "warn", "not told", why, "install a newer driver of the vendor")
    return Finding("gpu throttling", "ok", "none", why)


def temperature(condition: Condition) -> list[Finding]:
    """Is it warm already?"""
    why = "leakage and throttling grow with temperature"
    if condition.temperature is None:
        return []
    limit = condition.slowdown_temperature
    found = f"{condition.temperature} °C" + (f", slows down at {limit} °C" if limit else "")
    if condition.temperature < (limit - MARGIN if limit else HOT):
        return [Finding("gpu temperature", "ok", found, why)]
    return [Finding("gpu temperature", "warn", found, why, "let it cool down, or improve the cooling")]
