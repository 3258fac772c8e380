"""Terminal output: lines, tables, documents and progress bars."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

from torchperf_ci import document as doc
from torchperf_ci.actions import in_actions, literal, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import rich.progress
    from rich.console import RenderableType
    from rich.text import Text


WIDTH = 200
"""Columns where there is no terminal, such as in a job's log."""
UNLIMITED = 10_000
"""Columns for output that programs process."""
_GAPS = (2, 1)
"""Spaces between the columns of a table; the second value is used where space is short."""
_INDENT = "    "
_NARROWEST_PROSE = 30
_UNBROKEN = "\N{NO-BREAK SPACE}"


def say(*lines: str, out: TextIO | None = None) -> None:
    """Write lines, by default to stderr; nothing in them is taken for a command by a runner or a terminal."""
    stream = out or sys.stderr
    with literal() if stream is sys.stderr else nullcontext():
        stream.writelines(f"{one_line(line)}\n" for line in lines)
        stream.flush()


def is_terminal(out: TextIO) -> bool:
    """Whether a person is watching; a job's log does not count, even if it looks like a terminal."""
    return out.isatty() and not in_actions()


def width_of(out: TextIO) -> int:
    """Return the width of the terminal ``out``, or :data:`WIDTH` if it is not a terminal."""
    from rich.console import Console

    return Console(file=out).width if is_terminal(out) else WIDTH


class Progress:
    """Shows the progress of a long command on stderr: a bar on a terminal that can redraw it, else a line a step.

    ``total`` is the number of steps or, if ``timed``, the seconds that all of them may take.
    """

    def __init__(self, total: float, *, timed: bool = False) -> None:
        self._total, self._timed, self._start = total, timed, time.monotonic()
        self._step = ""
        can_redraw = is_terminal(sys.stderr) and os.environ.get("TERM") not in ("dumb", "unknown")
        self._bar = _bar(total, timed=timed) if can_redraw else None

    def begin(self, step: object) -> None:
        """Begin a step; a log gets its line at the end of the step."""
        self._step = one_line(step)
        if self._bar:
            self._move(self._bar, self._step)

    def show_phase(self, phase: str) -> None:
        """Show the phase that the current step has reached, on a terminal only."""
        if self._bar:
            self._move(self._bar, f"{self._step}: {phase}")

    def end(
        self, result: str, done: int = 0, state: str = "", *, failed: bool = False, log: Sequence[str] = ()
    ) -> None:
        """End the current step, with which ``done`` steps are done; ``result`` describes it, ``state`` the whole.

        If it ``failed``, its line and the lines of its ``log`` stay visible on the terminal, too.
        """
        spent = time.monotonic() - self._start
        if self._bar:
            self._move(self._bar, one_line(f"{state}; {result}" if state else result), done)
        elif self._timed:
            say(f"[{min(spent, self._total):.0f} of {self._total:.0f} s, {state}] {result}")
        else:
            left = round(spent / done * (self._total - done))
            say(f"[{done}/{self._total}, {left // 60}:{left % 60:02d} left] {result}")
        for line in [*([result] if failed and self._bar else []), *(f"{_INDENT}{line}" for line in log)]:
            if self._bar:
                self._bar.console.print(one_line(line), markup=False, highlight=False, soft_wrap=True)
            else:
                say(line)

    def close(self) -> None:
        """Restore the terminal."""
        if self._bar:
            self._bar.stop()

    def _move(self, bar: rich.progress.Progress, description: str, done: int | None = None) -> None:
        spent = min(time.monotonic() - self._start, self._total)
        bar.update(bar.task_ids[0], completed=spent if self._timed else done, description=description)


def _bar(total: float, *, timed: bool) -> rich.progress.Progress:
    """Start a progress bar on stderr, with a spinner, elapsed and remaining time, and the full description below."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class BarAboveText(progress.Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.description) for task in self.tasks)

    bar = BarAboveText(
        progress.SpinnerColumn(),
        progress.BarColumn(bar_width=20),
        *([] if timed else [progress.MofNCompleteColumn()]),
        progress.TimeElapsedColumn(),
        progress.TextColumn("elapsed,"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("left"),
        console=Console(stderr=True),
        speed_estimate_period=_ESTIMATE_SECONDS,
    )
    bar.add_task("", total=total)
    bar.start()
    return bar


_ESTIMATE_SECONDS = 600.0
"""Period over which the remaining time is estimated: long, because steps differ a lot in length."""


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a spinner with ``text`` on a terminal during the block; a log shows nothing."""
    if not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(one_line(text))):
        yield


