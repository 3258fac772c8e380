"""What the database keeps of a value, where that is not the value itself.

The rules are those of ClickHouse reading JSONEachRow with its default settings; the tests hold each one
against the engine.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from torchperf_ci.records.problems import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LATEST = 253_402_300_799
"""The last second that has a date (of the year 9999). Harnesses that write milliseconds go beyond it."""

_EXACT_IN_FLOAT64 = 2**53


def changes(column: str, value: object) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield, for a ``value`` that the schema accepts, each place below it and how what is stored differs.

    ``column`` is the type of the column. Outside of an array, ``None`` is the same as an absent member, and
    no change.
    """
    if isinstance(value, list) and column in _NULL_ELEMENT:
        yield from (((index,), _NULL_ELEMENT[column]) for index, item in enumerate(value) if item is None)
    elif value is not None and (rule := _RULES.get(column)) and (reason := rule(value)):
        yield (), reason


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else f"{excerpt(value)} is not a string; it is stored as its text"


def _float32(value: object) -> str | None:
    if isinstance(value, str | bool):
        return _number_in_disguise(value)
    if not isinstance(value, int | float):
        return None
    stored = _as_float32(value)
    if not math.isfinite(stored):
        return (
            f"{excerpt(value)} is not a finite Float32; it is stored as {stored}, which no average survives"
        )
    if stored == 0 != value:
        return f"{excerpt(value)} is too small for a Float32; it is stored as 0"
    return None


def is_rounded(value: object) -> bool:
    """Whether ``value`` is a whole number that a Float32 holds only about: seven digits, as of every number.

    That is no change worth a word; who needs each digit keeps it beside.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    whole = isinstance(value, int) or (value.is_integer() and abs(value) <= _EXACT_IN_FLOAT64)
    return whole and _as_float32(value) != value


def _as_float32(value: float) -> float:
    try:
        # An integer becomes a float here: struct has an error of its own for one that is too large for that.
        return float(struct.unpack("f", struct.pack("f", float(value)))[0])
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _unsigned(bits: int) -> Callable[[object], str | None]:
    def rule(value: object) -> str | None:
        if isinstance(value, str | bool):
            return _number_in_disguise(value)
        if isinstance(value, int) and value >= 2**bits:
            return f"{excerpt(value)} is beyond UInt{bits}; another number is stored"
        return None

    return rule


def _number_in_disguise(value: str | bool) -> str:
    if isinstance(value, str) and value:
        return f"{excerpt(value)} is text where a number belongs; the database converts it"
    return f"{excerpt(value)} is not a number; it is stored as {int(bool(value))}"


_RULES: Mapping[str, Callable[[object], str | None]] = {
    "String": _text,
    "Float32": _float32,
    "UInt32": _unsigned(32),
    "UInt64": _unsigned(64),
}

_NULL_ELEMENT: Mapping[str, str] = {
    "Array(Float32)": "null is stored as 0, as if it had been measured",
    "Array(String)": "null is stored as an empty string",
    "Array(Tuple)": "null is stored as an entry without content",
}
