"""Check one record against the v3 schema and against what the table's columns can keep."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.records.columns import changes
from torchperf_ci.records.limits import checkpoint
from torchperf_ci.records.problems import Severity, Steps, excerpt
from torchperf_ci.records.soundness import unsound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_SCHEMA_FILE = Path(__file__).with_name("v3.schema.json")
_SEVERITIES: Mapping[str, Severity] = {"clickhouse": "changed", "recommended": "flag"}

MOST_REFUSALS = 100
"""Reasons to refuse one record, after which nobody looks for more."""

MOST_CHANGES = 100
"""Values of one record of which is told that they will be changed."""


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a record, at the steps that lead to it from the record's root."""

    steps: Steps
    reason: str
    severity: Severity


def check(element: Any) -> tuple[Finding, ...]:
    """Return what is wrong with a decoded element; with nothing ``refused`` it is a good record."""
    unsafe = tuple(Finding(steps, reason, "refused") for steps, reason in unsound(element))
    # A value that JSON cannot hold, or that says two things at once, is not worth comparing with a schema.
    return unsafe or _against_schema(element)


@lru_cache(maxsize=1)
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a v3 record, as published in ``v3.schema.json``."""
    loaded: Mapping[str, Any] = json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


def _against_schema(element: Any) -> tuple[Finding, ...]:
    findings: list[Finding] = []
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

    rules = {"clickhouse": _changed, "recommended": _missing, "type": interruptible}
    extended: type[Validator] = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, rules, type_checker=checker
    )
    return extended(schema())


def _is_integer(_checker: object, value: object) -> bool:
    """JSON Schema calls 4.0 an integer too; ClickHouse reads 4 followed by rubbish, and rejects the file."""
    return isinstance(value, int) and not isinstance(value, bool)


def _changed(
    _v: Validator, column: str, value: object, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    yield from (ValidationError(reason, path=steps) for steps, reason in changes(column, value))


def _missing(
    _v: Validator, names: list[str], value: object, _rules: Mapping[str, Any]
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(value, dict):
        for name in names:
            if value.get(name) in (None, "", []):
                yield ValidationError("is missing or empty", path=(name,))


def _finding(error: ValidationError) -> Finding:
    steps = tuple(error.absolute_path)
    if error.validator in _SEVERITIES:
        return Finding(steps, error.message, _SEVERITIES[str(error.validator)])
    return Finding(steps, _refusal(error), "refused")


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
