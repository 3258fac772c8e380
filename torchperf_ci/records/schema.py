"""Find what is wrong with a record: by the v3 schema, by what the table's columns can hold, and as JSON.

The rules are those of ClickHouse reading JSONEachRow with its default settings; the tests check each rule against
the engine.
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torchperf_ci.records.files import checkpoint
from torchperf_ci.records.parser import RepeatedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Schema = Mapping[str, Any]
    """A JSON Schema, or a part of one."""
    Check = Callable[[Any], "Sequence[RecordFinding]"]
    """Returns what is wrong with a value."""
    Rule = Callable[[Any], "str | None"]
    """Returns the one thing that is wrong with a value, if any."""


Severity = Literal["refused", "changed", "flag"]
"""``refused``: the database would reject the record, and with it the whole file. ``changed``: it would accept the
record but store a different value. ``flag``: it stores the record unchanged, but something is missing,
or its time is unlikely."""

Steps = tuple[str | int, ...]
"""The keys and indices that lead from a value to a value nested in it."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one element of a file, at a JSON path such as ``$[3].metric.benchmark_values[0]``.

    ``line`` counts from 1 and is where the element begins, or where its syntax breaks. ``path`` starts at the
    outermost JSON value around the element: the file's list or object, or the value on a line of a JSONEachRow file.
    """

    file: str
    line: int
    path: str
    reason: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.path}: {self.reason}"


def path_text(steps: Steps) -> str:
    """Format steps as in JSONPath: ``.name``, ``[0]``, ``["not an identifier"]``."""
    return "".join(_step_text(step) for step in steps)


def excerpt(value: object, limit: int = 60) -> str:
    """Return ``value`` as JSON on one line of at most ``limit`` characters, for a message."""
    # Only the beginning of a huge value is encoded.
    text = ""
    for piece in json.JSONEncoder(default=str).iterencode(value[:limit] if isinstance(value, str) else value):
        text += piece[: limit + 1]
        if len(text) > limit:
            break
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if re.fullmatch(r"[^\W\d]\w*", step, re.ASCII) else f"[{json.dumps(step)}]"


LATEST_SECOND = 10_413_791_999
"""The last second of the year 2299, the latest that ClickHouse dates; harnesses that write milliseconds exceed it."""

_EXACT_IN_FLOAT64 = 2**53


def _text_change(value: object) -> str | None:
    return (
        None
        if value is None or isinstance(value, str)
        else f"{excerpt(value)} is not a string; it is stored as its text"
    )


def float32_change(value: object) -> str | None:
    """Return what the database would store instead of ``value``, which the schema accepts; None if it is kept."""
    if isinstance(value, str | bool):
        return _number_in_disguise(value)
    if not isinstance(value, int | float):
        return None
    stored = _as_float32(value)
    if not math.isfinite(stored):
        return (
            f"{excerpt(value)} is not a finite Float32; it is stored as {stored}, which spoils every average"
        )
    if stored == 0 != value:
        return f"{excerpt(value)} is too small for a Float32; it is stored as 0"
    return None


def is_rounded(value: object) -> bool:
    """Whether ``value`` is a whole number that a Float32 holds only approximately, to its usual seven digits.

    That is not worth a warning; the exact value is stored separately where it is needed.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    whole = isinstance(value, int) or (value.is_integer() and abs(value) <= _EXACT_IN_FLOAT64)
    return whole and _as_float32(value) != value


def _as_float32(value: float) -> float:
    try:
        # Converted to float first: for integers beyond that range struct raises an error of its own.
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


_COLUMN_RULES: Mapping[str, Rule] = {
    "String": _text_change,
    "Float32": float32_change,
    "UInt32": _unsigned(32),
    "UInt64": _unsigned(64),
}
_NULL_ELEMENT: Mapping[str, str] = {
    "Array(Float32)": "null is stored as 0, as if it had been measured",
    "Array(String)": "null is stored as an empty string",
    "Array(Tuple)": "null is stored as an entry without content",
}


