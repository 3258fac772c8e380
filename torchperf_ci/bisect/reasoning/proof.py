"""Is one build slower than another? The sequential test of pairs of just these two, to confirm and to verify.

Where luck of builds matters, it is asked of the code: by several builds of both, of which each two make a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Literal

from torchperf_ci.stats.by_build import by_build, interval
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.sprt import BEYOND_MODES, FEWEST_PAIRS, Decision, boundaries, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.stats.by_build import ByBuild

    Blocks = Mapping[tuple[int, int], Sequence[float]]

Word = Literal["slower", "not slower", "open", "unknown"]

MOST_PAIRS = 60
"""What is not clear by then is not worth another hour: it spreads too much, or is too small."""
FEWEST_TO_VERIFY = 6
"""Fresh pairs that a name takes at least: the interval in the issue comes from these alone."""
FEWEST_BUILDS = 3
"""Of either commit that a name rests on, where they can be made anew; none of them was read for anything else."""
FEWEST_TO_CONFIRM = 3
"""Pairs of bad and good that may send for the culprit: they name nobody. One more where less than
:data:`torchperf_ci.stats.sprt.BEYOND_MODES` is seen."""
MOST_OF_A_BUILD = 20
"""Pairs of two builds that cannot be made anew: more would tell nothing that luck could not have made as well."""


@dataclass(frozen=True)
class KnownLuck:
    """What is known of the luck of builds: its ``scale``, whether they can be drawn anew, and the values of τ.

    ``belief`` are the probabilities of :func:`torchperf_ci.stats.build_offsets.taus`.
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

    word: Word
    log_ratios: tuple[float, ...]
    decision: Decision | None
    by_build: ByBuild | None = None
    is_luck: bool = False
    of_these_builds: bool = False


def confirmed(blocks: Blocks, min_effect: float, cases: int, luck: KnownLuck) -> Proof:
    """Whether head is slower than base, where ``cases`` are judged together; ``blocks`` are log-ratios by draws."""
    log_ratios = tuple(chain.from_iterable(blocks.values()))
    if not log_ratios:
        return Proof("open", (), None)
    decision = decide(log_ratios, min_effect, cases=cases)
    if not luck.scale or not luck.rebuilds:
        return Proof(_lean(decision, log_ratios, min_effect, cases), log_ratios, decision)
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
    decision = decide(log_ratios, min_effect)
    if not luck.scale:
        return Proof(_word(decision, log_ratios), log_ratios, decision)
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


def _by_build(blocks: Blocks, min_effect: float, luck: KnownLuck) -> ByBuild:
    return by_build(_each(blocks), math.log1p(min_effect), luck.scale, luck.belief)


def _of_code(decision: Decision, blocks: Blocks, luck: KnownLuck) -> Decision:
    """The decision with the effect that the code has, of which that of these builds is one draw."""
    effect = Effect.of_logs(*interval(_each(blocks), luck.scale), decision.effect.pairs)
    return replace(decision, effect=effect)


def _each(blocks: Blocks) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(values) for values in blocks.values())


def _lean(decision: Decision, log_ratios: Sequence[float], min_effect: float, cases: int) -> Word:
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


def _word(decision: Decision, log_ratios: Sequence[float]) -> Word:
    if decision.word in ("none", "decrease"):
        return "not slower"
    if decision.word == "increase" and len(log_ratios) >= FEWEST_TO_VERIFY:
        return "slower"
    return undecided(log_ratios)


def undecided(log_ratios: Sequence[float]) -> Word:
    """The word for pairs that say neither."""
    return "open" if len(log_ratios) < MOST_PAIRS else "unknown"
