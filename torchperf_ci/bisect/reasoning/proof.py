"""Test whether one build is slower than another: a sequential test of their pairs, and control pairs of one build.

If builds differ by luck, the question is about the code: several builds of both commits are measured, and the pairs
of the same two builds form a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectReading, PlannedPair, SuspectRange
from torchperf_ci.stats.autocorrelation import (
    PairSeries,
    increase_beyond_autocorrelation,
    pair_autocorrelation,
)
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.sequential_test import (
    BEYOND_MODES,
    MIN_PAIRS,
    Decision,
    block_interval,
    boundaries,
    decide,
    weigh_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.stats.sequential_test import BlockEvidence

    Blocks = Mapping[tuple[int, int], Sequence[float]]


ProofWord = Literal["slower", "not slower", "open", "unknown"]

MAX_PAIRS = 60
"""A result that is not clear after so many pairs is too noisy or too small to be worth another hour."""
MIN_TO_VERIFY = 6
"""The fewest fresh pairs to name a culprit; the interval in the issue comes from these alone."""
MIN_BUILDS = 3
"""The fewest builds of each commit to name a culprit, if rebuilds are possible; they are used for nothing else."""
MIN_TO_CONFIRM = 3
"""The fewest pairs of bad and good to start a search, which names nobody.

One more is needed for an effect below :data:`torchperf_ci.stats.sequential_test.BEYOND_MODES`.
"""
BETA_OF_REBUILDS = 0.04
"""Chance to call a slower bad commit "not slower", if builds can be made anew.

