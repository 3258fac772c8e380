"""Documents on a terminal: nothing is cut, and what is prose is wrapped below what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from torchperf_ci.console import print_line, print_table
from torchperf_ci.document import (
    Bold,
    Bullets,
    Chart,
    Commands,
    Folded,
    Heading,
    Note,
    Paragraph,
    Replaceable,
    Table,
    Toned,
    pieces,
    shown_on,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.document import Block, Document, Words

MOST = 100
"""Rows of a table or a list."""
_STYLES: Mapping[str, str] = {"bad": "bold red", "warning": "yellow", "good": "green"}


def show(document: Document, out: TextIO, *, rest: str = "all of them in the file") -> None:
    """Print all but the title, which a verb says last, on stderr. ``rest`` says where to find what is left out."""
    _print_blocks(list(shown_on("terminal", document.blocks)), out, rest)


def _print_blocks(blocks: Sequence[Block], out: TextIO, rest: str) -> None:
    for place, block in enumerate(blocks):
        if place and _begins_a_part(block):
            print_line("", out)
        _print_block(block, out, rest)


def _begins_a_part(block: Block) -> bool:
    match block:
        case Heading() | Folded():
            return True
        case Table():
            return bool(block.title)
        case Paragraph():
            return isinstance(pieces(block.words)[0], Bold)
        case _:
            return False


def _print_block(block: Block, out: TextIO, rest: str) -> None:
    match block:
        case Heading():
            print_line(text_of(block.words), out, "bold")
        case Paragraph():
            print_line(text_of(block.words), out, "bold" if _begins_a_part(block) else "")
        case Note():
            _print_lines(block.lines, out, rest)
        case Bullets():
            _print_lines([f"- {text_of(item)}" for item in block.items[: block.most]], out, rest)
        case Commands():
            for line in block.lines:
                print_line(f"    {line}", out)
        case Table():
            _print_table(block, out, rest)
        case Chart():
            ends = f"{block.values[0]:.4g} → {block.values[-1]:.4g} {block.unit}"
            print_line(f"{block.title}: {ends} in {len(block.values)} runs {block.days}".rstrip(), out)
        case Folded():
            print_line(text_of(block.title), out, "bold")
            _print_blocks(block.blocks, out, rest)
        case Replaceable():
            _print_blocks(block.blocks, out, rest)
        case _:
            pass  # for programs alone


def _print_lines(lines: Sequence[Words], out: TextIO, rest: str) -> None:
    for line in lines[:MOST]:
        print_line(text_of(line), out)
    _print_rest(len(lines) - MOST, out, rest)


def _print_table(table: Table, out: TextIO, rest: str) -> None:
    if table.title:
        print_line(table.title, out, "bold")
    shown = table.rows[: min(table.most, MOST)]
    print_table(table.columns, [[text_of(cell) for cell in row] for row in shown], out, styles=_styles(table))
    _print_rest(len(table.rows) - len(shown), out, rest)


def _print_rest(hidden: int, out: TextIO, rest: str) -> None:
    if hidden > 0:
        print_line(f"and {hidden} more, {rest}", out)


def _styles(table: Table) -> dict[str, str]:
    """Colours by the text of a cell."""
    toned = [
        piece for row in table.rows for cell in row for piece in pieces(cell) if isinstance(piece, Toned)
    ]
    return {piece.text: _STYLES[piece.tone] for piece in toned}
