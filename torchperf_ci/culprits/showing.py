"""A location on a terminal, and on the page of a job's run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from torchperf_ci.actions import Annotation
from torchperf_ci.console import print_line, print_table
from torchperf_ci.culprits.tables import changes, folded, inside, shown
from torchperf_ci.culprits.words import (
    NAME_LENGTH,
    TEXT_LENGTH,
    asked,
    byline,
    count,
    details,
    luck,
    most,
    name,
    sha,
    spent,
)
from torchperf_ci.document import Column, short
from torchperf_ci.verdicts.rows import change

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.culprits.culprit import Culprit, Location, Status
    from torchperf_ci.culprits.tables import Table

_LISTED = 20
"""Rows of a table on a terminal; the file has all of them."""
_LOOKED_AT = 8
"""Rows of what moved inside a culprit: the file and the attached table have the rest."""
_SAID: Mapping[Status, str] = {
    "not-reproduced": "not reproduced",
    "environment": "the environment changed, not the code",
    "build": "the luck of a build, no commit",
    "inconclusive": "inconclusive",
}


def headline(location: Location) -> str:
    """One sentence on how it ended: plain text, which holds subjects and names from outside."""
    if location.status == "found":
        return _found(location.culprits)
    said = ": ".join(part for part in (_SAID[location.status], location.why) if part)
    return short(said, TEXT_LENGTH)


def table(location: Location, out: TextIO) -> None:
    """Print the culprits, each with its series, then what else everybody must see."""
    print_line(asked(location), out)
    for culprit in location.culprits[:_LISTED]:
        print_line("", out)
        print_line(name(culprit), out, "bold red")
        for line in (byline(culprit), *details(culprit)):
            print_line(line, out)
        _print_table(changes(culprit), out)
        _print_inside(culprit, out)
    for title, rows in shown(location).items():
        print_line("", out)
        print_line(title, out, "bold")
        _print_table(rows, out)
    print_line("", out)
    for line in _below(location):
        print_line(line, out)


def to_annotate(location: Location) -> list[Annotation]:
    """A warning for each culprit, a notice where there is none, and one for each note."""
    notices = [*([] if location.culprits else [headline(location)]), *location.notes]
    return [
        *(
            Annotation("warning", f"{most(culprit)}. {byline(culprit)}", title=f"culprit: {name(culprit)}")
            for culprit in location.culprits
        ),
        *(Annotation("notice", notice, title="torchperf bisect") for notice in notices),
    ]


def _found(culprits: Sequence[Culprit]) -> str:
    said = f"{count(len(culprits), 'culprit')} found"
    if len(culprits) == 1:
        return f"{said}: {name(culprits[0])}: {most(culprits[0])}"
    told = (f"{sha(one.commit or one.set[-1])} {change(one.effect)}" for one in culprits)
    return short(f"{said}: {', '.join(told)}", TEXT_LENGTH)


def _below(location: Location) -> list[str]:
    hidden = len(location.culprits) - _LISTED
    return [
        *([f"and {count(hidden, 'culprit')} more, all of them in the file"] if hidden > 0 else []),
        *([location.why] if location.culprits and location.why else []),  # else it is in the headline
        *location.notes,
        *(f"{title} (in the file)" for title in folded(location)),
        spent(location),
        *filter(None, [luck(location)]),
        *([f"To repeat it: {location.command}"] if location.command else []),
    ]


def _print_inside(culprit: Culprit, out: TextIO) -> None:
    """What profiles showed, and how to look at it more closely."""
    found = culprit.inside
    if found is None:
        return
    table = inside(culprit)
    said = "What moved inside" if table.rows or found.graph_breaks else "Nothing stands out inside"
    print_line("", out)
    print_line(f"{said} {short(found.probe, NAME_LENGTH)}", out, "bold")
    if table.rows:
        _print_table(table, out, _LOOKED_AT)
    for reason in found.graph_breaks[:_LOOKED_AT]:
        print_line(f"new graph break: {short(reason, TEXT_LENGTH)}", out)
    for line in found.commands:
        print_line(f"  {line}", out)


def _print_table(table: Table, out: TextIO, limit: int = _LISTED) -> None:
    *names, last = table.columns
    columns = [*map(Column, names), Column(last, "prose")]
    print_table(columns, table.rows[:limit], out)
    if (hidden := len(table.rows) - limit) > 0:
        print_line(f"and {hidden} more, all of them in the file", out)