def print_line(text: str, out: TextIO, style: str = "") -> None:
    """Print a line without wrapping it; the terminal may do so."""
    from rich.text import Text

    _print(Text(one_line(text), style=style), out)


def print_table(
    columns: Sequence[doc.Column],
    rows: Iterable[Sequence[object]],
    out: TextIO,
    *,
    styles: Mapping[str, str] | None = None,
    width: int | None = None,
) -> None:
    """Print a table such that no number, word or name is truncated, whatever the width.

    Empty columns are left out. If the table is too wide, values that all rows share are printed once above it; if it is
    still too wide, each row becomes a paragraph. ``styles`` are those of rich, by the text of a cell. At most one
    column may be prose.
    """
    texts = [[one_line(cell) for cell in row] for row in rows]
    if not texts:
        return
    kept = [place for place in range(len(columns)) if any(row[place] for row in texts)]
    named = [replace(column, head=one_line(column.head)) for column in columns]
    columns, cells = _only(kept, named, texts)
    width = width or width_of(out)
    layout = _layout(columns, cells, width)
    if not layout:
        columns, cells = _said_once(columns, cells, width, out)
        layout = _layout(columns, cells, width)
    if layout:
        _print_grid(columns, cells, *layout, styles or {}, out)
        return
    for row in cells:
        for line in _paragraph(columns, row, width, styles or {}):
            _print(line, out)


def _print(what: RenderableType, out: TextIO) -> None:
    """Print without truncating; the terminal wraps lines that are too long. Raises what ``out`` raises."""
    from rich.console import Console

    console = Console(file=out, width=UNLIMITED, highlight=False)
    with console.capture() as printed:
        console.print(what, soft_wrap=True)
    out.write(printed.get())


def _only(
    places: Sequence[int], columns: Sequence[doc.Column], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[doc.Column], Sequence[Sequence[str]]]:
    return [columns[place] for place in places], [[row[place] for place in places] for row in rows]


def _said_once(
    columns: Sequence[doc.Column], rows: Sequence[Sequence[str]], width: int, out: TextIO
) -> tuple[Sequence[doc.Column], Sequence[Sequence[str]]]:
    """Print the columns that are equal in all rows, except the first column, and remove them from the table."""
    common = [
        place
        for place, column in enumerate(columns)
        if place and column.kind == "text" and len(rows) > 1 and len({row[place] for row in rows}) == 1
    ]
    if not common:
        return columns, rows
    parts = (f"{columns[place].head} {rows[0][place]}".replace(" ", _UNBROKEN) for place in common)
    for line in wrap(", ".join(parts), width, break_long_words=False, break_on_hyphens=False):
        print_line(line.replace(_UNBROKEN, " "), out)
    return _only([place for place in range(len(columns)) if place not in common], columns, rows)


