"""What is said of judgements: the table, the next step, the page of a job, its annotations and outputs."""

from __future__ import annotations

import sys
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, TextIO

from torchperf_ci import actions
from torchperf_ci.actions import Annotation, Level
from torchperf_ci.console import print_line, print_table, say
from torchperf_ci.document import Column, short
from torchperf_ci.markdown import first, fitted, folded, plain, table
from torchperf_ci.metrics import name_and_unit
from torchperf_ci.verdicts import verdicts_file
from torchperf_ci.verdicts.headline import (
    GREEN,
    VerdictGroup,
    count_verdicts,
    coverage,
    group_of,
    grouped,
    headline,
    is_only_new,
    new_series,
    shortfall,
    sign,
    what_it_takes,
)
from torchperf_ci.verdicts.reproduction import code_block, compare_lines, needed_setup, run_lines
from torchperf_ci.verdicts.verdict import commit_range_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.series.points import Series
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.verdicts.verdict import Judgement, RepeatOptions, SuiteMean, Verdict


VERDICT_COLUMNS = ("verdict", "case", "metric", "old → new", "change (95%)", "detectable", "why")
NUMBER_COLUMNS = range(3, 6)
"""The columns that hold numbers."""

_CASE = ("model", "mode", "dtype", "backend", "device", "arch", "benchmark", "repo")
_NAME_LENGTH = 120
_WHY_LENGTH = 300


def shared_fields(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """What all series have in common beside the model, by field: said once, it need not stand in each row."""
    found = {name: {getattr(verdict.series, name) for verdict in verdicts} for name in _CASE[1:]}
    return {name: value for name, values in found.items() if len(values) == 1 for value in values if value}


def verdict_cells(verdict: Verdict, said: Mapping[str, str]) -> tuple[str, ...]:
    """The cells under :data:`VERDICT_COLUMNS`; ``said`` are the fields of the series that are told elsewhere."""
    group = group_of(verdict)
    return (
        "candidate" if group == "candidate" else verdict.verdict,
        case_text(verdict.series, said),
        short(verdict.series.metric, _NAME_LENGTH),
        levels_text(verdict),
        difference_text(verdict),
        f"±{verdict.detectable:.1%}" if verdict.detectable is not None else "",
        short(verdict.why, _WHY_LENGTH),
    )


def case_text(series: Series, said: Iterable[str] = ()) -> str:
    """What tells the series from the others, the metric apart."""
    parts = (getattr(series, name) for name in _CASE if name not in said)
    return short(" ".join(part for part in parts if part), _NAME_LENGTH)


def levels_text(verdict: Verdict) -> str:
    """``1.21 → 1.25 ms``; one side is empty where it has no number.

    The new level is the old one times the change, where there is one: each side's own median has what the machine did
    meanwhile in it, which pairs do not have, and two answers side by side are none.
    """
    if verdict.old is None and verdict.new is None:
        return ""
    new = (
        verdict.old * verdict.effect.ratio if verdict.old and verdict.new and verdict.effect else verdict.new
    )
    _, unit = name_and_unit(verdict.series.metric)
    return (
        f"{_number_text(verdict.old)} → {_number_text(new)}{short(f' {unit}', _NAME_LENGTH) if unit else ''}"
    )


def difference_text(verdict: Verdict) -> str:
    """The effect where there is one, else the plain difference of what is counted; nothing for pass and fail."""
    if verdict.effect:
        return effect_text(verdict.effect)
    if verdict.old is None or verdict.new is None or verdict.verdict in ("broken", "fixed"):
        return ""
    moved = verdict.new - verdict.old
    return f"{'−' if moved < 0 else '+'}{_number_text(abs(moved))}" if moved else ""


def effect_text(effect: Effect) -> str:
    """``+3.1% (+2.4…+3.9)``: the ratio new/old less 1, and its interval."""
    if effect.low <= 0 and effect.high == float("inf"):
        return f"{_percent(effect.ratio)}% (no interval)"
    high = "∞" if effect.high == float("inf") else _percent(effect.high)
    return f"{_percent(effect.ratio)}% ({_percent(effect.low)}…{high})"


def _number_text(value: float | None) -> str:
    if value is None or not isfinite(value):
        return "–"
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.3e}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def _percent(ratio: float) -> str:
    percent = (ratio - 1) * 100
    digits = f"{abs(percent):,.1f}" if abs(percent) < 1e15 else f"{abs(percent):.1e}"
    return f"{'−' if percent < 0 and float(digits.replace(',', '')) else '+'}{digits}"


