"""Cache facts about each kind of machine in the store, and compute them again when it has new results."""

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
    from collections.abc import Callable, Mapping, Sequence


T = TypeVar("T")
_PACKAGE = Path(__file__).parents[1]
_JUDGING = ("metrics.py", "series", "stats", "store", "web")
_TEXTS = (
    "SELECT repo, benchmark, device, arch, made_of, text FROM torchperf_kept FINAL WHERE kind = {kind:String}"
)


class KeptFacts:
    """Cached facts of each kind of machine in an open store.

    ``given`` identifies everything that they depend on besides the results and the code.
    """

    def __init__(self, store: Store, given: str) -> None:
        self._store, self._given = store, given

    def of_groups(self, kind: type[T], make: Callable[[SeriesGroup], T]) -> Mapping[SeriesGroup, T]:
        """Return the dataclass ``kind`` of each kind of machine, from the cache or newly made.

        Raises what reading the store raises.
        """
        import msgspec

        found: dict[SeriesGroup, T] = {}
        for group, text in self._texts(kind).items():
            found[group] = msgspec.json.decode(text, type=kind) if text else make(group)
            if not text:
                self._keep(kind.__name__, group, as_json(found[group]).decode())
        return found

    def outdated(self, kind: type[object]) -> Sequence[SeriesGroup]:
        """Return the kinds of machine whose facts are not cached, as far as the store can cache any."""
        return [group for group, text in self._texts(kind).items() if not text] if self._has_table else []

    @cached_property
    def _made_of(self) -> Mapping[SeriesGroup, str]:
        """A digest for each kind of machine, which changes with everything that its facts depend on."""
        return {
            SeriesGroup(*names): hashlib.sha256(
                f"{_code()} {self._given} {rows} {records}".encode()
            ).hexdigest()
            for *names, rows, records in self._store.rows(self._store.statement("group_states"))
        }

    @cached_property
    def _has_table(self) -> bool:
        """Whether the store has the table of the cache, which may not be creatable on a server."""
        return self._store.has_table("torchperf_kept")

    def _texts(self, kind: type[object]) -> Mapping[SeriesGroup, str]:
        """Return the cached facts of each kind of machine as JSON, empty where they are missing or outdated."""
        rows = self._store.rows(_TEXTS, {"kind": kind.__name__}) if self._has_table else ()
        kept = {(SeriesGroup(*names), made_of): text for *names, made_of, text in rows}
        return {group: kept.get((group, made_of), "") for group, made_of in self._made_of.items()}

    def _keep(self, kind: str, group: SeriesGroup, text: str) -> None:
        if self._has_table:
            row = {"kind": kind, **group._asdict(), "made_of": self._made_of[group], "text": text}
            with suppress(RefusedStatementError):  # a user who may only read computes the facts each time
                self._store.insert("torchperf_kept", list(row), json.dumps(row).encode())


@cache
def _code() -> str:
    """Return a digest of the code that computes the facts, because another version may give other results."""
    found = hashlib.sha256()
    for part in _JUDGING:
        for file in sorted((_PACKAGE / part).rglob("*.*")) or [_PACKAGE / part]:
            if file.suffix in (".py", ".sql"):
                found.update(file.read_bytes())
    return found.hexdigest()


def as_json(document: object) -> bytes:
    """Return compact JSON, always the same bytes for the same document."""
    text = json.dumps(document, default=vars, separators=(",", ":"), allow_nan=False)
    return text.encode()
