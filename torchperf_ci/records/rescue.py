"""Recover the records of a file that is not one JSON value: JSONEachRow, and whatever is broken or cut off.

A line that holds a record, or a list of records, is safe from its neighbours. What is left between such lines is read
one element after the other; what cannot be decoded is broken up to the next record.
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

_SEPARATORS = " \t\n\r,[]"
_NEXT = re.compile(rf"[^{re.escape(_SEPARATORS)}]")
_ELEMENT_START = re.compile(r"(?:^[ \t]*|[\[,\]}][ \t\n\r]*)(?=\{)", re.MULTILINE)
_METRIC = '"metric"'
_EFFORT = 100
"""How often the whole text may be decoded in vain: hostile nesting would otherwise cost its length squared."""


def recover(text: str) -> list[Element | Broken]:
    """Return the pieces of ``text`` in order; nothing but separators is in none of them."""
    lines = list(_lines_of_records(text))
    scan = _ElementScan(text)
    pieces: list[Element | Broken] = []
    position = 0
    for start, end, records in [*lines, (len(text), len(text), [])]:
        for piece in scan.pieces(position, start):
            check_elements(len(pieces) + 1)
            pieces += _by_line(text, piece) if lines and isinstance(piece, Broken) else [piece]
        pieces += records
        check_elements(len(pieces))
        position = end
    # Of one list: what the first line holds is not a list of its own.
    if text.lstrip().startswith("[") and not (pieces and pieces[0].path != "$"):
        pieces = [
            replace(piece, path=f"$[{index}]") if piece.path == "$" else piece
            for index, piece in enumerate(pieces)
        ]
        pieces += _cut_off(text, pieces)
    return pieces


class _ElementScan:
    """Reads elements out of parts of a text, and passes over what is broken."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._effort = _EFFORT * len(text)

    def pieces(self, start: int, end: int) -> Iterator[Element | Broken]:
        part = self._text[start:end]
        last = part.rfind(_METRIC)
        position = 0
        while found := _NEXT.search(part, position):
            element = self._object_at(part, found.start())
            if element:
                position = element.end
                yield replace(element, start=start + element.start, end=start + element.end)
            else:
                position = self._next_record(part, found.start(), last)
                yield _broken(self._text, start + found.start(), start + position)

    def _next_record(self, part: str, position: int, last: int) -> int:
        """Where the next record begins after the broken text at ``position``; the end where there is none.

        Only records count: the parts of a broken record are objects too. No record begins after ``last``.
        """
        for match in _ELEMENT_START.finditer(part, position + 1):
            start = match.end()
            if start > last or self._effort < 0:
                break
            element = self._object_at(part, start)
            if element and _is_record(element.value):
                return start
            if element:  # a part of something broken, whose own parts may come next
                self._effort -= element.end - start
        return len(part)

    def _object_at(self, part: str, position: int) -> Element | None:
        checkpoint()
        try:
            value, end = decode(part, position)
        except json.JSONDecodeError as error:
            # The error itself counts the lines before it, about fifty times as fast as decoding them.
            self._effort -= error.pos - position + error.pos // 50
            return None
        except RecursionError:
            self._effort -= len(part) - position
            return None
        return Element(position, end, "$", value) if isinstance(value, dict) else None


def _lines_of_records(text: str) -> Iterator[tuple[int, int, list[Element]]]:
    """Yield each line that is by itself a record or a list of records, perhaps with an outer list's comma."""
    end = 0
    while (at := text.find(_METRIC, end)) >= 0:
        checkpoint()
        start = text.rfind("\n", end, at) + 1 or end
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        try:
            found = whole(text[start:end].rstrip(" \t\r,"))
        except (ValueError, RecursionError):
            continue
        if all(_is_record(item.value) for item in found):
            yield (
                start,
                end,
                [replace(item, start=start + item.start, end=start + item.end) for item in found],
            )


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and "metric" in value


def _by_line(text: str, broken: Broken) -> list[Element | Broken]:
    """The same text, one piece a line."""
    pieces: list[Element | Broken] = []
    position = broken.start
    for line in text[broken.start : broken.end].split("\n"):
        if line.strip(_SEPARATORS):
            pieces.append(_broken(text, position, position + len(line)))
        position += len(line) + 1
    return pieces


def _broken(text: str, start: int, end: int) -> Broken:
    padded = text[start:end].rstrip(" \t\n\r,")
    piece = padded.lstrip(" \t\n\r,")
    start += len(padded) - len(piece)
    at, reason = 0, "is not a JSON object"
    try:
        decode(piece, 0)
    except json.JSONDecodeError as error:
        at, reason = error.pos, f"is not valid JSON: {error.msg}"
    except RecursionError:
        reason = "is nested too deeply"
    return Broken(start, start + len(piece), "$", start + at, reason)


def _cut_off(text: str, pieces: list[Element | Broken]) -> list[Broken]:
    """The missing end of a list of which every element is whole."""
    if text.rstrip().endswith("]") or any(isinstance(piece, Broken) for piece in pieces):
        return []
    reason = "a list is never closed; the file was probably cut off, and records may be missing"
    return [Broken(len(text), len(text), "$", len(text), reason)]
