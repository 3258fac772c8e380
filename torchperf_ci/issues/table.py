"""What an issue shows of its series: how they are named, their table, and the chart of one's history."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log, log10
from typing import TYPE_CHECKING, Any

from torchperf_ci import markdown
from torchperf_ci.document import short
from torchperf_ci.issues.findings import is_number, points_of
from torchperf_ci.markdown import folded, table
from torchperf_ci.metrics import is_latency, name_and_unit
from torchperf_ci.verdicts.verdict import Verdict
from torchperf_ci.verdicts.verdict_document import difference_text, levels_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_ci.issues.findings import IssueRow
    from torchperf_ci.issues.memory import IssueMemory
    from torchperf_ci.series.points import Series


LONGEST_NAME = 60
LONGEST_TEXT = 300
"""Characters of a name, and of a sentence, from outside."""
_MAKER = re.compile(r"^(NVIDIA|AMD|Intel)[ _]|[ _]\d+ ?GB.*$")
_NAMED_MACHINES = 2


def largest_first(rows: Iterable[IssueRow]) -> list[IssueRow]:
    """The largest change first; of the same change told by several metrics the proven one, and the time."""
    return sorted(rows, key=lambda row: (round(row.size, 3), row.proven, _is_time(row)), reverse=True)


def what_got_worse(rows: Sequence[IssueRow]) -> str:
    """``vision/resnet18 7.1% slower on H100``, of several the worst: ``… and 3 more, up to …``; empty without rows."""
    if not rows:
        return ""
    first = largest_first(rows)[0]
    others = len({row.series.model for row in rows}) - 1
    model = short(first.series.model, LONGEST_NAME)
    subject = f"{model} and {others} more, up to" if others else model
    return " ".join(part for part in (subject, change_in_words(first), on_machines(rows)) if part)


def change_in_words(row: IssueRow) -> str:
    """``7.1% slower``, ``peak_memory +7.1%``, ``graph_breaks 0 → 2``."""
    if row.effect is None:
        return f"{metric_name(row.series)} {levels_text(row_as_verdict(row))}".strip()
    change = f"{row.effect.ratio - 1:+,.1%}".replace("-", "−")
    return (
        f"{change[1:]} slower"
        if _is_time(row) and row.effect.ratio > 1
        else f"{metric_name(row.series)} {change}"
    )


def on_machines(rows: Sequence[IssueRow]) -> str:
    """``on H100 and MI300``; of more than two kinds of machine their number."""
    named = [name for name in machine_names(rows).values() if name]
    if len(named) > _NAMED_MACHINES:
        return f"on {len(named)} kinds of machine"
    return f"on {' and '.join(named)}" if named else ""


def machine_names(rows: Iterable[IssueRow]) -> dict[str, str]:
    """What each machine is called: without its maker and its memory, where that tells it from the others."""
    names = list(dict.fromkeys(machine_name(row.series) for row in rows))
    called = [_MAKER.sub("", name) for name in names]
    return {
        name: short(brief if called.count(brief) == 1 else name, LONGEST_NAME)
        for name, brief in zip(names, called, strict=True)
    }


def machine_name(series: Series) -> str:
    """What a series was measured on."""
    return series.arch or series.device


def benchmark_name(series: Series, differing: Iterable[str]) -> str:
    """The model, and the fields beside it that tell it from others."""
    parts = (getattr(series, name) for name in ("model", *differing))
    return " ".join(short(part, LONGEST_NAME) for part in parts if part)


def metric_name(series: Series) -> str:
    """The metric without its unit, which stands beside the numbers."""
    return short(name_and_unit(series.metric)[0], LONGEST_NAME)


def _is_time(row: IssueRow) -> bool:
    return is_latency(row.series.metric)


def levels_and_change(row: IssueRow) -> tuple[str, str]:
    """``1.213 → 1.251 ms`` and ``+3.1% (+2.4…+3.9)``."""
    verdict = row_as_verdict(row)
    return levels_text(verdict), difference_text(verdict)


def level_in_words(row: IssueRow, value: float | None) -> str:
    """A level of the row's series, ``1.213 ms``; empty where it was not measured."""
    if value is None:
        return ""
    return levels_text(Verdict(row.series, "unchanged", "", old=None, new=value)).removeprefix("– → ")


def row_as_verdict(row: IssueRow) -> Verdict:
    """The row as the verdict that it shows, for whom numbers are written in one place."""
    return Verdict(row.series, "regressed", "", row.effect, row.old, row.new)


def plain_short(text: str, length: int = LONGEST_TEXT) -> str:
    """Text from outside as Markdown in which nothing is markup, at most ``length`` characters of it."""
    return markdown.plain(short(text, length))


