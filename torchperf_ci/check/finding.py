"""What the gate found of one series, in words."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from torchperf_ci.check.logs import share
from torchperf_ci.metrics import DOWN
from torchperf_ci.stats.gate import FALSE_DISCOVERIES
from torchperf_ci.stats.past import MIN_HISTORY
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.stats.gate import Judged, Side
    from torchperf_ci.verdicts.verdict import Word

BLIND = 3.0
"""A series that could not have shown so many times the change that matters is too noisy to be called unchanged."""
HOPELESS = 1.0
"""A series that shows nothing less than a doubling shows nothing; the number itself then says no more."""
TELLING_OFFSET = 0.005
"""The offset of a machine from which on a reader is told of it."""


@dataclass(frozen=True)
class Finding:
    """A verdict in one word and one sentence."""

    word: Word
    why: str
    candidate: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether the series is worse, or looks so."""
        return self.word == "regressed" or self.candidate


def is_too_short(judged: Judged, row: int, past: int) -> bool:
    """Whether the series in ``row``, with so many comparable runs in the past, has too few to tell what is noise."""
    return past < MIN_HISTORY or isnan(judged.up.rate[row])


def finding(judged: Judged, row: int, rule: MetricRule, past: int, day: Callable[[int], str]) -> Finding:
    """What is said of the series in ``row``, which has so many comparable runs in the past.

    ``day`` tells when the run was that so many runs came after.
    """
    up, down = judged.up, judged.down
    if is_too_short(judged, row, past):
        return Finding("noisy", f"{counted(past, 'comparable run')} before; {MIN_HISTORY} tell what is noise")
    if not rule.direction:
        return _undirected(judged, row)
    worse, better = (up, down) if rule.direction == DOWN else (down, up)
    if worse.proven[row]:
        return Finding("regressed", _proof(judged, worse, row))
    if worse.candidate[row]:
        return Finding("noisy", _doubt(judged, worse, row, day), candidate=True)
    if better.proven[row]:
        return Finding("improved", _proof(judged, better, row))
    return _quiet(judged, row, rule)


def evidence(judged: Judged, row: int) -> dict[str, Any]:
    """The numbers behind a finding."""
    rates = [side.rate[row] for side in (judged.up, judged.down)]
    return {
        "history": int(judged.history[row]),
        "window": int(judged.runs[row]),
        "false_discovery_rate": float(min(rates)),
        "machine_offset": float(share(judged.offset[row])),
    }


def _undirected(judged: Judged, row: int) -> Finding:
    if judged.up.proven[row] or judged.down.proven[row]:
        return Finding(
            "noisy", "changed, and nobody says which way is better: give it a direction in the policy"
        )
    return Finding("unchanged", "within its noise")


def _quiet(judged: Judged, row: int, rule: MetricRule) -> Finding:
    detectable = share(judged.detectable[row])
    if rule.kind == "ratio" and detectable > HOPELESS:
        return Finding("noisy", f"too noisy to tell anything: runs differ by {share(judged.sigma[row]):.0%}")
    if rule.kind == "ratio" and detectable > BLIND * rule.min_effect:
        return Finding("noisy", f"too noisy to tell: a change below {detectable:.1%} would hardly be seen")
    if judged.low[row] <= 0 <= judged.high[row]:
        return Finding("unchanged", "within its noise")
    return Finding("unchanged", f"what changed is less than matters: {rule.min_effect:.1%}")


def _proof(judged: Judged, side: Side, row: int) -> str:
    window, history = int(judged.runs[row]), int(judged.history[row])
    newest = f"the last {window} runs" if window > 1 else "the last run"
    return (
        f"{newest} against {history} before, false-discovery rate {side.rate[row]:.1g}{_offset(judged, row)}"
    )


def _doubt(judged: Judged, side: Side, row: int, day: Callable[[int], str]) -> str:
    if judged.runs[row] == 1:
        return f"looks worse in the newest run; one alone is no proof, so measure again{_offset(judged, row)}"
    runs, ago = side.seen[row].tolist()
    if runs and ago:
        seen = f"so did {runs} runs until {day(ago)}, and it came back: no proof, so measure again"
        return f"looks worse in the last {int(judged.runs[row])} runs, but {seen}{_offset(judged, row)}"
    if runs:
        back = f"is back where it was {runs} runs before: no proof, so measure again"
        return f"looks worse in the last {int(judged.runs[row])} runs, but {back}{_offset(judged, row)}"
    rate = f"{side.rate[row]:.1g}"
    proof = f"false-discovery rate {rate}, and {FALSE_DISCOVERIES} is proof"
    return f"looks worse in the last {int(judged.runs[row])} runs ({proof}){_offset(judged, row)}"


def _offset(judged: Judged, row: int) -> str:
    offset = share(judged.offset[row])
    if abs(offset) < TELLING_OFFSET:
        return ""
    return f"; {offset:+.1%}, which the whole job shows, is taken off"
