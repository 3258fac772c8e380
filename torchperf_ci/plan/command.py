"""The command ``torchperf plan``, and its output on a terminal and on the page of a job's run."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions
from torchperf_ci.actions import Annotation
from torchperf_ci.bench.case import Costs, write_costs
from torchperf_ci.config import Config, find_config
from torchperf_ci.console import print_document, say
from torchperf_ci.document import Column, Document, OnlyOn, Table, counted, first_of, number_columns, short
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError
from torchperf_ci.markdown import to_markdown
from torchperf_ci.options import is_given
from torchperf_ci.plan.bisections import BisectionPlan, Regression, plan_bisections, write_bisections
from torchperf_ci.plan.jobs import (
    MeasurementJob,
    jobs_of,
    matrix,
    measured_costs,
    missing_suites,
    refuse_shared_names,
    repeated_workloads,
    unused_runners,
)
from torchperf_ci.verdicts.verdict_document import difference_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torchperf_ci.options.analysis_commands import PlanOptions
    from torchperf_ci.verdicts.verdict import Verdict


_JOB_COLUMNS = tuple(map(Column, ("name", "runs on", "device", "suite", "shard", "tune")))
_BISECTION_COLUMNS = (
    *map(Column, ("name", "runs on", "range", "largest change")),
    *number_columns("series", "most minutes"),
)
_LEFT_OUT_COLUMNS = (Column("what"), Column("why", "prose"))
_MAX_LINES = 20
"""Most lines printed on what is left out; the summary has more."""
_LINE_LENGTH = 300
_WAITS = "the budget is too small for it beside what changed more"


def plan_command(options: PlanOptions) -> int:
    """Plan the measurements, or the bisections if verdicts are given."""
    _check(options)
    config = find_config(options.config)
    jobs = jobs_of(config)
    if options.verdicts:
        _plan_bisecting(jobs, options)
    else:
        _plan_measuring(jobs, config, options)
    return 0


def _check(options: PlanOptions) -> None:
    """Raise :class:`UsageError` for options that are incomplete or do not go together."""
    if not options.verdicts:
        for name in ("records", "budget", "out"):
            if is_given(options, name):
                raise UsageError(f"--{name} is only used with --verdicts: add --verdicts, or remove it")
    elif options.costs:
        raise UsageError("--costs plans measurements and --verdicts plans bisections: give only one of them")
    elif not options.records:
        msg = "--records is missing: give the directory of the jobs' artifacts, which say where each case was measured"
        raise UsageError(msg)


def _plan_measuring(jobs: Sequence[MeasurementJob], config: Config, options: PlanOptions) -> None:
    refuse_shared_names(config)
    document = jobs_document(jobs)
    notes = [f"no suite uses the runner {name!r}" for name in unused_runners(config)]
    notes += repeated_workloads(config)
    notes += [f"there is no suite file {name} here: its jobs will fail" for name in missing_suites(config)]
    if options.costs:
        notes += _write_costs(Path(options.costs), options.store or config.store, config.name)
    _print_matrix(jobs, document, options)
    _say_first([*notes, str(document.title)])
    actions.annotate(actions.Annotation("notice", note, title="torchperf plan") for note in notes)
    actions.set_output("names", "\n".join(job.name for job in jobs))


def _write_costs(path: Path, dsn: str, benchmark: str) -> list[str]:
    """Write the known costs and return notes. A store that cannot be read only makes shards less balanced."""
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
        _say_first([f"costs of {counts} in {path}"])
        return wrong
    return [*wrong, f"no costs of {benchmark!r} are known yet: shards get equally many cases"]


def _plan_bisecting(jobs: Sequence[MeasurementJob], options: PlanOptions) -> None:
    assert options.records  # checked before
    files = [Path(name) for name in options.verdicts]
    plan = plan_bisections(files, jobs, Path(options.records), options.budget)
    out = Path(options.out)
    write_bisections(plan, out)
    document = bisections_document(plan)
    _print_matrix(plan.chosen, document, options)
    _say_first([*(f"{what}: {why}" for what, why in _left_out(plan)), str(document.title)])
    actions.append_summary(to_markdown(document))
    actions.annotate(bisection_notices(plan))
    actions.set_output("count", str(len(plan.chosen)))
    actions.set_output("out", str(out.absolute()))


def _print_matrix(rows: Collection[Any], document: Document, options: PlanOptions) -> None:
    """Print the document, or the matrix as one line of JSON, which is also the step's output."""
    text = json.dumps(matrix(rows), separators=(",", ":"))
    if options.json:
        sys.stdout.write(f"{actions.inert_json(text)}\n")
    else:
        print_document(document, sys.stdout, rest="all of them with --json")
    sys.stdout.flush()
    actions.set_output("matrix", text)


