"""How fast the machine was while each of several profiles was taken, by what cannot have changed."""

from __future__ import annotations

from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING

from torchperf_ci.bench.profiles import NOTHING, total_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bench.profiles import Kind, Profile

QUIET = 0.02
"""Where profiles of one build differ by less as a whole, milliseconds are compared as they are."""
FEWEST_ROWS = 5
"""From which on their median says how fast the machine was."""
LEAST_SHARE = 0.01
"""Of the time of a kind, for a row to be heard: the clock is too coarse for what is shorter."""


def speeds_of(kind: Kind, old: Sequence[Profile], new: Sequence[Profile]) -> Sequence[float]:
    """How much longer everything took in each profile, old and then new, than on average; 1 on a quiet machine.

    Whole processes of one build differ by 10 to 40% on a shared machine, and all rows of a profile with them. It is
    their median that says by how much: what moved inside moves only itself. The same estimate makes counts of genes
    comparable (the median of ratios: Anders and Huber, Genome Biology 11, R106, 2010, equation 5).
    """
    profiles = (*old, *new)
    rows = _steady_rows(_clock(kind, profiles), profiles)
    if len(rows) < FEWEST_ROWS:
        return [1.0] * len(profiles)
    speeds = [median(row[number] - fmean(row) for row in rows) for number in range(len(profiles))]
    if all(max(side) - min(side) < QUIET for side in (speeds[: len(old)], speeds[len(old) :])):
        return [1.0] * len(profiles)
    return [exp(speed) for speed in speeds]


def _clock(kind: Kind, profiles: Sequence[Profile]) -> Kind:
    """Whose speed a kind goes with: a phase lasts as long as its kernels, or its operators where there are none."""
    if kind != "phase":
        return kind
    return "kernel" if total_ms("kernel", profiles) else "operator"


def _steady_rows(kind: Kind, profiles: Sequence[Profile]) -> list[list[float]]:
    """The logarithms of the times, by profile, of what is called equally often in all of them, and is not tiny."""
    least_ms = LEAST_SHARE * total_ms(kind, profiles)
    keys = [key for key in profiles[0].costs if key.kind == kind]
    rows = [[profile.costs.get(key, NOTHING) for profile in profiles] for key in keys]
    return [
        [log(cost.ms) for cost in row]
        for row in rows
        if min(cost.ms for cost in row) > least_ms and len({cost.count for cost in row}) == 1
    ]
