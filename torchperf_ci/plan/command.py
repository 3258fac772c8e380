"""What ``torchperf plan`` does with its options, and what it says on a terminal and on the page of a job's run."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions, config, console
from torchperf_ci.actions import Annotation, literal
from torchperf_ci.bench.selection import write_costs
from torchperf_ci.document import Column, counted, short
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError
from torchperf_ci.markdown import plain, table
from torchperf_ci.options import is_given
from torchperf_ci.plan.bisections import plan_bisections, write_bisections
from torchperf_ci.plan.jobs import jobs_of, matrix, measured_costs, unused_runners
from torchperf_ci.verdicts.verdict_document import difference_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from torchperf_ci.bench.selection import Costs
    from torchperf_ci.options import PlanOptions
    from torchperf_ci.plan.bisections import BisectionPlan, LeftOut, Regression
    from torchperf_ci.plan.jobs import MeasurementJob


_JOB_COLUMNS = ("name", "runs on", "device", "suite", "shard", "tune")
_BISECTION_COLUMNS = ("name", "runs on", "range", "largest change", "series", "most minutes")
_LISTED = 100
"""Rows of a table in the summary."""
_TOLD = 20
"""Lines on what is left out; the summary has more."""
_TEXT_LENGTH = 300
_WAITS = "the budget is too small for it beside what changed more"

TextRow = tuple[str, ...]


def show_jobs(jobs: Iterable[MeasurementJob]) -> None:
    """Print the jobs that measure as a table."""
    rows = [
        (job.name, ", ".join(job.labels), job.device, job.suite, job.shard, "yes" if job.tune else "")
        for job in jobs
    ]
    _print_rows(_JOB_COLUMNS, rows)


def show_bisections(plan: BisectionPlan) -> None:
    """Print the bisections as a table."""
    _print_rows(_BISECTION_COLUMNS, _bisection_rows(plan))


def say_first_lines(lines: Sequence[str]) -> None:
    """Write lines to stderr, the first ones of many."""
    hidden = len(lines) - _TOLD
    more = [f"and {hidden} more"] if hidden > 0 else []
    console.say(*(short(line, _TEXT_LENGTH) for line in [*lines[:_TOLD], *more]))


def bisections_headline(plan: BisectionPlan) -> str:
    """One sentence that counts everything."""
    fitting, ranges = len(plan.chosen), len(plan.chosen) + len(plan.waiting)
    if not ranges and not plan.left_out:
        return "Nothing got worse, so nothing is bisected"
    counts = [f"Bisected tonight: {fitting} of {ranges} ranges of commits"]
    counts += [f"the budget is too small for {len(plan.waiting)}"] if plan.waiting else []
    counts += [f"{len(plan.left_out)} series cannot be bisected"] if plan.left_out else []
    return "; ".join(counts)


def not_bisected(plan: BisectionPlan) -> list[str]:
    """What is not bisected, and why, a line each: plain text, which holds names from outside."""
    return [f"{what}: {why}" for what, why in _rows_not_bisected(plan)]


def bisections_markdown(plan: BisectionPlan) -> str:
    """All of it for the summary of a job."""
    parts = [f"### {bisections_headline(plan)}"]
    if rows := _bisection_rows(plan):
        parts.append(_markdown_table(_BISECTION_COLUMNS, rows))
    if rows := _rows_not_bisected(plan):
        parts.append(f"**Not bisected tonight**\n\n{_markdown_table(('what', 'why'), rows)}")
    return "\n\n".join(parts) + "\n"


def bisection_notices(plan: BisectionPlan) -> list[Annotation]:
    """A notice for each range that waits, and one for all that cannot be bisected."""
    waiting = [
        Annotation("notice", f"{regression_text(one)}: {_WAITS}", title="Not bisected tonight")
        for one in plan.waiting
    ]
    if not plan.left_out:
        return waiting
    told = f"{len(plan.left_out)} series that regressed cannot be bisected; the job summary says why"
    return [*waiting, Annotation("notice", told, title="torchperf plan")]


def regression_text(regression: Regression) -> str:
    """``h100 1f3a9c02de…8e1b0a44c3: vision/resnet18 latency(ms) (…) +5.0% (+4.1…+5.9) and 3 more``."""
    return f"{regression.runner} {_range_text(regression)}: {_largest(regression)}{_others(regression)}"


def _bisection_rows(plan: BisectionPlan) -> list[TextRow]:
    return [
        (
            row.name,
            ", ".join(row.labels),
            _range_text(regression),
            _largest(regression),
            str(len(regression.verdicts)),
            str(round(row.deadline / 60)),
        )
        for row, regression in plan.chosen.items()
    ]


def _rows_not_bisected(plan: BisectionPlan) -> list[TextRow]:
    return [
        *((regression_text(one), _WAITS) for one in plan.waiting),
        *((_of_left_out(one), one.why) for one in plan.left_out),
    ]


def _of_left_out(one: LeftOut) -> str:
    return f"{one.verdict.series} {difference_text(one.verdict)}".rstrip()


def _range_text(regression: Regression) -> str:
    return f"{regression.range.good[:10]}…{regression.range.bad[:10]}"


def _largest(regression: Regression) -> str:
    verdict = regression.largest
    return f"{verdict.series} {difference_text(verdict)}".rstrip()


def _others(regression: Regression) -> str:
    others = len(regression.verdicts) - 1
    return f" and {others} more" if others else ""


def _print_rows(columns: TextRow, rows: Iterable[TextRow]) -> None:
    cells = [[short(cell, _TEXT_LENGTH) for cell in row] for row in rows]
    with literal(sys.stdout):
        console.print_table([Column(column) for column in columns], cells, sys.stdout)
        sys.stdout.flush()


def _markdown_table(columns: TextRow, rows: Sequence[TextRow]) -> str:
    cells = [[plain(short(cell, _TEXT_LENGTH)) for cell in row] for row in rows]
    return table(columns, cells, _LISTED)


def plan_command(options: PlanOptions) -> int:
    """Plan what measures; where verdicts are given, what bisects."""
    _check(options)
    given = config.find(options.config)
    jobs = jobs_of(given)
    if options.verdicts:
        _tell_bisections(jobs, options)
    else:
        _tell_measuring(jobs, given, options)
    return 0


def _check(options: PlanOptions) -> None:
    """Refuse half a question, and two at once."""
    if not options.verdicts:
        for name in ("records", "budget", "out"):
            if is_given(options, name):
                msg = f"--{name} is for bisections: give --verdicts, too, or leave it away"
                raise UsageError(msg)
    elif options.costs:
        msg = "--costs are for what measures, --verdicts for what bisects: plan one at a time"
        raise UsageError(msg)
    elif not options.records:
        msg = "which runner measured what? give the folder that the jobs' artifacts are in with --records"
        raise UsageError(msg)


def _tell_measuring(jobs: Sequence[MeasurementJob], given: config.Config, options: PlanOptions) -> None:
    notes = [f"no suite uses the runner {name!r}" for name in unused_runners(given)]
    if options.costs:
        notes += _write_costs(Path(options.costs), options.store or given.store, given.name)
    _print_matrix(jobs, options, show_jobs)
    say_first_lines([*notes, counted(len(jobs), "job")])
    actions.annotate(actions.Annotation("notice", note, title="torchperf plan") for note in notes)
    actions.set_output("names", "\n".join(job.name for job in jobs))


def _write_costs(path: Path, dsn: str, benchmark: str) -> list[str]:
    """Write what is known, and return what is wrong: a store that tells nothing costs some balance, and no night."""
    known: Costs = {}
    wrong = []
    try:
        known = measured_costs(dsn, benchmark, time.time())
    except (StoreError, StoreUnreachableError) as error:
        wrong.append(str(error))
    write_costs(path, known)
    actions.set_output("costs", str(path.absolute()))
    if known:
        counts = ", ".join(f"{counted(len(cases), 'case')} on {device}" for device, cases in known.items())
        say_first_lines([f"costs of {counts} in {path}"])
        return wrong
    return [*wrong, f"no costs of {benchmark!r} are known yet: shards get equally many cases"]


def _tell_bisections(jobs: Sequence[MeasurementJob], options: PlanOptions) -> None:
    files = [Path(name) for name in options.verdicts]
    plan = plan_bisections(files, jobs, Path(options.records or ""), options.budget)
    out = Path(options.out)
    write_bisections(plan, out)
    _print_matrix(plan.chosen, options, lambda _: show_bisections(plan))
    say_first_lines([*not_bisected(plan), bisections_headline(plan)])
    actions.append_summary(bisections_markdown(plan))
    actions.annotate(bisection_notices(plan))
    actions.set_output("count", str(len(plan.chosen)))
    actions.set_output("out", str(out.absolute()))


def _print_matrix(rows: Collection[Any], options: PlanOptions, show: Callable[[Any], None]) -> None:
    """The table for people, else one line of JSON, which is also the step's output."""
    text = json.dumps(matrix(rows), separators=(",", ":"))
    if options.json:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    else:
        show(rows)
    actions.set_output("matrix", text)
