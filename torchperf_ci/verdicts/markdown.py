"""Judgements in GitHub's Markdown: verdict and next step first, then one table, then the rest, folded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.document import short
from torchperf_ci.markdown import first, fitted, folded, plain, table
from torchperf_ci.verdicts.coverage import shortfall
from torchperf_ci.verdicts.groups import Group, counted, grouped
from torchperf_ci.verdicts.headline import headline, is_only_new, news, sign
from torchperf_ci.verdicts.next_step import next_step
from torchperf_ci.verdicts.rows import COLUMNS, shared
from torchperf_ci.verdicts.rows import row as row_of
from torchperf_ci.verdicts.showing import suite_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.verdicts.verdict import Judgement, Verdict

_MOST_ROWS = 1000
"""Of one table: nobody reads more, and a program reads the file."""
_WORDS_LENGTH = 300
"""Characters of a text from outside that stands alone."""
_MARKS: Mapping[str, str] = {
    "regressed": "❌",
    "broken": "❌",
    "candidate": "⚠️",
    "improved": "🟢",
    "fixed": "🟢",
}
_LOUD: tuple[Group, ...] = ("regressed", "broken", "candidate", "improved", "fixed")
_FOLDED: tuple[Group, ...] = ("unjudged", "missing", "new")


def markdown(judgements: Sequence[Judgement], room: int) -> str:
    """All there is to say in at most ``room`` bytes of UTF-8, which must be some hundreds.

    Tables and lists lose their last rows, and say how many, until the whole fits.
    """
    return fitted(partial(_document, judgements), room, _MOST_ROWS) or (
        f"{_title(judgements)}\n\nThere is no room here for the details: they are in the files.\n"
    )


def _document(judgements: Sequence[Judgement], rows: int) -> str:
    parts = [_title(judgements), *next_step(judgements)]
    for judgement in judgements:
        if len(judgements) > 1:
            parts.append(f"#### {sign([judgement])} {headline([judgement])}")
        parts += _section(judgement, rows)
    return "\n\n".join(parts) + "\n"


def _title(judgements: Sequence[Judgement]) -> str:
    return f"### {sign(judgements)} Performance: {headline(judgements)}"


def _section(judgement: Judgement, rows: int) -> list[str]:
    """One file's table, its suites and notes, and what is folded."""
    found, said = grouped(judgement.verdicts), shared(judgement.verdicts)
    loud = [verdict for group in _LOUD for verdict in found[group]]
    suites = [f"- {_plain(suite_line(suite))}" for suite in judgement.suites]
    notes = [f"> {_plain(note)}" for note in judgement.notes]
    others = [one for group in _FOLDED for one in found[group] if not is_only_new(one, judgement)]
    said_of_all = [_plain(text) for text in (shortfall(judgement), news(judgement)) if text]
    sides = (judgement.base, judgement.head)
    return [
        *([f"{_plain(sides[0])} → {_plain(sides[1])}"] if any(sides) else []),
        *(["\n>\n".join(first(notes, rows, "> "))] if notes else []),
        *said_of_all,
        *([_table(loud, said, rows)] if loud else []),
        *(["\n".join(first(suites, rows, "- "))] if suites else []),
        *([folded(counted(others), _table(others, said, rows))] if others else []),
        *([folded("Measured on", _facts(judgement, said))] if said or any(sides) else []),
    ]


def _table(verdicts: Sequence[Verdict], said: Mapping[str, str], rows: int) -> str:
    return table(COLUMNS, [_cells(verdict, said) for verdict in verdicts], rows)


def _cells(verdict: Verdict, said: Mapping[str, str]) -> Iterator[str]:
    word, *others = row_of(verdict, said)
    yield f"{_MARKS.get(word, '')} {word}".strip()
    yield from map(plain, others)


def _facts(judgement: Judgement, said: Mapping[str, str]) -> str:
    facts = {"base": judgement.base, "head": judgement.head, "judged by": judgement.command, **said}
    named = [(name, _plain(value)) for name, value in facts.items() if value]
    return table(("fact", "value"), named, len(named))


def _plain(text: str) -> str:
    return plain(short(text, _WORDS_LENGTH))


def _all(judgements: Iterable[Judgement]) -> list[Verdict]:
    return [verdict for judgement in judgements for verdict in judgement.verdicts]
