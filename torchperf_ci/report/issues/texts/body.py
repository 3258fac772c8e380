"""The body of an issue: its verdict and the next step, one table, a picture, and the rest folded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.culprits.markdown import again as search_again
from torchperf_ci.culprits.markdown import moved_inside
from torchperf_ci.culprits.words import asked, luck, spent
from torchperf_ci.markdown import fitted, size
from torchperf_ci.markdown import folded as fold
from torchperf_ci.markdown import table as table_of
from torchperf_ci.report.issues.life.hidden import MARKER, embed
from torchperf_ci.report.issues.texts import log
from torchperf_ci.report.issues.texts.chart import chart, mermaid
from torchperf_ci.report.issues.texts.reproducing import reproducing
from torchperf_ci.report.issues.texts.table import TABLE, marked
from torchperf_ci.report.issues.texts.telling import said_first
from torchperf_ci.report.issues.texts.title import title
from torchperf_ci.report.issues.texts.words import plain
from torchperf_ci.verdicts.again import code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.culprits.tables import Table
    from torchperf_ci.report.issues.causes.finding import Finding
    from torchperf_ci.report.issues.life.memory import Memory
    from torchperf_ci.report.issues.texts.context import Context


LIMIT = 65_536
"""Characters that GitHub takes; as many bytes are always fewer."""
_EACH = 10
"""Rows that every table has before any has more."""
_NO_ROOM = "There is no room here for the details: they are in the files."
_CUT = "\n\n…and what else stood here had no room any more.\n"


def body(finding: Finding, memory: Memory, context: Context) -> str:
    """The whole text, at most 65,536 bytes of UTF-8.

    Where that is too little, tables lose their last rows, and say how many: what is read last, first.
    """
    if finding.text:
        return f"{embed(memory)}\n\n{finding.text}"
    location = finding.location
    steps = log.bisection(location) if location else {}
    lengths = [len(memory.rows), _inside(finding), *(len(table.rows) for table in steps.values())]
    drawn, again = chart(finding.verdicts), reproducing(finding)
    top = [embed(memory), *said_first(finding, context)]
    suspects = [f"**{name}**\n\n{_table(one, _EACH)}" for name, one in log.shown(finding).items()]
    below = [
        *([f"**To reproduce it**, {again.where}:\n\n{code(again.lines)}"] if again.lines else []),
        fold("Environment", _table(log.environment(finding), _EACH)),
    ]

    def document(rows: int) -> str:
        of_table, of_inside, *of_steps = _shares(lengths, rows)
        parts = [
            *top,
            marked(memory, of_table),
            *suspects,
            *([mermaid(drawn)] if drawn else []),
            *(moved_inside(finding.culprit, of_inside) if finding.culprit else []),
            *below,
            *([_bisection(location, steps, of_steps)] if location else []),
            *kept(context),
        ]
        return "\n\n".join(parts) + "\n"

    return fitted(document, LIMIT, sum(lengths)) or f"{top[0]}\n\n**{title(finding)}**\n\n{_NO_ROOM}\n"


def renewed(text: str, memory: Memory) -> str:
    """``text``, which people may have edited, with the memory and the table of now.

    Where a marker is gone, the memory is put first and the table, if there are rows, appended.
    """
    text = MARKER.sub("", text) if len(MARKER.findall(text)) != 1 else text
    text = MARKER.sub(lambda _: embed(memory), text) if MARKER.search(text) else f"{embed(memory)}\n\n{text}"
    rows = len(memory.rows)
    return fitted(partial(_with_table, text, memory), LIMIT, rows) or _cut(_with_table(text, memory, 0))


def _with_table(text: str, memory: Memory, rows: int) -> str:
    table = marked(memory, rows)
    if TABLE.search(text):
        return TABLE.sub(lambda _: table, text, count=1)
    return f"{text.rstrip()}\n\n{table}\n" if memory.rows else text


def _cut(text: str) -> str:
    """As much of the beginning, where the memory is, as there is room for."""
    room = LIMIT - size(_CUT)
    return text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + _CUT


def _inside(finding: Finding) -> int:
    """Rows of the longest list of what moved inside."""
    found = finding.culprit.inside if finding.culprit else None
    return max(map(len, (found.moved, found.graph_breaks, found.files, found.commands))) if found else 0


def _bisection(location: Location, steps: Mapping[str, Table], most: Sequence[int]) -> str:
    """Everything about it, folded as one."""
    parts = [
        *(f"{plain(said)}." for said in (asked(location), luck(location)) if said),
        *([code(search_again(location))] if location.command else []),
        *(
            f"**{name}**\n\n{_table(one, rows)}"
            for (name, one), rows in zip(steps.items(), most, strict=True)
        ),
    ]
    return fold(f"How it was bisected: {spent(location)}", "\n\n".join(parts))


def kept(context: Context) -> list[str]:
    """Where the whole of it is, of which parts may be left out here."""
    if not context.run_url:
        return []
    return [f"<sub>All of it is in the files of [the run that reports this]({context.run_url}).</sub>"]


def _table(content: Table, most: int) -> str:
    return table_of(content.columns, [map(plain, cells) for cells in content.rows], most)


def _shares(lengths: Sequence[int], rows: int) -> list[int]:
    """How many of all ``rows`` each part gets: some for every part, then the first ones as many as they have."""
    shares = [0] * len(lengths)
    for most in (_EACH, max(lengths, default=0)):
        for index, length in enumerate(lengths):
            taken = min(min(length, most) - shares[index], rows)
            shares[index] += taken
            rows -= taken
    return shares
