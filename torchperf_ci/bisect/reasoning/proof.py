"""Is one build slower than another? The sequential test of pairs of just these two, and control pairs of one build.

Where luck of builds matters, it is asked of the code: by several builds of both, of which each two make a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.bisect.reasoning.evidence import PlannedPair
from torchperf_ci.stats.autocorrelation import (
    PairSeries,
    increase_beyond_autocorrelation,
    pair_autocorrelation,
)
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.sequential_test import (
    BEYOND_MODES,
    FEWEST_PAIRS,
    Decision,
    block_interval,
    boundaries,
    decide,
    weigh_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectReading, SuspectRange
    from torchperf_ci.stats.sequential_test import BlockEvidence

    Blocks = Mapping[tuple[int, int], Sequence[float]]


ProofWord = Literal["slower", "not slower", "open", "unknown"]

MOST_PAIRS = 60
"""What is not clear by then is not worth another hour: it spreads too much, or is too small."""
FEWEST_TO_VERIFY = 6
"""Fresh pairs that a name takes at least: the interval in the issue comes from these alone."""
FEWEST_BUILDS = 3
"""Of either commit that a name rests on, where they can be made anew; none of them was read for anything else."""
FEWEST_TO_CONFIRM = 3
"""Pairs of bad and good that may send for the culprit: they name nobody. One more where less than
:data:`torchperf_ci.stats.sequential_test.BEYOND_MODES` is seen."""
MOST_OF_A_BUILD = 20
"""Pairs of two builds that cannot be made anew: more would tell nothing that luck could not have made as well."""


@dataclass(frozen=True)
class KnownLuck:
    """What is known of the luck of builds: its ``scale``, whether they can be drawn anew, and the values of τ.

    ``belief`` are the probabilities of :func:`torchperf_ci.stats.build_variance.taus`.
    """

    scale: float
    rebuilds: bool
    belief: tuple[float, ...]


@dataclass(frozen=True)
class Proof:
    """What some pairs say: ``open`` wants more, ``unknown`` has had them all. ``decision`` is None before any.

    ``by_build`` is what they say of the code, where builds have luck. ``is_luck``: the first two builds differ by more
    than matters, and the code does not. ``of_these_builds``: luck was not drawn anew, as it could not.
    """

    word: ProofWord
    log_ratios: tuple[float, ...]
    decision: Decision | None
    by_build: BlockEvidence | None = None
    is_luck: bool = False
    of_these_builds: bool = False


def confirmed(blocks: Blocks, min_effect: float, cases: int, luck: KnownLuck) -> Proof:
    """Whether head is slower than base, where ``cases`` are judged together; ``blocks`` are log-ratios by draws."""
    log_ratios = tuple(chain.from_iterable(blocks.values()))
    if not log_ratios:
        return Proof("open", (), None)
    decision = _decided(log_ratios, min_effect, cases)
    if not luck.scale or not luck.rebuilds:
        return Proof(_confirming_word(decision, log_ratios, min_effect, cases), log_ratios, decision)
    found, (confirm, refute) = _by_build(blocks, min_effect, luck), boundaries(cases)
    if _enough(decision) and found.increase >= confirm and _matters(decision, min_effect):
        return Proof("slower", log_ratios, _of_code(decision, blocks, luck), found)
    if len(log_ratios) >= FEWEST_PAIRS and found.least <= refute:
        is_luck = len(blocks) > 1 and _all_slower(next(iter(blocks.values())), min_effect)
        return Proof("not slower", log_ratios, _of_code(decision, blocks, luck), found, is_luck=is_luck)
    return Proof(undecided(log_ratios), log_ratios, decision, found)


def verified(blocks: Blocks, min_effect: float, luck: KnownLuck) -> Proof:
    """The same, by no fewer than :data:`FEWEST_TO_VERIFY` pairs, of builds that nobody has chosen.

    That are at least :data:`FEWEST_BUILDS` new draws of both; or, where none can be drawn, the builds that are there,
    if luck would hardly make as much.
    """
    log_ratios = tuple(chain.from_iterable(blocks.values()))
    if not log_ratios:
        return Proof("open", (), None)
    decision = _decided(log_ratios, min_effect, 1)
    if not luck.scale:
        return Proof(_verifying_word(decision, log_ratios), log_ratios, decision)
    is_up, is_none = decision.word == "increase", decision.word in ("none", "decrease")
    found, (confirm, refute) = _by_build(blocks, min_effect, luck), boundaries(1)
    enough = len(log_ratios) >= FEWEST_TO_VERIFY and (len(blocks) >= FEWEST_BUILDS or not luck.rebuilds)
    word = undecided(log_ratios)
    if is_up and enough and found.increase >= confirm:
        word = "slower"
    elif enough and (found.least <= refute or (is_none and not luck.rebuilds)):
        word = "not slower"
    elif not luck.rebuilds and len(log_ratios) >= MOST_OF_A_BUILD and is_up:
        word = "unknown"
    if word != "open":
        decision = _of_code(decision, blocks, luck)
    return Proof(word, log_ratios, decision, found, is_up and word != "slower", not luck.rebuilds)


@lru_cache(maxsize=256)
def _decided(log_ratios: tuple[float, ...], min_effect: float, cases: int) -> Decision:
    """The same pairs are asked about at each step."""
    return decide(log_ratios, min_effect, cases=cases)


def _by_build(blocks: Blocks, min_effect: float, luck: KnownLuck) -> BlockEvidence:
    return weigh_blocks(_values_by_block(blocks), math.log1p(min_effect), luck.scale, luck.belief)


def _of_code(decision: Decision, blocks: Blocks, luck: KnownLuck) -> Decision:
    """The decision with the effect that the code has, of which that of these builds is one draw."""
    effect = Effect.of_logs(*block_interval(_values_by_block(blocks), luck.scale), decision.effect.pairs)
    return replace(decision, effect=effect)


def _values_by_block(blocks: Blocks) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(values) for values in blocks.values())


def _confirming_word(
    decision: Decision, log_ratios: Sequence[float], min_effect: float, cases: int
) -> ProofWord:
    """The likelihood ratio alone says "slower": whoever is suspected then is proven by itself."""
    confirm, _ = boundaries(cases)
    if decision.increase >= confirm and _enough(decision) and _matters(decision, min_effect):
        return "slower"
    if decision.word in ("none", "decrease"):
        return "not slower"
    return undecided(log_ratios)


def _all_slower(log_ratios: Sequence[float], min_effect: float) -> bool:
    """Whether pairs of two builds say of these two that they differ. It is no proof, and names nobody."""
    alike = len(log_ratios) >= FEWEST_TO_CONFIRM and min(log_ratios) > 0
    return alike and median(log_ratios) >= math.log1p(min_effect)


def _enough(decision: Decision) -> bool:
    small = math.log(decision.effect.ratio) < BEYOND_MODES
    return decision.effect.pairs >= FEWEST_TO_CONFIRM + small


def _matters(decision: Decision, min_effect: float) -> bool:
    return math.log(decision.effect.ratio) >= math.log1p(min_effect) / 2


def _verifying_word(decision: Decision, log_ratios: Sequence[float]) -> ProofWord:
    if decision.word in ("none", "decrease"):
        return "not slower"
    if decision.word == "increase" and len(log_ratios) >= FEWEST_TO_VERIFY:
        return "slower"
    return undecided(log_ratios)


def undecided(log_ratios: Sequence[float]) -> ProofWord:
    """The word for pairs that say neither."""
    return "open" if len(log_ratios) < MOST_PAIRS else "unknown"


PAIRS_PER_CONTROL = 3
"""So many pairs of a proof are followed by one of base against itself."""


def with_control(facts: BisectFacts, step: PlannedPair) -> PlannedPair:
    """What to measure next: the step, or base against itself where it is its turn among the pairs of a proof."""
    if step.purpose != "verify":
        return step
    proof = _pairs_of_step(facts.readings, step.probe, step.base, step.head)
    if len(proof.controls) >= len(proof.pairs) // PAIRS_PER_CONTROL:
        return step
    draw = step.draws[0]
    return PlannedPair(step.probe, step.base, step.base, "control", (draw, draw))


def unless_memory(
    proof: Proof, facts: BisectFacts, series: str, step: SuspectRange, min_effect: float
) -> Proof:
    """The proof of a step, which is none yet while the machine's memory may have made it."""
    if proof.word != "slower" or is_beyond_memory(facts, series, step, min_effect):
        return proof
    return replace(proof, word=undecided(proof.log_ratios))


