"""The sensitivity on a terminal: a line for each metric of a machine, and the series that see least."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from torchperf_ci.actions import in_actions, literal, one_line
from torchperf_ci.check.finding import HOPELESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.check.sensitivity import Sensitivity, Sight, SuiteSight

_WIDTH = 200
_LISTED = 10
_SUITE_COLUMNS = (
    "benchmark",
    "machine",
    "metric",
    "series",
    "judged",
    "noise",
    "detectable",
    "of the worst",
    "see what matters",
)
_SERIES_COLUMNS = ("the series that see least", "runs", "noise", "detectable", "matters")


def show(found: Sensitivity, out: TextIO) -> None:
    """Print it. ``detectable`` is a change that two runs would make a candidate four times out of five."""
    known = sorted(
        (sight for sight in found.series if sight.detectable is not None),
        key=lambda sight: sight.detectable or 0.0,
        reverse=True,
    )
    with literal(out):
        _print(_SUITE_COLUMNS, [_suite_row(suite) for suite in found.suites], 3, out)
        out.write("\n")
        _print(_SERIES_COLUMNS, [_series_row(sight) for sight in known[:_LISTED]], 1, out)
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


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: int, out: TextIO) -> None:
    """A table whose columns from ``numbers`` on are numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place >= numbers else "left")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    width = None if out.isatty() and not in_actions() else _WIDTH
    Console(file=out, width=width, highlight=False).print(table)


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.1%}" if share <= HOPELESS else f"> {HOPELESS:.0%}"
