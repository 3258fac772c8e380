"""The check that measures: does equal work take equal time?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.checks.finding import Finding

if TYPE_CHECKING:
    from torchperf_ci.machine.checks.facts import Facts
    from torchperf_ci.machine.checks.finding import Level
    from torchperf_ci.machine.noise import Noise

WORTH_SEEING = 0.03
"""The smallest change that regressions are usually judged at."""
HOPELESS = 0.10


def steadiness(facts: Facts) -> Finding:
    """What change could be seen here without pairs?"""
    why = "what varies by itself hides what a commit changed"
    noise = facts.noise
    measured = f"equal blocks of {noise.typical * 1e3:.0f} ms vary by {noise.cv:.1%}"
    if noise.resolvable <= WORTH_SEEING:
        found = f"{measured}: this machine can resolve {WORTH_SEEING:.0%} without pairs"
        return Finding("steadiness", "ok", found, why)
    found = (
        f"{measured}: this machine cannot resolve {WORTH_SEEING:.0%} without pairs, "
        f"only {noise.resolvable:.0%} at best"
    )
    do = "remove what the other findings name, or measure in pairs: --anchor, or torchperf compare"
    return Finding("steadiness", _level(noise), found, why, do)


def device_steadiness(facts: Facts) -> list[Finding]:
    """The same of a GPU, whose products vary with its clock, and whose tiny kernels with the CPU that launches them."""
    why = "what varies by itself hides what a commit changed"
    if facts.exercise is None:
        return []
    noise, clock = facts.exercise.noise, facts.exercise.clock
    found = ", ".join(f"equal blocks of {kind} vary by {one.cv:.1%}" for kind, one in noise.items())
    if clock:
        found += f"; its clock was {clock} MHz"
    worst = max(noise.values(), key=lambda one: one.resolvable)
    do = "lock its clock, remove what the other findings name, or measure in pairs: torchperf compare"
    level = _level(worst)
    return [Finding("gpu steadiness", level, found, why, "" if level == "ok" else do)]


def _level(noise: Noise) -> Level:
    if noise.resolvable <= WORTH_SEEING:
        return "ok"
    return "warn" if noise.resolvable <= HOPELESS else "bad"
