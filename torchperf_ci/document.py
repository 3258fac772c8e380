"""The output of a command as data: built once, rendered for the terminal, as GitHub Markdown, and as an HTML page.

A command builds one :class:`Document` from its results, and passes it to ``console.print_document``,
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

Three rules:

- **A string is plain text, wherever it comes from.** Each renderer escapes it for its own format, so callers never
  escape anything. Formatted text consists of ``Bold``, ``Code``, ``Link``, ``Mention``, ``Highlighted`` and ``NoWrap``;
  several pieces in a row are a tuple, see :data:`Words`.
- **Empty blocks are not shown**, nor are their titles: a note without lines, a table without rows, a fold without
  content. So callers need not check first.
- **Pass all rows.** A renderer shows as many as fit, and says how many it left out. ``most`` is for lists that nobody
  reads beyond that length.

A fold is open on a terminal. Blocks for pages only, or for terminals only, go into ``OnlyOn``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

MOST = 1000
"""Most rows of one table or list: nobody reads more, and programs read the files."""


@dataclass
class Bold:
    """Text that stands out."""

    text: str


@dataclass
class Code:
    """A command, file name or option within a sentence."""

    text: str


@dataclass
class Link:
    """Text that links to ``url``; plain text if that is not a web address."""

    text: str | Code
    url: str


@dataclass
class Mention:
    """A person whom GitHub should notify; any other ``@name`` notifies nobody."""

    login: str


@dataclass
class Highlighted:
    """A word that is good or bad news: marked by an emoji on a page, by color on a terminal."""

    text: str
    tone: Literal["bad", "warning", "good"]


@dataclass
class NoWrap:
    """Text that stays on one line, however narrow its column is."""

    text: str


Piece: TypeAlias = str | Bold | Code | Link | Mention | Highlighted | NoWrap
Words: TypeAlias = Piece | tuple[Piece, ...]
"""A line of text: one piece, or several in a row."""


@dataclass
class Heading:
    """A heading for the blocks below it."""

    words: Words


@dataclass
class Paragraph:
    """A paragraph; in ``small`` print if only a few people will read it."""

    words: Words
    small: bool = False


@dataclass
class Note:
    """Remarks that a reader must know before trusting the rest, one per line."""

    lines: Sequence[Words]


@dataclass
class Bullets:
    """An unordered list."""

    items: Sequence[Words]
    most: int = MOST


@dataclass
class Commands:
    """Lines to copy into a shell, or the output of a program, shown verbatim."""

    lines: Sequence[str]


@dataclass
class Column:
    """One column of a table. Only ``prose`` is wrapped, between words; nothing is ever truncated."""

    head: str
    kind: Literal["text", "number", "prose"] = "text"


def number_columns(*heads: str) -> list[Column]:
    return [Column(head, "number") for head in heads]


@dataclass
class Table:
    """Rows with one cell per column, below a ``title``."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Words]]
    title: str = ""
    most: int = MOST

    def without_empty_columns(self) -> Table:
        """Return the table without its empty columns."""
        kept = [place for place in range(len(self.columns)) if any(row[place] for row in self.rows)]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table([self.columns[place] for place in kept], rows, self.title, self.most)