def is_beyond_memory(facts: BisectFacts, series: str, step: SuspectRange, min_effect: float) -> bool:
    """Whether the fresh pairs of a step prove it slower, whatever they and all others of the series remember.

    Where base against itself is off by as much, they do not.
    """
    read = [reading for reading in facts.readings if series in reading.log_ratios]
    proof = _pairs_of_step(read, read[0].probe, step.before, step.after)
    order = {id(reading): place for place, reading in enumerate(read)}
    fresh = sorted([*proof.pairs, *proof.controls], key=lambda reading: order[id(reading)])
    others = [reading for reading in read if reading.purpose in ("confirm", "locate")]
    ends = {one: number for number, one in enumerate(dict.fromkeys(map(_ends, others)))}

    def row(readings: Sequence[BisectReading], groups: Sequence[int]) -> PairSeries:
        values = [reading.log_ratios[series] for reading in readings]
        times = [float(order[id(reading)]) for reading in readings]
        sides = [-1.0 if reading.head_first else 1.0 for reading in readings]
        return PairSeries(np.array(values), np.array(times), np.array(groups, np.intp), np.array(sides))

    known = pair_autocorrelation([row(others, [ends[_ends(one)] for one in others])])
    beside = row(fresh, [-1 if one.purpose == "control" else 0 for one in fresh])
    confirm, _ = boundaries(_shares(facts, step))
    return increase_beyond_autocorrelation(beside, math.log1p(min_effect), known) >= confirm


def _shares(facts: BisectFacts, step: SuspectRange) -> int:
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
class _StepPairs:
    pairs: Sequence[BisectReading]
    controls: Sequence[BisectReading]


def _pairs_of_step(readings: Sequence[BisectReading], probe: str, base: int, head: int) -> _StepPairs:
    """The fresh pairs of two builds, and those of base against itself since the first of them."""
    mine = [reading for reading in readings if reading.probe == probe]
    fresh = [r.purpose == "verify" and (r.base, r.head) == (base, head) for r in mine]
    since = mine[fresh.index(True) :] if any(fresh) else []
    return _StepPairs(
        [reading for reading, is_fresh in zip(mine, fresh, strict=True) if is_fresh],
        [r for r in since if r.purpose == "control" and r.base == base],
    )


def _ends(reading: BisectReading) -> tuple[int, int, tuple[int, int]]:
    return reading.base, reading.head, reading.draws
