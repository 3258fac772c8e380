"""The sensitivity on a terminal: a line for each metric of a machine, and the series that see least."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from torchperf_ci.actions import literal
from torchperf_ci.check.finding import HOPELESS
from torchperf_ci.console import print_table
from torchperf_ci.document import Column

if TYPE_CHECKING:
    from torchperf_ci.check.sensitivity import Sensitivity, Sight, SuiteSight

_LISTED = 10
_SUITE_COLUMNS = (
    Column("benchmark"),
    Column("machine"),
    Column("metric"),
    Column("series", "number"),
    Column("judged", "number"),
    Column("noise", "number"),
    Column("detectable", "number"),
    Column("of the worst", "number"),
    Column("see what matters", "number"),
)
_SERIES_COLUMNS = (
    Column("the series that see least"),
    Column("runs", "number"),
    Column("noise", "number"),
    Column("detectable", "number"),
    Column("matters", "number"),
)


def show(found: Sensitivity, out: TextIO) -> None:
    """Print it. ``detectable`` is a change that two runs would make a candidate four times out of five."""
    known = sorted(
        (sight for sight in found.series if sight.detectable is not None),
        key=lambda sight: sight.detectable or 0.0,
        reverse=True,
    )
    with literal(out):
        print_table(_SUITE_COLUMNS, [_suite_row(suite) for suite in found.suites], out)
        out.write("\n")
        print_table(_SERIES_COLUMNS, [_series_row(sight) for sight in known[:_LISTED]], out)
        out.flush()


def _suite_row(suite: SuiteSight) -> tuple[str, ...]:
    return (
        suite.group.benchmark,
        f"{suite.group.device} {suite.group.arch}".strip(),
        suite.metric,
        str(suite.series),
        str(suite.judged),
        _percent(suite.noise),
        _percent(suite.detectable),
        _percent(suite.worst),
        f"{suite.enough:.0%}",
    )


def _series_row(sight: Sight) -> tuple[str, ...]:
    return (
        str(sight.series),
        str(sight.history),
        _percent(sight.noise),
        _percent(sight.detectable),
        _percent(sight.min_effect),
    )


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.1%}" if share <= HOPELESS else f"> {HOPELESS:.0%}"
