"""Read PyTorch's sources at a commit: which of them mention a name, and which operators a C++ function implements."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping  # msgspec reads the types
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec
import yaml

from torchperf_ci.compare.cpp_items import WORD, Source, UnreadableSourceError, plain, read_source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from torchperf_ci.git import Git


NATIVE = "aten/src/ATen/native/"
NATIVE_FUNCTIONS = f"{NATIVE}native_functions.yaml"
API = ("", "_out", "_outf", "_symint", "_symint_out", "_symint_outf")
"""Suffixes that an operator's C++ functions may add to its name."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnknownEffectError(Exception):
    """The effect of a change cannot be determined, so it may affect everything. The message says why."""


@dataclass(frozen=True)
class _Entry:
    """One overload of an operator in the file. ``dispatch`` maps dispatch keys, or several in one key, to kernels."""

    func: str
    dispatch: Mapping[str, str] = field(default_factory=dict)
    structured: bool = False
    structured_delegate: str = ""

    @property
    def overload(self) -> str:
        """The operator's name including the overload."""
        return self.func.partition("(")[0].strip()


@dataclass(frozen=True)
class NativeFunctions:
    """Names of operators, without namespace and overload, by what implements them.

    ``kernels`` maps C++ functions to operators, ``metas`` names given to ``TORCH_META_FUNC``.
    """

    operators: frozenset[str]
    kernels: Mapping[str, frozenset[str]]
    metas: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, text: str) -> NativeFunctions:
        """Parse the file's text. Raises :class:`UnknownEffectError` if it is not such a file."""
        try:
            listed = msgspec.convert(yaml.load(text, _LOADER), list[_Entry])  # noqa: S506  # a safe loader
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise UnknownEffectError(f"{NATIVE_FUNCTIONS} is not understood") from error
        entries = {entry.overload: entry for entry in listed}
        kernels, metas = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for overload, entry in entries.items():
            name = overload.partition(".")[0]
            structured = entry.structured_delegate or (overload if entry.structured else "")
            for kernel in _kernels(entry, entries.get(structured, entry)):
                kernels[kernel].add(name)
            metas[structured.partition(".")[0]].add(name)
        return cls(
            frozenset(overload.partition(".")[0] for overload in entries),
            {kernel: frozenset(names) for kernel, names in kernels.items()},
            {name: frozenset(names) for name, names in metas.items() if name},
        )

    def calls(self, name: str) -> bool:
        """Whether ``at::name(...)`` is a call through the dispatcher, which the profiler therefore records."""
        return any(name.removesuffix(suffix) in self.operators for suffix in API)


def _kernels(entry: _Entry, structured: _Entry) -> set[str]:
    """Return an overload's kernels: from its dispatch table and its structured variant's, else by its own name."""
    given = {*structured.dispatch.values(), *entry.dispatch.values()}
    names = {kernel.rpartition("::")[2] for kernel in given}
    if not given:
        names = {entry.overload.partition(".")[0] + suffix for suffix in API}
    return names | {f"{kernel}_symint" for kernel in names if "SymInt" in entry.func}


