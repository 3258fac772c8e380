"""Split the text of a records file into JSON values, even where the file is corrupt or truncated.

A line that holds a record, or a list of records, is read regardless of its neighbours. The text between such lines is
read element by element; text that cannot be decoded counts as broken up to the next record.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from torchperf_ci.records.files import check_elements, checkpoint

_SPACE = re.compile(r"[ \t\n\r]*")
_MAX_DIGITS = 4300  # Python refuses to convert longer integers, and no column holds them


class RepeatedKeys(dict[str, object]):
    """A JSON object that has the key ``repeated`` more than once; the dict holds the last value of each key."""

    repeated = ""


@dataclass(frozen=True)
class Element:
    """One JSON value, ``text[start:end]`` decoded, and its JSON path."""

    start: int
    end: int
    path: str
    value: object


@dataclass(frozen=True)
class Broken:
    """A piece of text, ``text[start:end]``, that is not a JSON object; ``at`` and ``reason`` say where and why."""

    start: int
    end: int
    path: str
    at: int
    reason: str


def whole(text: str) -> list[Element]:
    """Return the items of ``text`` if it is a JSON list, else its single value.

    Raises ``ValueError`` or ``RecursionError`` where the text is not one JSON value.
    """
    start = _skip_space(text, 0)
    if text.startswith("[", start):
        elements, end = _items(text, start + 1)
    else:
        value, end = decode(text, start)
        elements = [Element(start, end, "$", value)]
    if _skip_space(text, end) != len(text):
        raise ValueError("something follows the value")
    return elements


def decode(text: str, start: int) -> tuple[object, int]:
    """Decode the JSON value at ``start``; return it and where it ends.

    NaN and Infinity become floats, and so does an integer of more than 4300 digits (infinity). Raises
    ``ValueError`` for a syntax error and ``RecursionError`` for a value nested about a thousand levels deep.
    """
    return _DECODER.raw_decode(text, start)


def _items(text: str, start: int) -> tuple[list[Element], int]:
    elements: list[Element] = []
    position = _skip_space(text, start)
    while not text.startswith("]", position):
        checkpoint()
        check_elements(len(elements) + 1)
        if elements:
            if not text.startswith(",", position):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
            position = _skip_space(text, position + 1)
        value, end = decode(text, position)
        elements.append(Element(position, end, f"$[{len(elements)}]", value))
        position = _skip_space(text, end)
    return elements, position + 1


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    ambiguous = RepeatedKeys(value)
    ((ambiguous.repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
    return ambiguous


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer)


_SEPARATORS = " \t\n\r,[]"
_NEXT = re.compile(rf"[^{re.escape(_SEPARATORS)}]")
_ELEMENT_START = re.compile(r"(?:^[ \t]*|[\[,\]}][ \t\n\r]*)(?=\{)", re.MULTILINE)
_METRIC = '"metric"'
_EFFORT = 100
"""How often the whole text may be decoded without success: hostile nesting would otherwise take quadratic time."""


def recover(text: str) -> list[Element | Broken]:
    """Return the pieces of a corrupt ``text`` in order; together they cover everything but separators."""
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
        """Return where the next record begins after the broken text at ``position``, or the end of the text.

        Objects that are not records do not count, since the parts of a broken record are objects, too. No record
        begins after ``last``.
        """
        for match in _ELEMENT_START.finditer(part, position + 1):
            start = match.end()
            if start > last or self._effort < 0:
                break
            element = self._object_at(part, start)
            if element and _is_record(element.value):
                return start
            if element:  # part of a broken object; its own parts may come next
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
    """Yield each line that is a record or a list of records by itself, with or without a trailing comma."""
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
    """Split a broken piece of text into one piece per line."""
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
    """Return a broken piece for the missing end of a list whose elements are all complete."""
    if text.rstrip().endswith("]") or any(isinstance(piece, Broken) for piece in pieces):
        return []
    reason = "a list is never closed; the file was probably cut off, and records may be missing"
    return [Broken(len(text), len(text), "$", len(text), reason)]
