"""Parts of documents in GitHub's Markdown, and documents that fit into a room.

What is given here is Markdown already: text from outside goes through :func:`plain` first.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from torchperf_ci.actions import markdown_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

plain = markdown_cell
"""Text from outside on one line, in which nothing is markup, a mention, a reference, a cell's end, or unseen."""


def row(cells: Iterable[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def table(columns: Sequence[str], rows: Sequence[Iterable[str]], most: int) -> str:
    """The first ``most`` rows under ``columns``, and how many are left out; the cells of these are never asked for."""
    lines = [columns, ["---"] * len(columns), *rows[:most]]
    return "\n\n".join(["\n".join(map(row, lines)), *more(len(rows) - most)])


def first(lines: Sequence[str], most: int, begin: str = "") -> list[str]:
    """The first ``most`` lines, and one that says how many are left out, which starts with ``begin``."""
    return [*lines[:most], *more(len(lines) - most, begin)]


def more(hidden: int, begin: str = "") -> list[str]:
    """How many are left out, where any are."""
    return [f"{begin}…and {hidden} more, left out here"] if hidden > 0 else []


def folded(title: str, body: str) -> str:
    """``body`` behind its title, which opens it."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def fitted(document: Callable[[int], str], room: int, most: int) -> str | None:
    """The document with as many rows, at most ``most``, as ``room`` bytes of UTF-8 hold; None where not even 0 do.

    ``document`` is called with a number of rows, of which each takes room.
    """
    fitting = bisect_right(range(most + 1), room, key=lambda rows: size(document(rows)))
    return document(fitting - 1) if fitting else None


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode("utf-8", "replace"))