It is lower than elsewhere: such an answer rests on one or two builds, whose luck tends to exceed what was expected.
"""
REFUTED_FOR_GOOD = 3
"""A step is measured no further once the evidence against it is so many times what "not slower" needs."""
MAX_PAIRS_WITHOUT_REBUILDS = 20
"""The most pairs of two builds that cannot be rebuilt; more could not rule out luck either."""


@dataclass(frozen=True)
class KnownLuck:
    """What is known of build luck: its ``scale`` and whether ``rebuilds`` can vary it.

    ``belief`` are the probabilities of the values of τ in :func:`torchperf_ci.stats.build_variance.taus`.
    """

    scale: float
    rebuilds: bool
    belief: tuple[float, ...]


@dataclass(frozen=True)
class Proof:
    """The result of a test: ``open`` needs more pairs, ``unknown`` has had the most.

    ``of_pairs`` is the decision from the pairs alone, None before any. ``by_build`` is the evidence about the code, if
    builds differ by luck. ``is_luck`` means that the first two builds differ by more than matters, but the code does
    not. ``of_these_builds`` means that rebuilds were not possible, so that the result holds for these builds only.
    ``coarse`` is the resolution of the readings if that is why the result is unknown, else 0. ``of_code`` are the
    blocks that a decision about the code rests on, and the scale of luck.
    """

    word: ProofWord
    log_ratios: tuple[float, ...]
    of_pairs: Decision | None
    by_build: BlockEvidence | None = None
    is_luck: bool = False
    of_these_builds: bool = False
    coarse: float = 0.0
    of_code: tuple[tuple[tuple[float, ...], ...], float] | None = None

    @cached_property
    def decision(self) -> Decision | None:
        """The decision; if it is about the code, with the effect of that, of which these builds' is one draw.

        It is computed on use, because nobody asks for that of most series.
        """
        if self.of_pairs is None or self.of_code is None:
            return self.of_pairs
        effect = Effect.of_logs(*block_interval(*self.of_code), self.of_pairs.effect.pairs)
        return replace(self.of_pairs, effect=effect)

    @property
    def increase(self) -> float:
        """The evidence that head is slower: by build if builds differ by luck, else by pair; 0 before any."""
        found = self.by_build or self.of_pairs
        return found.increase if found else 0.0


def confirmed(blocks: Blocks, min_effect: float, cases: int, luck: KnownLuck) -> Proof:
    """Whether head is slower than base; ``cases`` are tested together, and ``blocks`` are log ratios by draws."""
    log_ratios = tuple(chain.from_iterable(blocks.values()))
    if not log_ratios:
        return Proof("open", (), None)
    decision = _decided(log_ratios, min_effect, cases)
    if not luck.rebuilds:
        return Proof(_confirming_word(decision, log_ratios, min_effect, cases), log_ratios, decision)
    found, (confirm, refute) = _by_build(blocks, min_effect, luck), boundaries(cases, BETA_OF_REBUILDS)
    if _enough(decision) and found.increase >= confirm and _matters(decision, min_effect):
        return Proof("slower", log_ratios, decision, found, of_code=_of_code(blocks, luck))
    if len(log_ratios) >= MIN_PAIRS and found.least <= refute:
        is_luck = len(blocks) > 1 and mostly_slower(next(iter(blocks.values())), min_effect)
        of_code = _of_code(blocks, luck)
        return Proof("not slower", log_ratios, decision, found, is_luck=is_luck, of_code=of_code)
    return Proof(undecided(log_ratios), log_ratios, decision, found)


def verified(blocks: Blocks, min_effect: float, luck: KnownLuck, shares: int = 1) -> Proof:
    """Whether head is slower than base, from at least :data:`MIN_TO_VERIFY` pairs of builds made for this test.

    There must be at least :data:`MIN_BUILDS` new draws of both. If rebuilds are not possible, the existing builds
    are used, and the effect must be larger than luck can explain. ``shares`` is the number of parts that the chance of
    taking luck for the code is divided into (see :func:`alpha_shares`).
    """
    log_ratios = tuple(chain.from_iterable(blocks.values()))
    if not log_ratios:
        return Proof("open", (), None)
    decision = _decided(log_ratios, min_effect, 1)
    if not luck.scale:
        return Proof(_verifying_word(decision, log_ratios), log_ratios, decision)
    is_up, is_none = decision.word == "increase", decision.word in ("none", "decrease")
    found, (confirm, refute) = _by_build(blocks, min_effect, luck), boundaries(shares)
    enough = len(log_ratios) >= MIN_TO_VERIFY and (len(blocks) >= MIN_BUILDS or not luck.rebuilds)
    word = undecided(log_ratios)
    if is_up and enough and found.increase >= confirm:
        word = "slower"
    elif enough and (found.least <= refute or (is_none and not luck.rebuilds)):
        word = "not slower"
    elif not luck.rebuilds and len(log_ratios) >= MAX_PAIRS_WITHOUT_REBUILDS and is_up:
        word = "unknown"
    of_code = _of_code(blocks, luck) if word != "open" else None
    return Proof(word, log_ratios, decision, found, of_these_builds=not luck.rebuilds, of_code=of_code)


def may_be_proven_yet(proof: Proof) -> bool:
    """Whether more pairs may still prove a step that its first ones did not: see :data:`REFUTED_FOR_GOOD`.

    They make a false name no likelier: the boundary of "slower" holds for all pairs together, however many they are.
    """
    if (
        proof.of_pairs is None
        or proof.of_these_builds
        or proof.coarse
        or len(proof.log_ratios) >= 2 * MAX_PAIRS
    ):
        return False
    _, refute = boundaries(1)
    return proof.increase > REFUTED_FOR_GOOD * refute


@lru_cache(maxsize=256)
def _decided(log_ratios: tuple[float, ...], min_effect: float, cases: int) -> Decision:
    """Cached, because the same pairs are tested again at each step."""
    return decide(log_ratios, min_effect, cases=cases)


def _by_build(blocks: Blocks, min_effect: float, luck: KnownLuck) -> BlockEvidence:
    return weigh_blocks(_values_by_block(blocks), math.log1p(min_effect), luck.scale, luck.belief)


def _of_code(blocks: Blocks, luck: KnownLuck) -> tuple[tuple[tuple[float, ...], ...], float]:
    return _values_by_block(blocks), luck.scale


def _values_by_block(blocks: Blocks) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(values) for values in blocks.values())


def _confirming_word(
    decision: Decision, log_ratios: Sequence[float], min_effect: float, cases: int
) -> ProofWord:
    """The likelihood ratio alone decides "slower", because a suspect found later has to be proven separately."""
    confirm, _ = boundaries(cases)
    if decision.increase >= confirm and _enough(decision) and _matters(decision, min_effect):
        return "slower"
    if decision.word in ("none", "decrease"):
        return "not slower"
    return undecided(log_ratios)


def mostly_slower(log_ratios: Sequence[float], min_effect: float) -> bool:
    """Whether pairs of two builds agree that head is slower, but for one in five that is spoiled; it names nobody."""
    alike = sum(ratio > 0 for ratio in log_ratios) >= 0.8 * len(log_ratios)
    return alike and len(log_ratios) >= MIN_TO_CONFIRM and median(log_ratios) >= math.log1p(min_effect)


def _enough(decision: Decision) -> bool:
    small = math.log(decision.effect.ratio) < BEYOND_MODES
    return decision.effect.pairs >= MIN_TO_CONFIRM + small


def _matters(decision: Decision, min_effect: float) -> bool:
    return math.log(decision.effect.ratio) >= math.log1p(min_effect) / 2


def _verifying_word(decision: Decision, log_ratios: Sequence[float]) -> ProofWord:
    if decision.word in ("none", "decrease"):
        return "not slower"
    if decision.word == "increase" and len(log_ratios) >= MIN_TO_VERIFY:
        return "slower"
    return undecided(log_ratios)


def undecided(log_ratios: Sequence[float]) -> ProofWord:
    """The word for pairs that decide neither way."""
    return "open" if len(log_ratios) < MAX_PAIRS else "unknown"


PAIRS_PER_CONTROL = 3
"""A control pair of base against itself follows after so many pairs of a proof."""


def with_control(facts: BisectFacts, step: PlannedPair) -> PlannedPair:
    """The step, or a control pair of base against itself if one is due among the pairs of a proof.

    It is of the build that was just measured: the step may want another one, which would be made for the control alone.
    """
    if step.purpose != "verify":
        return step
    pairs, controls = _pairs_of_step(facts.readings, step.probe, step.base, step.head)
    if len(controls) >= len(pairs) // PAIRS_PER_CONTROL:
        return step
    draw = pairs[-1].draws[0]
    return PlannedPair(step.probe, step.base, step.base, "control", (draw, draw))


def unless_memory(
    proof: Proof, facts: BisectFacts, series: str, step: SuspectRange, min_effect: float
) -> Proof:
    """The proof of a step, left undecided while autocorrelation of the machine may explain it."""
    if proof.word != "slower" or is_beyond_memory(facts, series, step, min_effect):
        return proof
    return replace(proof, word=undecided(proof.log_ratios))


def unless_coarse(proof: Proof, resolution: float, min_effect: float) -> Proof:
    """The proof with the resolution of the readings in its interval; unknown where that may explain the result.

    Equal readings show that a clock is coarse, not that it is precise, and more of them show no more. With too few
    pairs for an interval, the ratio itself has to be beyond the resolution.
    """
    if not resolution or proof.decision is None:
        return proof
    effect = proof.decision.effect.widened(resolution)
    proof = replace(proof, of_pairs=replace(proof.decision, effect=effect), of_code=None)
    least = effect.low or effect.ratio * math.exp(-resolution)
    most = effect.high if math.isfinite(effect.high) else effect.ratio * math.exp(resolution)
    is_explained = least <= 1 if proof.word == "slower" else most >= 1 + min_effect
    if proof.word not in ("slower", "not slower") or not is_explained:
        return proof
    return replace(proof, word="unknown", coarse=resolution)


def is_beyond_memory(facts: BisectFacts, series: str, step: SuspectRange, min_effect: float) -> bool:
    """Whether the fresh pairs of a step prove it slower, even with the autocorrelation seen in the series' pairs.

    They do not if base against itself differs as much.
    """
    read = [reading for reading in facts.readings if series in reading.log_ratios]
    pairs, controls = _pairs_of_step(read, read[0].probe, step.before, step.after)
    order = {id(reading): place for place, reading in enumerate(read)}
    fresh = sorted([*pairs, *controls], key=lambda reading: order[id(reading)])
    others = [reading for reading in read if reading.purpose in ("confirm", "locate")]
    ends = {one: number for number, one in enumerate(dict.fromkeys(map(_ends, others)))}

    def row(readings: Sequence[BisectReading], groups: Sequence[int]) -> _Pairs:
        values = [reading.log_ratios[series] for reading in readings]
        times = [float(order[id(reading)]) for reading in readings]
        sides = [-1.0 if reading.head_first else 1.0 for reading in readings]
        return tuple(values), tuple(times), tuple(groups), tuple(sides)

    known = row(others, [ends[_ends(one)] for one in others])
    beside = row(fresh, [-1 if one.purpose == "control" else 0 for one in fresh])
    confirm, _ = boundaries(alpha_shares(facts, step))
    return _increase_beyond(known, beside, min_effect) >= confirm


_Pairs = tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...], tuple[float, ...]]
"""The values, times, groups and signs of a :class:`PairSeries`."""


@lru_cache(maxsize=64)
def _increase_beyond(known: _Pairs, fresh: _Pairs, min_effect: float) -> float:
    """Cached, because most new pairs are neither fresh ones of this step nor ``known`` ones."""
    return increase_beyond_autocorrelation(_series(fresh), math.log1p(min_effect), _autocorrelation(known))


@lru_cache(maxsize=64)
def _autocorrelation(known: _Pairs) -> NDArray[np.float64]:
    return pair_autocorrelation([_series(known)])


def _series(pairs: _Pairs) -> PairSeries:
    values, times, groups, signs = pairs
    return PairSeries(np.array(values), np.array(times), np.array(groups, np.intp), np.array(signs))


def alpha_shares(facts: BisectFacts, step: SuspectRange) -> int:
    """The number of parts into which the false alarm rate is divided; the proof of a step may use one of them.

    The rate is divided equally among series, where identical series count once. Within a series, the k-th step tried
    gets the share ``1/(k(k + 1))``, so that all steps together use the whole share, however many there are.
    """
    tried = dict.fromkeys((r.base, r.head) for r in facts.readings if r.purpose == "verify")
    place = [*tried].index((step.before, step.after)) + 1
    return facts.distinct_series * place * (place + 1)


def _pairs_of_step(
    readings: Sequence[BisectReading], probe: str, base: int, head: int
) -> tuple[list[BisectReading], list[BisectReading]]:
    """The fresh pairs of two builds, and the control pairs of base since the first of them."""
    mine = [reading for reading in readings if reading.probe == probe]
    fresh = [r.purpose == "verify" and (r.base, r.head) == (base, head) for r in mine]
    since = mine[fresh.index(True) :] if any(fresh) else []
    pairs = [reading for reading, is_fresh in zip(mine, fresh, strict=True) if is_fresh]
    return pairs, [r for r in since if r.purpose == "control" and r.base == base]


def _ends(reading: BisectReading) -> tuple[int, int, tuple[int, int]]:
    return reading.base, reading.head, reading.draws
