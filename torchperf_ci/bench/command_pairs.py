"""A user's command in two environments in turn, A B B A, as :mod:`torchperf_ci.bench.pairs` measures workloads."""

from __future__ import annotations

import math
import time
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.pairs import QUADS, ArmFailure
from torchperf_ci.bench.user_command import run_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.command_arm import CommandArm
    from torchperf_ci.bench.pairs import Side
    from torchperf_ci.bench.user_command import Reader

    Numbers = Mapping[str, float]
    Quad = tuple[Numbers, Numbers, Numbers, Numbers]

PAIR_SECONDS = 4.0
"""What all quads together take, as those of a workload do; a command for which one takes longer has that one."""
MOST_NAMED = 5


def measure_command_pair(
    command: str, base: CommandArm, head: CommandArm, read: Reader
) -> Mapping[str, float]:
    """ln(head/base) of each number that all runs print, by its name: the median over the quads.

    ``read`` gives numbers that grow as things get worse, or not, as the caller needs them. Both arms must be on the
    same CPUs. Raises :class:`ArmFailure` if an arm cannot run the command, or none of its numbers is the other's.
    """
    arms: dict[Side, CommandArm] = {"base": base, "head": head}

    def run(side: Side) -> Numbers:
        try:
            return run_command(command, arms[side], read)
        except WorkerFailure as failure:
            raise ArmFailure(side, failure) from None

    def quad() -> Quad:
        return run("base"), run("head"), run("head"), run("base")

    start = time.monotonic()
    quads = [quad()]
    quads += [quad() for _ in range(_more(time.monotonic() - start))]
    return {name: median(_log_ratio(runs, name) for runs in quads) for name in _names(quads)}


def _log_ratio(quad: Quad, name: str) -> float:
    """Of the means over either arm's two runs: a drift that is linear over the quad cancels."""
    a1, b1, b2, a2 = (run[name] for run in quad)
    return math.log((b1 + b2) / (a1 + a2))


def _names(quads: Sequence[Quad]) -> Sequence[str]:
    """What every run prints, in the order of the first."""
    runs = [run for quad in quads for run in quad]
    names = [name for name in runs[0] if all(name in run for run in runs)]
    if not names:
        side: Side = "head"
        printed = " and head ".join(", ".join([*run][:MOST_NAMED]) for run in quads[0][:2])
        raise ArmFailure(
            side, WorkerFailure("failed", f"base prints {printed}: nothing is the same in all runs")
        )
    return names


def _more(seconds: float) -> int:
    """Quads to be taken after the first, which took so long."""
    return min(max(round(PAIR_SECONDS / max(seconds, 1e-9)), 1), QUADS) - 1
