"""A location in GitHub's Markdown: how it ended, a table a culprit, then the rest, folded."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.culprits.showing import headline
from torchperf_ci.culprits.tables import changes, folded, inside, shown
from torchperf_ci.culprits.words import NAME_LENGTH, TEXT_LENGTH, asked, byline, details, luck, name, spent
from torchperf_ci.document import short
from torchperf_ci.markdown import first, fitted, more, plain, table
from torchperf_ci.markdown import folded as fold
from torchperf_ci.verdicts.again import code, lines, where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.culprits.culprit import Culprit, Inside, Location, Status
    from torchperf_ci.culprits.tables import Table

GITHUB = "https://github.com"
_MOST_ROWS = 500
"""Of one table: nobody reads more, and a program reads the file."""
_MOST_MOVED = 10
"""Rows of what moved inside: the largest tell, and the profiles have the rest."""
_COMMAND_LENGTH = 2000
_MARKS: Mapping[Status, str] = {
    "found": "🎯",
    "not-reproduced": "⚪",
    "environment": "⚠️",
    "build": "⚠️",
    "inconclusive": "⚠️",
}


def markdown(location: Location, room: int, server: str = GITHUB) -> str:
    """All there is to say in at most ``room`` bytes of UTF-8, which must be some hundreds.

    Tables and lists lose their last rows, and say how many, until the whole fits. Commits are linked where they are on
    the ``server`` that shows this: a file may come from a stranger, and must not lead people elsewhere.
    """
    document = partial(_document, location, shown(location), folded(location), server)
    return fitted(document, room, _MOST_ROWS) or (
        f"### {_MARKS[location.status]} Bisection: {location.status}\n\n"
        "There is no room here for the details: they are in the file.\n"
    )


def _document(
    location: Location, seen: Mapping[str, Table], hidden: Mapping[str, Table], server: str, rows: int
) -> str:
    said = [location.why] if location.culprits and location.why else []  # else it is in the headline
    notes = [f"> {_plain(note)}" for note in (*said, *location.notes)]
    parts = [
        f"### {_MARKS[location.status]} Bisection: {plain(headline(location))}",
        plain(asked(location)),
        "\n>\n".join(first(notes, rows, "> ")),
        *(_culprit(culprit, rows, server) for culprit in location.culprits[:rows]),
        *more(len(location.culprits) - rows),
        *(f"**{title}**\n\n{_table(one, rows)}" for title, one in seen.items()),
        *(fold(title, _table(one, rows)) for title, one in hidden.items()),
        f"<sub>{'. '.join(filter(None, (spent(location), plain(luck(location)))))}</sub>",
        _again(location),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _culprit(culprit: Culprit, rows: int, server: str) -> str:
    lines = [
        f"{plain(byline(culprit))}{links(culprit, server)}",
        *map(plain, details(culprit)),
    ]
    parts = [f"#### {plain(name(culprit))}", *lines, _table(changes(culprit), rows)]
    return "\n\n".join([*parts, *moved_inside(culprit, rows)])


def moved_inside(culprit: Culprit, rows: int) -> list[str]:
    """What profiles of both sides showed, each table and list with at most ``rows`` rows."""
    found = culprit.inside
    if found is None:
        return []
    moved = inside(culprit)
    breaks = [f"- new graph break: {_plain(reason)}" for reason in found.graph_breaks]
    said = "What moved inside" if moved.rows or breaks else "Nothing stands out inside"
    return [
        f"**{said}** {plain(short(found.probe, NAME_LENGTH))}",
        *([_table(moved, min(rows, _MOST_MOVED))] if moved.rows else []),
        *(["\n".join(first(breaks, rows, "- "))] if breaks else []),
        *([fold("To look further", _further(found, rows))] if found.commands or found.files else []),
    ]


def _further(found: Inside, rows: int) -> str:
    """The profiles that are attached, and the commands as they are typed."""
    files = ", ".join(_plain(file) for file in found.files[:rows])
    more_files = "".join(f" {said}" for said in more(len(found.files) - rows))
    commands = first([f"    {one_line(line)[:_COMMAND_LENGTH]}" for line in found.commands], rows, "    # ")
    kept = [f"Kept beside culprits.json: {files}{more_files}"] if found.files else []
    return "\n\n".join([*kept, *(["\n".join(commands)] if commands else [])])


def links(culprit: Culprit, server: str) -> str:
    """Links to the commit and to its pull request, in a pair of brackets, where they can be trusted."""
    page = rf"({re.escape(server)}/[\w.-]+/[\w.-]+)/commit/([0-9a-f]+)"
    found = re.fullmatch(page, culprit.url or "", re.ASCII)
    if not found or found[2] != culprit.commit:
        return ""
    links = [f"[commit]({culprit.url})"]
    if culprit.pull_request:
        links.append(f"[pull request]({found[1]}/pull/{culprit.pull_request})")
    return f" ({', '.join(links)})"


def _table(content: Table, rows: int) -> str:
    return table(content.columns, [map(plain, cells) for cells in content.rows], rows)


def _again(location: Location) -> str:
    if not location.command:
        return ""
    return f"To repeat it, {where(location.torch)}:\n\n{code(again(location))}"


def again(location: Location) -> list[str]:
    """The lines for a shell that repeat a search."""
    return lines(location.folder, (location.good, location.bad), location.command)


def _plain(text: str) -> str:
    return plain(short(text, TEXT_LENGTH))
