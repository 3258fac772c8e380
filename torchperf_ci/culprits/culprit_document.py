"""What is said of a bisection: the table, the page of a job, its annotations and outputs."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, TextIO

from torchperf_ci import actions
from torchperf_ci.actions import Annotation, one_line
from torchperf_ci.console import print_line, print_table, say
from torchperf_ci.culprits import culprits_file
from torchperf_ci.culprits.culprit_text import (
    NAME_LENGTH,
    TEXT_LENGTH,
    build_spread,
    byline,
    cost,
    count,
    culprit_name,
    details,
    effects_table,
    folded_tables,
    largest_effect,
    open_tables,
    profile_table,
    question,
    short_sha,
)
from torchperf_ci.document import Column, short
from torchperf_ci.markdown import first, fitted, more, plain, table
from torchperf_ci.markdown import folded as fold
from torchperf_ci.verdicts.reproduction import code_block, in_fresh_clone, needed_setup
from torchperf_ci.verdicts.verdict_document import effect_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.culprits.culprit import Bisection, BisectionStatus, Culprit, ProfileChange
    from torchperf_ci.culprits.culprit_text import TextTable


_LISTED = 20
"""Rows of a table on a terminal; the file has all of them."""
_LOOKED_AT = 8
"""Rows of what moved inside a culprit: the file and the attached table have the rest."""
_STATUS_TEXTS: Mapping[BisectionStatus, str] = {
    "not-reproduced": "not reproduced",
    "environment": "the environment changed, not the code",
    "build": "the luck of a build, no commit",
    "inconclusive": "inconclusive",
}


def bisection_headline(location: Bisection) -> str:
    """One sentence on how it ended: plain text, which holds subjects and names from outside."""
    if location.status == "found":
        return _found_text(location.culprits)
    said = ": ".join(part for part in (_STATUS_TEXTS[location.status], location.why) if part)
    return short(said, TEXT_LENGTH)


def print_bisection(location: Bisection, out: TextIO) -> None:
    """Print the culprits, each with its series, then what else everybody must see."""
    print_line(question(location), out)
    for culprit in location.culprits[:_LISTED]:
        print_line("", out)
        print_line(culprit_name(culprit), out, "bold red")
        for line in (byline(culprit), *details(culprit)):
            print_line(line, out)
        _print_table(effects_table(culprit), out)
        _print_inside(culprit, out)
    for title, rows in open_tables(location).items():
        print_line("", out)
        print_line(title, out, "bold")
        _print_table(rows, out)
    print_line("", out)
    for line in _below(location):
        print_line(line, out)


def bisection_annotations(location: Bisection) -> list[Annotation]:
    """A warning for each culprit, a notice where there is none, and one for each note."""
    notices = [*([] if location.culprits else [bisection_headline(location)]), *location.notes]
    return [
        *(
            Annotation(
                "warning",
                f"{largest_effect(culprit)}. {byline(culprit)}",
                title=f"culprit: {culprit_name(culprit)}",
            )
            for culprit in location.culprits
        ),
        *(Annotation("notice", notice, title="torchperf bisect") for notice in notices),
    ]


def _found_text(culprits: Sequence[Culprit]) -> str:
    said = f"{count(len(culprits), 'culprit')} found"
    if len(culprits) == 1:
        return f"{said}: {culprit_name(culprits[0])}: {largest_effect(culprits[0])}"
    told = (f"{short_sha(one.commit or one.set[-1])} {effect_text(one.effect)}" for one in culprits)
    return short(f"{said}: {', '.join(told)}", TEXT_LENGTH)


def _below(location: Bisection) -> list[str]:
    hidden = len(location.culprits) - _LISTED
    return [
        *([f"and {count(hidden, 'culprit')} more, all of them in the file"] if hidden > 0 else []),
        *([location.why] if location.culprits and location.why else []),  # else it is in the headline
        *location.notes,
        *(f"{title} (in the file)" for title in folded_tables(location)),
        cost(location),
        *filter(None, [build_spread(location)]),
        *([f"To repeat it: {location.command}"] if location.command else []),
    ]


def _print_inside(culprit: Culprit, out: TextIO) -> None:
    """What profiles showed, and how to look at it more closely."""
    found = culprit.inside
    if found is None:
        return
    table = profile_table(culprit)
    said = "What moved inside" if table.rows or found.graph_breaks else "Nothing stands out inside"
    print_line("", out)
    print_line(f"{said} {short(found.probe, NAME_LENGTH)}", out, "bold")
    if table.rows:
        _print_table(table, out, _LOOKED_AT)
    for reason in found.graph_breaks[:_LOOKED_AT]:
        print_line(f"new graph break: {short(reason, TEXT_LENGTH)}", out)
    for line in found.commands:
        print_line(f"  {line}", out)


def _print_table(table: TextTable, out: TextIO, limit: int = _LISTED) -> None:
    *names, last = table.columns
    columns = [*map(Column, names), Column(last, "prose")]
    print_table(columns, table.rows[:limit], out)
    if (hidden := len(table.rows) - limit) > 0:
        print_line(f"and {hidden} more, all of them in the file", out)


GITHUB = "https://github.com"
_MOST_ROWS = 500
"""Of one table: nobody reads more, and a program reads the file."""
_MOST_MOVED = 10
"""Rows of what moved inside: the largest tell, and the profiles have the rest."""
_COMMAND_LENGTH = 2000
_MARKS: Mapping[BisectionStatus, str] = {
    "found": "🎯",
    "not-reproduced": "⚪",
    "environment": "⚠️",
    "build": "⚠️",
    "inconclusive": "⚠️",
}


def bisection_markdown(location: Bisection, room: int, server: str = GITHUB) -> str:
    """All there is to say in at most ``room`` bytes of UTF-8, which must be some hundreds.

    Tables and lists lose their last rows, and say how many, until the whole fits. Commits are linked where they are on
    the ``server`` that shows this: a file may come from a stranger, and must not lead people elsewhere.
    """
    document = partial(_document, location, open_tables(location), folded_tables(location), server)
    return fitted(document, room, _MOST_ROWS) or (
        f"### {_MARKS[location.status]} Bisection: {location.status}\n\n"
        "There is no room here for the details: they are in the file.\n"
    )


def _document(
    location: Bisection,
    seen: Mapping[str, TextTable],
    hidden: Mapping[str, TextTable],
    server: str,
    rows: int,
) -> str:
    said = [location.why] if location.culprits and location.why else []  # else it is in the headline
    notes = [f"> {_plain(note)}" for note in (*said, *location.notes)]
    parts = [
        f"### {_MARKS[location.status]} Bisection: {plain(bisection_headline(location))}",
        plain(question(location)),
        "\n>\n".join(first(notes, rows, "> ")),
        *(_culprit(culprit, rows, server) for culprit in location.culprits[:rows]),
        *more(len(location.culprits) - rows),
        *(f"**{title}**\n\n{_table(one, rows)}" for title, one in seen.items()),
        *(fold(title, _table(one, rows)) for title, one in hidden.items()),
        f"<sub>{'. '.join(filter(None, (cost(location), plain(build_spread(location)))))}</sub>",
        _repeat_part(location),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _culprit(culprit: Culprit, rows: int, server: str) -> str:
    lines = [
        f"{plain(byline(culprit))}{commit_links(culprit, server)}",
        *map(plain, details(culprit)),
    ]
    parts = [f"#### {plain(culprit_name(culprit))}", *lines, _table(effects_table(culprit), rows)]
    return "\n\n".join([*parts, *moved_inside(culprit, rows)])


def moved_inside(culprit: Culprit, rows: int) -> list[str]:
    """What profiles of both sides showed, each table and list with at most ``rows`` rows."""
    found = culprit.inside
    if found is None:
        return []
    moved = profile_table(culprit)
    breaks = [f"- new graph break: {_plain(reason)}" for reason in found.graph_breaks]
    said = "What moved inside" if moved.rows or breaks else "Nothing stands out inside"
    return [
        f"**{said}** {plain(short(found.probe, NAME_LENGTH))}",
        *([_table(moved, min(rows, _MOST_MOVED))] if moved.rows else []),
        *(["\n".join(first(breaks, rows, "- "))] if breaks else []),
        *([fold("To look further", _further(found, rows))] if found.commands or found.files else []),
    ]


def _further(found: ProfileChange, rows: int) -> str:
    """The profiles that are attached, and the commands as they are typed."""
    files = ", ".join(_plain(file) for file in found.files[:rows])
    more_files = "".join(f" {said}" for said in more(len(found.files) - rows))
    commands = first([f"    {one_line(line)[:_COMMAND_LENGTH]}" for line in found.commands], rows, "    # ")
    kept = [f"Kept beside culprits.json: {files}{more_files}"] if found.files else []
    return "\n\n".join([*kept, *(["\n".join(commands)] if commands else [])])


def commit_links(culprit: Culprit, server: str) -> str:
    """Links to the commit and to its pull request, in a pair of brackets, where they can be trusted."""
    page = rf"({re.escape(server)}/[\w.-]+/[\w.-]+)/commit/([0-9a-f]+)"
    found = re.fullmatch(page, culprit.url or "", re.ASCII)
    if not found or found[2] != culprit.commit:
        return ""
    links = [f"[commit]({culprit.url})"]
    if culprit.pull_request:
        links.append(f"[pull request]({found[1]}/pull/{culprit.pull_request})")
    return f" ({', '.join(links)})"


def _table(content: TextTable, rows: int) -> str:
    return table(content.columns, [map(plain, cells) for cells in content.rows], rows)


def _repeat_part(location: Bisection) -> str:
    if not location.command:
        return ""
    return f"To repeat it, {needed_setup(location.torch)}:\n\n{code_block(repeat_commands(location))}"


def repeat_commands(location: Bisection) -> list[str]:
    """The lines for a shell that repeat a search."""
    return in_fresh_clone(location.folder, (location.good, location.bad), location.command)


def _plain(text: str) -> str:
    return plain(short(text, TEXT_LENGTH))


_SUMMARY_ROOM = actions.SUMMARY_LIMIT // 2
"""The same step may have said something before."""


def tell_bisection(location: Bisection, out: Path, *, json_output: bool) -> None:
    """Write ``culprits.json`` to ``out``; print the table, or the file itself; fill summary, annotations and outputs.

    Raises :class:`CulpritsError` or :class:`OutputDirectoryError` where ``out`` cannot be written.
    """
    culprits_file.write_culprits(out, location)
    if json_output:
        sys.stdout.write(actions.inert_json(culprits_file.culprits_json(location)))
    else:
        with actions.literal(sys.stdout):
            print_bisection(location, sys.stdout)
    sys.stdout.flush()
    say(f"{bisection_headline(location)}; culprits in {out}")
    if not actions.in_actions():
        return
    server = os.environ.get("GITHUB_SERVER_URL") or GITHUB
    actions.append_summary(bisection_markdown(location, _SUMMARY_ROOM, server))
    actions.annotate(bisection_annotations(location))
    first = location.culprits[0].commit if location.culprits else None
    outputs = {
        "culprits": str(out.absolute()),
        "status": location.status,
        "commit": first or "",
        "found": str(len(location.culprits)),
    }
    for name, value in outputs.items():
        actions.set_output(name, value)
