"""Read and write JSON files atomically and checked against their schema, and journals line by line.

A file may come from a stranger, such as the job of a pull request, so nothing in it is trusted before it has been
checked against its schema.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from math import isfinite
from types import GenericAlias
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

import msgspec

from torchperf_ci.actions import one_line
from torchperf_ci.errors import JsonFileError, ResumeError, failing_as
from torchperf_ci.records.files import MAX_BYTES, read_regular, replace_file
from torchperf_ci.records.record import parsed_json
from torchperf_ci.records.schema import excerpt
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from pathlib import Path


_T = TypeVar("_T")
_MAX_MESSAGE_LENGTH = 200
"""Most characters of a file's content, or of a JSON path, that a message quotes."""
_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_HUGE = b"0" * 309
"""A whole number that no float can hold, with zeros for its digits: this is found much faster than a pattern."""


@dataclass(frozen=True)
class JsonFormat:
    """A kind of file: its published schema, and the newest version that is supported."""

    schema_file: Path
    version: int

    @cached_property
    def schema(self) -> Any:
        """The JSON Schema, as published."""
        return json.loads(self.schema_file.read_text(encoding="utf-8"))

    def read(self, path: Path) -> Any:
        """Read and check ``path``, and return its content as JSON values.

        Raises :class:`JsonFileError`, which says what is wrong and where, also for more than :data:`MAX_BYTES`.
        """
        with failing_as(JsonFileError, f"{path}: cannot be read: "):
            content = read_regular(path, MAX_BYTES)
        return self.parse(str(path), content)

    def parse(self, name: str, content: bytes) -> Any:
        """Check the content of a file called ``name``, and return it as JSON values. Raises :class:`JsonFileError`."""
        try:
            members = msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8))
            is_huge = _HUGE in content.translate(_AS_ZEROS)
            problem = "holds a number beyond all bounds" if is_huge else self._problem(members)
        except ValueError as error:
            problem = f"is not valid JSON: {str(error)[:_MAX_MESSAGE_LENGTH]}{self._expected}"
        except RecursionError:
            problem = "is not valid JSON: it is nested too deeply"
        if problem:
            raise JsonFileError(f"{name}: {problem}")
        return members

    def _problem(self, members: Any) -> str:
        """Return the first thing that is wrong with the content of a file; empty if it is valid.

        Types of msgspec show that it conforms to the schema in a hundredth of the time that its validator takes.
        """
        if not isinstance(members, dict):
            return f"is not an object{self._expected}"
        version = members.get("version")
        if isinstance(version, int) and version > self.version:
            return f"version {version} is newer than this torchperf, which reads {self.version}: install a newer one"
        rules = self.schema
        with suppress(msgspec.ValidationError):  # then the schema says what is wrong, if anything
            msgspec.convert(members, self._type)
            rules = {name: rules[name] for name in ("if", "then") if name in rules}  # which no type says
        if not rules:
            return ""
        from jsonschema import Draft202012Validator

        for error in Draft202012Validator(rules).iter_errors(members):
            place, problem = one_line(error.json_path), one_line(error.message)
            kind = "" if error.path else self._expected
            return f"{place[:_MAX_MESSAGE_LENGTH]}: {problem[:_MAX_MESSAGE_LENGTH]}{kind}"
        return ""

    @property
    def _expected(self) -> str:
        return f"; expected: {self.schema['title']}"

    @cached_property
    def _type(self) -> Any:
        return self._type_of(self.schema)

    def _type_of(self, rules: Any) -> Any:
        """Return a type for msgspec that has only values which a part of the schema allows, though not 6.0 for 6."""
        if "$ref" in rules:  # the rules beside it narrow it
            rules = {**self.schema["$defs"][rules["$ref"].removeprefix("#/$defs/")], **rules}
        if "enum" in rules or "const" in rules:
            return Literal[tuple(rules.get("enum") or [rules["const"]])]
        names = rules["type"] if isinstance(rules["type"], list) else [rules["type"]]
        first, *others = (_TYPES[name] if name in _TYPES else self._composed_type(rules) for name in names)
        limits = {
            known: max(-_EXACT, min(rules[name], _EXACT)) if isinstance(rules[name], float) else rules[name]
            for name, known in _LIMITS.items()
            if name in rules and "prefixItems" not in rules
        }
        return Union[(Annotated[first, msgspec.Meta(**limits)] if limits else first, *others)]

    def _composed_type(self, rules: Any) -> Any:
        if "prefixItems" in rules:
            return GenericAlias(tuple, tuple(map(self._type_of, rules["prefixItems"])))
        if "items" in rules:
            return GenericAlias(list, self._type_of(rules["items"]))
        if "properties" not in rules:
            return GenericAlias(dict, (str, self._type_of(rules["additionalProperties"])))
        required, is_closed = rules.get("required", ()), "additionalProperties" in rules
        members = [
            (name, self._type_of(rule), msgspec.NODEFAULT if name in required else None)
            for name, rule in rules["properties"].items()
        ]
        return msgspec.defstruct("Members", members, kw_only=True, gc=False, forbid_unknown_fields=is_closed)