CPP = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".in", ".inc", ".inl", ".m", ".mm")
COMPILED = (".cc", ".cpp", ".cu", ".mm")
"""Extensions of files that are compiled on their own and not included by others."""
GENERATORS = ("torchgen/", "tools/")
"""Folders whose Python programs generate C++, also from formulas in YAML."""
OTHER_PROGRAMS = frozenset(
    {"test", "tests", "benchmarks", "binaries", "android", "ios", "docs", "third_party"}
)
"""Folders that are not part of the library."""
ATEN = "aten/src/ATen/"
STATIC_RUNTIME = "torch/csrc/jit/runtime/static/"
"""Static runtime, which calls kernels without the dispatcher. Its use is detected, and such cases are measured."""
_UNOBSERVED = "aten/src/ATen/core/dispatch/ObservedOperators.cpp"
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)", re.MULTILINE)
_STATIC_DISPATCH = re.compile(r"\b(?:cpu|cuda|meta|composite\w+)\s*::\s*([A-Za-z_]\w*)")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)(.*##.*)$", re.MULTILINE)
_PASTED = re.compile(r"\w+(?:\s*##\s*\w+)+")


@dataclass(frozen=True)
class PyTorchSources:
    """Sources by path. C++ ``texts`` are without comments, Python texts are unchanged.

    ``unobserved`` are operators whose calls are not recorded, ``included`` are names of included files.
    """

    texts: Mapping[str, str]
    functions: NativeFunctions
    unobserved: frozenset[str]
    included: frozenset[str]
    _files: Mapping[str, set[str]] = field(repr=False)
    _called_statically: Mapping[str, set[str]] = field(repr=False)
    _pastes: Collection[tuple[str, tuple[str, ...]]] = field(repr=False)
    _read: dict[str, Source] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, str]) -> PyTorchSources:
        """Index the texts of all sources, given by path. Raises :class:`UnknownEffectError`."""
        texts = {path: plain(text) if path.endswith(CPP) else text for path, text in raw.items()}
        files, statically = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for path, text in texts.items():
            for word in {*WORD.findall(text)}:
                files[word].add(path)
            for name in _STATIC_DISPATCH.findall(text):
                statically[name].add(path)
        pastes = {made for path, text in texts.items() if path.endswith(CPP) for made in _pastes(text)}
        included = {name.rpartition("/")[2] for text in raw.values() for name in _INCLUDED.findall(text)}
        functions = NativeFunctions.of(raw[NATIVE_FUNCTIONS])
        unobserved = frozenset(re.findall(r'"aten::(\w+)"', raw[_UNOBSERVED]))
        return cls(texts, functions, unobserved, frozenset(included), files, statically, pastes)

    def source(self, path: str) -> Source:
        """Return the items of a file. Raises :class:`UnknownEffectError` if it cannot be understood."""
        if path not in self._read:
            self._read[path] = readable(path, self.texts[path])
        return self._read[path]

    def files_with(self, name: str) -> Iterator[str]:
        """Yield the C++ files that mention the name.

        Raises :class:`UnknownEffectError` if a code generator may write C++ that mentions it.
        """
        for path in sorted(self._files.get(name, ())):
            if path.endswith(CPP):
                yield path
            elif path != NATIVE_FUNCTIONS and self._writes(path, name):
                raise UnknownEffectError(f"{path} writes C++ that mentions {name}")

    def _writes(self, path: str, name: str) -> bool:
        """Whether a code generator may write a use of the name that is not recorded.

        Names of operators occur everywhere in generators, but mostly in calls through the dispatcher.
        """
        return not self.functions.calls(name) or bool(
            re.search(rf"\b(?:native|cpu|cuda|meta)::\s*{name}\b", self.texts[path])
        )

    def files_that_skip_dispatch(self, operator: str) -> set[str]:
        """Return the files that call the operator's kernel for one device directly, such as by ``at::cpu::``."""
        return set[str]().union(*(self._called_statically.get(operator + suffix, set()) for suffix in API))

    def who_pastes(self, name: str, only_in: str) -> str:
        """Return a file in which a macro can assemble the name from words of that file; else empty."""
        for macro, parts in self._pastes:
            for path in [only_in] if only_in else sorted(self._files.get(macro, ())):
                if path.endswith(CPP) and self._is_made_of(name, parts, path):
                    return path
        return ""

    def _is_made_of(self, name: str, parts: Sequence[str], path: str) -> bool:
        """Whether the parts, with words of the file in place of the empty ones, make up the name."""
        if not parts:
            return not name
        if parts[0]:
            return name.startswith(parts[0]) and self._is_made_of(name[len(parts[0]) :], parts[1:], path)
        return any(
            path in self._files.get(name[:place], ()) and self._is_made_of(name[place:], parts[1:], path)
            for place in range(1, len(name) + 1)
        )


def readable(path: str, text: str) -> Source:
    """Return the items of a text without comments. Raises :class:`UnknownEffectError`."""
    try:
        return read_source(text)
    except UnreadableSourceError as error:
        raise UnknownEffectError(f"{path} is not understood") from error


def _pastes(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield macros that paste names with ``##``, and the parts of each name; a macro parameter is an empty part."""
    for macro, given, body in _DEFINE.findall(text):
        parameters = {*WORD.findall(given), "__VA_ARGS__"}
        for found in _PASTED.finditer(body):
            parts = [part.strip() for part in found[0].split("##")]
            yield macro, tuple("" if part in parameters else part for part in parts)


def sources_at(git: Git, commit: str, unbuilt: Collection[str]) -> PyTorchSources:
    """Read the sources from the repository, without the folders of devices that the build is not for.

    Raises :class:`UnknownEffectError` and :class:`GitError`.
    """
    lines = os.fsdecode(git("ls-tree", "-r", "-z", commit)).split("\0")[:-1]
    names = {line.partition("\t")[2]: line.partition("\t")[0].split()[2] for line in lines}
    wanted = [path for path in names if _is_source(path, unbuilt)]
    if not {NATIVE_FUNCTIONS, _UNOBSERVED} <= {*wanted}:
        raise UnknownEffectError("the repository is not PyTorch's, or laid out in another way")
    texts = (blob.decode("utf-8", "replace") for blob in git.blobs([names[path] for path in wanted]))
    return PyTorchSources.of(dict(zip(wanted, texts, strict=True)))


def _is_source(path: str, unbuilt: Collection[str]) -> bool:
    parts = PurePosixPath(path).parts
    if not OTHER_PROGRAMS.isdisjoint(parts) or path.startswith(STATIC_RUNTIME) or is_unbuilt(path, unbuilt):
        return False
    return (
        path.endswith(CPP)
        or path == NATIVE_FUNCTIONS
        or (path.startswith(GENERATORS) and path.endswith((".py", ".yaml")))
    )


def is_unbuilt(path: str, unbuilt: Collection[str]) -> bool:
    """Whether the path is below an ATen folder for one of the ``unbuilt`` devices."""
    return path.startswith(ATEN) and not set(unbuilt).isdisjoint(PurePosixPath(path).parts[:-1])


def is_native(path: str) -> bool:
    """Whether the path is a source file of operators."""
    return path.startswith(NATIVE) and path.endswith(COMPILED)
