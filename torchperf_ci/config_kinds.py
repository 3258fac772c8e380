"""The kinds of values in ``torchperf.yml``: each reads a YAML node, and gives its JSON Schema.

Nodes are read instead of loaded values, because only nodes have line numbers and repeated keys. Besides, YAML tags
never construct anything this way.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from torchperf_ci.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yaml import Node

_TAG = "tag:yaml.org,2002:"
_TRUE = ("true", "yes", "on")
_PERCENT = r"^(?=.*[1-9])[0-9]{1,2}(\.[0-9]+)?%$"

JsonSchema = dict[str, object]
"""A JSON Schema."""

Steps = tuple[str | int, ...]
"""The keys and indices that lead to a value from the root."""


@dataclass(frozen=True)
class ConfigPosition:
    """The position of a value: the file, the keys that lead to it, and the lines of all values read so far."""

    file: str
    steps: Steps = ()
    lines: dict[Steps, int] = field(default_factory=dict)

    def at(self, step: str | int, node: Node) -> ConfigPosition:
        """Return the position of ``node`` below this one, and record its line for checks between values."""
        steps = (*self.steps, step)
        self.lines[steps] = line_of(node)
        return dataclasses.replace(self, steps=steps)

    def error(self, node: Node, problem: str) -> ConfigError:
        """Return an error about ``node`` with its line."""
        name = ".".join(map(str, self.steps))
        return ConfigError(self.file, line_of(node), f"{name}: {problem}" if name else problem)


class ValueKind(Protocol):
    """A kind of value. ``read`` raises :class:`ConfigError`."""

    def read(self, node: Node, position: ConfigPosition) -> Any: ...

    def schema(self) -> JsonSchema: ...


@dataclass(frozen=True)
class Text:
    """A string that matches ``pattern``; ``form`` describes the pattern in messages."""

    pattern: str = r"\S"
    form: str = "text"

    def read(self, node: Node, position: ConfigPosition) -> str:
        if not _is(node, "str"):
            raise position.error(
                node, f"must be {self.form}, not {_shown(node)}; if you mean that text, quote it"
            )
        if not re.search(self.pattern, node.value):
            raise position.error(node, f"must be {self.form}, not {_shown(node)}")
        return str(node.value)

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": self.pattern}


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    def read(self, node: Node, position: ConfigPosition) -> str:
        if not _is(node, "str") or node.value not in self.options:
            near = resembling(str(node.value), self.options, 0.7)  # gpu is not a typo of xpu
            raise position.error(node, f"must be one of {', '.join(self.options)}, not {_shown(node)}{near}")
        return str(node.value)

    def schema(self) -> JsonSchema:
        return {"enum": list(self.options)}


@dataclass(frozen=True)
class Switch:
    """True or false."""

    def read(self, node: Node, position: ConfigPosition) -> bool:
        if not _is(node, "bool"):
            raise position.error(node, f"must be true or false, not {_shown(node)}")
        return node.value.lower() in _TRUE

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Integer:
    """A whole number of at least ``minimum``."""

    minimum: int

    def read(self, node: Node, position: ConfigPosition) -> int:
        # 010 is 8 in YAML 1.1, and 10 in YAML 1.2
        written_plainly = _is(node, "int") and re.fullmatch(r"0|[1-9][0-9]{0,8}", node.value)
        if not written_plainly or int(node.value) < self.minimum:
            raise position.error(
                node, f"must be a whole number of at least {self.minimum}, not {_shown(node)}"
            )
        return int(node.value)

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": self.minimum}


@dataclass(frozen=True)
class Constant:
    """The only number that is allowed."""

    value: int

    def read(self, node: Node, position: ConfigPosition) -> int:
        if not _is(node, "int") or node.value != str(self.value):
            raise position.error(node, f"must be {self.value}, the only one known here, not {_shown(node)}")
        return self.value

    def schema(self) -> JsonSchema:
        return {"const": self.value}


@dataclass(frozen=True)
class Share:
    """A share above 0 and below 1, as a percentage such as ``3%`` or a number such as 0.03."""

    def read(self, node: Node, position: ConfigPosition) -> float:
        share = None
        if _is(node, "str") and re.search(_PERCENT, node.value):
            share = float(node.value.strip()[:-1]) / 100
        elif _is(node, "float", "int") and re.fullmatch(r"[0-9]*\.?[0-9]+", node.value):
            share = float(node.value)
        if share is None or not 0 < share < 1:
            reason = f"must be a percentage above 0% and below 100%, such as 3%, not {_shown(node)}"
            raise position.error(node, reason)
        return share

    def schema(self) -> JsonSchema:
        number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
        return {"anyOf": [{"type": "string", "pattern": _PERCENT}, number]}


@dataclass(frozen=True)
class ListOf:
    """A nonempty list of values of one kind."""

    item: ValueKind

    def read(self, node: Node, position: ConfigPosition) -> tuple[Any, ...]:
        if _form(node) != "list" or not node.value:
            raise position.error(
                node, f"must be a list of at least one item, like [a, b], not {_shown(node)}"
            )
        return tuple(self.item.read(item, position.at(index, item)) for index, item in enumerate(node.value))

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.schema(), "minItems": 1}


@dataclass(frozen=True)
class Section:
    """A mapping with known keys: the fields of the dataclass ``of``, declared with :func:`key`."""

    of: type[Any]

    def read(self, node: Node, position: ConfigPosition) -> Any:
        known = {key_name(item): item for item in dataclasses.fields(self.of)}
        values = {}
        for name, key_node, value_node in _pairs(node, position):
            if name not in known:
                raise position.error(key_node, f"unknown key {name!r}{nearest(name, known)}")
            kind: ValueKind = known[name].metadata["kind"]
            values[known[name].name] = kind.read(value_node, position.at(name, value_node))
        return self.of(**values)

    def schema(self) -> JsonSchema:
        properties = {key_name(item): _key_schema(item) for item in dataclasses.fields(self.of)}
        return {"type": ["object", "null"], "additionalProperties": False, "properties": properties}


@dataclass(frozen=True)
class MappingOf:
    """A mapping from names that the user chooses to values of one kind."""

    item: ValueKind

    def read(self, node: Node, position: ConfigPosition) -> dict[str, object]:
        return {
            name: self.item.read(value, position.at(name, value)) for name, _, value in _pairs(node, position)
        }

    def schema(self) -> JsonSchema:
        return {"type": ["object", "null"], "additionalProperties": self.item.schema()}


def key(kind: ValueKind, default: Any, meaning: str) -> Any:
    """Declare a dataclass field as a key of the file; a callable ``default`` is called for each new value."""
    factory: Callable[[], Any] = default if callable(default) else lambda: default
    return field(default_factory=factory, metadata={"kind": kind, "meaning": meaning})


def key_name(item: dataclasses.Field[Any]) -> str:
    """Return the key in the file; fields named like a Python keyword have an underscore appended."""
    return item.name.removesuffix("_")


def line_of(node: Node) -> int:
    """Return the line where ``node`` begins, counted from 1."""
    return int(node.start_mark.line) + 1


def _key_schema(item: dataclasses.Field[Any]) -> JsonSchema:
    kind: ValueKind = item.metadata["kind"]
    return {"description": item.metadata["meaning"], **kind.schema()}


def _pairs(node: Node, position: ConfigPosition) -> list[tuple[str, Node, Node]]:
    """Return the keys and values of a mapping; null, as in ``quick:``, is an empty mapping."""
    if _is(node, "null"):
        return []
    if _form(node) != "mapping":
        raise position.error(node, f"must be a mapping of keys to values, not {_shown(node)}")
    first: dict[str, int] = {}
    for key_node, _ in node.value:
        if _form(key_node) != "scalar":
            raise position.error(key_node, "a key must be a word, not a list or a mapping")
        if key_node.tag == f"{_TAG}merge":
            raise position.error(key_node, "merge keys (<<) are not read here; write the keys themselves")
        if key_node.value in first:
            line = first[key_node.value]
            raise position.error(key_node, f"{key_node.value!r} is already given on line {line}; remove one")
        first[key_node.value] = line_of(key_node)
    return [(key_node.value, key_node, value_node) for key_node, value_node in node.value]


def _form(node: Node) -> str:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return "scalar"
    return "list" if isinstance(node, yaml.SequenceNode) else "mapping"


def _is(node: Node, *types: str) -> bool:
    return _form(node) == "scalar" and node.tag in {_TAG + name for name in types}


def _shown(node: Node) -> str:
    if _form(node) != "scalar":
        return f"{'a' if node.value else 'an empty'} {_form(node)}"
    quoted = "the text " if getattr(node, "style", None) in ("'", '"') else ""  # "4" is no number
    return f"{quoted}{node.value!r}" if node.value else "nothing"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the known name most like it, or all known names."""
    known = list(known)
    return resembling(name, known, 0.5) or f"; known: {', '.join(known) or 'none'}"


def resembling(name: str, known: Iterable[str], cutoff: float) -> str:
    """Return a suggestion of the known name most like ``name``; empty if none is similar enough."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""
