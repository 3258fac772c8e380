"""PyTorch's ``native_functions.yaml``: which operators a C++ function implements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping  # noqa: TC003  # msgspec reads the types
from dataclasses import dataclass, field

import msgspec
import yaml

NATIVE = "aten/src/ATen/native/"
NATIVE_FUNCTIONS = f"{NATIVE}native_functions.yaml"
API = ("", "_out", "_outf", "_symint", "_symint_out", "_symint_outf")
"""What an operator's C++ function may be called after its name."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class _Entry:
    """What the file says of one overload of an operator; kernels by dispatch keys, of which several share one."""

    func: str
    dispatch: Mapping[str, str] = field(default_factory=dict)
    structured: bool = False
    structured_delegate: str = ""

    @property
    def overload(self) -> str:
        """Its name with the operator's."""
        return self.func.partition("(")[0].strip()


@dataclass(frozen=True)
class NativeFunctions:
    """Names of operators, without namespace and overload, by the name of what implements them.

    ``kernels`` are those of functions, ``metas`` those that ``TORCH_META_FUNC`` gives.
    """

    operators: frozenset[str]
    kernels: Mapping[str, frozenset[str]]
    metas: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, text: str) -> NativeFunctions:
        """From the file's text. Raises :class:`ValueError` where it is not such a file."""
        try:
            listed = msgspec.convert(yaml.load(text, _LOADER), list[_Entry])  # noqa: S506  # a safe loader
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            msg = f"{NATIVE_FUNCTIONS} is not understood"
            raise ValueError(msg) from error
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
        """Whether ``at::name(...)`` is a call that goes by way of the dispatcher, and is therefore recorded."""
        return any(name.removesuffix(suffix) in self.operators for suffix in API)


def _kernels(entry: _Entry, structured: _Entry) -> set[str]:
    """The dispatch table's, that of the operator which this one is a variant of, or the one of the same name."""
    given = {*structured.dispatch.values(), *entry.dispatch.values()}
    found = {kernel.rpartition("::")[2] for kernel in given}
    if not given:
        found = {entry.overload.partition(".")[0] + suffix for suffix in API}
    return found | {f"{kernel}_symint" for kernel in found if "SymInt" in entry.func}
