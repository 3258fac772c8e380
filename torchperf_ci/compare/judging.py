"""From what was measured to verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.compare.latency import judge_latency
from torchperf_ci.compare.outcomes import judge_outcome
from torchperf_ci.compare.repeatable import judge_graph_breaks, judge_memory
from torchperf_ci.metrics import LATENCY, PEAK_MEMORY
from torchperf_ci.stats.comparison import FEWEST_ALIKE
from torchperf_ci.stats.means import geometric_mean
from torchperf_ci.verdicts.verdict import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_ci.bench.case import Case
    from torchperf_ci.compare.control import Control
    from torchperf_ci.compare.question import Policy
    from torchperf_ci.compare.trial import Comparison
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Verdict

Naming = Callable[["Case", str], "Series"]
"""The series of a case's metric."""
VOID = "void: the A/A control shows a change where there is none"


def judge(
    comparison: Comparison, policy: Policy, naming: Naming, controls: Mapping[str, Control]
) -> Iterator[Verdict]:
    """The verdicts on every case that was measured, or tried. ``controls`` are those of the backends."""
    ended = "stopped" if comparison.stopped else "the time was up"
    for compared in comparison.cases:
        series = partial(naming, compared.case)
        if compared.failed:
            yield judge_outcome(series, compared)
            continue
        latency = judge_latency(series, compared, comparison.cases, policy.rule(LATENCY).min_effect, ended)
        yield _controlled(latency, controls[compared.case.backend])
        if compared.pairs:
            yield from judge_memory(series, compared, policy.rule(PEAK_MEMORY).min_effect)
            yield from judge_graph_breaks(series, compared)


def _controlled(latency: Verdict, control: Control) -> Verdict:
    latency = replace(latency, evidence={**latency.evidence, "control": control.evidence()})
    spoilt = control.spoils(latency.effect)
    return replace(latency, verdict="noisy", candidate=False, why=VOID) if spoilt else latency


def suites(comparison: Comparison) -> Iterator[Suite]:
    """The geometric mean over the cases that have two pairs or more.

    It counts the three pairs that every case takes before it may end. The rest depend on what these gave: a case that
    is high by luck gets no more of them, and the mean of all pairs would be biased.
    """
    rows = [
        compared.log_ratios[:FEWEST_ALIKE]
        for compared in comparison.cases
        if len(compared.pairs) > 1 and not compared.failed
    ]
    if rows:
        yield Suite(LATENCY, geometric_mean(rows), len(rows))
