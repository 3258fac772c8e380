"""Render documents as GitHub Markdown, shortened to a given number of bytes.

Every string of a document is shown as plain text: without markup, mentions, references or invisible characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from math import floor, log10

from torchperf_ci import document as doc
from torchperf_ci.actions import SUMMARY_ROOM, one_line, printable

WEB = re.compile(r"https?://[\w.-]+(:\d+)?(/[^\s<>()\[\]\\`\"'|]*)?", re.ASCII)
"""URLs that a document may link to."""
LOGIN = re.compile(r"[A-Za-z0-9][\w-]{0,38}", re.ASCII)
"""Logins of people and organizations. Those of apps contain brackets, and apps read no notifications."""

_EACH = 10
"""Rows that every list gets before any list gets more."""
_MAX_COMMAND_LENGTH = 4000
_TOO_LONG = "# This command is too long to be shown here: it is in the files."
_NO_ROOM = "There is no room here for the details: they are in the files."
MARKS: Mapping[str, str] = {"bad": "❌", "warning": "⚠️", "good": "🟢"}
"""The emoji before a word of this tone."""
_SPECIAL = re.compile(
    r"[\\`*_~|<>&\[\]$@#]"  # markup, cells, HTML, mathematics, mentions, references
    r"|:(?=//|[\w+-]+:)"  # of an address, of an emoji
    r"|(?<=www)\.|(?<=GH)(?<![A-Za-z0-9]GH)-",
    re.IGNORECASE,
)
_BEGINNING = re.compile(r"[-+](?=[-+\s]|$)|(?<=\d)[.)](?=\s|$)")
"""What can turn a line that starts with it, or with a number and it, into a list or a rule."""
_NOTHING = "<!-- -->"
"""Invisible text that ends a mention, a reference or a list."""
_LOOK = """---
config:
  xyChart: {width: 800, height: 320}
  themeVariables:
    xyChart: {plotColorPalette: "#4493f8, #d1242f"}
---
"""
"""Colors that are visible on white and on black; GitHub's own theme draws the first line too pale."""
_DIGITS = 6
_NAME_LENGTH = 120


def to_markdown(document: doc.Document, room: int = SUMMARY_ROOM) -> str:
    """Render a document in at most ``room`` bytes of UTF-8, at least some hundred; by default, those of a summary.

    Until it fits, tables and lists lose their last rows, beginning with the last list, and say how many.
    """
    blocks = list(doc.shown_on("page", document.blocks))
    lengths = list(_lengths(blocks))

    def text(rows: int) -> str:
        return _whole(document.title, blocks, iter(_shares(lengths, rows)))

    return fitted(text, room, sum(lengths)) or _without_details(document, room)


def escaped(text: str) -> str:
    """Escape ``text`` such that Markdown shows it literally, on one line."""
    return _SPECIAL.sub(_reference, printable(re.sub(r"\s+", " ", text)))


def _whole(title: doc.Words, blocks: Sequence[doc.Block], shares: Iterator[int]) -> str:
    head = [f"### {_line(title)}"] if doc.text_of(title) else []
    return "\n\n".join([*head, *_blocks(blocks, shares)]) + "\n"


def _without_details(document: doc.Document, room: int) -> str:
    """Return the hidden data, the beginning of the title, and a note that there is no room for more."""
    hidden = [block for block in document.blocks if isinstance(block, doc.Hidden)]
    title = doc.text_of(document.title)

    def text(length: int) -> str:
        return _whole(doc.short(title, max(length, 1)), [*hidden, doc.Paragraph(_NO_ROOM)], repeat(0))

    return fitted(text, room, len(title)) or text(0)


def _lengths(blocks: Sequence[doc.Block]) -> Iterator[int]:
    """Yield the number of rows of each list, in the order of rendering."""
    for block in blocks:
        match block:
            case doc.Note():
                yield len(block.lines)
            case doc.Bullets():
                yield min(len(block.items), block.most)
            case doc.Table():
                yield min(len(block.rows), block.most)
            case doc.Folded() | doc.Replaceable():
                yield from _lengths(block.blocks)


def _shares(lengths: Sequence[int], rows: int) -> list[int]:
    """Distribute ``rows`` over the lists: first some to each, then the rest in the order of the lists."""
    shares = [0] * len(lengths)
    for most in (_EACH, max(lengths, default=0)):
        for index, length in enumerate(lengths):
            taken = max(min(min(length, most) - shares[index], rows), 0)
            shares[index] += taken
            rows -= taken
    return shares


def _blocks(blocks: Sequence[doc.Block], shares: Iterator[int]) -> Iterator[str]:
    above: doc.Block | None = None
    for block in blocks:
        if isinstance(block, doc.Commands) and isinstance(above, doc.Bullets):
            yield _NOTHING  # otherwise the commands would belong to the last item
        yield _block(block, shares)
        above = block


