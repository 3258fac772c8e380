"""What ``torchperf plan`` does with its options."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions, config
from torchperf_ci.bench.costs import write as write_costs
from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError
from torchperf_ci.plan import showing
from torchperf_ci.plan.costs import measured_costs
from torchperf_ci.plan.matrix import jobs_of, matrix, unused_runners
from torchperf_ci.plan.tonight import tonight, write
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torchperf_ci.bench.costs import Costs
    from torchperf_ci.options import PlanOptions
    from torchperf_ci.plan.matrix import Job

DEFAULT_OUT = "torchperf-bisections"
DEFAULT_BUDGET = 18_000.0


def plan_command(options: PlanOptions) -> int:
    """Plan what measures; where verdicts are given, what bisects."""
    _check(options)
    given = config.find(options.config)
    jobs = jobs_of(given)
    if options.verdicts:
        _plan_bisections(jobs, options)
    else:
        _plan_measuring(jobs, given, options)
    return 0


def _check(options: PlanOptions) -> None:
    """Refuse half a question, and two at once."""
    if not options.verdicts:
        for name in ("records", "budget", "out"):
            if vars(options)[name]:
                msg = f"--{name} is for bisections: give --verdicts, too, or leave it away"
                raise UsageError(msg)
    elif options.costs:
        msg = "--costs are for what measures, --verdicts for what bisects: plan one at a time"
        raise UsageError(msg)
    elif not options.records:
        msg = "which runner measured what? give the folder that the jobs' artifacts are in with --records"
        raise UsageError(msg)


def _plan_measuring(jobs: Sequence[Job], given: config.Config, options: PlanOptions) -> None:
    notes = [f"no suite uses the runner {name!r}" for name in unused_runners(given)]
    if options.costs:
        notes += _write_costs(Path(options.costs), options.store or given.store, given.name)
    _tell(jobs, options, showing.show_jobs)
    showing.say([*notes, counted(len(jobs), "job")])
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
        showing.say([f"costs of {counts} in {path}"])
        return wrong
    return [*wrong, f"no costs of {benchmark!r} are known yet: shards get equally many cases"]


def _plan_bisections(jobs: Sequence[Job], options: PlanOptions) -> None:
    files = [Path(name) for name in options.verdicts]
    plan = tonight(files, jobs, Path(options.records or ""), options.budget or DEFAULT_BUDGET)
    out = Path(options.out or DEFAULT_OUT)
    write(plan, out)
    _tell(plan.chosen, options, lambda _: showing.show_tonight(plan))
    showing.say([*showing.not_tonight(plan), showing.headline(plan)])
    actions.append_summary(showing.markdown(plan))
    actions.annotate(showing.to_annotate(plan))
    actions.set_output("count", str(len(plan.chosen)))
    actions.set_output("out", str(out.absolute()))


def _tell(rows: Collection[Any], options: PlanOptions, show: Callable[[Any], None]) -> None:
    """The table for people, else one line of JSON, which is also the step's output."""
    text = json.dumps(matrix(rows), separators=(",", ":"))
    if options.json:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    else:
        show(rows)
    actions.set_output("matrix", text)
