"""The command ``torchperf compare``."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.compare import compared_builds
from torchperf_ci.compare.affected import AffectedCases, affected_cases
from torchperf_ci.compare.case_verdicts import ComparisonPolicy, SeriesNaming, judge_cases, suites
from torchperf_ci.compare.compared_builds import (
    TWO_COMMITS,
    are_compiled_anew,
    known_to,
    notes_on_builds,
    one_sided_verdict,
    open_builds,
    selected_cases,
)
from torchperf_ci.compare.compared_case import ComparedCase, Comparison, judge_controls
from torchperf_ci.compare.comparison_loop import BudgetAllocation, PairRunner, measure_rounds
from torchperf_ci.compare.record_directories import compare_directories, holds_records
from torchperf_ci.config import Config, find_config
from torchperf_ci.console import Progress, say
from torchperf_ci.document import counted, duration
from torchperf_ci.environments.build_environment import names_commit
from torchperf_ci.errors import UsageError
from torchperf_ci.interruption import Stopped
from torchperf_ci.machine.host import machine_text, read_host
from torchperf_ci.machine.interference import busy_warning, interference_note, power_limit_note, read_counters
from torchperf_ci.metrics import LATENCY
from torchperf_ci.records.files import check_writable
from torchperf_ci.scratch import scratch_folder
from torchperf_ci.series.points import Series
from torchperf_ci.stats.build_variance import most_luck
from torchperf_ci.stats.comparison import MIN_PAIRS_ALIKE
from torchperf_ci.stats.sequential_test import ALPHA
from torchperf_ci.verdicts.headline import GREEN, sign
from torchperf_ci.verdicts.verdict import Judgement
from torchperf_ci.verdicts.verdict_document import publish_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.bench.case import Case
    from torchperf_ci.compare.compared_builds import ComparedBuild
    from torchperf_ci.options.comparison_commands import CompareOptions


MIN_BUDGET, BUDGET_A_CASE = 600.0, 60.0
"""Default budget in seconds: the minimum, and the amount per case. Most comparisons end earlier."""

COMPILE_TIME_NOTE = "how long compiling takes is not judged; torchperf check judges it against history"


def compare_builds(
    options: CompareOptions,
    config: Config,
    policy: ComparisonPolicy,
    publish: Callable[[Judgement], None],
) -> Judgement:
    """Measure both builds and judge them. ``publish`` gets the judgement before the builds are removed.

    After a signal, what was measured until then is judged and published before :class:`Stopped` is raised again.
    """
    min_effect = policy.rule(LATENCY).min_effect
    with ExitStack() as stack:
        before = read_counters()
        base, head = open_builds(stack, options, config)
        cases, naming = selected_cases(base, head, options, config), _series_naming(config, head)
        scratch = stack.enter_context(scratch_folder())
        runner = PairRunner(*on_same_cpus(base.settings, head.settings), scratch)
        of_both = [case for case in cases if known_to(base, case) and known_to(head, case)]
        chosen = AffectedCases(of_both)
        if options.affected:
            chosen = affected_cases(of_both, base, head, naming, scratch, built=bool(options.build))
        comparison = Comparison([ComparedCase(case, place=place) for place, case in enumerate(chosen.cases)])
        if are_compiled_anew(base, head):
            comparison.luck = most_luck(ALPHA / max(len(chosen.cases), 1))
        budget = options.budget or max(MIN_BUDGET, BUDGET_A_CASE * len(chosen.cases))
        about_builds = notes_on_builds(options, base, head)
        compiled = any(case.compiled for case in chosen.cases)
        about_builds += filter(None, [chosen.note, COMPILE_TIME_NOTE if compiled else ""])
        say(_plan_text(chosen, budget), *about_builds, *filter(None, [busy_warning(before)]))
        ending, stopped = _measure_in_rounds(comparison, runner, budget, min_effect)
        controls = judge_controls(comparison, min_effect)
        verdicts = [
            *(
                replace(verdict, evidence=replace(verdict.evidence, threads=base.settings.threads))
                for verdict in judge_cases(comparison, policy, naming, controls)
            ),
            *(one_sided_verdict(case, base, head, naming) for case in cases if case not in of_both),
            *chosen.left_out,
        ]
        means = [] if any(control.void for control in controls.values()) else list(suites(comparison))
        observed = [[pair.observed for pair in compared.pairs] for compared in comparison.cases]
        conditions = [interference_note([*chain(*observed)]), power_limit_note(observed)]
        notes = [*filter(None, conditions), *about_builds, *ending, *map(str, controls.values())]
        again = compared_builds.how_to_repeat(options, base, head)
        judgement = Judgement("compare", base.words, head.words, verdicts, means, notes, again)
        publish(judgement)
        if stopped:
            stopped.outcome = f"what was measured by then is in {options.out}; to start anew"
            raise stopped
        return judgement


def _measure_in_rounds(
    comparison: Comparison, runner: PairRunner, budget: float, min_effect: float
) -> tuple[list[str], Stopped | None]:
    """Measure; return notes on why it ended before everything was settled, and the signal if there was one."""
    allocation = BudgetAllocation(comparison, min_effect)
    try:
        with closing(Progress(budget, timed=True)) as shown:
            measure_rounds(comparison, runner, budget, allocation, shown)
    except Stopped as stopped:
        comparison.stopped = True
        return ["interrupted from outside: the verdicts rest on what was measured by then"], stopped
    return ([_budget_note(comparison, budget)] if comparison.out_of_time else []), None


def _budget_note(comparison: Comparison, budget: float) -> str:
    """Say that the budget ran out and, if it was too short for the fewest pairs, how much would have been enough."""
    note = f"the budget of {budget:.0f} s ran out: raise it with --budget, or choose fewer cases"
    slowest = max(comparison.cases, key=lambda compared: compared.seconds)
    if len(slowest.pairs) >= MIN_PAIRS_ALIKE or not slowest.pairs:
        return note
    # At most one pair in four is a control.
    needed = (MIN_PAIRS_ALIKE + 1) * sum(compared.seconds for compared in comparison.cases)
    return (
        f"{note}. A pair of {slowest.case} takes {duration(slowest.seconds)} and a verdict at least {MIN_PAIRS_ALIKE} "
        f"pairs: --budget {60 * math.ceil(max(needed, budget + 1) / 60)} may be enough"
    )


def _plan_text(chosen: AffectedCases, budget: float) -> str:
    if not chosen.cases:
        looked_at = f"of {counted(len(chosen.left_out), 'case')} traced on base, none is affected"
        return f"nothing is measured in pairs: {looked_at if chosen.left_out else 'no case is on both sides'}"
    machine = machine_text(read_host())
    return (
        f"{counted(len(chosen.cases), 'case')} in pairs of processes on {machine}: at most {duration(budget)}"
    )


def _series_naming(config: Config, build: ComparedBuild) -> SeriesNaming:
    machine, repo = build.settings.hardware.identity(), os.environ.get("GITHUB_REPOSITORY", "")

    def series(case: Case, metric: str) -> Series:
        how = (case.workload, case.mode, case.dtype, case.backend)
        return Series(repo, config.name, *how, machine.name, machine.type, metric)

    return series


INCONCLUSIVE = 5


def compare_command(options: CompareOptions) -> int:
    """Compare and report. Returns the exit code, which says whether head is worse."""
    for flag, value in (("base", options.base), ("head", options.head)):
        if not value:
            msg = f"nothing to compare: give a Python, a wheel, a revision or a directory of records with --{flag}"
            raise UsageError(msg)
    code = _exit_code(_compared(options, find_config(options.config)))
    return 0 if options.on_failure == "warn" else code


def _compared(options: CompareOptions, config: Config) -> Judgement:
    repo = Path(options.repo)
    sides = {"base": options.base or "", "head": options.head or ""}
    # A revision takes precedence over a directory of the same name, which anybody may have added to the checkout.
    records = [
        flag for flag, side in sides.items() if holds_records(Path(side)) and not names_commit(side, repo)
    ]
    out = Path(options.out)
    check_writable(out)
    policy = ComparisonPolicy(config, options.min_effect)
    publish = partial(publish_verdicts, out=out, json_output=options.json)
    if len(records) == 1:
        [flag] = records
        other = "head" if flag == "base" else "base"
        why_not = "is no directory that contains some"
        if holds_records(Path(sides[other])):
            why_not = f"names a commit; if you mean the directory: ./{sides[other]}"
        msg = (
            f"--{flag} {sides[flag]} contains records, which can only be compared with other records, and "
            f"--{other} {sides[other]} {why_not}"
        )
        raise UsageError(msg)
    if records and options.affected:
        raise UsageError(TWO_COMMITS)
    if records:
        base, head = map(Path, sides.values())
        judgement = compare_directories(base, head, policy, options.format or "")
        publish(judgement)
        return judgement
    return compare_builds(options, config, policy, publish)


def _exit_code(judgement: Judgement) -> int:
    """Return the code for the report's mark: 0 for ✅, 1 for ❌, 5 if something looks worse or little was judged."""
    if judgement.red:
        return 1
    return 0 if sign([judgement]) == GREEN else INCONCLUSIVE
