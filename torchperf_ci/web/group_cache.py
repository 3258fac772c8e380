"""Cache in the store what is computed for each kind of machine, until the machine has new results."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from torchperf_ci.series.points import SeriesGroup
from torchperf_ci.store.client import RefusedStatementError, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


T = TypeVar("T")
_PACKAGE = Path(__file__).parents[1]


class GroupCache:
    """A cache, in an open store, of values computed for each kind of machine.

    ``inputs`` identifies everything that they depend on besides the results and the code. Kinds of machines without
    results when it is first used are left out, because values may depend on others that were read then.
    """

    def __init__(self, store: Store, inputs: str) -> None:
        self._store, self._inputs = store, inputs

    def values(self, value_type: type[T], compute: Callable[[SeriesGroup], T]) -> Mapping[SeriesGroup, T]:
        """Return the value of each kind of machine, a ``value_type``, from the cache or else computed and cached.

        Raises what reading the store raises.
        """
        import msgspec

        values: dict[SeriesGroup, T] = {}
        query, kind = "cached_values" if self._store.has_values else "group_states", value_type.__name__
        for group, made_of, text in self._listed(query, kind):
            if group not in self._states:
                continue
            values[group] = msgspec.json.decode(text, type=value_type) if text else compute(group)
            if self._store.has_values and not text and made_of == self._states[group]:
                made = {"made_of": made_of, "text": as_json(values[group]).decode()}
                row = {"kind": kind, **group._asdict(), **made}
                # A user who may only read computes the values each time.
                with suppress(RefusedStatementError):
                    self._store.insert("torchperf_kept", list(row), as_json(row))
        return values

    @cached_property
    def _states(self) -> Mapping[SeriesGroup, str]:
        """What the values of each kind of machine are made of when this is first used."""
        return {group: made_of for group, made_of, _ in self._listed("group_states")}

    def _listed(self, query: str, kind: str = "") -> Iterator[tuple[SeriesGroup, str, str]]:
        """Yield each kind of machine, what its value is made of, and the value as JSON, empty where none is cached."""
        inputs = hashlib.sha256(f"{_code_digest()} {self._inputs}".encode()).hexdigest()
        rows = self._store.rows(self._store.statement(query), {"kind": kind, "inputs": inputs})
        return ((SeriesGroup(*names), made_of, text) for *names, made_of, text in rows)


@cache
def _code_digest() -> str:
    """Return a digest of the code, because another version may compute other values."""
    files = (file for file in sorted(_PACKAGE.rglob("*.*")) if file.suffix in (".py", ".sql"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def as_json(document: object) -> bytes:
    """Return compact JSON, always the same bytes for the same document."""
    text = json.dumps(document, default=vars, separators=(",", ":"), allow_nan=False)
    return text.encode()
