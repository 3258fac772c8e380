"""Which workloads to take first: those that cover the most of PyTorch in the least time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.bench.api_coverage import together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.worker.protocol import ApiUse


@dataclass(frozen=True)
class ChosenWorkload:
    """``adds`` counts the triples that no workload chosen before has, ``alone`` those that no other one has."""

    name: str
    cpu_seconds: float
    triples: int
    adds: int
    alone: int


def choose(uses: Mapping[str, ApiUse], first: Sequence[str]) -> list[ChosenWorkload]:
    """All of ``uses``: ``first`` as they stand, then whichever adds the most triples per CPU second, ties by name."""
    covered = together(uses[name] for name in first)
    order, left = [*first], {*uses} - {*first}
    while left:
        best = min(
            left, key=lambda name: (-len(uses[name].triples - covered.triples) / uses[name].cpu_seconds, name)
        )
        order.append(best)
        left.remove(best)
        covered = together((covered, uses[best]))
    return [_described(order, number, uses) for number in range(len(order))]


def _described(order: Sequence[str], number: int, uses: Mapping[str, ApiUse]) -> ChosenWorkload:
    name = order[number]
    before = together(uses[other] for other in order[:number])
    others = together(uses[other] for other in order if other != name)
    own = uses[name]
    return ChosenWorkload(
        name,
        own.cpu_seconds,
        len(own.triples),
        len(own.triples - before.triples),
        len(own.triples - others.triples),
    )
