"""Take the text of a records file apart into the JSON values that it holds."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from torchperf_ci.records.limits import check_elements, checkpoint

_SPACE = re.compile(r"[ \t\n\r]*")
_MAX_DIGITS = 4300  # Python converts no longer integer, and no column holds one


class RepeatedKeys(dict[str, Any]):
    """A JSON object with the key ``repeated`` more than once; the dict holds the last value of each."""

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
    """A piece of text, ``text[start:end]``, that is no JSON object, and where (``at``) and why it is none."""

    start: int
    end: int
    path: str
    at: int
    reason: str


def whole(text: str) -> list[Element]:
    """Return the items of the JSON list that ``text`` is, or the one other value.

    Raises ``ValueError`` or ``RecursionError`` where the text is not one JSON value.
    """
    start = _skip_space(text, 0)
    if text.startswith("[", start):
        found, end = _items(text, start + 1)
    else:
        value, end = decode(text, start)
        found = [Element(start, end, "$", value)]
    if _skip_space(text, end) != len(text):
        message = "something follows the value"
        raise ValueError(message)
    return found


def decode(text: str, start: int) -> tuple[object, int]:
    """Decode the JSON value at ``start``; return it and where it ends.

    NaN and Infinity become floats, and so does an integer of more than 4300 digits (infinity). Raises
    ``ValueError`` for a syntax error and ``RecursionError`` for a value nested about a thousand levels deep.
    """
    return _DECODER.raw_decode(text, start)


def _items(text: str, start: int) -> tuple[list[Element], int]:
    found: list[Element] = []
    position = _skip_space(text, start)
    while not text.startswith("]", position):
        checkpoint()
        check_elements(len(found) + 1)
        if found:
            position = _skip_space(text, _expect_comma(text, position))
        value, end = decode(text, position)
        found.append(Element(position, end, f"$[{len(found)}]", value))
        position = _skip_space(text, end)
    return found, position + 1


def _expect_comma(text: str, position: int) -> int:
    if not text.startswith(",", position):
        message = "Expecting ',' delimiter"
        raise json.JSONDecodeError(message, text, position)
    return position + 1


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    ambiguous = RepeatedKeys(value)
    ((ambiguous.repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
    return ambiguous


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer)