MAX_DEPTH = 200
"""Most levels of nesting: more than any record needs, and far below the limit of Python's JSON (about 1,000)."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FLOAT_COLUMNS = {("metric", "benchmark_values"), ("metric", "target_value")}


def is_plain_json(value: Any, depth: int) -> bool:
    """Whether a value has JSON's types only, valid Unicode, finite numbers, and at most ``depth`` levels of nesting."""
    kind = type(value)
    if kind is str:
        return is_text(value)
    if kind is float:
        return math.isfinite(value)
    if kind is not dict and kind is not list:
        return kind is int or kind is bool or value is None
    checkpoint()
    if depth == 0:
        return not value
    if kind is dict:
        return all(map(is_text, value)) and all(map(is_plain_json, value.values(), repeat(depth - 1)))
    return all(map(is_plain_json, value, repeat(depth - 1)))


def is_text(value: str) -> bool:
    """Whether a text is valid Unicode, which UTF-8 can encode."""
    return value.isascii() or not _LONE_SURROGATE.search(value)


def json_defects(value: object, steps: Steps = ()) -> Iterator[tuple[Steps, str]]:
    """Yield each place in a decoded value that valid JSON could not hold, with the reason; safe for deep nesting."""
    checkpoint()
    if len(steps) > MAX_DEPTH:
        yield steps[:3], f"is nested more than {MAX_DEPTH} levels deep"
        return
    yield from ((steps, reason) for reason in _defects_of_value(steps, value))
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from json_defects(item, (*steps, step))


def _defects_of_value(steps: Steps, value: object) -> Iterator[str]:
    if isinstance(value, RepeatedKeys):
        yield f"the key {excerpt(value.repeated)} occurs more than once; keep the intended one"
    texts = value if isinstance(value, dict) else [value]
    if any(isinstance(text, str) and not is_text(text) for text in texts):
        yield "holds bytes or escapes that are not valid Unicode text; write it as UTF-8"
    if isinstance(value, float) and not math.isfinite(value) and steps[:2] not in _FLOAT_COLUMNS:
        yield f"{excerpt(value)} is not a JSON number; only benchmark_values and target_value may hold it"


MAX_FINDINGS = 100
"""Changed values of a record, or reasons to refuse it, after which no more are told."""


@dataclass(frozen=True)
class RecordFinding:
    """One thing wrong with a record; ``steps`` lead from the record to the place."""

    steps: Steps
    reason: str
    severity: Severity

    def below(self, step: str | int) -> RecordFinding:
        """Return the same about the value around it."""
        return replace(self, steps=(step, *self.steps))


def check_record(element: Any) -> tuple[RecordFinding, ...]:
    """Return what is wrong with a decoded element; it is a valid record if nothing is ``refused``."""
    if not is_plain_json(element, MAX_DEPTH):
        defects = islice(json_defects(element), MAX_FINDINGS)
        # A value that JSON cannot hold, or that is ambiguous, is not worth validating.
        if unsafe := tuple(RecordFinding(steps, reason, "refused") for steps, reason in defects):
            return unsafe
    return (*_mistakable_keys(element), *_schema_check()(element))


def _mistakable_keys(element: Any) -> Iterator[RecordFinding]:
    """Yield keys that the database takes for a column's, ignoring case, and refuses beside that one."""
    columns = schema()["properties"]
    for key in element if isinstance(element, dict) else ():
        if key not in columns and (column := key.lower()) in columns:
            reason = f"the database takes it for {column}; write it so, or give it another name"
            yield RecordFinding((key,), reason, "refused")


@lru_cache(maxsize=1)
def schema() -> Schema:
    """Return the JSON Schema of a v3 record, as published in ``v3.schema.json``."""
    loaded: Schema = json.loads(Path(__file__).with_name("v3.schema.json").read_text(encoding="utf-8"))
    return loaded


@lru_cache(maxsize=1)
def _schema_check() -> Check:
    published = schema()
    return compiled(published, published["$defs"])


