"""Whether a machine that remembers may have made what was read: base against itself, strewn among the proof."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.bisect.reasoning.proof import undecided
from torchperf_ci.bisect.reasoning.question import Measure
from torchperf_ci.stats.pair_memory import Row, increase_beyond_memory, pair_memory
from torchperf_ci.stats.sprt import boundaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.reasoning.facts import Facts, Reading
    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.bisect.reasoning.segment import Segment

EVERY = 3
"""So many pairs of a proof are followed by one of base against itself."""


def with_control(facts: Facts, step: Measure) -> Measure:
    """What to measure next: the step, or base against itself where it is its turn among the pairs of a proof."""
    if step.purpose != "verify":
        return step
    proof = _of_proof(facts.readings, step.probe, step.base, step.head)
    if len(proof.controls) >= len(proof.pairs) // EVERY:
        return step
    draw = step.draws[0]
    return Measure(step.probe, step.base, step.base, "control", (draw, draw))


def steadied(proof: Proof, facts: Facts, series: str, step: Segment, min_effect: float) -> Proof:
    """The proof of a step, which is none yet while the machine's memory may have made it."""
    if proof.word != "slower" or is_beyond_memory(facts, series, step, min_effect):
        return proof
    return replace(proof, word=undecided(proof.log_ratios))


def is_beyond_memory(facts: Facts, series: str, step: Segment, min_effect: float) -> bool:
    """Whether the fresh pairs of a step prove it slower, whatever they and all others of the series remember.

    Where base against itself is off by as much, they do not.
    """
    read = [reading for reading in facts.readings if series in reading.log_ratios]
    proof = _of_proof(read, read[0].probe, step.before, step.after)
    order = {id(reading): place for place, reading in enumerate(read)}
    fresh = sorted([*proof.pairs, *proof.controls], key=lambda reading: order[id(reading)])
    others = [reading for reading in read if reading.purpose in ("confirm", "locate")]
    ends = {one: number for number, one in enumerate(dict.fromkeys(map(_ends, others)))}

    def row(readings: Sequence[Reading], groups: Sequence[int]) -> Row:
        values = [reading.log_ratios[series] for reading in readings]
        times = [float(order[id(reading)]) for reading in readings]
        return Row(np.array(values), np.array(times), np.array(groups, np.intp))

    known = pair_memory([row(others, [ends[_ends(one)] for one in others])])
    beside = row(fresh, [-1 if one.purpose == "control" else 0 for one in fresh])
    confirm, _ = boundaries(_shares(facts, step))
    return increase_beyond_memory(beside, math.log1p(min_effect), known) >= confirm


def _shares(facts: Facts, step: Segment) -> int:
    """Into how many parts the chance of a false name is cut, of which the proof of a step may spend one.

    Each series has as much, those that repeat another one together; of that the k-th step that is tried has the part
    ``1/(k(k + 1))``, and all steps together the whole, however many there will be.
    """
    names = dict.fromkeys(name for reading in facts.readings for name in reading.log_ratios)
    distinct = {tuple(reading.log_ratios.get(name) for reading in facts.readings) for name in names}
    tried = dict.fromkeys((r.base, r.head) for r in facts.readings if r.purpose == "verify")
    place = [*tried].index((step.before, step.after)) + 1
    return len(distinct) * place * (place + 1)


@dataclass(frozen=True)
class _Proof:
    pairs: Sequence[Reading]
    controls: Sequence[Reading]


def _of_proof(readings: Sequence[Reading], probe: str, base: int, head: int) -> _Proof:
    """The fresh pairs of two builds, and those of base against itself since the first of them."""
    mine = [reading for reading in readings if reading.probe == probe]
    fresh = [r.purpose == "verify" and (r.base, r.head) == (base, head) for r in mine]
    since = mine[fresh.index(True) :] if any(fresh) else []
    return _Proof(
        [reading for reading, is_fresh in zip(mine, fresh, strict=True) if is_fresh],
        [r for r in since if r.purpose == "control" and r.base == base],
    )


def _ends(reading: Reading) -> tuple[int, int, tuple[int, int]]:
    return reading.base, reading.head, reading.draws
