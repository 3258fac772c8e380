"""How an issue presents its series: the names of changes and machines, and the table of its rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci import document as doc
from torchperf_ci.metrics import is_timing, kind_of, name_and_unit, rounded
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Verdict
from torchperf_ci.verdicts.verdict_document import difference_text, levels_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.issues.memory import IssueMemory, IssueRow
    from torchperf_ci.series.points import Series


MAX_NAME_LENGTH = 60
"""Maximum length of a name from outside."""
_MAX_HEAD_LENGTH = 300


def largest_first(rows: Iterable[IssueRow]) -> list[IssueRow]:
    """Sort by size of change, largest first; where it reads the same, proven rows and latencies come first.

    Changes without a ratio, such as those of counts from zero, come last, by their difference.
    """
    return sorted(rows, key=_order, reverse=True)


def _order(row: IssueRow) -> tuple[float, bool, bool, float]:
    difference = abs(_as_verdict(row).difference)
    return _size_shown(row), row.proven, is_timing(row.series.metric), difference


def _size_shown(row: IssueRow) -> float:
    """The size of the change with the digits that are shown, 0 without an effect."""
    percent = (rounded(row.effect.ratio) - 1) * 100 if row.effect else 0.0
    return Effect(1 + round(percent, 1) / 100).size


def what_got_worse(rows: Sequence[IssueRow]) -> str:
    """``vision/resnet18 7.1% slower on H100``; if there are several models, the worst, as ``… and 3 more, up to …``."""
    if not rows:
        return ""
    worst = largest_first(rows)[0]
    others = len({row.series.model for row in rows}) - 1
    model = doc.short(worst.series.model, MAX_NAME_LENGTH)
    subject = f"{model} and {others:,} more, up to" if others else model
    return " ".join(part for part in (subject, change_in_words(worst), on_machines(rows)) if part)


def change_in_words(row: IssueRow) -> str:
    """A change, such as ``7.1% slower``, ``peak_memory +7.1%``, ``graph_breaks 0 → 2`` or ``fails``."""
    if _is_failure(row):
        return "fails"
    if row.effect is None:
        return f"{_metric_name(row.series)} {levels_text(_as_verdict(row))}".strip()
    change = doc.change_text(rounded(row.effect.ratio) - 1)
    is_slower = is_timing(row.series.metric) and row.effect.ratio > 1
    return f"{change[1:]} slower" if is_slower else f"{_metric_name(row.series)} {change}"


def on_machines(rows: Sequence[IssueRow]) -> str:
    """``on H100 and MI300``; for more than two kinds of machine, their number."""
    names = [name for name in machine_names(rows).values() if name]
    if len(names) > 2:
        return f"on {len(names)} kinds of machine"
    return f"on {' and '.join(names)}" if names else ""


_MAKER_AND_MEMORY = re.compile(r"^(NVIDIA|AMD|Intel)[ _]|[ _]\d+ ?GB.*$")


def machine_names(rows: Iterable[IssueRow]) -> dict[str, str]:
    """A name for each machine, without maker and memory if it is still unique then."""
    names = list(dict.fromkeys(_machine(row.series) for row in rows))
    brief_names = [_MAKER_AND_MEMORY.sub("", name) for name in names]
    return {
        name: doc.short(brief if brief_names.count(brief) == 1 else name, MAX_NAME_LENGTH)
        for name, brief in zip(names, brief_names, strict=True)
    }


def level_in_words(row: IssueRow, value: float | None) -> str:
    """A level of the row's series, such as ``1.213 ms``; empty if it was not measured."""
    return levels_text(Verdict(row.series, "unchanged", "", old=None, new=value)).removeprefix("– → ")


_ROWS_NOT_FOLDED = 15
"""The number of rows shown unfolded, so that readers find what follows the table without much scrolling."""


_UNPROVEN = "A change known from history is not proven to be due to this culprit: no pairs of builds have measured it."


def issue_table(memory: IssueMemory) -> doc.Replaceable:
    """All rows, the largest change first; rows beyond the first few are folded.

    Below, whether some are not proven to be due to the commit that the issue names.
    """
    rows = largest_first(memory.rows)
    seen, rest = rows[:_ROWS_NOT_FOLDED], rows[_ROWS_NOT_FOLDED:]
    folded = doc.Folded(f"{len(rest):,} more", [series_table(rest)])
    has_unproven = memory.kind == "culprit" and not all(row.proven for row in rows)
    note = [doc.Paragraph(_UNPROVEN, small=True)] if has_unproven else []
    return doc.Replaceable("torchperf:table", [series_table(seen), folded, *note])


