"""Check quickly whether a value satisfies a JSON Schema, as nearly all records do.

Values that fail are passed to the general validator, which says what is wrong. So a yes must be right, while a wrong
no only costs time.
"""

from __future__ import annotations

import re
from functools import reduce
from itertools import repeat
from math import isfinite
from typing import TYPE_CHECKING, Any

from torchperf_ci.records.files import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[Any], bool]
    Schema = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_ANNOTATIONS = frozenset({"$comment", "$defs", "$schema", "description", "title"})
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_plain_json(value: Any, depth: int) -> bool:
    """Whether a value has JSON's types only, valid Unicode, finite numbers, and at most ``depth`` levels of nesting."""
    kind = type(value)
    if kind is str:
        return _is_text(value)
    if kind is float:
        return isfinite(value)
    if kind is not dict and kind is not list:
        return kind is int or kind is bool or value is None
    checkpoint()
    if depth == 0:
        return not value
    if kind is dict:
        return all(map(_is_text, value)) and all(map(is_plain_json, value.values(), repeat(depth - 1)))
    return all(map(is_plain_json, value, repeat(depth - 1)))


def _is_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or not _SURROGATE.search(value))


def compiled(schema: Schema, keywords: Mapping[str, Callable[[Any], Check]]) -> Check:
    """Compile ``schema`` to a function that is true only for plain JSON values that the schema accepts.

    ``keywords`` adds our own keywords: each maps a keyword's value to its check. Raises ``KeyError`` for an unknown
    keyword.
    """
    known: Mapping[str, Callable[[Any], Check]]
    known = {**keywords, "type": _of_type, "minimum": _from, "pattern": _like, "required": _with}

    def of(rules: Schema) -> Check:
        if "$ref" in rules:
            rules = {**schema["$defs"][rules["$ref"].removeprefix("#/$defs/")], **rules}
        own = [name for name in rules if name not in _ANNOTATIONS and name not in _BELOW]
        checks = [known[name](rules[name]) for name in own]
        members = {name: of(rule) for name, rule in rules.get("properties", {}).items()}
        if members:
            checks.append(lambda value: _fit_members(members, value))
        for name, kind in (("additionalProperties", dict), ("items", list)):
            if name in rules:
                checks.append(_each(of(rules[name]), kind))
        return reduce(_both, checks)

    return of(schema)


_BELOW = ("$ref", "additionalProperties", "items", "properties")


def _both(first: Check, second: Check) -> Check:
    return lambda value: first(value) and second(value)


def _each(check: Check, kind: type) -> Check:
    """Apply ``check`` to all items of an array, or all values of an object whose members have no rules of their own."""

    def fit(value: Any) -> bool:
        items: Any = value.values() if isinstance(value, dict) else value
        return type(value) is not kind or all(map(check, items))

    return fit


def _fit_members(members: Mapping[str, Check], value: Any) -> bool:
    if type(value) is not dict:
        return True
    return all(members[name](value[name]) for name in members.keys() & value.keys())


def _of_type(names: str | list[str]) -> Check:
    kinds = {kind for name in ([names] if isinstance(names, str) else names) for kind in _TYPES[name]}
    return lambda value: type(value) in kinds


def _from(least: float) -> Check:
    return lambda value: type(value) not in (int, float) or value >= least


def _like(pattern: str) -> Check:
    search = re.compile(pattern).search
    return lambda value: type(value) is not str or search(value) is not None


def _with(names: list[str]) -> Check:
    return lambda value: type(value) is not dict or all(name in value for name in names)
