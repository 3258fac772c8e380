"""A judgement on a terminal, and on the page of a job's run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from torchperf_ci.actions import Annotation, Level
from torchperf_ci.console import print_line, print_table
from torchperf_ci.document import Column
from torchperf_ci.verdicts.coverage import shortfall, takes
from torchperf_ci.verdicts.groups import grouped
from torchperf_ci.verdicts.headline import is_only_new, news
from torchperf_ci.verdicts.rows import COLUMNS, NUMBERS, change, row, shared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.verdicts.verdict import Judgement, Suite, Verdict

_LISTED = 100
"""Rows on a terminal; the file has all of them."""
_COLUMNS = [
    Column(head, "prose" if head == "why" else "number" if number in NUMBERS else "text")
    for number, head in enumerate(COLUMNS)
]
_STYLES: Mapping[str, str] = {
    "regressed": "bold red",
    "broken": "bold red",
    "candidate": "yellow",
    "improved": "green",
    "fixed": "green",
}


def table(judgement: Judgement, out: TextIO) -> None:
    """Print what is not unchanged or only new, the worst first, then the whole suite and the notes."""
    rows = _rows(judgement)
    for line in _above(judgement):
        print_line(line, out)
    print_table(_COLUMNS, rows[:_LISTED], out, styles=_STYLES)
    for line in _below(judgement, len(rows) - _LISTED):
        print_line(line, out)


def suite_line(suite: Suite) -> str:
    """The geometric mean in a sentence."""
    return f"{suite.metric}: {change(suite.effect)} over {suite.series} series, geometric mean"


def to_annotate(judgement: Judgement) -> list[Annotation]:
    """An error for each red series, a warning for each that looks worse, a notice for each note."""
    found = grouped(judgement.verdicts)
    return [
        *(_annotation("error", verdict) for verdict in (*found["regressed"], *found["broken"])),
        *(_annotation("warning", verdict) for verdict in found["candidate"]),
        *(Annotation("notice", note, title="torchperf") for note in judgement.notes),
    ]


def _annotation(level: Level, verdict: Verdict) -> Annotation:
    word, _, _, levels, moved, *_ = row(verdict, {})
    numbers = ": ".join(part for part in (levels, moved) if part)
    message = f"{numbers}. {verdict.why}" if numbers else verdict.why
    return Annotation(level, message, title=f"{word}: {verdict.series}")


def _rows(judgement: Judgement) -> list[tuple[str, ...]]:
    said = shared(judgement.verdicts)
    found = grouped(judgement.verdicts)
    return [
        row(verdict, said)
        for group in found
        if group != "unchanged"
        for verdict in found[group]
        if not is_only_new(verdict, judgement)
    ]


def _above(judgement: Judgement) -> Sequence[str]:
    sides = f"{judgement.base} → {judgement.head}" if judgement.base or judgement.head else ""
    return [line for line in (sides, " ".join(shared(judgement.verdicts).values())) if line]


def _below(judgement: Judgement, hidden: int) -> Sequence[str]:
    more = [f"and {hidden} more, all of them in the file"] if hidden > 0 else []
    little = shortfall(judgement)
    covered = [little, f"To judge the rest it takes {takes(judgement)}." if little else "", news(judgement)]
    return [*more, *map(suite_line, judgement.suites), *filter(None, covered), *judgement.notes]
