"""Latency, by the sequential test on the pairs."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.metrics import LATENCY
from torchperf_ci.stats.comparison import FEWEST_ALIKE, judge_pairs
from torchperf_ci.stats.sprt import ALPHA, FEWEST_PAIRS, Decision, boundaries
from torchperf_ci.verdicts.verdict import Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchperf_ci.compare.trial import ComparedCase
    from torchperf_ci.series.series import Series
    from torchperf_ci.stats import sprt

WORDS: Mapping[sprt.Word, Word] = {
    "increase": "regressed",
    "decrease": "improved",
    "none": "unchanged",
    "open": "noisy",
}
MOST_TIMES = 1_000_000
"""Times as likely; what is beyond is not better known, since no machine is that honest."""


def decided(
    compared: ComparedCase, session: Sequence[ComparedCase], min_effect: float, *, last: bool = False
) -> Decision:
    """What is known of a case that has a pair; those of the ``session`` share the chance of a false alarm."""
    others = [other.readings for other in session if other is not compared]
    return judge_pairs(compared.readings, others, min_effect, len(session), last=last)


def is_settled(compared: ComparedCase, session: Sequence[ComparedCase], min_effect: float) -> bool:
    """Whether another pair would change nothing."""
    return decided(compared, session, min_effect).word != "open"


def judge_latency(
    series: Callable[[str], Series],
    compared: ComparedCase,
    session: Sequence[ComparedCase],
    min_effect: float,
    ended: str,
) -> Verdict:
    """The verdict after the last pair. ``ended`` says why it was the last.

    Fewer than ``FEWEST_PAIRS`` tell no noise, and so nothing that rests on it.
    """
    if not compared.pairs:
        return Verdict(series(LATENCY), "noisy", f"{ended} before its first pair")
    decision = decided(compared, session, min_effect, last=True)
    enough = len(compared.pairs) >= FEWEST_PAIRS
    return Verdict(
        series(LATENCY),
        WORDS[decision.word],
        _why(decision, compared, min_effect, len(session), ended),
        effect=decision.effect,
        old=median(pair.base_seconds for pair in compared.pairs) * 1e3,
        new=median(pair.head_seconds for pair in compared.pairs) * 1e3,
        noise=decision.noise if enough else None,
        detectable=decision.detectable if enough else None,
        candidate=enough and _looks_slower(decision, min_effect),
        evidence={
            "pairs": len(compared.pairs),
            "log_ratios": compared.log_ratios,
            "controls": [ratio for _, ratio in compared.controls],
            "log_likelihood_ratios": {"increase": decision.increase, "decrease": decision.decrease},
            "alpha": ALPHA / len(session),
            "batch_size": compared.case.batch_size,
        },
    )


def _looks_slower(decision: Decision, min_effect: float) -> bool:
    is_half = math.log(decision.effect.ratio) >= math.log1p(min_effect) / 2
    return decision.word == "open" and decision.increase > 0 and is_half


def _why(decision: Decision, compared: ComparedCase, min_effect: float, cases: int, ended: str) -> str:
    pairs, change = decision.effect.pairs, f"a change of {min_effect:.1%} or more"
    confirm, refute = boundaries(cases)
    by_likelihood = pairs >= FEWEST_PAIRS
    match decision.word:
        case "increase" if by_likelihood and decision.increase >= confirm:
            return f"slower: over {pairs} pairs {change} is {_times(decision.increase)} as likely as none"
        case "decrease" if by_likelihood and decision.decrease >= confirm:
            return f"faster: over {pairs} pairs {change} is {_times(decision.decrease)} as likely as none"
        case "none" if by_likelihood and decision.none >= -refute:
            return f"over {pairs} pairs no change is {_times(decision.none)} as likely as {change}"
        case "increase" | "decrease":
            beside = f"all {pairs} pairs lie beyond {len(compared.controls)} of base against itself"
            return f"{'slower' if decision.word == 'increase' else 'faster'}: {beside}"
        case "none":
            return f"{pairs} pairs agree that {change} is not there"
    if pairs < FEWEST_ALIKE:
        return f"{ended} after {pairs} of the {FEWEST_ALIKE} pairs that it takes at least"
    return f"{ended} after {pairs} pairs, which spread by {decision.noise:.1%}: they do not tell {change}"


def _times(log_ratio: float) -> str:
    """How many times as likely, to a digit or two."""
    if log_ratio > math.log(MOST_TIMES):
        return f"more than {MOST_TIMES:,} times"
    times = math.exp(log_ratio)
    return f"{times:,.0f} times" if times >= 10 else f"{times:.2g} times"