def unbroken(text: str) -> str:
    """As :func:`plain_short`, on one line however narrow the table is."""
    return plain_short(text).replace(" ", "\N{NO-BREAK SPACE}").replace("…", "…\N{WORD JOINER}")


TABLE_BEGIN, TABLE_END = "<!-- torchperf:table -->", "<!-- /torchperf:table -->"
TABLE_MARKERS = re.compile(rf"^{TABLE_BEGIN}\r?\n.*?^{TABLE_END}", re.MULTILINE | re.DOTALL)
_ROWS_NOT_FOLDED = 15
"""Rows that everybody sees: what follows the table is to be found without scrolling for long."""
_WAYS = ("mode", "dtype", "backend")


def marked_table(memory: IssueMemory, most: int) -> str:
    """The first ``most`` rows, the largest change first, between the markers; only some of them are not folded."""
    rows = largest_first(memory.rows)
    tell = _outcome_table if memory.kind == "broken" else series_table
    content, rest = tell(rows[:_ROWS_NOT_FOLDED], most), rows[_ROWS_NOT_FOLDED:]
    if rest:
        content += f"\n\n{folded(f'{len(rest)} more', tell(rest, max(most - _ROWS_NOT_FOLDED, 0)))}"
    return f"{TABLE_BEGIN}\n{content}\n{TABLE_END}"


def series_table(rows: Sequence[IssueRow], most: int) -> str:
    """The first ``most`` rows, and how many are left out."""
    differing, names = _differing(rows), machine_names(rows)
    columns = (_header(rows, differing), "metric", "device", "old → new", "change (95%)", "known from")
    return _without_empty(columns, [_series_cells(row, differing, names, _source(row)) for row in rows], most)


def recovery_table(rows: Sequence[IssueRow], now: Mapping[Series, float], most: int) -> str:
    """As :func:`series_table`, with the levels of ``now`` beside the old and the regressed ones."""
    differing, names = _differing(rows), machine_names(rows)
    columns = (_header(rows, differing), "metric", "device", "before → regressed", "change (95%)", "now")
    levels = {row.series: level_in_words(row, now.get(row.series)) for row in rows}
    return table(columns, [_series_cells(row, differing, names, levels[row.series]) for row in rows], most)


def _outcome_table(rows: Sequence[IssueRow], most: int) -> str:
    differing, names = _differing(rows), machine_names(rows)
    columns = (_header(rows, differing), "device", "outcome")
    return table(columns, [_outcome_cells(row, differing, names) for row in rows], most)


def _without_empty(columns: Sequence[str], rows: Iterable[Iterable[str]], most: int) -> str:
    """The table, less the columns that hold nothing: where no verdicts were given, nobody knows the levels."""
    cells = [[*row] for row in rows]
    kept = [place for place in range(len(columns)) if not cells or any(row[place] for row in cells)]
    return table([columns[place] for place in kept], [[row[place] for place in kept] for row in cells], most)


def _series_cells(
    row: IssueRow, differing: Sequence[str], names: Mapping[str, str], last: str
) -> Iterator[str]:
    series = row.series
    yield from map(
        plain_short, (benchmark_name(series, differing), metric_name(series), names[machine_name(series)])
    )
    yield from map(unbroken, (*levels_and_change(row), last))


def _source(row: IssueRow) -> str:
    """What the numbers rest on."""
    if not row.proven:
        return "history"
    return f"{row.effect.pairs} pairs" if row.effect and row.effect.pairs else "pairs"


