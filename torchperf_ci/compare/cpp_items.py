"""Split C++ source into the items at namespace scope, which is enough to find which of them mention a name.

This is not a parser. What it does not understand becomes an :class:`UnreadableSourceError` or an item of no known
kind, for which the caller must assume the worst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

WORD = re.compile(r"[A-Za-z_]\w*")
_IGNORED = re.compile(
    r'R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//(?:\\\n|[^\n])*|/\*.*?\*/',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b([\w:\s]*)")
_TYPE = re.compile(r"(?:template\s*<[^{]*>\s*)?(?:typedef\s+)?(?:struct|class|union|enum)\b")
_TYPE_END = re.compile(
    r"\}\s*;?$|^(?:template\s*<[^{]*>\s*)?(?:struct|class|union|enum|enum class)\s+\w+\s*;$"
)
_TEMPLATE = re.compile(r"template\s*<")
_MACRO = re.compile(r"(\w+)\s*\(")
_CALL = re.compile(r"([A-Za-z_]\w*(?:\s*::\s*~?[A-Za-z_]\w*)*)\s*(?:<[^(){}]*>\s*)?\(")
_BEFORE_NAME = re.compile(r"[\w:<>,&*\s\[\]]*[\w>&*\]]\s*", re.DOTALL)
_AFTER_ARGUMENTS = re.compile(r"(?:\s|const\b|noexcept\b|->[\w:<>,&*\s]+)*")
_ATTRIBUTE = re.compile(
    r"\b(?:__launch_bounds__|C10_LAUNCH_BOUNDS_\d|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)"
)
_PARAMETER = re.compile(r"\s*(?:[\w:<>*&\s\[\]]*[\w>*&\]]\s*[\s*&]\s*\w+(?:\[\d*\])?|[\w:<>\s]+[*&]+|)\s*")
_ANSWERED = re.compile(r"[;,(]|\w+\s*[=;{,]")


class UnreadableSourceError(Exception):
    """The brackets of a source do not match, for example because both branches of an ``#if`` open one."""


@dataclass(frozen=True)
class Item:
    """An item at namespace scope, without comments, strings and directives.

    ``local``: other files cannot refer to it, because it is static or in an unnamed namespace.
    """

    text: str
    local: bool

    @cached_property
    def macro(self) -> tuple[str, tuple[str, ...]]:
        """The name and the arguments' words if the item begins with ``NAME(first, second, ...)``; else empty."""
        match = _MACRO.match(self.text)
        if not match:
            return "", ()
        return match[1], tuple(WORD.findall(self.text[match.end() : _closing(self.text, match.end() - 1)]))

    @cached_property
    def statement(self) -> tuple[str, tuple[str, ...]]:
        """The same as ``macro`` if nothing follows it; else empty."""
        match = _MACRO.match(self.text)
        alone = match and self.text[_closing(self.text, match.end() - 1) :].strip() in ("", ";")
        return self.macro if alone else ("", ())

    @cached_property
    def function(self) -> str:
        """Name of the function that the item declares or defines; empty for anything else or in case of doubt."""
        head = _ATTRIBUTE.sub("", _without_template(self.text.partition("{")[0].rstrip(";")))
        match = _CALL.search(head)
        if not match or _TYPE.match(head) or "operator" in head or "=" in head[: match.start()]:
            return ""
        end = _closing(head, match.end() - 1)
        sure = _BEFORE_NAME.fullmatch(head[: match.start()]) and _AFTER_ARGUMENTS.fullmatch(head[end:])
        return match[1] if sure and "::" not in match[1] else ""

    @property
    def is_declaration(self) -> bool:
        """Whether the item certainly only declares a function, whereas ``Type name(word);`` may define a variable."""
        _, _, rest = self.text.partition("(")
        arguments = rest.rpartition(")")[0]
        return not re.search(r"[{=(\"]", rest) and all(map(_PARAMETER.fullmatch, arguments.split(",")))

    @property
    def is_type(self) -> bool:
        """Whether the item defines or declares a type, not a variable or, as ``enum E f() {}`` does, a function."""
        head = _without_template(self.text.partition("{")[0])
        return "(" not in head and bool(_TYPE.match(self.text)) and bool(_TYPE_END.search(self.text))

    def mentions(self, name: str) -> Iterator[str]:
        """Yield the text before each occurrence of the name as a word."""
        for found in re.finditer(rf"\b{name}\b", self.text):
            yield self.text[: found.start()].rstrip()


@dataclass(frozen=True)
class Source:
    """A source file: its items and its preprocessor directives."""

    items: tuple[Item, ...]
    directives: tuple[str, ...]


def plain(text: str) -> str:
    """Return the text without comments, with empty string literals, and with continued lines joined."""

    def instead(match: re.Match[str]) -> str:
        start = match[0][0]
        return '""' if start in 'R"' else "0" if start == "'" else " "

    return re.sub(r"\\\r?\n", " ", _IGNORED.sub(instead, text))


def read_source(text: str) -> Source:
    """Split the result of :func:`plain` into items. Raises :class:`UnreadableSourceError`."""
    directives = tuple(found[0].strip() for found in _DIRECTIVE.finditer(text))
    return Source(tuple(_items(_DIRECTIVE.sub("", text))), directives)


def _items(text: str) -> Iterator[Item]:
    namespaces: list[str] = []
    start = braces = parentheses = 0

    def item(end: int) -> Iterator[Item]:
        if (found := text[start:end].strip()) and found != ";":
            yield Item(
                found, "" in namespaces or bool(re.match("static|inline static", _without_template(found)))
            )

    for mark in re.finditer(r"[{}();]", text):
        end = mark.end()
        if mark[0] in "()":
            parentheses += 1 if mark[0] == "(" else -1
        elif mark[0] == "{":
            head = text[start : end - 1].strip()
            namespace = _NAMESPACE.fullmatch(head) if not braces else None
            if namespace or (not braces and head == 'extern ""'):
                namespaces.append(namespace[1].strip() if namespace else "C")
                start = end
            else:
                braces += 1
        elif mark[0] == "}" and not braces:
            yield from item(end - 1)
            if not namespaces:
                raise UnreadableSourceError
            namespaces.pop()
            start = end
        elif mark[0] == "}":
            braces -= 1
            if not (braces or parentheses or _goes_on(text[start : end - 1], text[end : end + 200])):
                yield from item(end)
                start = end
        elif not (braces or parentheses):
            yield from item(end)
            start = end
    if namespaces or braces or parentheses:
        raise UnreadableSourceError
    yield from item(len(text))


def _goes_on(before: str, after: str) -> bool:
    """Whether the item continues after a closing brace, as a type definition or an initializer does."""
    rest = after.lstrip()
    return rest.startswith((";", ",", "(")) or bool(_TYPE.match(before.strip()) and _ANSWERED.match(rest))


def _without_template(text: str) -> str:
    while found := _TEMPLATE.match(text):
        text = text[_closing(text, found.end() - 1, "<>") :].lstrip()
    return text


def _closing(text: str, place: int, pair: str = "()") -> int:
    """Return the position after the bracket that closes the one at ``place``; ``pair`` are the two."""
    steps = {pair[0]: 1, pair[1]: -1}
    depth = 0
    for number in range(place, len(text)):
        depth += steps.get(text[number], 0)
        if not depth:
            return number + 1
    return len(text)