def _block(block: doc.Block, shares: Iterator[int]) -> str:
    match block:
        case doc.Heading():
            return f"#### {_line(block.words)}"
        case doc.Paragraph():
            line = _beginning(_line(block.words))
            return f"<sub>{line}</sub>" if block.small else line
        case doc.Note():
            lines = [f"> {_beginning(_line(line))}" for line in block.lines]
            return "\n>\n".join(_first(lines, next(shares), "> "))
        case doc.Bullets():
            items = [f"- {_beginning(_line(item))}" for item in block.items]
            return "\n".join(_first(items, next(shares), "- "))
        case doc.Commands():
            return _commands(block.lines)
        case doc.Table():
            return _table(block, next(shares))
        case doc.Chart():
            return _mermaid(block)
        case doc.Folded():
            title = escaped(doc.text_of(block.title)).strip()
            inner = "\n\n".join(_blocks(block.blocks, shares))
            return f"<details><summary>{title}</summary>\n\n{inner}\n\n</details>"
        case doc.Replaceable(name=name):
            inner = "\n\n".join(_blocks(block.blocks, shares))
            return f"<!-- {name} -->\n{inner}\n<!-- /{name} -->"
        case doc.Hidden():
            return "<!-- " + re.sub(r"--|[<>\r\n]", "", block.text) + " -->"
        case doc.OnlyOn():
            return ""


def _commands(lines: Iterable[str]) -> str:
    """Return commands as indented code, which is shown verbatim, may have line breaks, and cannot be closed by them."""
    return "\n".join(
        f"    {one_line(line)}"
        for command in lines
        for line in (command if len(command) <= _MAX_COMMAND_LENGTH else _TOO_LONG).split("\n")
    )


def _table(table: doc.Table, most: int) -> str:
    title = filter(None, [_piece(doc.Bold(table.title))])
    heads = [escaped(column.head) for column in table.columns]
    rows = [map(_line, row) for row in table.rows[:most]]
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    return "\n\n".join([*title, "\n".join(lines), *_more(len(table.rows) - most)])


def _first(lines: Sequence[str], most: int, begin: str) -> list[str]:
    return [*lines[:most], *_more(len(lines) - most, begin)]


def _more(hidden: int, begin: str = "") -> list[str]:
    """Return a line that says how many rows are left out, if any; it starts with ``begin``."""
    return [f"{begin}…and {hidden:,} more, left out here"] if hidden > 0 else []


def _line(words: doc.Words) -> str:
    return "".join(map(_piece, doc.pieces(words))).strip()


def _beginning(line: str) -> str:
    """Escape the beginning of a line that would make it a list or a rule."""
    number = len(line) - len(line.lstrip("0123456789"))
    match = _BEGINNING.match(line, number)
    return f"{line[:number]}&#{ord(line[number])};{line[number + 1 :]}" if match else line


def _piece(piece: doc.Piece) -> str:
    match piece:
        case str():
            return escaped(piece)
        case doc.Bold():
            text = escaped(piece.text).strip()
            return f"**{text}**" if text else ""
        case doc.Code():
            return _code(piece.text)
        case doc.Link():
            shown = _piece(piece.text)
            return f"[{shown}]({piece.url})" if WEB.fullmatch(piece.url) else shown
        case doc.Mention():
            return f"@{piece.login}" if LOGIN.fullmatch(piece.login) else escaped(piece.login)
        case doc.Highlighted():
            return f"{MARKS[piece.tone]} {escaped(piece.text)}"
        case doc.NoWrap():
            return _unbroken(escaped(piece.text))


def _code(text: str) -> str:
    text = printable(" ".join(text.split()))
    return f"<code>{escaped(text)}</code>" if set(text) & set("`|\\") or not text else f"`{text}`"


def _unbroken(line: str) -> str:
    parts = line.split(_NOTHING)
    joined = (part.replace(" ", "\N{NO-BREAK SPACE}").replace("…", "…\N{WORD JOINER}") for part in parts)
    return _NOTHING.join(joined)


def _reference(match: re.Match[str]) -> str:
    character = match[0]
    return f"{character}{_NOTHING}" if character in "@#-" else f"&#{ord(character)};"


def _mermaid(chart: doc.Chart) -> str:
    """Return a Mermaid chart, which GitHub draws: https://mermaid.js.org/syntax/xyChart.html"""
    low, high = chart.bounds
    lines = (
        f"{_LOOK}xychart-beta",
        f'title "{_in_chart(chart.title)}"',
        f'x-axis "{_in_chart(chart.along)}, {chart.origin}" {1 - len(chart.values)} --> 0',
        f'y-axis "{_in_chart(chart.unit)}" {_numbers([low])} --> {_numbers([high])}',
        f"line [{_numbers(chart.values)}]",
        *([f"line [{_numbers(chart.levels)}]"] if chart.levels else []),
    )
    legend = f"\n\n<sub>{chart.legend}</sub>" if chart.legend else ""
    return "\n    ".join(["```mermaid\n" + lines[0], *lines[1:]]) + f"\n```{legend}"


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(map(_decimal, values))


def _decimal(value: float) -> str:
    """Format a number without an exponent, which Mermaid does not support."""
    decimals = _DIGITS - 1 - floor(log10(abs(value))) if value else 0
    return f"{value:.{max(min(decimals, 20), 0)}f}"


def _in_chart(text: str) -> str:
    """Return ``text`` without characters that have a meaning in Mermaid, even within quotation marks."""
    kept = " ".join(re.sub(r"[^\w./()+ -]", " ", text, flags=re.ASCII).split())
    return doc.short(kept, _NAME_LENGTH) or "value"


def fitted(document: Callable[[int], str], room: int, most: int) -> str | None:
    """Return the document with as many rows, up to ``most``, as fit into ``room`` bytes of UTF-8; None if 0 do not.

    ``document`` is called with the number of rows, and its size must grow with it.
    """
    fitting = bisect_right(range(most + 1), room, key=lambda rows: size(document(rows)))
    return document(fitting - 1) if fitting else None


def size(text: str) -> int:
    """Return the size of ``text`` in bytes of UTF-8."""
    return len(text.encode("utf-8", "replace"))