def _outcome_cells(row: IssueRow, differing: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    yield from map(plain_short, (benchmark_name(row.series, differing), names[machine_name(row.series)]))
    yield "passed, and now fails" if row.old else "fails"


def _header(rows: Sequence[IssueRow], differing: Sequence[str]) -> str:
    """What is the same in all rows is said once."""
    same = [getattr(rows[0].series, name) for name in _WAYS if name not in differing] if rows else []
    return plain_short(" ".join(("benchmark,", *filter(None, same)))) if any(same) else "benchmark"


def _differing(rows: Sequence[IssueRow]) -> list[str]:
    """The fields of the series beside the model that tell rows apart."""
    names = (*_WAYS, "benchmark", "repo")
    return [name for name in names if len({getattr(row.series, name) for row in rows}) > 1]


MOST_POINTS = 40
_FEWEST_POINTS = 4
_LAST_MOMENT = 253_402_300_800
"""The end of the year 9999, in Unix seconds."""
_DIGITS = 6
_LEAST_NOISE = 0.001
_MARGIN = 0.1
"""Of the values' range, above and below them."""
_LOOK = """---
config:
  xyChart: {width: 800, height: 320}
  themeVariables:
    xyChart: {plotColorPalette: "#4493f8, #d1242f"}
---
"""
"""Colours that are seen on white and on black: those of GitHub's own theme make the first line pale."""


@dataclass(frozen=True)
class HistoryChart:
    """``values``, oldest first, and the ``levels`` that they lie on, as many, or none where these are not known.

    ``days`` says from when to when they were measured; empty where that is not known.
    """

    title: str
    unit: str
    values: tuple[float, ...]
    levels: tuple[float, ...] = ()
    days: str = ""


def clearest_chart(verdicts: Iterable[Verdict]) -> HistoryChart | None:
    """That of the series which shows its change most clearly; None where none of them has a history."""
    drawn = [(_clearness(verdict), one) for verdict in verdicts if (one := _chart_of(verdict))]
    return max(drawn, key=lambda item: item[0])[1] if drawn else None  # the first of those that are as clear


def mermaid(drawn: HistoryChart) -> str:
    """The chart as a block of Markdown."""
    low, high = _axis_room((*drawn.values, *drawn.levels))
    lines = (
        f"{_LOOK}xychart-beta",
        f'title "{_chart_text(drawn.title)}"',
        f'x-axis "runs{drawn.days}, the newest is 0" {1 - len(drawn.values)} --> 0',
        f'y-axis "{_chart_text(drawn.unit)}" {_decimals([low])} --> {_decimals([high])}',
        f"line [{_decimals(drawn.values)}]",
        *([f"line [{_decimals(drawn.levels)}]"] if drawn.levels else []),
    )
    legend = "\n\n<sub>Blue: each run. Red: the level before and after.</sub>" if drawn.levels else ""
    return "\n    ".join(["```mermaid\n" + lines[0], *lines[1:]]) + f"\n```{legend}"


def _chart_of(verdict: Verdict) -> HistoryChart | None:
    points = points_of(verdict)[-MOST_POINTS:]
    if len(points) < _FEWEST_POINTS:
        return None
    name, unit = name_and_unit(verdict.series.metric)
    where = f"{verdict.series.model} {name} on {machine_name(verdict.series)}"
    values = tuple(point["value"] for point in points)
    return HistoryChart(where, unit or name, values, _levels(verdict, points), _days(points))


def _levels(verdict: Verdict, points: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """The old level as far as it reaches, then the new one."""
    old, new, first = verdict.old, verdict.new, verdict.evidence.get("first_new")
    if not isinstance(first, Mapping) or not (is_number(old) and is_number(new)):
        return ()
    turn = next((index for index, point in enumerate(points) if _is_after(point, first)), None)
    if turn is None:
        return ()
    return (*[old] * turn, *[new] * (len(points) - turn))


def _is_after(point: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    """Whether a point is that which first had the new level, or later."""
    if is_number(first.get("timestamp")) and is_number(point.get("timestamp")):
        return bool(point["timestamp"] >= first["timestamp"])
    return point.get("commit") in [first[name] for name in ("commit", "torch") if first.get(name)]


def _days(points: Sequence[Mapping[str, Any]]) -> str:
    ends = [points[end].get("timestamp") for end in (0, -1)]
    moments = [
        datetime.datetime.fromtimestamp(end, datetime.timezone.utc)
        for end in ends
        if is_number(end) and 0 < end < _LAST_MOMENT
    ]
    return f" from {moments[0]:%Y-%m-%d} to {moments[1]:%Y-%m-%d}" if len(moments) == len(ends) else ""


def _clearness(verdict: Verdict) -> float:
    """The change in units of its noise."""
    ratio = verdict.effect.ratio if verdict.effect else 1.0
    return round(abs(log(ratio)) / max(verdict.noise or 0.0, _LEAST_NOISE), 3) if ratio > 0 else 0.0


def _axis_room(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low or abs(high) or 1.0) * _MARGIN
    return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


def _decimals(values: Sequence[float]) -> str:
    return ", ".join(map(_decimal, values))


def _decimal(value: float) -> str:
    """Without an exponent, which the chart's language does not know."""
    decimals = _DIGITS - 1 - floor(log10(abs(value))) if value else 0
    return f"{value:.{max(min(decimals, 20), 0)}f}"


def _chart_text(text: str) -> str:
    """What means nothing in the chart's language, between quotation marks or elsewhere."""
    kept = " ".join(re.sub(r"[^\w./()+ -]", " ", text, flags=re.ASCII).split())
    return short(kept, 2 * LONGEST_NAME) or "value"
