"""The check that measures: does equal work take equal time?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.checks.finding import Finding

if TYPE_CHECKING:
    from torchperf_ci.machine.checks.facts import Facts

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
    return Finding("steadiness", "warn" if noise.resolvable <= HOPELESS else "bad", found, why, do)
