"""Numbers of two runs that were not taken in turn."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.metrics import LEAST_AMOUNT, UP
from torchperf_ci.stats.shift import shift_effect
from torchperf_ci.stats.sprt import ALPHA
from torchperf_ci.verdicts.verdict import Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Series
    from torchperf_ci.stats.effect import Effect

FEWEST_VALUES = 5
"""On either side, for a change to be called one."""


@dataclass(frozen=True)
class _Finding:
    """``sure`` says that a change is one, ``apart`` that it looks like one, and neither that there is none."""

    direction: int
    apart: bool
    sure: bool
    none: bool
    effect: Effect | None = None


def judge_numbers(
    series: Series, old: Sequence[float], new: Sequence[float], rule: MetricRule, among: int
) -> Verdict:
    """The verdict on all values of two runs; ratios by a rank interval, others where all of one side are beyond.

    The values of a ratio are positive. It is one of ``among`` series, which share the chance that any of them is called
    slower although none is.
    """
    found = _ratio(old, new, rule, among) if rule.kind == "ratio" else _difference(old, new, rule)
    enough = min(len(old), len(new)) >= FEWEST_VALUES
    worse = bool(rule.direction) and found.direction == (-1 if rule.direction == UP else 1)
    return Verdict(
        series,
        _word(found, rule, enough=enough, worse=worse),
        _why(found, rule, old, new, enough=enough),
        effect=found.effect,
        old=median(old),
        new=median(new),
        candidate=worse and found.apart and not (found.sure and enough),
        evidence={"old_values": list(old), "new_values": list(new)},
    )


def _ratio(old: Sequence[float], new: Sequence[float], rule: MetricRule, among: int) -> _Finding:
    before, after = np.log(old), np.log(new)
    effect, sure = shift_effect(before, after), shift_effect(before, after, 1 - 2 * ALPHA / among)
    most = 1 + rule.min_effect
    large = not 1 / most < effect.ratio < most
    beyond = min(new) > max(old) * most or min(old) > max(new) * most
    return _Finding(
        direction=int(np.sign(effect.ratio - 1)),
        apart=beyond or (large and not effect.low <= 1 <= effect.high),
        sure=large and not sure.low <= 1 <= sure.high,
        none=(1 / most < effect.low and effect.high < most)
        or max(max(new) / min(old), max(old) / min(new)) < most,
        effect=effect,
    )


def _difference(old: Sequence[float], new: Sequence[float], rule: MetricRule) -> _Finding:
    """A count may not change at all, an amount by less than matters."""
    least = 0.0 if rule.kind == "count" else max(LEAST_AMOUNT, rule.min_effect * abs(median(old)))
    above, below = min(new) - max(old) > least, min(old) - max(new) > least
    return _Finding(
        int(above) - int(below), apart=above or below, sure=above or below, none=not (above or below)
    )


def _word(found: _Finding, rule: MetricRule, *, enough: bool, worse: bool) -> Word:
    if found.sure and enough and rule.direction:
        return "regressed" if worse else "improved"
    return "unchanged" if found.none else "noisy"


def _why(
    found: _Finding, rule: MetricRule, old: Sequence[float], new: Sequence[float], *, enough: bool
) -> str:
    values = f"{len(old)} values before and {len(new)} now"
    if found.none:
        return f"{values} are alike"
    if not found.apart:
        return f"{values} spread too much to tell"
    if not rule.direction:
        return f"{values} lie apart, and nobody says which way is better: give it a direction in the policy"
    if not enough:
        return f"{values} lie apart; it takes {FEWEST_VALUES} on either side to call that a change"
    return (
        f"{values} lie apart"
        if found.sure
        else f"{values} lie apart, as they may by chance in one of so many series"
    )
