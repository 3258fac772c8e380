"""Read a records file that is not one JSON value: JSONEachRow, and whatever is broken or cut off.

A line that holds a record, or a list of records, is safe from its neighbours. In what is left between such
lines, every JSON object that can be decoded at the place of an element is one, and the text up to the next
record is broken.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.records.limits import check_elements, checkpoint
from torchperf_ci.records.parsing import Broken, Element, decode, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEPARATORS = re.compile(r"[ \t\n\r,\[\]]*")
_CONTENT = re.compile(r"[^ \t\n\r,\[\]]")
_METRIC = '"metric"'
_EFFORT = 100
"""How often the whole text may be decoded in vain: hostile nesting would otherwise cost its length squared."""
_ELEMENT_START = re.compile(r"(?:^[ \t]*|[\[,\]}][ \t\n\r]*)(?=\{)", re.MULTILINE)


def rescue(text: str) -> list[Element | Broken]:
    """Return the pieces of ``text`` in order; nothing but separators is in none of them."""
    return _Rescue(text).run()


class _Rescue:
    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[Element | Broken] = []
        self._open = 0
        self._index: int | None = None
        self._effort = _EFFORT * len(text)

    def run(self) -> list[Element | Broken]:
        safe = list(_safe_lines(self._text))
        position = 0
        for start, end, found in safe:
            self._scan(position, start, by_line=True)
            for item in found:
                self._add(replace(item, path=self._path(item.path)))
            position = end
        self._scan(position, len(self._text), by_line=bool(safe))
        self._note_open_list()
        return self._pieces

    def _scan(self, start: int, end: int, *, by_line: bool) -> None:
        """Find what can be decoded in ``text[start:end]``; the broken rest is one piece, or one a line."""
        run = self._text[start:end]
        last = run.rfind(_METRIC)
        position = self._skip_separators(run, 0)
        while position < len(run):
            element = self._object_at(run, position)
            if element:
                after = element.end
                self._add(_shifted(element, start, self._path("$")))
            else:
                after = self._next_record(run, position, last)
                for a, b in _lines_of(run, position, after) if by_line else [(position, after)]:
                    self._add(_broken(self._text, start + a, start + b, self._path("$")))
            position = self._skip_separators(run, after)

    def _add(self, piece: Element | Broken) -> None:
        check_elements(len(self._pieces) + 1)
        self._pieces.append(piece)

    def _next_record(self, run: str, position: int, last: int) -> int:
        """Where the next record begins after the broken text at ``position``; the end where there is none.

        Only records count: the parts of a broken record are objects too. No record begins after ``last``.
        """
        for match in _ELEMENT_START.finditer(run, position + 1):
            start = match.end()
            if start > last or self._effort < 0:
                break
            element = self._object_at(run, start)
            if element and _is_record(element.value):
                return start
            if element:  # a part of something broken, whose own parts may come next
                self._effort -= element.end - start
        return len(run)

    def _object_at(self, run: str, position: int) -> Element | None:
        checkpoint()
        try:
            value, end = decode(run, position)
        except json.JSONDecodeError as error:
            # The error itself counts the lines before it, about fifty times as fast as decoding them.
            self._effort -= error.pos - position + error.pos // 50
            return None
        except RecursionError:
            self._effort -= len(run) - position
            return None
        return Element(position, end, "$", value) if isinstance(value, dict) else None

    def _skip_separators(self, run: str, position: int) -> int:
        end = _end(_SEPARATORS.match(run, position), position)
        begun, ended = run.rfind("[", position, end), run.rfind("]", position, end)
        self._open += run.count("[", position, end) - run.count("]", position, end)
        if begun != ended:  # there is at least one of them
            self._index = 0 if begun > ended else None
        return end

    def _path(self, own: str) -> str:
        """The path of the next element; items of a list on a line of its own have theirs."""
        if own != "$" or self._index is None:
            return own
        self._index += 1
        return f"$[{self._index - 1}]"

    def _note_open_list(self) -> None:
        if self._open > 0 and not any(isinstance(piece, Broken) for piece in self._pieces):
            end = len(self._text)
            reason = "a list is never closed; the file was probably cut off, and records may be missing"
            self._pieces.append(Broken(end, end, "$", end, reason))


def _safe_lines(text: str) -> Iterator[tuple[int, int, list[Element]]]:
    """Yield each line that is by itself a record or a list of records, perhaps with an outer list's comma."""
    end = 0
    while (at := text.find(_METRIC, end)) >= 0:
        checkpoint()
        start = text.rfind("\n", end, at) + 1 or end
        end = _line_end(text, at, len(text))
        if found := _records_on(text[start:end]):
            yield start, end, [_shifted(item, start, item.path) for item in found]


def _records_on(line: str) -> list[Element]:
    try:
        found = whole(line.rstrip(" \t\r,"))
    except (ValueError, RecursionError):
        return []
    return found if all(_is_record(item.value) for item in found) else []


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and "metric" in value


def _lines_of(run: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while content := _CONTENT.search(run, start, end):
        line_end = _line_end(run, content.start(), end)
        yield run.rfind("\n", start, content.start()) + 1 or start, line_end
        start = line_end


def _line_end(text: str, position: int, end: int) -> int:
    found = text.find("\n", position, end)
    return end if found < 0 else found


def _end(match: re.Match[str] | None, position: int) -> int:
    return match.end() if match else position


def _broken(text: str, start: int, end: int, path: str) -> Broken:
    piece = text[start:end]
    kept = piece.strip(" \t\n\r,")
    start += len(piece) - len(piece.lstrip(" \t\n\r,"))
    at, reason = _syntax_error(kept)
    return Broken(start, start + len(kept), path, start + at, reason)


def _syntax_error(piece: str) -> tuple[int, str]:
    try:
        decode(piece, 0)
    except json.JSONDecodeError as error:
        return error.pos, f"is not valid JSON: {error.msg}"
    except RecursionError:
        return 0, "is nested too deeply"
    return 0, "is not a JSON object"


def _shifted(item: Element, offset: int, path: str) -> Element:
    return Element(item.start + offset, item.end + offset, path, item.value)
