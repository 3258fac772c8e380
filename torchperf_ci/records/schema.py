"""Find what is wrong with a record: by the v3 schema, by what the table's columns can hold, and as JSON.

The rules are those of ClickHouse reading JSONEachRow with its default settings; the tests check each rule against
the engine.
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torchperf_ci.records.fast_validation import compiled, is_plain_json
from torchperf_ci.records.files import checkpoint
from torchperf_ci.records.parser import RepeatedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

    from torchperf_ci.records.fast_validation import Check


Severity = Literal["refused", "changed", "flag"]
"""``refused``: the database would reject the record, and with it the whole file. ``changed``: it would accept the
record but store a different value. ``flag``: it stores the record unchanged, but something is missing."""

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


LATEST_SECOND = 253_402_300_799
"""The last second of the year 9999, the latest that has a date; harnesses that write milliseconds exceed it."""

_EXACT_IN_FLOAT64 = 2**53


def column_changes(column: str, value: object) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield each place in ``value``, which the schema accepts, where the database would store something else, and what.

    ``column`` is the type of the column. Outside of arrays ``None`` is the same as an absent member, and no change.
    """
    if isinstance(value, list) and column in _NULL_ELEMENT:
        yield from (((index,), _NULL_ELEMENT[column]) for index, item in enumerate(value) if item is None)
    elif value is not None and (rule := _COLUMN_RULES.get(column)) and (reason := rule(value)):
        yield (), reason


def _text_change(value: object) -> str | None:
    return None if isinstance(value, str) else f"{excerpt(value)} is not a string; it is stored as its text"


def _float32_change(value: object) -> str | None:
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