def compiled(rules: Schema, definitions: Schema) -> Check:
    """Compile a JSON Schema to a check. ``definitions`` are those to which ``$ref`` leads."""
    if "$ref" in rules:
        rules = {**definitions[rules["$ref"].removeprefix("#/$defs/")], **rules}
    refusals = [rule(rules[name]) for name, rule in _REFUSALS.items() if name in rules]
    change = _COLUMN_RULES.get(rules.get("clickhouse", ""))
    checks = [check(rules[name]) for name, check in _CHECKS.items() if name in rules]
    members = {name: compiled(rule, definitions) for name, rule in rules.get("properties", {}).items()}
    if members:
        checks.append(_members(members))
    if "additionalProperties" in rules:
        checks.append(_values(compiled(rules["additionalProperties"], definitions)))
    if "items" in rules:
        checks.append(_items(compiled(rules["items"], definitions), _NULL_ELEMENT[rules["clickhouse"]]))

    def check(value: Any) -> Sequence[RecordFinding]:
        for rule in refusals:
            if reason := rule(value):
                return [RecordFinding((), reason, "refused")]
        if change and (reason := change(value)):
            return [RecordFinding((), reason, "changed")]
        return [finding for inner in checks for finding in inner(value)] if checks else ()

    return check


_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),  # not 4.0: ClickHouse reads 4 followed by rubbish, and rejects the file
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def _type(names: str | list[str]) -> Rule:
    listed = [names] if isinstance(names, str) else names
    kinds = {kind for name in listed for kind in _TYPES[name]}
    expected = " or ".join(name for name in listed if name != "null")
    return lambda value: (
        None if type(value) in kinds else f"{excerpt(value)} is of the wrong type: {expected} expected"
    )


def _minimum(least: int) -> Rule:
    return lambda value: f"{excerpt(value)} is negative" if isinstance(value, int) and value < least else None


def _pattern(pattern: str) -> Rule:
    search = re.compile(pattern).search
    return lambda value: (
        f"{excerpt(value)} is not a number" if isinstance(value, str) and not search(value) else None
    )


def _required(names: list[str]) -> Check:
    return lambda value: [
        RecordFinding((), f"{name} is missing", "refused") for name in names if name not in value
    ]


def _recommended(names: list[str]) -> Check:
    return lambda value: [
        RecordFinding((name,), "is missing or empty", "flag")
        for name in (() if value is None else names)
        if value.get(name) in (None, "", [])
    ]


def _latest(most: int) -> Check:
    reason = "is after the year 2299, as milliseconds are; write Unix time in seconds"
    return lambda value: (
        [RecordFinding((), f"{value} {reason}", "flag")] if isinstance(value, int) and value > most else []
    )


_REFUSALS: Mapping[str, Callable[[Any], Rule]] = {"type": _type, "minimum": _minimum, "pattern": _pattern}
_CHECKS: Mapping[str, Callable[[Any], Check]] = {
    "required": _required,
    "recommended": _recommended,
    "latest": _latest,
}


def _members(checks: Mapping[str, Check]) -> Check:
    return lambda value: [
        finding.below(name)
        for name, check in checks.items()
        if value and name in value
        for finding in check(value[name])
    ]


def _values(check: Check) -> Check:
    return lambda value: _first((value or {}).items(), check, check(None))


def _items(check: Check, null: str) -> Check:
    of_null = [RecordFinding((), null, "changed")]
    return lambda value: _first(enumerate(value or ()), check, of_null)


def _first(
    inner: Iterable[tuple[str | int, object]], check: Check, of_null: Sequence[RecordFinding]
) -> list[RecordFinding]:
    """Return the first things wrong with the values inside of a value; of more, only one that refuses it."""
    findings: list[RecordFinding] = []
    for step, value in inner:
        for finding in of_null if value is None else check(value):
            checkpoint()
            if len(findings) < MAX_FINDINGS or finding.severity == "refused":
                findings.append(finding.below(step))
        if len(findings) >= MAX_FINDINGS and findings[-1].severity == "refused":
            break
    return findings
