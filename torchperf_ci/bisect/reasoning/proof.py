"""Is one build slower than another? The sequential test of pairs of just these two, to confirm and to verify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from torchperf_ci.stats.sprt import Decision, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

Word = Literal["slower", "not slower", "open", "unknown"]

MOST_PAIRS = 60
"""What is not clear by then is not worth another hour: it spreads too much, or is too small."""
FEWEST_TO_VERIFY = 10
"""Fresh pairs that a name takes at least: the interval in the issue comes from these alone."""


@dataclass(frozen=True)
class Proof:
    """What some pairs say: ``open`` wants more, ``unknown`` has had them all. ``decision`` is None before any."""

    word: Word
    log_ratios: tuple[float, ...]
    decision: Decision | None


def confirmed(log_ratios: Sequence[float], min_effect: float, cases: int) -> Proof:
    """Whether head is slower than base, where ``cases`` are judged together."""
    return _proof(log_ratios, min_effect, cases, fewest=0)


def verified(log_ratios: Sequence[float], min_effect: float) -> Proof:
    """The same, by no fewer than :data:`FEWEST_TO_VERIFY` pairs."""
    return _proof(log_ratios, min_effect, 1, fewest=FEWEST_TO_VERIFY)


def _proof(log_ratios: Sequence[float], min_effect: float, cases: int, fewest: int) -> Proof:
    if not log_ratios:
        return Proof("open", (), None)
    decision = decide(log_ratios, min_effect, cases=cases)
    return Proof(_word(decision, len(log_ratios), fewest), tuple(log_ratios), decision)


def _word(decision: Decision, pairs: int, fewest: int) -> Word:
    if decision.word in ("none", "decrease"):
        return "not slower"
    if decision.word == "increase" and pairs >= fewest:
        return "slower"
    return "open" if pairs < MOST_PAIRS else "unknown"
