"""Verdicts of ``check`` on made points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_points import row, series

from torchperf_ci.check.judging import judge_all
from torchperf_ci.config import default_policy

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Verdict

LATENCY = series()
STATUS = series("status")
OTHER = {"driver": "560", "governor": "performance"}


def judged(old, new, policy=None) -> dict[str, Verdict]:
    """The verdicts by metric."""
    verdicts = judge_all(old, new, default_policy() if policy is None else policy)
    assert len({verdict.series for verdict in verdicts}) == len(verdicts)
    return {verdict.series.metric: verdict for verdict in verdicts}


def one(past, now, metric: str = "latency(ms)", policy=None) -> Verdict:
    """The verdict on a single series with these values, a day each."""
    name = series(metric)
    (verdict,) = judged({name: row(past)}, {name: row(now, len(past))}, policy).values()
    return verdict