TABLE_MARKERS = re.compile(
    r"^<!-- torchperf:table -->\r?\n(?:(?!<!-- torchperf:table -->).)*?^<!-- /torchperf:table -->",
    re.MULTILINE | re.DOTALL,
)
"""Matches the table in the body of an issue, which people may have edited; none if they removed one of its ends."""


def series_table(rows: Sequence[IssueRow], most: int = doc.MOST) -> doc.Table:
    """The levels of each series and the source of the numbers, without empty columns; of failures just the outcome."""
    if all(map(_is_failure, rows)):
        return _outcome_table(rows, most)
    sources = [_source(row) for row in rows]
    return _levels_table(rows, "old → new", "known from", sources, most).without_empty_columns()


def recovery_table(rows: Sequence[IssueRow], now: Mapping[Series, float], most: int) -> doc.Table:
    """Like :func:`series_table`, but with the levels of ``now`` next to the old and the regressed ones."""
    levels = [level_in_words(row, now.get(row.series)) for row in rows]
    return _levels_table(rows, "before → regressed", "now", levels, most)


def _levels_table(
    rows: Sequence[IssueRow], levels_head: str, last_head: str, last: Sequence[str], most: int
) -> doc.Table:
    columns = (
        *(doc.Column("metric"), doc.Column("device")),
        *(doc.Column(levels_head, "number"), doc.Column("change (95%)", "number"), doc.Column(last_head)),
    )
    machines = machine_names(rows)
    cells = []
    for row, last_text in zip(rows, last, strict=True):
        verdict = _as_verdict(row)
        texts = (levels_text(verdict), difference_text(verdict), last_text)
        numbers = (doc.NoWrap(text) if text else "" for text in texts)
        cells.append((_metric_name(row.series), machines[_machine(row.series)], *numbers))
    return _table(rows, columns, cells, most)


def _is_failure(row: IssueRow) -> bool:
    """Whether the row says that a case fails; an accuracy in numbers has levels instead."""
    return kind_of(row.series.metric) == "outcome" and not row.new and row.old in (None, 0, 1)


def _outcome_table(rows: Sequence[IssueRow], most: int) -> doc.Table:
    machines = machine_names(rows)
    cells = [
        (machines[_machine(row.series)], "passed, and now fails" if row.old else "fails") for row in rows
    ]
    return _table(rows, (doc.Column("device"), doc.Column("outcome")), cells, most)


_CASE_FIELDS = ("mode", "dtype", "backend")
"""Fields of a series, apart from the model, that move to the head of the column if all rows share them."""


def _table(
    rows: Sequence[IssueRow], columns: Sequence[doc.Column], cells: Iterable[Sequence[doc.Words]], most: int
) -> doc.Table:
    """A table whose first column names the benchmark of each row."""
    names = (*_CASE_FIELDS, "benchmark", "repo")
    differing = [name for name in names if len({getattr(row.series, name) for row in rows}) > 1]
    same = [getattr(rows[0].series, name) for name in _CASE_FIELDS if name not in differing] if rows else []
    head = (
        doc.short(" ".join(("benchmark,", *filter(None, same))), _MAX_HEAD_LENGTH)
        if any(same)
        else "benchmark"
    )
    whole = [(_benchmark_name(row.series, differing), *rest) for row, rest in zip(rows, cells, strict=True)]
    return doc.Table([doc.Column(head), *columns], whole, most=most)


def _benchmark_name(series: Series, differing: Iterable[str]) -> str:
    """The model, and the other fields that distinguish it in this table."""
    parts = (getattr(series, name) for name in ("model", *differing))
    return " ".join(doc.short(part, MAX_NAME_LENGTH) for part in parts if part)


def _metric_name(series: Series) -> str:
    """The metric without its unit, which is shown with the numbers."""
    return doc.short(name_and_unit(series.metric)[0], MAX_NAME_LENGTH)


def _machine(series: Series) -> str:
    return series.arch or series.device


def _as_verdict(row: IssueRow) -> Verdict:
    """The row as a verdict, because numbers are formatted for verdicts."""
    return Verdict(row.series, "regressed", "", row.effect, row.old, row.new)


def _source(row: IssueRow) -> str:
    """The source of the row's numbers: history or pairs."""
    if not row.proven:
        return "history"
    return f"{row.effect.pairs} pairs" if row.effect and row.effect.pairs else "pairs"