_MEANT = " If it is meant to be slower, say why."
_NONE = (
    "**Next step:** none; “detectable” is the change that would have been seen, and torchperf doctor says what "
    "disturbs."
)
_STEPS: Mapping[VerdictGroup, tuple[str, str]] = {
    "regressed": ("measure the worst on your machine", _MEANT),
    "broken": ("run it by itself and read its error", ""),
    "candidate": ("measure it again, which tells whether the change is real", ""),
}


def next_step(judgements: Sequence[Judgement]) -> list[str]:
    """Paragraphs; none where there is nothing to do. That there is nothing to do is only said of what is green."""
    for group, (what, then) in _STEPS.items():
        found = grouped(verdict for one in judgements for verdict in one.verdicts)[group]
        if found:
            of = next(one for one in judgements if any(verdict is found[0] for verdict in one.verdicts))
            lines, there = _commands(found[0], of.again) if of.again else ([], "")
            said = f"**Next step:** {what}{f', {there}' if there else ''}.{then}"
            return [said, code_block(lines)] if lines else [said]
    if little := [one for one in judgements if shortfall(one)]:
        rest = "; ".join(dict.fromkeys(map(what_it_takes, little)))
        return [f"**Next step:** give it what it takes to judge the rest: {rest}."]
    unjudged = any(one.verdict == "noisy" for judgement in judgements for one in judgement.verdicts)
    return [_NONE] if unjudged and sign(judgements) == GREEN else []


def _commands(verdict: Verdict, again: RepeatOptions) -> tuple[list[str], str]:
    """The lines that measure it again, and what they need; nothing where nobody knows between which commits."""
    ends = (again.base, again.head) if again.base and again.head else commit_range_of(verdict).own
    if verdict.verdict == "broken" and not (again.base and again.head):
        return run_lines(again, verdict.series), needed_setup(again.torch)
    if ends is None:
        return [], ""
    return compare_lines(again, *ends, verdict.series), needed_setup(again.torch)


_LISTED = 100
"""Rows on a terminal; the file has all of them."""
_COLUMNS = [
    Column(head, "prose" if head == "why" else "number" if number in NUMBER_COLUMNS else "text")
    for number, head in enumerate(VERDICT_COLUMNS)
]
_STYLES: Mapping[str, str] = {
    "regressed": "bold red",
    "broken": "bold red",
    "candidate": "yellow",
    "improved": "green",
    "fixed": "green",
}


def print_verdicts(judgement: Judgement, out: TextIO) -> None:
    """Print what is not unchanged or only new, the worst first, then the whole suite and the notes."""
    rows = _verdict_rows(judgement)
    for line in _above(judgement):
        print_line(line, out)
    print_table(_COLUMNS, rows[:_LISTED], out, styles=_STYLES)
    for line in _below(judgement, len(rows) - _LISTED):
        print_line(line, out)


def suite_line(suite: SuiteMean) -> str:
    """The geometric mean in a sentence."""
    return f"{suite.metric}: {effect_text(suite.effect)} over {suite.series} series, geometric mean"


def verdict_annotations(judgement: Judgement) -> list[Annotation]:
    """An error for each red series, a warning for each that looks worse, a notice for each note."""
    found = grouped(judgement.verdicts)
    return [
        *(_annotation("error", verdict) for verdict in (*found["regressed"], *found["broken"])),
        *(_annotation("warning", verdict) for verdict in found["candidate"]),
        *(Annotation("notice", note, title="torchperf") for note in judgement.notes),
    ]


def _annotation(level: Level, verdict: Verdict) -> Annotation:
    word, _, _, levels, moved, *_ = verdict_cells(verdict, {})
    numbers = ": ".join(part for part in (levels, moved) if part)
    message = f"{numbers}. {verdict.why}" if numbers else verdict.why
    return Annotation(level, message, title=f"{word}: {verdict.series}")


