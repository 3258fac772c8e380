"""What a command says, as data: made once, and shown on a terminal, as GitHub's Markdown, and as a page of HTML.

A verb makes one :class:`Document` of what it found out, and hands it to ``console.print_document``,
``markdown.to_markdown`` and ``page.page``::

    Document(
        "✅ Upload: 3 records delivered, 1 refused",
        [
            Paragraph((Bold("Next step:"), " send it later with ", Code("torchperf upload spool"))),
            Note(warnings),
            Table([Column("record"), Column("why", "prose")], rows, title="Refused"),
            Folded("Machine", [facts({"CPU": "EPYC 9654"})]),
        ],
    )

Three rules make that work:

- **A string is text, wherever it comes from.** Each renderer makes it harmless in its own language, so nobody else
  escapes anything. What is more than text is one of the pieces ``Bold``, ``Code``, ``Link``, ``Mention``, ``Toned`` and
  ``Unbroken``; several pieces in a row are a tuple: see :data:`Words`.
- **What is empty is not shown**, with its title: a note without lines, a table without rows, a fold with nothing in it.
  So no caller asks first.
- **Give all rows.** A renderer shows as many as have room, and says how many it left out. ``most`` is for lists of
  which nobody wants to read more.

A fold is open on a terminal. What only pages or only terminals should show goes into ``Only``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


MOST = 1000
"""Rows of one table or list: nobody reads more, and a program reads the files."""


@dataclass
class Bold:
    """Text that stands out."""

    text: str


@dataclass
class Code:
    """A command, a name of a file or an option, in the middle of a sentence."""

    text: str


@dataclass
class Link:
    """Text that leads to ``url``; plain text where that is no address of the web."""

    text: str | Code
    url: str


@dataclass
class Mention:
    """A person whom GitHub notifies. Every other ``@name`` notifies nobody."""

    login: str


@dataclass
class Toned:
    """A word that is good or bad news: with a mark on a page, in colour on a terminal."""

    text: str
    tone: Literal["bad", "warning", "good"]


@dataclass
class Unbroken:
    """Text that stays on one line, however narrow its column is."""

    text: str


Piece: TypeAlias = str | Bold | Code | Link | Mention | Toned | Unbroken
Words: TypeAlias = Piece | tuple[Piece, ...]
"""A line of text: one piece, or several in a row."""


@dataclass
class Heading:
    """What the blocks below are about."""

    words: Words


@dataclass
class Paragraph:
    """Some sentences; in ``small`` print where only few will read them."""

    words: Words
    small: bool = False


@dataclass
class Note:
    """What a reader must know before believing the rest, one remark a line."""

    lines: Sequence[Words]


@dataclass
class Bullets:
    """A list without order."""

    items: Sequence[Words]
    most: int = MOST


@dataclass
class Commands:
    """Lines to copy into a shell, or what a program said: shown to the letter."""

    lines: Sequence[str]


@dataclass
class Column:
    """One column of a table. Only ``prose`` is wrapped, between words; nothing is ever cut."""

    head: str
    kind: Literal["text", "number", "prose"] = "text"


@dataclass
class Table:
    """Rows with one cell for each column, below a ``title``."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Words]]
    title: str = ""
    most: int = MOST

    def without_empty_columns(self) -> Table:
        """The same less the columns that hold nothing."""
        kept = [place for place in range(len(self.columns)) if any(row[place] for row in self.rows)]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table([self.columns[place] for place in kept], rows, self.title, self.most)


@dataclass
class Chart:
    """What ``each`` run or pair measured of one series: ``values``, oldest first, and the ``levels`` that they lie on.

    There are as many levels as values, or none where they are not known. ``days`` says from when to when the values
    were measured, empty where that is not known.
    """

    title: str
    unit: str
    values: Sequence[float]
    levels: Sequence[float] = ()
    days: str = ""
    each: Literal["run", "pair"] = "run"

    @property
    def along(self) -> str:
        """What lies beside each other."""
        return f"{self.each}s {self.days}".rstrip()

    @property
    def origin(self) -> str:
        """Where the axis ends."""
        return "the newest is 0" if self.each == "run" else "the last is 0"

    @property
    def legend(self) -> str:
        """Which line is which; empty where there is one."""
        return f"Blue: each {self.each}. Red: the level before and after." if self.levels else ""

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest number that the picture has room for."""
        numbers = (*self.values, *self.levels)
        low, high = min(numbers), max(numbers)
        margin = (high - low or abs(high) or 1.0) * 0.1
        return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


@dataclass
class Folded:
    """Blocks behind a title that opens them; on a terminal they are open."""

    title: Words
    blocks: Sequence[Block]


@dataclass
class Replaceable:
    """Blocks between two hidden lines, by which a later run finds them on a page and puts others in their place."""

    name: str
    blocks: Sequence[Block]


@dataclass
class Hidden:
    """What only a program reads in the source of a page: one line without ``--``, ``<`` and ``>``."""

    text: str


@dataclass
class Only:
    """Blocks for pages alone (Markdown and HTML), or for terminals alone."""

    medium: Literal["page", "terminal"]
    blocks: Sequence[Block]


Block: TypeAlias = (
    Heading | Paragraph | Note | Bullets | Commands | Table | Chart | Folded | Replaceable | Hidden | Only
)


@dataclass
class Document:
    """A title, which is a sentence on how it ended, and what there is to say beside it."""

    title: Words
    blocks: Sequence[Block] = ()


def facts(facts: Mapping[str, str]) -> Table:
    """A table of what is known, without what is empty."""
    rows = [(name, value) for name, value in facts.items() if value]
    return Table((Column("fact"), Column("value", "prose")), rows)


def shown_on(medium: Literal["page", "terminal"], blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks for one medium, without what is empty."""
    for block in blocks:
        match block:
            case Only():
                if block.medium == medium:
                    yield from shown_on(medium, block.blocks)
            case Folded() | Replaceable():
                if inner := tuple(shown_on(medium, block.blocks)):
                    yield replace(block, blocks=inner)
            case Hidden():
                if medium == "page":
                    yield block
            case _ if not _is_empty(block):
                yield block


def pieces(words: Words) -> tuple[Piece, ...]:
    """A line as its pieces."""
    return words if isinstance(words, tuple) else (words,)


def text_of(words: Words) -> str:
    """A line as text alone."""
    return "".join(_text(piece) for piece in pieces(words))


def short(text: str, length: int) -> str:
    """``text``, if need be cut to ``length`` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _is_empty(block: Block) -> bool:
    match block:
        case Heading() | Paragraph():
            return not text_of(block.words).strip()
        case Note() | Commands():
            return not block.lines
        case Bullets():
            return not block.items
        case Table():
            return not block.rows
        case Chart():
            return not block.values
        case _:
            return False


def _text(piece: Piece) -> str:
    match piece:
        case str():
            return piece
        case Link(text=Code(text=text)):
            return text
        case Mention(login=login):
            return f"@{login}"
        case _:
            return str(piece.text)


def duration(seconds: float) -> str:
    """Roughly how long: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 case``, ``2 cases``; ``plural`` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
