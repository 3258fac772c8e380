"""Peak memory and graph breaks, which are the same each time: no test, but every pair must show the change."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.metrics import GRAPH_BREAKS, PEAK_MEMORY
from torchperf_ci.stats.effect import paired_effect
from torchperf_ci.verdicts.verdict import Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_ci.compare.trial import ComparedCase
    from torchperf_ci.series.series import Series

FEWEST_PAIRS = 5
FEWEST_EQUAL = 3
"""Pairs, where each gave the same: it is as good as certain that the next one will."""
MIB = 2.0**20


def repeats(compared: ComparedCase) -> bool:
    """Whether the pairs are enough to judge what each should repeat."""
    results = {
        (pair.base_peak, pair.head_peak, pair.base_graph_breaks, pair.head_graph_breaks)
        for pair in compared.pairs
    }
    return len(compared.pairs) >= (FEWEST_EQUAL if len(results) == 1 else FEWEST_PAIRS)


def judge_memory(
    series: Callable[[str], Series], compared: ComparedCase, min_effect: float
) -> Iterator[Verdict]:
    """A change of ``min_effect`` in every pair; nothing where a step takes no memory that is counted."""
    base, head = (
        [getattr(pair, f"{side}_peak") / MIB for pair in compared.pairs] for side in ("base", "head")
    )
    if min(*base, *head) <= 0:
        return
    above = sum(new > old * (1 + min_effect) for old, new in zip(base, head, strict=True))
    below = sum(old > new * (1 + min_effect) for old, new in zip(base, head, strict=True))
    effect = paired_effect(np.log(np.divide(head, base)))
    within = 1 / (1 + min_effect) <= effect.ratio <= 1 + min_effect
    enough = repeats(compared)
    word = _word(above, below, len(base), otherwise="unchanged" if within else "noisy") if enough else "noisy"
    why = f"more by {min_effect:.1%} in {above} of {len(base)} pairs, less in {below}"
    yield Verdict(
        series(PEAK_MEMORY),
        word,
        why,
        effect=effect,
        old=median(base),
        new=median(head),
        evidence={"pairs": len(base)},
    )


def judge_graph_breaks(series: Callable[[str], Series], compared: ComparedCase) -> Iterator[Verdict]:
    """Any difference in every pair; nothing for a case that is not compiled."""
    counts = [
        (pair.base_graph_breaks, pair.head_graph_breaks)
        for pair in compared.pairs
        if pair.base_graph_breaks is not None and pair.head_graph_breaks is not None
    ]
    if not counts:
        return
    base, head = zip(*counts, strict=True)
    above = sum(new > old for old, new in counts)
    below = sum(old > new for old, new in counts)
    enough = repeats(compared)
    otherwise: Word = "noisy" if above or below else "unchanged"
    word = _word(above, below, len(counts), otherwise) if enough else "noisy"
    yield Verdict(
        series(GRAPH_BREAKS),
        word,
        f"{_said(head)}; {_said(base)} on base",
        old=float(median(base)),
        new=float(median(head)),
        evidence={"pairs": len(counts)},
    )


def _word(above: int, below: int, pairs: int, otherwise: Word) -> Word:
    return "regressed" if above == pairs else "improved" if below == pairs else otherwise


def _said(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"