def _verdict_rows(judgement: Judgement) -> list[tuple[str, ...]]:
    said = shared_fields(judgement.verdicts)
    found = grouped(judgement.verdicts)
    return [
        verdict_cells(verdict, said)
        for group in found
        if group != "unchanged"
        for verdict in found[group]
        if not is_only_new(verdict, judgement)
    ]


def _above(judgement: Judgement) -> Sequence[str]:
    sides = f"{judgement.base} → {judgement.head}" if judgement.base or judgement.head else ""
    return [line for line in (sides, " ".join(shared_fields(judgement.verdicts).values())) if line]


def _below(judgement: Judgement, hidden: int) -> Sequence[str]:
    more = [f"and {hidden} more, all of them in the file"] if hidden > 0 else []
    little = shortfall(judgement)
    covered = [
        little,
        f"To judge the rest it takes {what_it_takes(judgement)}." if little else "",
        new_series(judgement),
    ]
    return [*more, *map(suite_line, judgement.suites), *filter(None, covered), *judgement.notes]


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
_LOUD: tuple[VerdictGroup, ...] = ("regressed", "broken", "candidate", "improved", "fixed")
_FOLDED: tuple[VerdictGroup, ...] = ("unjudged", "missing", "new")


def verdicts_markdown(judgements: Sequence[Judgement], room: int) -> str:
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
    found, said = grouped(judgement.verdicts), shared_fields(judgement.verdicts)
    loud = [verdict for group in _LOUD for verdict in found[group]]
    suites = [f"- {_plain(suite_line(suite))}" for suite in judgement.suites]
    notes = [f"> {_plain(note)}" for note in judgement.notes]
    others = [one for group in _FOLDED for one in found[group] if not is_only_new(one, judgement)]
    said_of_all = [_plain(text) for text in (shortfall(judgement), new_series(judgement)) if text]
    sides = (judgement.base, judgement.head)
    return [
        *([f"{_plain(sides[0])} → {_plain(sides[1])}"] if any(sides) else []),
        *(["\n>\n".join(first(notes, rows, "> "))] if notes else []),
        *said_of_all,
        *([_table(loud, said, rows)] if loud else []),
        *(["\n".join(first(suites, rows, "- "))] if suites else []),
        *([folded(count_verdicts(others), _table(others, said, rows))] if others else []),
        *([folded("Measured on", _facts(judgement, said))] if said or any(sides) else []),
    ]


def _table(verdicts: Sequence[Verdict], said: Mapping[str, str], rows: int) -> str:
    return table(VERDICT_COLUMNS, [_cells(verdict, said) for verdict in verdicts], rows)


def _cells(verdict: Verdict, said: Mapping[str, str]) -> Iterator[str]:
    word, *others = verdict_cells(verdict, said)
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


_OUTPUTS: Mapping[str, VerdictGroup] = {
    "regressed": "regressed",
    "broken": "broken",
    "candidates": "candidate",
    "improved": "improved",
    "fixed": "fixed",
}
"""Outputs of a job's step that count a group."""
_SUMMARY_ROOM = actions.SUMMARY_LIMIT // 2
"""The same step may have said something before."""


def tell_verdicts(judgement: Judgement, out: Path, *, json_output: bool) -> None:
    """Write ``verdicts.json`` to ``out``; print the table, or the file itself; fill summary, annotations and outputs.

    Raises :class:`VerdictsError` or :class:`OutputDirectoryError` where ``out`` cannot be written.
    """
    verdicts_file.write_verdicts(out, judgement)
    if json_output:
        sys.stdout.write(actions.inert_json(verdicts_file.verdicts_json(judgement)))
    else:
        with actions.literal(sys.stdout):
            print_verdicts(judgement, sys.stdout)
    sys.stdout.flush()
    say(f"{headline([judgement])}; verdicts in {out}")
    if not actions.in_actions():
        return
    actions.append_summary(verdicts_markdown([judgement], _SUMMARY_ROOM))
    actions.annotate(verdict_annotations(judgement))
    actions.set_output("verdicts", str(out.absolute()))
    found, covered = grouped(judgement.verdicts), coverage(judgement)
    counts = {name: len(found[group]) for name, group in _OUTPUTS.items()}
    for name, count in {**counts, "judged": covered.judged, "unjudged": covered.unjudged}.items():
        actions.set_output(name, str(count))