@dataclass
class Chart:
    """The ``values`` that ``each`` run or pair measured of one series, oldest first, and their ``levels``.

    There are as many levels as values, or none if they are unknown. ``days`` is the period in which the values were
    measured, empty if unknown.
    """

    title: str
    unit: str
    values: Sequence[float]
    levels: Sequence[float] = ()
    days: str = ""
    each: Literal["run", "pair"] = "run"

    @property
    def summary(self) -> str:
        """The chart in words, for terminals and screen readers."""
        ends = f"{self.values[0]:.4g} → {self.values[-1]:.4g} {self.unit}"
        return f"{self.title}: {ends} in {len(self.values)} {self.along}"

    @property
    def along(self) -> str:
        """Label of the x axis."""
        return f"{self.each}s {self.days}".rstrip()

    @property
    def origin(self) -> str:
        """What 0 on the x axis stands for."""
        return "the newest is 0" if self.each == "run" else "the last is 0"

    @property
    def legend(self) -> str:
        """Explanation of the lines; empty if there is only one."""
        return f"Blue: each {self.each}. Red: the level before and after." if self.levels else ""

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the y axis."""
        numbers = (*self.values, *self.levels)
        low, high = min(numbers), max(numbers)
        margin = (high - low or abs(high) or 1.0) * 0.1
        return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


@dataclass
class Folded:
    """Blocks that are folded behind a title; on a terminal they are open."""

    title: Words
    blocks: Sequence[Block]


@dataclass
class Replaceable:
    """Blocks between two hidden markers, so that a later run can find and replace them."""

    name: str
    blocks: Sequence[Block]


@dataclass
class Hidden:
    """Data for programs, hidden in the source of a page: one line without ``--``, ``<`` and ``>``."""

    text: str


@dataclass
class OnlyOn:
    """Blocks for pages only (Markdown and HTML), or for terminals only."""

    medium: Literal["page", "terminal"]
    blocks: Sequence[Block]


Block: TypeAlias = (
    Heading | Paragraph | Note | Bullets | Commands | Table | Chart | Folded | Replaceable | Hidden | OnlyOn
)


@dataclass
class Document:
    """A title, which is a sentence about the result, and the blocks below it."""

    title: Words
    blocks: Sequence[Block] = ()


def facts(facts: Mapping[str, str]) -> Table:
    """Return a table of facts and their values, without the empty ones."""
    rows = [(name, value) for name, value in facts.items() if value]
    return Table((Column("fact"), Column("value", "prose")), rows)


def shown_on(medium: Literal["page", "terminal"], blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the nonempty blocks for one medium."""
    for block in blocks:
        match block:
            case OnlyOn():
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
    """Return a line as a tuple of pieces."""
    return words if isinstance(words, tuple) else (words,)


def text_of(words: Words) -> str:
    """Return a line as plain text."""
    return "".join(_text(piece) for piece in pieces(words))


def short(text: str, length: int) -> str:
    """Return ``text``, truncated to ``length`` characters if necessary."""
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


def signed(number: float, digits: str) -> str:
    """Format a number with ``+`` or ``−`` before it, ``+`` also for what rounds to 0; ``digits`` is a format spec."""
    text = format(abs(number), digits)
    return f"{'−' if number < 0 and text.strip('0.,%') else '+'}{text}"


def change_text(share: float) -> str:
    """Format a relative change, such as ``+3.1%`` for 0.031."""
    return signed(share, ",.1%")


def duration(seconds: float) -> str:
    """Format a duration roughly: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_YEAR_10000 = 253_402_300_800
"""The end of the year 9999 in Unix seconds, the latest time that has a date."""


def day_of(timestamp: float) -> str:
    """Return the day of a time in Unix seconds, ``2026-11-21`` (UTC); empty if the time is unknown, which is 0."""
    if not 0 < timestamp < _YEAR_10000:
        return ""
    return f"{datetime.datetime.fromtimestamp(timestamp, datetime.timezone.utc):%Y-%m-%d}"


def range_text(numbers: Sequence[float]) -> str:
    """Return ``3``, or ``3 to 5`` if they differ."""
    least, most = min(numbers), max(numbers)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def first_of(texts: Sequence[str], most: int, more: str = "more") -> list[str]:
    """Return the first ``most`` texts, and ``and 3 more`` as another one if there are more."""
    hidden = len(texts) - most
    return [*texts[:most], *([f"and {hidden:,} {more}"] if hidden > 0 else [])]


def first_and_last(text: str) -> str:
    """Of the lines of a failure, the first one, which says what failed, and the last one, which mostly says why."""
    lines = text.strip().splitlines()
    return " … ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 case``, ``2,000 cases``; ``plural`` if it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
