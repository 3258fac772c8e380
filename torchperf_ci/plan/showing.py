"""Plans on a terminal, and on the page of a job's run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchperf_ci import console
from torchperf_ci.actions import Annotation, literal
from torchperf_ci.document import Column, short
from torchperf_ci.markdown import plain, table
from torchperf_ci.verdicts.rows import difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.plan.bisections import LeftOut, Regression
    from torchperf_ci.plan.matrix import Job
    from torchperf_ci.plan.tonight import Tonight

_JOBS = ("name", "runs on", "device", "suite", "shard", "tune")
_TONIGHT = ("name", "runs on", "range", "largest change", "series", "most minutes")
_LISTED = 100
"""Rows of a table in the summary."""
_TOLD = 20
"""Lines on what is left out; the summary has more."""
_TEXT_LENGTH = 300
_WAITS = "the budget is too small for it beside what changed more"

Row = tuple[str, ...]


def show_jobs(jobs: Iterable[Job]) -> None:
    """Print the jobs that measure as a table."""
    rows = [
        (job.name, ", ".join(job.labels), job.device, job.suite, job.shard, "yes" if job.tune else "")
        for job in jobs
    ]
    _print(_JOBS, rows)


def show_tonight(plan: Tonight) -> None:
    """Print the bisections as a table."""
    _print(_TONIGHT, _rows(plan))


def say(lines: Sequence[str]) -> None:
    """Write lines to stderr, the first ones of many."""
    hidden = len(lines) - _TOLD
    more = [f"and {hidden} more"] if hidden > 0 else []
    console.say(*(short(line, _TEXT_LENGTH) for line in [*lines[:_TOLD], *more]))


def headline(plan: Tonight) -> str:
    """One sentence that counts everything."""
    fitting, ranges = len(plan.chosen), len(plan.chosen) + len(plan.waiting)
    if not ranges and not plan.left_out:
        return "Nothing got worse, so nothing is bisected"
    counts = [f"Bisected tonight: {fitting} of {ranges} ranges of commits"]
    counts += [f"the budget is too small for {len(plan.waiting)}"] if plan.waiting else []
    counts += [f"{len(plan.left_out)} series cannot be bisected"] if plan.left_out else []
    return "; ".join(counts)


def not_tonight(plan: Tonight) -> list[str]:
    """What is not bisected, and why, a line each: plain text, which holds names from outside."""
    return [f"{what}: {why}" for what, why in _not_tonight(plan)]


def markdown(plan: Tonight) -> str:
    """All of it for the summary of a job."""
    parts = [f"### {headline(plan)}"]
    if rows := _rows(plan):
        parts.append(_table(_TONIGHT, rows))
    if rows := _not_tonight(plan):
        parts.append(f"**Not bisected tonight**\n\n{_table(('what', 'why'), rows)}")
    return "\n\n".join(parts) + "\n"


def to_annotate(plan: Tonight) -> list[Annotation]:
    """A notice for each range that waits, and one for all that cannot be bisected."""
    waiting = [
        Annotation("notice", f"{describe(one)}: {_WAITS}", title="Not bisected tonight")
        for one in plan.waiting
    ]
    if not plan.left_out:
        return waiting
    told = f"{len(plan.left_out)} series that regressed cannot be bisected; the job summary says why"
    return [*waiting, Annotation("notice", told, title="torchperf plan")]


def describe(regression: Regression) -> str:
    """``h100 1f3a9c02de…8e1b0a44c3: vision/resnet18 latency(ms) (…) +5.0% (+4.1…+5.9) and 3 more``."""
    return f"{regression.runner} {_range(regression)}: {_largest(regression)}{_others(regression)}"


def _rows(plan: Tonight) -> list[Row]:
    return [
        (
            row.name,
            ", ".join(row.labels),
            _range(regression),
            _largest(regression),
            str(len(regression.verdicts)),
            str(round(row.deadline / 60)),
        )
        for row, regression in plan.chosen.items()
    ]


def _not_tonight(plan: Tonight) -> list[Row]:
    return [
        *((describe(one), _WAITS) for one in plan.waiting),
        *((_of_left_out(one), one.why) for one in plan.left_out),
    ]


def _of_left_out(one: LeftOut) -> str:
    return f"{one.verdict.series} {difference(one.verdict)}".rstrip()


def _range(regression: Regression) -> str:
    return f"{regression.range.good[:10]}…{regression.range.bad[:10]}"


def _largest(regression: Regression) -> str:
    verdict = regression.largest
    return f"{verdict.series} {difference(verdict)}".rstrip()


def _others(regression: Regression) -> str:
    others = len(regression.verdicts) - 1
    return f" and {others} more" if others else ""


def _print(columns: Row, rows: Iterable[Row]) -> None:
    cells = [[short(cell, _TEXT_LENGTH) for cell in row] for row in rows]
    with literal(sys.stdout):
        console.print_table([Column(column) for column in columns], cells, sys.stdout)
        sys.stdout.flush()


def _table(columns: Row, rows: Sequence[Row]) -> str:
    cells = [[plain(short(cell, _TEXT_LENGTH)) for cell in row] for row in rows]
    return table(columns, cells, _LISTED)