_COLUMN_RULES: Mapping[str, Callable[[object], str | None]] = {
    "String": _text_change,
    "Float32": _float32_change,
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


def json_defects(element: object) -> Iterator[tuple[Steps, str]]:
    """Yield each place in a decoded value that valid JSON could not hold, with the reason; safe for deep nesting."""
    yield from (((), reason) for reason in _own_defects((), element))
    steps: list[str | int] = []
    levels = [_children(element)]  # one iterator per level uses less memory than a list of all open values
    while levels:
        checkpoint()
        child = next(levels[-1], None)
        if child is None:
            levels.pop()
            del steps[-1:]
            continue
        key, value = child
        if len(levels) > MAX_DEPTH:
            yield tuple(steps[:3]), f"is nested more than {MAX_DEPTH} levels deep"
            return
        if isinstance(value, dict | list | str | float):
            place = (*steps, key)
            yield from ((place, reason) for reason in _own_defects(place, value))
        if isinstance(value, dict | list):
            steps.append(key)
            levels.append(_children(value))


def _children(value: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list) else iter(())


def _own_defects(steps: Steps, value: object) -> Iterator[str]:
    if isinstance(value, RepeatedKeys):
        yield f"the key {excerpt(value.repeated)} stands there more than once; keep the one that is meant"
    texts = value if isinstance(value, dict) else [value]
    if any(isinstance(text, str) and _LONE_SURROGATE.search(text) for text in texts):
        yield "holds bytes or escapes that are not valid Unicode text; write it as UTF-8"
    if isinstance(value, float) and not math.isfinite(value) and steps[:2] not in _FLOAT_COLUMNS:
        yield f"{excerpt(value)} is no JSON number; only benchmark_values and target_value may hold it"


_SCHEMA_FILE = Path(__file__).with_name("v3.schema.json")
_SEVERITIES: Mapping[str, Severity] = {"clickhouse": "changed", "recommended": "flag"}

MOST_REFUSALS = 100
"""Reasons to refuse a record after which the search for more ends."""

MOST_CHANGES = 100
"""Most changed values that are reported for one record."""


@dataclass(frozen=True)
class RecordFinding:
    """One thing wrong with a record; ``steps`` lead from the record to the place."""

    steps: Steps
    reason: str
    severity: Severity


def check_record(element: Any) -> tuple[RecordFinding, ...]:
    """Return what is wrong with a decoded element; it is a valid record if nothing is ``refused``."""
    if is_plain_json(element, MAX_DEPTH) and _is_flawless()(element):
        return ()
    return searched_for_faults(element)


def searched_for_faults(element: Any) -> tuple[RecordFinding, ...]:
    """Like :func:`check_record`, but always by the general validator: a hundred times slower, but gives reasons."""
    unsafe = tuple(RecordFinding(steps, reason, "refused") for steps, reason in json_defects(element))
    # A value that JSON cannot hold, or that is ambiguous, is not worth validating.
    return unsafe or _against_schema(element)


@lru_cache(maxsize=1)
def schema() -> Mapping[str, object]:
    """Return the JSON Schema of a v3 record, as published in ``v3.schema.json``."""
    loaded: Mapping[str, object] = json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


@lru_cache(maxsize=1)
def _is_flawless() -> Check:
    return compiled(schema(), {"clickhouse": _keeps, "recommended": _has_all})


def _keeps(column: str) -> Check:
    """Return a check of whether a column stores a value unchanged, by the rules of :func:`column_changes`."""
    if column in _NULL_ELEMENT:
        return lambda value: type(value) is not list or None not in value
    rule = _COLUMN_RULES.get(column)
    return lambda value: value is None or rule is None or rule(value) is None


def _has_all(names: list[str]) -> Check:
    return lambda value: (
        type(value) is not dict or not any(value.get(name) in (None, "", []) for name in names)
    )


def _against_schema(element: Any) -> tuple[RecordFinding, ...]:
    findings: list[RecordFinding] = []
    refused: set[Steps] = set()
    for error in _validator().iter_errors(element):
        finding = _finding(error)
        if finding.severity == "refused":
            refused.add(finding.steps)
        elif len(findings) - len(refused) >= MOST_CHANGES:
            continue
        findings.append(finding)
        if len(refused) == MOST_REFUSALS:
            break
    return tuple(item for item in findings if item.severity == "refused" or item.steps not in refused)


@lru_cache(maxsize=1)
def _validator() -> Validator:
    from jsonschema import Draft202012Validator, validators

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
    typed = Draft202012Validator.VALIDATORS["type"]

    def interruptible(*arguments: Any) -> Any:
        """The keyword as it is, which every value of a record passes through."""
        checkpoint()
        return typed(*arguments)

    rules = {"clickhouse": _clickhouse_keyword, "recommended": _recommended_keyword, "type": interruptible}
    extended: type[Validator] = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, rules, type_checker=checker
    )
    return extended(schema())


def _is_integer(_checker: object, value: object) -> bool:
    """JSON Schema calls 4.0 an integer too; ClickHouse reads 4 followed by rubbish, and rejects the file."""
    return isinstance(value, int) and not isinstance(value, bool)


def _clickhouse_keyword(
    _v: Validator, column: str, value: object, _schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    yield from (ValidationError(reason, path=steps) for steps, reason in column_changes(column, value))


def _recommended_keyword(
    _v: Validator, names: list[str], value: object, _rules: Mapping[str, object]
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(value, dict):
        for name in names:
            if value.get(name) in (None, "", []):
                yield ValidationError("is missing or empty", path=(name,))


def _finding(error: ValidationError) -> RecordFinding:
    steps = tuple(error.absolute_path)
    if error.validator in _SEVERITIES:
        return RecordFinding(steps, error.message, _SEVERITIES[str(error.validator)])
    return RecordFinding(steps, _refusal(error), "refused")


def _refusal(error: ValidationError) -> str:
    found = excerpt(error.instance)
    rule: Any = error.validator_value
    match error.validator:
        case "required":
            return "metric is missing"
        case "minimum":
            return f"{found} is negative"
        case "type":
            kinds = [rule] if isinstance(rule, str) else [kind for kind in rule if kind != "null"]
            return f"{found} is of the wrong type: {' or '.join(kinds)} expected"
        case _:
            return f"{found} is not a number"