_TYPES = {"string": str, "boolean": bool, "integer": int, "number": float, "null": None}
_LIMITS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "pattern": "pattern"}
_LIMITS |= {"minLength": "min_length", "maxLength": "max_length"}
_LIMITS |= {"minItems": "min_length", "maxItems": "max_length"}
_EXACT = 2.0**52
"""The largest limit: msgspec compares whole numbers as floats, which hold those below it exactly."""


def write_json_file(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically, creating missing directories. Raises :class:`OutputDirectoryError`."""
    replace_file(path, text)


def json_text(members: Mapping[str, object]) -> str:
    """Return the text of a file: one member per line, and arrays with one item per line.

    Dataclasses become objects. Numbers that are not finite become null, and so does the open end of an effect.
    """
    lines = ",\n".join(f" {json_line(name)}: {_member(value)}" for name, value in _plain(members).items())
    return f"{{\n{lines}\n}}\n"


def typed(members: object, kind: type[_T]) -> _T:
    """Convert an object of a file to the dataclass ``kind``.

    Unknown members, and those that are null, are ignored; 6.0 is an integer, as in JSON Schema. Raises
    :class:`ValueError`, which says which member has the wrong type.
    """
    return msgspec.convert(_convertible(members), kind, strict=False)  # so that -0.0 is an integer, too


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass; ``vars`` lacks those that :func:`typed` has left to their defaults."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _convertible(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _convertible(item) for name, item in value.items() if item is not None}
    if isinstance(value, float) and value.is_integer() and str(value) != "-0.0":
        return int(value)
    return [_convertible(item) for item in value] if isinstance(value, list) else value


def _member(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json_line(value)
    items = ",\n".join(f"  {json_line(item)}" for item in value)
    return f"[\n{items}\n ]"


def json_line(value: object) -> str:
    """JSON on one line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Names from a file system, and arguments, may not be valid Unicode.
    return text.encode("utf-8", "replace").decode("utf-8")


def _plain(value: Any) -> Any:
    """Convert ``value`` to JSON values, with null for every number that JSON cannot hold."""
    if isinstance(value, Effect):
        return _plain(
            {**fields_of(value), "low": value.low or None}
        )  # a lower bound of 0 means that the interval is open
    if is_dataclass(value):
        return _plain(fields_of(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


JournalEntry = dict[str, Any]


class OtherPlanError(ResumeError):
    """A valid journal of another plan; ``changed`` are the entries of the plan that differ."""

    def __init__(self, message: str, changed: Sequence[str]) -> None:
        super().__init__(message)
        self.changed = changed


def append_entry(file: IO[bytes], entry: Mapping[str, object]) -> None:
    """Append a line and flush it to disk. ``file`` must be open for appending."""
    file.write(_entry_line(entry))
    file.flush()
    os.fsync(file.fileno())


def read_entries(file: IO[bytes], plan: Mapping[str, object], otherwise: str) -> list[JournalEntry]:
    """Return the entries of a journal; if it is empty, or its first line is incomplete, begin it with ``plan``.

    An incomplete last line is dropped: nothing was done before it was complete.

    ``file`` must be open for reading and appending. Raises :class:`OtherPlanError` for another plan and
    :class:`ResumeError` for a file that is not a journal; the message ends with ``otherwise``, the file is unchanged.
    """
    file.seek(0)
    content = file.read()
    header = _entry_line({"plan": plan})
    if header.startswith(content):
        file.truncate(0)
        append_entry(file, {"plan": plan})
        return []
    *lines, torn = content.split(b"\n")
    first, *found = [_parsed_entry(file, *line, otherwise) for line in enumerate(lines, start=1)] or [{}]
    _check_plan(file, first, json.loads(header), otherwise)
    file.truncate(len(content) - len(torn))
    return found


def _entry_line(entry: Mapping[str, object]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _parsed_entry(file: IO[bytes], number: int, line: bytes, otherwise: str) -> JournalEntry:
    entry: object = parsed_json(line)
    if not isinstance(entry, dict):
        raise ResumeError(f"{file.name}:{number}: this is not a line that torchperf wrote; {otherwise}")
    return entry


def _check_plan(file: IO[bytes], first: JournalEntry, header: JournalEntry, otherwise: str) -> None:
    old, new = first.get("plan"), header["plan"]
    if not isinstance(old, dict):
        raise ResumeError(f"{file.name} does not begin with the plan of a run; {otherwise}")
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    if changed:
        differences = ", ".join(
            f"{key}: {excerpt(_without(old.get(key), new.get(key)))} → "
            f"{excerpt(_without(new.get(key), old.get(key)))}"
            for key in changed
        )
        msg = f"{file.name} belongs to another run: {', '.join(changed)} changed ({differences}); {otherwise}"
        raise OtherPlanError(msg, changed)


def _without(value: object, other: object) -> object:
    """Of two objects or lists, the members of ``value`` that differ; any other ``value`` as it is."""
    if isinstance(value, list) and isinstance(other, list):
        return [member for member in value if member not in other] or value
    if not (isinstance(value, dict) and isinstance(other, dict)):
        return value
    return {name: member for name, member in value.items() if other.get(name) != member}
