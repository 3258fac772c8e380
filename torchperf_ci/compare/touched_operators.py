"""Find which operators can run the code in a C++ file of PyTorch's ``native`` folder.

The search starts from the names that other files can see: functions, and dispatch stubs set by ``REGISTER_DISPATCH``.
It follows the code that mentions them until it reaches operators: functions named in ``native_functions.yaml``, and
``TORCH_IMPL_FUNC``. It does not follow calls of operators, because these go through the dispatcher, where they are
recorded. Anything else that mentions a name (a class, a macro, a variable, a code generator) may be run by any
operator, so the effect is then unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from torchperf_ci.compare.cpp_items import Item, plain
from torchperf_ci.compare.pytorch_sources import COMPILED, PyTorchSources, UnknownEffectError, readable

_REGISTERS = re.compile(r"(?:ALSO_)?REGISTER_\w*DISPATCH")
_DECLARES = ("DECLARE_DISPATCH", "DEFINE_DISPATCH")
_STRUCTURED = re.compile(r"TORCH_IMPL_FUNC")
_MADE_OF_STRUCTURED = "structured_"
"""Prefix that TORCH_IMPL_FUNC adds to the name that it is given."""
_META = re.compile(r"TORCH_(?:PRECOMPUTE_)?META_FUNC2?")
_RECORDED_CALL = re.compile(r"(?:\.|->|(?<![\w:])(?:at|torch)\s*::)")
_MEMBER = re.compile(r"(?:\.|->)")
_NOTHING_RUNS = re.compile(
    r"(?:using|typedef|static_assert)\b|(?:static |inline )*(?:constexpr|const)\b[^({=]*=[^({]*$"
)
_BY_OPERATOR = ("aten/src/ATen/functorch/", "aten/src/ATen/autocast_mode.cpp")
"""Sources in which macros take an operator's name first and then what computes it."""
Name = tuple[str, str]
"""A name, and the only file that can see it; empty if all can."""


def touched_operators(sources: PyTorchSources, changed: Iterable[tuple[str, str, str]]) -> frozenset[str]:
    """Return the operators that may run code of the ``changed`` files (path, text at base, text at head).

    Raises :class:`UnknownEffectError` with the reason if there may be more.
    """
    operators = set[str]()
    for path, base, head in changed:
        if path.rpartition("/")[2] in sources.included:
            raise UnknownEffectError(f"{path} is included by another file")
        search = _Search(sources)
        for text in (base, head):
            search.seek(_visible_names(path, text))
        if not (found := search.operators()):
            raise UnknownEffectError(f"no operator is known to run the code of {path}")
        operators |= found
    return frozenset(operators)


def _visible_names(path: str, text: str) -> set[str]:
    """Return the names of a file that others can refer to, or reach through a table of kernels."""
    source, names = readable(path, plain(text)), set[str]()
    for item in source.items:
        (macro, words), (statement, given) = item.macro, item.statement
        if _REGISTERS.fullmatch(statement):
            names.add(given[0])
        elif _STRUCTURED.fullmatch(macro) or _META.fullmatch(macro):
            names.add(f"{macro} {words[0]}")
        elif not _is_harmless(item):
            if not (item.function and item.text.endswith("}")):
                raise UnknownEffectError(f"{path} exposes to other files: {_short(item)}")
            if not item.local:
                names.add(item.function)
    return names


def _is_harmless(item: Item) -> bool:
    """Whether an item runs no code: a type, a constant or a declaration."""
    return (
        item.statement[0] in _DECLARES
        or item.is_type
        or bool(_NOTHING_RUNS.match(item.text))
        or (bool(item.function) and item.is_declaration)
    )


@dataclass
class _Search:
    """The search from names to the operators that may run them."""

    sources: PyTorchSources
    _todo: list[Name] = field(default_factory=list)
    _seen: set[Name] = field(default_factory=set)
    _operators: set[str] = field(default_factory=set)

    def seek(self, names: Iterable[str]) -> None:
        self._todo += [(name, "") for name in names]

    def operators(self) -> frozenset[str]:
        while self._todo:
            name = self._todo.pop()
            if name not in self._seen:
                self._seen.add(name)
                self._follow(*name)
        return frozenset(self._operators)

    def _follow(self, name: str, only_in: str) -> None:
        macro, _, structured = name.rpartition(" ")
        if macro:
            self._implements(macro, structured)
            return
        if not only_in:
            self._reach(self.sources.functions.kernels.get(name, frozenset()))
        files = [only_in] if only_in else [*self.sources.files_with(name)]
        made = name.startswith(_MADE_OF_STRUCTURED)
        if not made and (path := self.sources.who_pastes(name, only_in)):
            raise UnknownEffectError(f"a macro in {path} assembles {name}")
        for path in files:
            source = self.sources.source(path)
            if any(
                re.match(r"#\s*define\b", line) and re.search(rf"\b{name}\b", line)
                for line in source.directives
            ):
                raise UnknownEffectError(f"a macro in {path} mentions {name}")
            for item in source.items:
                if self._runs(item, name):
                    self._called_by(item, path, name)

    def _runs(self, item: Item, name: str) -> bool:
        """Whether the item mentions the name other than by a call that is recorded."""
        recorded = _RECORDED_CALL if self.sources.functions.calls(name) else _MEMBER
        return any(not re.search(rf"{recorded.pattern}$", before[-20:]) for before in item.mentions(name))

    def _called_by(self, item: Item, path: str, name: str) -> None:
        (macro, words), (statement, given) = item.macro, item.statement
        if statement in _DECLARES:
            return
        if _REGISTERS.fullmatch(statement):
            if given[0] != name:
                self._todo.append((given[0], ""))
        elif _STRUCTURED.fullmatch(macro) or _META.fullmatch(macro):
            self._implements(macro, words[0])
        elif macro == "TORCH_LIBRARY_IMPL" and path.startswith(_BY_OPERATOR):
            self._registered_by(item, path, name)
        elif not item.function or (item.is_declaration and item.function != name):
            raise UnknownEffectError(f"{path} mentions {name} in {_short(item)}")
        elif not item.is_declaration:
            local = (
                item.local
                and path.endswith(COMPILED)
                and path.rpartition("/")[2] not in self.sources.included
            )
            self._todo.append((item.function, path if local else ""))

    def _registered_by(self, item: Item, path: str, name: str) -> None:
        for statement in item.text.split(";"):
            if not re.search(rf"\b{name}\b", statement):
                continue
            if not re.search(rf"\b[A-Z][A-Z0-9_]*\s*\(\s*{name}\s*[,)]", statement) or name not in (
                operators := self.sources.functions.operators
            ):
                raise UnknownEffectError(f"{path} registers {name}")
            self._reach(operators & {name})

    def _implements(self, macro: str, structured: str) -> None:
        functions = self.sources.functions
        found = (functions.metas if _META.fullmatch(macro) else functions.kernels).get(structured)
        if not found:
            raise UnknownEffectError(f"native_functions.yaml has no operator for {macro}({structured})")
        self._reach(found)
        self._todo.append((f"{_MADE_OF_STRUCTURED}{structured}", ""))

    def _reach(self, operators: Iterable[str]) -> None:
        for operator in {*operators} - self._operators:
            self._operators.add(operator)
            if operator in self.sources.unobserved:
                raise UnknownEffectError(f"calls of {operator} are not recorded")
            if skipping := sorted(self.sources.files_that_skip_dispatch(operator)):
                raise UnknownEffectError(f"{skipping[0]} calls {operator} without the dispatcher")


def _short(item: Item) -> str:
    return " ".join(item.text.split())[:60]
