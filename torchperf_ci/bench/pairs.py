"""Two environments, one machine: persistent workers on the same CPUs that take turns in short blocks, A B B A.

Whatever slows the machine for longer than a block slows both arms, and their ratio does not move. On a shared machine
whose processes differ by 10–40%, such ratios differ by about 1%.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench.process import Inquiry, open_worker, prepare
from torchperf_ci.machine.devices import device
from torchperf_ci.machine.placement import quiet_cpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings

BLOCK_SECONDS = 0.1
"""Long enough that waking a worker up is nothing, short enough that the machine changes little within four."""
QUADS = 10


@dataclass(frozen=True)
class Pair:
    """One pair of fresh processes: the log-ratios ln(head/base) of its A B B A quads, and each arm's median seconds."""

    log_ratios: tuple[float, ...]
    base_seconds: float
    head_seconds: float

    @property
    def log_ratio(self) -> float:
        """The pair's one independent observation: quads of the same two processes share their luck."""
        return median(self.log_ratios)


def measure_pairs(case: Case, base: Settings, head: Settings, scratch: Path, count: int) -> Iterator[Pair]:
    """Yield ``count`` pairs as they are measured; raises :class:`WorkerFailure` if an arm cannot run the case.

    Both arms run on one and the same set of CPUs: those of ``base``, or one that is chosen here.
    """
    cpus = base.cpus or quiet_cpus(base.threads, device(base.device))
    base, head = replace(base, cpus=cpus), replace(head, cpus=cpus)
    for _ in range(count):
        yield _measure_pair(case, base, head, scratch)


def _measure_pair(case: Case, base: Settings, head: Settings, scratch: Path) -> Pair:
    with ExitStack() as stack:
        first = _open_arm(stack, case, base, scratch / "base")
        second = _open_arm(stack, case, head, scratch / "head")
        steps = math.ceil(BLOCK_SECONDS / max(_block(first, 1), 1e-9))
        quads = [_quad(first, second, steps) for _ in range(QUADS)]
    return Pair(
        tuple(math.log(head_seconds / base_seconds) for base_seconds, head_seconds in quads),
        median(base_seconds for base_seconds, _ in quads),
        median(head_seconds for _, head_seconds in quads),
    )


def _open_arm(stack: ExitStack, case: Case, settings: Settings, scratch: Path) -> Inquiry:
    """A worker that is ready to take turns until ``stack`` closes."""
    arm = Inquiry(stack.enter_context(open_worker(case, settings, scratch)), settings.timeout)
    prepare(arm, case, settings)
    return arm


def _quad(base: Inquiry, head: Inquiry, steps: int) -> tuple[float, float]:
    """Seconds a step of both arms over A B B A: a drift that is linear over the quad cancels."""
    a1, b1, b2, a2 = (_block(arm, steps) for arm in (base, head, head, base))
    return (a1 + a2) / 2, (b1 + b2) / 2


def _block(arm: Inquiry, steps: int) -> float:
    return float(arm.ask("block", steps=steps)["seconds"])
