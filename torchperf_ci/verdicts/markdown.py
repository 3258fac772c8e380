"""Judgements in GitHub's Markdown: verdict and next step first, then one table, then the rest, folded."""

from __future__ import annotations

import shlex
from bisect import bisect_right
from typing import TYPE_CHECKING

from torchperf_ci.actions import markdown_cell
from torchperf_ci.verdicts.groups import Group, grouped, headline, sign
from torchperf_ci.verdicts.rows import COLUMNS, row, shared, short
from torchperf_ci.verdicts.showing import suite_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.verdicts.verdict import Judgement, Verdict

_MOST_ROWS = 1000
"""Of one table: nobody reads more, and a program reads the file."""
_WORDS_LENGTH = 300
"""Characters of a text from outside that stands alone."""
_SUITE = " (with the suite that it is from)"
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
    fitting = bisect_right(range(_MOST_ROWS + 1), room, key=lambda rows: _size(_document(judgements, rows)))
    if fitting:
        return _document(judgements, fitting - 1)
    return f"{_title(judgements)}\n\nThere is no room here for the details: they are in the files.\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _document(judgements: Sequence[Judgement], rows: int) -> str:
    parts = [_title(judgements), *_next_step(judgements)]
    for judgement in judgements:
        if len(judgements) > 1:
            parts.append(f"#### {sign(judgement.verdicts)} {headline(judgement.verdicts)}")
        parts += _section(judgement, rows)
    return "\n\n".join(parts) + "\n"


def _title(judgements: Sequence[Judgement]) -> str:
    verdicts = _all(judgements)
    return f"### {sign(verdicts)} Performance: {headline(verdicts)}"


def _next_step(judgements: Sequence[Judgement]) -> list[str]:
    """What somebody should do now, where there is something to do."""
    found = grouped(_all(judgements))
    if found["regressed"]:
        command = _command("compare", "--base OLD --head NEW", found["regressed"][0])
        step = f"measure the worst on your machine: {command}{_SUITE}. If it is meant to be slower, say why."
    elif found["broken"]:
        step = f"run it by itself and read its error: {_command('run', '', found['broken'][0])}{_SUITE}."
    elif found["candidate"]:
        command = _command("compare", "--base OLD --head NEW", found["candidate"][0])
        step = f"none yet; {command}{_SUITE} tells whether the change is real."
    elif found["unjudged"]:
        step = "none; “detectable” is the change that would have been seen, and torchperf doctor says what disturbs."
    else:
        return []
    return [f"**Next step:** {step}"]


def _command(verb: str, between: str, verdict: Verdict) -> str:
    series = verdict.series
    given = {"filter": series.model, "mode": series.mode, "dtype": series.dtype, "backend": series.backend}
    flags = [part for name, value in given.items() if value for part in (f"--{name}", value)]
    line = " ".join(part for part in ("torchperf", verb, between, shlex.join(flags)) if part)
    return f"<code>{markdown_cell(short(line, _WORDS_LENGTH))}</code>"


def _section(judgement: Judgement, rows: int) -> list[str]:
    """One file's table, its suites and notes, and what is folded."""
    found, said = grouped(judgement.verdicts), shared(judgement.verdicts)
    loud = [verdict for group in _LOUD for verdict in found[group]]
    suites = [f"- {_plain(suite_line(suite))}" for suite in judgement.suites]
    notes = [f"> {_plain(note)}" for note in judgement.notes]
    folded = [verdict for group in _FOLDED for verdict in found[group]]
    sides = (judgement.base, judgement.head)
    return [
        *([f"{_plain(sides[0])} → {_plain(sides[1])}"] if any(sides) else []),
        *(["\n>\n".join(_first(notes, rows, "> "))] if notes else []),
        *([_table(loud, said, rows)] if loud else []),
        *(["\n".join(_first(suites, rows, "- "))] if suites else []),
        *([_folded(headline(folded), _table(folded, said, rows))] if folded else []),
        *([_folded("Measured on", _facts(judgement, said))] if said or any(sides) else []),
    ]


def _table(verdicts: Sequence[Verdict], said: Mapping[str, str], rows: int) -> str:
    lines = [_row(COLUMNS), _row(["---"] * len(COLUMNS))]
    lines += [_row(_cells(verdict, said)) for verdict in verdicts[:rows]]
    hidden = len(verdicts) - rows
    return "\n".join(lines) + (f"\n\n…and {hidden} more, left out here" if hidden > 0 else "")


def _cells(verdict: Verdict, said: Mapping[str, str]) -> list[str]:
    word, *others = row(verdict, said)
    return [f"{_MARKS.get(word, '')} {word}".strip(), *map(markdown_cell, others)]


def _facts(judgement: Judgement, said: Mapping[str, str]) -> str:
    facts = {"base": judgement.base, "head": judgement.head, "judged by": judgement.command, **said}
    lines = [
        ("fact", "value"),
        ("---", "---"),
        *((name, _plain(value)) for name, value in facts.items() if value),
    ]
    return "\n".join(_row(line) for line in lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _first(lines: Sequence[str], rows: int, begin: str) -> list[str]:
    hidden = len(lines) - rows
    return [*lines[:rows], *([f"{begin}…and {hidden} more, left out here"] if hidden > 0 else [])]


def _plain(text: str) -> str:
    return markdown_cell(short(text, _WORDS_LENGTH))


def _all(judgements: Iterable[Judgement]) -> list[Verdict]:
    return [verdict for judgement in judgements for verdict in judgement.verdicts]
