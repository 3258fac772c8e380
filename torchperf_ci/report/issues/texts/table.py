"""The table of an issue, between two hidden lines by which it is found and replaced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.markdown import folded, table
from torchperf_ci.report.issues.texts.words import (
    benchmark,
    largest,
    level,
    machine,
    machine_names,
    metric,
    numbers,
    plain,
    unbroken,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.report.issues.causes.finding import Row
    from torchperf_ci.report.issues.life.memory import Memory
    from torchperf_ci.series.series import Series

BEGIN, END = "<!-- torchperf:table -->", "<!-- /torchperf:table -->"
TABLE = re.compile(rf"^{BEGIN}\r?\n.*?^{END}", re.MULTILINE | re.DOTALL)
_OPEN = 15
"""Rows that everybody sees: what follows the table is to be found without scrolling for long."""
_WAYS = ("mode", "dtype", "backend")


def marked(memory: Memory, most: int) -> str:
    """The first ``most`` rows, the largest change first, between the markers; only some of them are not folded."""
    rows = largest(memory.rows)
    tell = _outcomes if memory.kind == "broken" else shown
    content, rest = tell(rows[:_OPEN], most), rows[_OPEN:]
    if rest:
        content += f"\n\n{folded(f'{len(rest)} more', tell(rest, max(most - _OPEN, 0)))}"
    return f"{BEGIN}\n{content}\n{END}"


def shown(rows: Sequence[Row], most: int) -> str:
    """The first ``most`` rows, and how many are left out."""
    differing, names = _differing(rows), machine_names(rows)
    columns = (_header(rows, differing), "metric", "device", "old → new", "change (95%)", "known from")
    return _without_empty(columns, [_cells(row, differing, names, _source(row)) for row in rows], most)


def evidence(rows: Sequence[Row], now: Mapping[Series, float], most: int) -> str:
    """As :func:`shown`, with the levels of ``now`` beside the old and the regressed ones."""
    differing, names = _differing(rows), machine_names(rows)
    columns = (_header(rows, differing), "metric", "device", "before → regressed", "change (95%)", "now")
    levels = {row.series: level(row, now.get(row.series)) for row in rows}
    return table(columns, [_cells(row, differing, names, levels[row.series]) for row in rows], most)


def _outcomes(rows: Sequence[Row], most: int) -> str:
    differing, names = _differing(rows), machine_names(rows)
    columns = (_header(rows, differing), "device", "outcome")
    return table(columns, [_outcome(row, differing, names) for row in rows], most)


def _without_empty(columns: Sequence[str], rows: Iterable[Iterable[str]], most: int) -> str:
    """The table, less the columns that hold nothing: where no verdicts were given, nobody knows the levels."""
    cells = [[*row] for row in rows]
    kept = [place for place in range(len(columns)) if not cells or any(row[place] for row in cells)]
    return table([columns[place] for place in kept], [[row[place] for place in kept] for row in cells], most)


def _cells(row: Row, differing: Sequence[str], names: Mapping[str, str], last: str) -> Iterator[str]:
    series = row.series
    yield from map(plain, (benchmark(series, differing), metric(series), names[machine(series)]))
    yield from map(unbroken, (*numbers(row), last))


def _source(row: Row) -> str:
    """What the numbers rest on."""
    if not row.proven:
        return "history"
    return f"{row.effect.pairs} pairs" if row.effect and row.effect.pairs else "pairs"


def _outcome(row: Row, differing: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    yield from map(plain, (benchmark(row.series, differing), names[machine(row.series)]))
    yield "passed, and now fails" if row.old else "fails"


def _header(rows: Sequence[Row], differing: Sequence[str]) -> str:
    """What is the same in all rows is said once."""
    same = [getattr(rows[0].series, name) for name in _WAYS if name not in differing] if rows else []
    return plain(" ".join(("benchmark,", *filter(None, same)))) if any(same) else "benchmark"


def _differing(rows: Sequence[Row]) -> list[str]:
    """The fields of the series beside the model that tell rows apart."""
    names = (*_WAYS, "benchmark", "repo")
    return [name for name in names if len({getattr(row.series, name) for row in rows}) > 1]
