"""Two builds on one machine, from options to a judgement."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.compare import repeating
from torchperf_ci.compare.cases import known_to, one_sided, select_cases
from torchperf_ci.compare.control import judge_controls
from torchperf_ci.compare.judging import judge, suites
from torchperf_ci.compare.progress import progress
from torchperf_ci.compare.rounds import PairRunner, measure_rounds
from torchperf_ci.compare.sides import open_builds
from torchperf_ci.compare.trial import ComparedCase, Comparison
from torchperf_ci.compare.turns import BudgetAllocation
from torchperf_ci.interruption import Stopped
from torchperf_ci.metrics import LATENCY
from torchperf_ci.series.series import Series
from torchperf_ci.verdicts.verdict import Judgement

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.bench.case import Case
    from torchperf_ci.compare.judging import Naming
    from torchperf_ci.compare.question import Policy
    from torchperf_ci.compare.sides import ComparedBuild
    from torchperf_ci.config import Config
    from torchperf_ci.options import CompareOptions

BUDGET, BUDGET_A_CASE = 600.0, 60.0
"""Seconds, where nobody says: the one at least, the other for each case. Most comparisons end before."""


def compare_builds(
    options: CompareOptions, config: Config, policy: Policy, publish: Callable[[Judgement], Judgement]
) -> Judgement:
    """Measure both builds and judge them; ``told`` what is known before anything else is taken away.

    What was measured until a signal came is judged and told before :class:`Stopped` goes on.
    """
    min_effect = policy.rule(LATENCY).min_effect
    with ExitStack() as stack:
        base, head = open_builds(stack, options, config)
        cases, naming = select_cases(base, head, options, config), _naming(config, head)
        scratch = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="torchperf-", ignore_cleanup_errors=True)
        )
        runner = PairRunner(
            *on_same_cpus(base.settings, head.settings), head.under_test.device, Path(scratch)
        )
        of_both = [case for case in cases if known_to(base, case) and known_to(head, case)]
        comparison = Comparison([ComparedCase(case) for case in of_both])
        budget = options.budget or max(BUDGET, BUDGET_A_CASE * len(of_both))
        ending, stopped = _measure(comparison, runner, budget, min_effect)
        controls = judge_controls(comparison, min_effect)
        verdicts = [
            *judge(comparison, policy, naming, controls),
            *(one_sided(case, base, head, naming) for case in cases if case not in of_both),
        ]
        means = [] if any(control.void for control in controls.values()) else list(suites(comparison))
        notes = [*filter(None, [comparison.disturbed]), *ending, *map(str, controls.values())]
        again = repeating.again(options, base, head)
        judgement = publish(Judgement("compare", base.words, head.words, verdicts, means, notes, again))
        if stopped:
            stopped.outcome = f"what was known until then is in {options.out}; to start anew"
            raise stopped
        return judgement


def _measure(
    comparison: Comparison, runner: PairRunner, budget: float, min_effect: float
) -> tuple[list[str], Stopped | None]:
    """Why the rounds ended, where that was not because everything was settled."""
    allocation = BudgetAllocation(comparison.cases, min_effect)
    try:
        with closing(progress(len(comparison.cases), budget)) as shown:
            measure_rounds(comparison, runner, budget, allocation, shown)
    except Stopped as stopped:
        comparison.stopped = True
        return ["stopped from outside: this is what was known until then"], stopped
    if comparison.out_of_time:
        why = f"the budget of {budget:.0f} s ended first: give more with --budget, or choose fewer cases"
        return [why], None
    return [], None


def _naming(config: Config, build: ComparedBuild) -> Naming:
    machine, repo = build.under_test.device.identity(), os.environ.get("GITHUB_REPOSITORY", "")

    def series(case: Case, metric: str) -> Series:
        how = (case.workload, case.mode, case.dtype, case.backend)
        return Series(repo, config.name, *how, machine.name, machine.type, metric)

    return series