def _say_first(lines: Sequence[str]) -> None:
    """Write lines to stderr, and only the first ones if there are many."""
    say(*(short(line, _LINE_LENGTH) for line in first_of(lines, _MAX_LINES)))


def jobs_document(jobs: Sequence[MeasurementJob]) -> Document:
    """Return a table of the measurement jobs."""
    rows = [
        (job.name, ", ".join(job.labels), job.device, job.suite, job.shard, "yes" if job.tune else "")
        for job in jobs
    ]
    return Document(counted(len(jobs), "job"), [Table(_JOB_COLUMNS, rows)])


def bisections_document(plan: BisectionPlan) -> Document:
    """Return a table of the bisection jobs; on a page also what is not bisected tonight, and why."""
    rows = [
        (
            job.name,
            ", ".join(job.labels),
            _range_text(regression),
            _change_text(regression.largest),
            str(len(regression.verdicts)),
            str(round(job.deadline / 60)),
        )
        for job, regression in plan.chosen.items()
    ]
    left_out = Table(_LEFT_OUT_COLUMNS, _left_out(plan), title="Not bisected tonight")
    return Document(_headline(plan), [Table(_BISECTION_COLUMNS, rows), OnlyOn("page", [left_out])])


def bisection_notices(plan: BisectionPlan) -> list[Annotation]:
    """Return a notice for each range that waits, and one for all series that cannot be bisected."""
    waiting = [
        Annotation("notice", f"{_regression_text(regression)}: {_WAITS}", title="Not bisected tonight")
        for regression in plan.waiting
    ]
    if not plan.left_out:
        return waiting
    text = f"{len(plan.left_out):,} series that regressed cannot be bisected; the job summary says why"
    return [*waiting, Annotation("notice", text, title="torchperf plan")]


def _headline(plan: BisectionPlan) -> str:
    """Return one sentence with all counts."""
    fitting, wanted = len(plan.chosen), len(plan.chosen) + len(plan.waiting)
    if not wanted and not plan.left_out:
        return "Nothing is bisected: nothing regressed, and no candidate can be bisected"
    counts = [f"Bisections tonight: {fitting} of {wanted}" if wanted else "Nothing is bisected"]
    counts += [f"the budget is too small for {len(plan.waiting)}"] if plan.waiting else []
    counts += [f"{len(plan.left_out):,} series cannot be bisected"] if plan.left_out else []
    return "; ".join(counts)


def _left_out(plan: BisectionPlan) -> list[tuple[str, str]]:
    """Return what is not bisected and why. The text contains names from outside."""
    return [
        *((_regression_text(regression), _WAITS) for regression in plan.waiting),
        *((_change_text(verdict), why) for verdict, why in plan.left_out),
    ]


def _regression_text(regression: Regression) -> str:
    """Return, for example,
    ``h100 1f3a9c02de…8e1b0a44c3: vision/resnet18 latency(ms) (…) +5.0% (+4.1…+5.9) and 3 more``.
    """
    others = len(regression.verdicts) - 1
    more = f" and {others} more" if others else ""
    return f"{regression.runner} {_range_text(regression)}: {_change_text(regression.largest)}{more}"


def _range_text(regression: Regression) -> str:
    return f"{regression.range.good[:10]}…{regression.range.bad[:10]}"


def _change_text(verdict: Verdict) -> str:
    return short(f"{verdict.series} {difference_text(verdict)}".rstrip(), _LINE_LENGTH)
