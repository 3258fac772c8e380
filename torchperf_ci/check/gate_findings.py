"""Describe the gate's judgement of a series in one word and one sentence, with the numbers behind them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, log1p
from typing import TYPE_CHECKING

from torchperf_ci.document import change_text, counted
from torchperf_ci.metrics import DOWN
from torchperf_ci.stats.effect import share_of_log
from torchperf_ci.stats.gate import FALSE_DISCOVERIES
from torchperf_ci.stats.past import MIN_HISTORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.stats.gate import GateSide, Judged
    from torchperf_ci.verdicts.verdict import VerdictWord


BLIND = 3.0
"""A series that could only show a change larger than this many times ``min_effect`` is too noisy, not unchanged."""
HOPELESS = 1.0
"""Relative change from which on ``detectable`` is not reported: a series that only shows a doubling shows nothing."""
TELLING_OFFSET = 0.005
"""Smallest offset of a machine that is reported to the reader."""


@dataclass(frozen=True)
class GateFinding:
    """A verdict in one word and one sentence."""

    word: VerdictWord
    why: str
    candidate: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether the series is worse, or looks so."""
        return self.word == "regressed" or self.candidate


def gate_finding(
    judged: Judged, row: int, rule: MetricRule, past: int, day: Callable[[int], str]
) -> GateFinding:
    """Return the finding on the series in ``row``, which has ``past`` comparable runs before the new ones.

    ``day`` returns the date of a run, given how many runs came after it.
    """
    if is_too_short(judged, row, past):
        return GateFinding(
            "noisy", f"{counted(past, 'comparable run')} so far; it takes {MIN_HISTORY} to estimate the noise"
        )
    if not rule.direction:
        return _undirected(judged, row, rule)
    up, down = judged.up, judged.down
    worse, better = (up, down) if rule.direction == DOWN else (down, up)
    if worse.proven[row]:
        return GateFinding("regressed", _proof(judged, worse, row))
    if worse.candidate[row]:
        return GateFinding("noisy", _doubt(judged, worse, row, day), candidate=True)
    if better.proven[row]:
        return GateFinding("improved", _proof(judged, better, row))
    return _unproven(judged, row, rule)


def is_too_short(judged: Judged, row: int, past: int) -> bool:
    """Whether the series in ``row``, with ``past`` comparable runs, has too few to estimate its noise."""
    return past < MIN_HISTORY or isnan(judged.up.rate[row])


def gate_numbers(judged: Judged, row: int) -> dict[str, object]:
    """Return the numbers behind a finding."""
    rates = [side.rate[row] for side in (judged.up, judged.down)]
    return {
        "history": int(judged.history[row]),
        "window": int(judged.runs[row]),
        "false_discovery_rate": float(min(rates)),
        "machine_offset": float(share_of_log(judged.offset[row])),
    }


def _undirected(judged: Judged, row: int, rule: MetricRule) -> GateFinding:
    if judged.up.proven[row] or judged.down.proven[row]:
        return GateFinding(
            "noisy", "changed, but nothing says which way is better: give it a direction in the policy"
        )
    return _unproven(judged, row, rule)


def _unproven(judged: Judged, row: int, rule: MetricRule) -> GateFinding:
    """Return "unchanged" if that is certain, or "noisy" if a change that matters may be hidden by noise."""
    detectable = share_of_log(judged.detectable[row])
    if rule.kind == "ratio" and detectable > HOPELESS:
        noise = share_of_log(judged.sigma[row])
        return GateFinding("noisy", f"too noisy to judge: runs vary by {noise:.0%}")
    if rule.kind == "ratio" and detectable > BLIND * rule.min_effect:
        return GateFinding(
            "noisy", f"too noisy to tell: a change below {detectable:.1%} would probably go unseen"
        )
    low, high, least = judged.low[row], judged.high[row], log1p(rule.min_effect)
    if low <= 0 <= high:
        return GateFinding("unchanged", "within the noise")
    if low > least or high < -least:
        return GateFinding("noisy", _not_yet_told(judged, row, rule))
    is_less = "is" if -least < low and high < least else "may be"
    return GateFinding(
        "unchanged", f"the change {is_less} smaller than the {rule.min_effect:.1%} that matters"
    )


def _not_yet_told(judged: Judged, row: int, rule: MetricRule) -> str:
    """Describe a change that would matter but is not proven."""
    change = change_text(share_of_log(judged.change[row])) if rule.kind == "ratio" else "a change"
    runs = int(judged.runs[row])
    newest, single = (f"the last {runs} runs", "") if runs > 1 else ("the newest run", "single ")
    if judged.up.candidate[row] or judged.down.candidate[row]:
        return f"{change} in {newest}, not proven yet: measure again"
    return f"{change} in {newest}, within the usual variation of {single}runs of this series: measure again"


def _proof(judged: Judged, side: GateSide, row: int) -> str:
    window, history = int(judged.runs[row]), int(judged.history[row])
    newest = f"the last {window} runs" if window > 1 else "the last run"
    return f"{newest} against the {history} before, false-discovery rate {side.rate[row]:.1g}{_offset(judged, row)}"


def _doubt(judged: Judged, side: GateSide, row: int, day: Callable[[int], str]) -> str:
    if judged.runs[row] == 1:
        return f"looks worse in the newest run; one run is no proof, so measure again{_offset(judged, row)}"
    newest = f"looks worse in the last {int(judged.runs[row])} runs"
    if side.nearly[row]:
        return f"{newest}; proven if the next run confirms it{_offset(judged, row)}"
    runs, ago = side.seen[row].tolist()
    if runs and ago:
        seen = f"so did {runs} runs until {day(ago)}, and it recovered: no proof, so measure again"
        return f"{newest}, but {seen}{_offset(judged, row)}"
    if runs:
        back = f"is back where it was {runs} runs before: no proof, so measure again"
        return f"{newest}, but {back}{_offset(judged, row)}"
    rate = f"{side.rate[row]:.1g}"
    proof = f"false-discovery rate {rate}; proof takes {FALSE_DISCOVERIES}"
    return f"{newest} ({proof}){_offset(judged, row)}"


def _offset(judged: Judged, row: int) -> str:
    offset = share_of_log(judged.offset[row])
    if abs(offset) < TELLING_OFFSET:
        return ""
    return f"; {change_text(offset)}, which the whole job shows, is subtracted"
