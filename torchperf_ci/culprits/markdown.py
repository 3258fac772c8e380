"""A location in GitHub's Markdown: how it ended, a table a culprit, then the rest, folded."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.actions import markdown_cell, one_line
from torchperf_ci.culprits.showing import headline
from torchperf_ci.culprits.tables import changes, folded, shown
from torchperf_ci.culprits.words import TEXT_LENGTH, asked, byline, details, name, spent
from torchperf_ci.verdicts.rows import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchperf_ci.culprits.culprit import Culprit, Location, Status
    from torchperf_ci.culprits.tables import Table

GITHUB = "https://github.com"
_MOST_ROWS = 500
"""Of one table: nobody reads more, and a program reads the file."""
_COMMAND_LENGTH = 2000
_MARKS: Mapping[Status, str] = {
    "found": "🎯",
    "not-reproduced": "⚪",
    "environment": "⚠️",
    "inconclusive": "⚠️",
}


def markdown(location: Location, room: int, server: str = GITHUB) -> str:
    """All there is to say in at most ``room`` bytes of UTF-8, which must be some hundreds.

    Tables and lists lose their last rows, and say how many, until the whole fits. Commits are linked where they are on
    the ``server`` that shows this: a file may come from a stranger, and must not lead people elsewhere.
    """
    document = partial(_document, location, shown(location), folded(location), server)
    fitting = bisect_right(range(_MOST_ROWS + 1), room, key=lambda rows: _size(document(rows)))
    if fitting:
        return document(fitting - 1)
    title = f"### {_MARKS[location.status]} Bisection: {location.status}"
    return f"{title}\n\nThere is no room here for the details: they are in the file.\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _document(
    location: Location, seen: Mapping[str, Table], hidden: Mapping[str, Table], server: str, rows: int
) -> str:
    said = [location.why] if location.culprits and location.why else []  # else it is in the headline
    notes = [f"> {_plain(note)}" for note in (*said, *location.notes)]
    parts = [
        f"### {_MARKS[location.status]} Bisection: {markdown_cell(headline(location))}",
        markdown_cell(asked(location)),
        *(_culprit(culprit, rows, server) for culprit in location.culprits[:rows]),
        *_more(len(location.culprits) - rows),
        *(f"**{title}**\n\n{_table(table, rows)}" for title, table in seen.items()),
        "\n>\n".join([*notes[:rows], *_more(len(notes) - rows, "> ")]),
        *(_folded(title, _table(table, rows)) for title, table in hidden.items()),
        f"<sub>{spent(location)}</sub>",
        _again(location.command),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _culprit(culprit: Culprit, rows: int, server: str) -> str:
    lines = [
        f"{markdown_cell(byline(culprit))}{_links(culprit, server)}",
        *map(markdown_cell, details(culprit)),
    ]
    return "\n\n".join([f"#### {markdown_cell(name(culprit))}", *lines, _table(changes(culprit), rows)])


def _links(culprit: Culprit, server: str) -> str:
    """Links to the commit and to its pull request, in a pair of brackets, where they can be trusted."""
    page = rf"({re.escape(server)}/[\w.-]+/[\w.-]+)/commit/([0-9a-f]+)"
    found = re.fullmatch(page, culprit.url or "", re.ASCII)
    if not found or found[2] != culprit.commit:
        return ""
    links = [f"[commit]({culprit.url})"]
    if culprit.pull_request:
        links.append(f"[pull request]({found[1]}/pull/{culprit.pull_request})")
    return f" ({', '.join(links)})"


def _table(table: Table, rows: int) -> str:
    lines = [
        table.columns,
        ["---"] * len(table.columns),
        *(map(markdown_cell, row) for row in table.rows[:rows]),
    ]
    return "\n\n".join(["\n".join(map(_row, lines)), *_more(len(table.rows) - rows)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _more(hidden: int, begin: str = "") -> list[str]:
    return [f"{begin}…and {hidden} more, left out here"] if hidden > 0 else []


def _again(command: str) -> str:
    """The command as indented code: shown to the letter, and one line of that cannot end it."""
    return f"To repeat it:\n\n    {short(one_line(command), _COMMAND_LENGTH)}" if command else ""


def _plain(text: str) -> str:
    return markdown_cell(short(text, TEXT_LENGTH))
