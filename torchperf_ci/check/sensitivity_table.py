"""The sensitivity on a terminal: a line for each metric of a machine, and the series that see least."""

from __future__ import annotations

from statistics import median
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
    "geometric mean",
)
_SERIES_COLUMNS = ("the series that see least", "runs", "noise", "detectable", "matters")


def show(found: Sensitivity, out: TextIO) -> None:
    """Print it. ``detectable`` is a change that two runs would make a candidate four times out of five."""
    known = sorted(
        (sight for sight in found.series if sight.detectable is not None),
        key=lambda sight: sight.detectable or 0.0,
        reverse=True,
    )
    with literal():
        _print(_SUITE_COLUMNS, [_suite_row(suite, found.series) for suite in found.suites], 3, out)
        out.write("\n")
        _print(_SERIES_COLUMNS, [_series_row(sight) for sight in known[:_LISTED]], 1, out)
        out.flush()


def _suite_row(suite: SuiteSight, series: Sequence[Sight]) -> tuple[str, ...]:
    members = [one for one in series if (one.series.group, one.series.metric) == (suite.group, suite.metric)]
    seen = [one for one in members if one.detectable is not None]
    changes = sorted(one.detectable or 0.0 for one in seen)
    enough = sum((one.detectable or 0.0) <= one.min_effect for one in seen)
    return (
        suite.group.benchmark,
        f"{suite.group.device} {suite.group.arch}".strip(),
        suite.metric,
        str(len(members)),
        str(len(seen)),
        _percent(median(one.noise or 0.0 for one in seen) if seen else None),
        _percent(median(changes) if changes else None),
        _percent(changes[-1] if changes else None),
        f"{enough / len(members):.0%}",
        _percent(suite.detectable),
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