def _layout(
    columns: Sequence[doc.Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[int, Sequence[int]] | None:
    """Return the gap and the width of each column; None if the table does not fit. Heads may take several lines."""
    from rich.cells import cell_len

    prose = [column.kind == "prose" for column in columns]
    contents = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    whole, broken = [[column.head] for column in columns], [column.head.split() for column in columns]
    for gap, heads in zip((_GAPS[0], *_GAPS), (whole, broken, broken), strict=True):
        room = width - gap * (len(columns) - 1)
        widths = [max(content, *map(cell_len, head)) for content, head in zip(contents, heads, strict=True)]
        least = [
            min(each, _NARROWEST_PROSE) if wraps else each for each, wraps in zip(widths, prose, strict=True)
        ]
        if sum(least) <= room:
            spare = room - sum(least)
            return gap, [min(each, few + spare) for each, few in zip(widths, least, strict=True)]
    return None


def _print_grid(
    columns: Sequence[doc.Column],
    rows: Sequence[Sequence[str]],
    gap: int,
    widths: Sequence[int],
    styles: Mapping[str, str],
    out: TextIO,
) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, gap, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        grid.add_column(
            Text(column.head), justify="right" if column.kind == "number" else "left", width=width
        )
    for row in rows:
        grid.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    _print(grid, out)


def _paragraph(
    columns: Sequence[doc.Column], row: Sequence[str], width: int, styles: Mapping[str, str]
) -> Iterator[Text]:
    """Yield a row as lines: as many cells per line as fit, numbers with their heads; prose last, indented if long."""
    from rich.text import Text

    line = Text()
    for column, cell in zip(columns, row, strict=True):
        if not cell or column.kind == "prose":
            continue
        piece = Text(f"{column.head} {cell}" if column.kind == "number" else cell, style=styles.get(cell, ""))
        if line and line.cell_len + _GAPS[0] + piece.cell_len > width:
            yield line
            line = Text(_INDENT)
        elif line:
            line.append(" " * _GAPS[0])
        line.append_text(piece)
    prose = "".join(cell for column, cell in zip(columns, row, strict=True) if column.kind == "prose")
    if prose and line.cell_len + _GAPS[0] + Text(prose).cell_len <= width:
        line, prose = line.append(" " * _GAPS[0] + prose), ""
    yield line
    for part in wrap(prose, width - len(_INDENT), break_long_words=False, break_on_hyphens=False):
        yield Text(f"{_INDENT}{part}")


MAX_ROWS = 100
"""Most rows of a table or a list."""
_STYLES: Mapping[str, str] = {"bad": "bold red", "warning": "yellow", "good": "green"}


def print_document(
    document: doc.Document, out: TextIO, *, rest: str = "all of them in the file", most: int = MAX_ROWS
) -> None:
    """Print everything but the title, which commands print last, on stderr. A runner takes none of it for a command.

    Tables and lists have at most ``most`` rows; ``rest`` says where to find the others.
    """
    _DocumentPrinter(out, rest, most).blocks(list(doc.shown_on("terminal", document.blocks)))


@dataclass(frozen=True)
class _DocumentPrinter:
    out: TextIO
    rest: str
    most: int

    def blocks(self, blocks: Sequence[doc.Block]) -> None:
        for place, block in enumerate(blocks):
            if place and _begins_a_part(block):
                self.line("")
            self.block(block)

    def block(self, block: doc.Block) -> None:
        match block:
            case doc.Heading():
                self.line(block.words, "bold")
            case doc.Paragraph():
                self.line(block.words, "bold" if _begins_a_part(block) else "")
            case doc.Note():
                self.lines(block.lines)
            case doc.Bullets():
                self.lines([f"- {doc.text_of(item)}" for item in block.items], block.most)
            case doc.Commands():
                for line in block.lines:
                    self.line(f"    {line}")
            case doc.Table():
                self.table(block)
            case doc.Chart():
                self.line(block.summary)
            case doc.Folded():
                self.line(block.title, "bold")
                self.blocks(block.blocks)
            case doc.Replaceable():
                self.blocks(block.blocks)
            case _:
                pass  # for programs alone

    def line(self, words: doc.Words, style: str = "") -> None:
        print_line(doc.text_of(words), self.out, style)

    def lines(self, lines: Sequence[doc.Words], most: int | None = None) -> None:
        shown = lines[: self.most if most is None else min(most, self.most)]
        for line in shown:
            self.line(line)
        self.left_out(len(lines) - len(shown))

    def table(self, table: doc.Table) -> None:
        if table.title:
            self.line(table.title, "bold")
        shown = table.rows[: min(table.most, self.most)]
        cells = [[doc.text_of(cell) for cell in row] for row in shown]
        print_table(table.columns, cells, self.out, styles=_styles(table))
        self.left_out(len(table.rows) - len(shown))

    def left_out(self, hidden: int) -> None:
        if hidden > 0:
            self.line(f"and {hidden:,} more, {self.rest}")


def _begins_a_part(block: doc.Block) -> bool:
    match block:
        case doc.Heading() | doc.Folded():
            return True
        case doc.Table():
            return bool(block.title)
        case doc.Paragraph():
            return isinstance(doc.pieces(block.words)[0], doc.Bold)
        case _:
            return False


def _styles(table: doc.Table) -> dict[str, str]:
    """Return the styles of highlighted words, by their text."""
    words = [word for row in table.rows for cell in row for word in doc.pieces(cell)]
    return {word.text: _STYLES[word.tone] for word in words if isinstance(word, doc.Highlighted)}
