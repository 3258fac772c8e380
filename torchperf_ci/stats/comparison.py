"""Decide whether one build is slower than another, from a case's pairs, control pairs, and the session's other cases.

This is the sequential test of :mod:`torchperf_ci.stats.sequential_test`, which must also hold given the autocorrelation
of the pairs. Two shortcuts end it earlier: pairs that clearly differ from control pairs (base against itself), and an
interval that excludes every change that matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.stats.autocorrelation import (
    PairSeries,
    increase_beyond_autocorrelation,
    pair_autocorrelation,
)
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.noise import FLOOR, student_quantile
from torchperf_ci.stats.sequential_test import ALPHA, BETA, LOOKS, MIN_PAIRS, Decision, boundaries, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.stats import Floats


MIN_PAIRS_ALIKE = 3
"""Fewest pairs that can show that there is no change, if they agree closely."""
MIN_PAIRS_WITH_CONTROLS = 4
CONTROLS_BESIDE = 2
"""Fewest control pairs that, with :data:`MIN_PAIRS_WITH_CONTROLS` other pairs, can prove a change."""


OFTEN = 10.0
"""Factor by which the error of an interval is reduced because it is checked after every pair, up to forty."""


@dataclass(frozen=True)
class PairReading:
    """One pair's log-ratio, and whether head ran first; a control pair is base against itself."""

    log_ratio: float
    control: bool = False
    head_first: bool = False


def judge_pairs(
    readings: Sequence[PairReading],
    others: Sequence[Sequence[PairReading]],
    min_effect: float,
    cases: int,
    *,
    last: bool = False,
) -> Decision:
    """Decide about a change of ``min_effect`` from the readings of a case, in the order they were taken.

    ``others`` are the readings of the session's other cases, ``cases`` the number of cases that share alpha. At least
    one reading must not be a control. The ``last`` decision need not allow for further ones, so a 95% interval is
    enough there to show that nothing changed.
    """
    row, rest = _pair_series(tuple(readings)), [_pair_series(tuple(other)) for other in others if other]
    pairs, controls = row.values[row.groups == 0], row.values[row.groups < 0]
    decision = decide(pairs, min_effect, cases=cases)
    if pairs.size < MIN_PAIRS:
        decision = replace(decision, effect=student_effect(pairs, 0.95))
    if decision.word in ("increase", "decrease") and not _is_beyond_memory(
        row, rest, decision, min_effect, cases
    ):
        decision = replace(decision, word="open")
    if decision.word != "open":
        return decision
    if word := _beside(pairs, controls, min_effect, cases):
        return replace(decision, word=word)
    return replace(decision, word="none") if _is_alike(pairs, decision, min_effect, last) else decision


def student_effect(log_ratios: Floats, confidence: float) -> Effect:
    """Return the mean of paired log-ratios with Student's interval; it is unbounded for a single pair."""
    pairs, middle = len(log_ratios), float(np.mean(log_ratios))
    if pairs < 2:
        return Effect.of_logs(middle, -math.inf, math.inf, pairs)
    error = max(float(np.std(log_ratios, ddof=1)), FLOOR) / math.sqrt(pairs)
    half = student_quantile((1 + confidence) / 2, pairs - 1) * error
    return Effect.of_logs(middle, middle - half, middle + half, pairs)


@lru_cache(maxsize=1024)
def _pair_series(readings: tuple[PairReading, ...]) -> PairSeries:
    """Return the same object for equal readings, so that its likelihoods are computed once."""
    values = np.array([reading.log_ratio for reading in readings])
    groups = np.array([-1 if reading.control else 0 for reading in readings], np.intp)
    signs = np.array([-1.0 if reading.head_first else 1.0 for reading in readings])
    return PairSeries(values, np.arange(float(values.size)), groups, signs)


def _is_beyond_memory(
    row: PairSeries, rest: Sequence[PairSeries], decision: Decision, min_effect: float, cases: int
) -> bool:
    sign = 1 if decision.word == "increase" else -1
    confirm, _ = boundaries(cases)
    turned = replace(row, values=sign * row.values)
    return (
        increase_beyond_autocorrelation(turned, math.log1p(min_effect), pair_autocorrelation(rest)) >= confirm
    )


def _beside(
    pairs: Floats, controls: Floats, min_effect: float, cases: int
) -> Literal["increase", "decrease"] | None:
    """Return a change if all pairs lie beyond all controls and Student's test with the pooled spread confirms it.

    The spread of control pairs is taken around 0, so it grows if the machine favors one side.
    """
    few = pairs.size < MIN_PAIRS_WITH_CONTROLS or controls.size < CONTROLS_BESIDE
    if few or _chance_of_modes(pairs.size, controls.size) > ALPHA / cases / 2:  # half is for later looks
        return None
    change = float(pairs.mean() - controls.mean())
    sign = 1.0 if change > 0 else -1.0
    apart = (sign * pairs).min() > (sign * controls).max()
    free = pairs.size - 1 + controls.size
    spread = max(math.sqrt((np.sum((pairs - pairs.mean()) ** 2) + np.sum(controls**2)) / free), FLOOR)
    error = spread * math.sqrt(1 / pairs.size + 1 / controls.size)
    proven = abs(change) > student_quantile(1 - ALPHA / (LOOKS * cases), free) * error
    if not (apart and proven and abs(change) >= math.log1p(min_effect) / 2):
        return None
    return "increase" if sign > 0 else "decrease"


def _chance_of_modes(pairs: int, controls: int) -> float:
    """Return how often such pairs look like a change at most if processes have two modes, of any share and distance."""
    return float(0.25**pairs * 0.5**controls)


def _is_alike(pairs: Floats, decision: Decision, min_effect: float, last: bool) -> bool:
    """Whether the interval excludes a change of ``min_effect``; it is wider while further decisions may follow."""
    if pairs.size < MIN_PAIRS_ALIKE:
        return False
    last = last and pairs.size >= MIN_PAIRS
    effect = decision.effect if last else student_effect(pairs, 1 - BETA / OFTEN)
    return 1 / (1 + min_effect) < effect.low and effect.high < 1 + min_effect
