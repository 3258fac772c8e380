"""Series of whole numbers that are the same in each run: graph breaks, recompilations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.check.comparable import charted, commits
from torchperf_ci.metrics import UP
from torchperf_ci.verdicts.verdict import Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.check.comparable import Pairing

RECENT = 5
"""Runs of the past among which a count has to be unheard of."""


def judge_count(pairing: Pairing, direction: str) -> Verdict:
    """Any step beyond what the last runs of the past have counted is a change, if every new run has made it."""
    past = [point.value for point in pairing.old[-RECENT:] if point.value is not None]
    now = [point.value for point in pairing.new if point.value is not None]
    above, below = min(now) > max(past), max(now) < min(past)
    worse, better = (below, above) if direction == UP else (above, below)
    verdict: Word = "regressed" if worse else "improved" if better else "unchanged"
    return Verdict(
        pairing.series,
        verdict,
        _why(past, now, changed=above or below),
        old=past[-1],
        new=now[-1],
        evidence={
            "history": len(pairing.old),
            "runs": len({point.run for point in pairing.new}),
            **commits(pairing.old, pairing.new),
            **({"points": charted(pairing)} if worse else {}),
        },
    )


def _why(past: Sequence[float], now: Sequence[float], *, changed: bool) -> str:
    before = f"{min(past):g}" if min(past) == max(past) else f"{min(past):g} to {max(past):g}"
    return f"{now[-1]:g}; it was {before} before" if changed else f"{before} as before"
