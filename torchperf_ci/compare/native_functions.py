"""PyTorch's ``native_functions.yaml``: which operators a C++ function implements."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

NATIVE = "aten/src/ATen/native/"
NATIVE_FUNCTIONS = f"{NATIVE}native_functions.yaml"
API = ("", "_out", "_outf", "_symint", "_symint_out", "_symint_outf")
"""What an operator's C++ function may be called after its name."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
            entries = {_overload(entry): entry for entry in yaml.load(text, _LOADER)}  # noqa: S506  # a safe loader
        except (yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
            msg = f"{NATIVE_FUNCTIONS} is not understood"
            raise ValueError(msg) from error
        kernels, metas = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for overload, entry in entries.items():
            name = overload.partition(".")[0]
            structured = entry.get("structured_delegate", overload if entry.get("structured") else "")
            for kernel in _kernels(entry, overload, entries.get(structured, {})):
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


def _overload(entry: Mapping[str, Any]) -> str:
    return str(entry["func"]).partition("(")[0].strip()


def _kernels(entry: Mapping[str, Any], overload: str, structured: Mapping[str, Any]) -> set[str]:
    """The dispatch table's, that of the operator which this one is a variant of, or the one of the same name."""
    given = {**structured.get("dispatch", {}), **entry.get("dispatch", {})}
    found = {str(kernel).rpartition("::")[2] for kernel in given.values()}
    if not given:
        name = overload.partition(".")[0]
        found = {name + suffix for suffix in API}
    return found | {f"{kernel}_symint" for kernel in found if re.search("SymInt", str(entry["func"]))}
