"""Series out of the store: the parameters of the benchmark infrastructure's query API."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from torchperf_ci.store.client import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.store.client import Store

FORMATS: Mapping[str, str] = {
    "table": "JSONEachRow",
    "json": "JSONEachRow",
    "jsoneachrow": "JSONEachRow",
    "csv": "CSVWithNames",
    "parquet": "Parquet",
}
"""What a user may ask for, and what the engine is asked for."""


@dataclass(frozen=True)
class Question:
    """Which points; an empty value asks for all of them.

    ``start`` ≤ t < ``stop`` in Unix seconds, 0 for no limit. ``device`` and the names are compared whole, ``arch`` is a
    part of its text, ``commit`` its beginning; ``branch`` is the same with and without ``refs/heads/``.
    """

    repo: str = ""
    benchmark: str = ""
    start: int = 0
    stop: int = 0
    models: Sequence[str] = ()
    metrics: Sequence[str] = ()
    device: str = ""
    arch: str = ""
    branch: str = ""
    commit: str = ""


def ask(store: Store, question: Question, form: str = "jsoneachrow") -> Iterator[bytes]:
    """The points, oldest first, as one of :data:`FORMATS` (``table`` as JSONEachRow), piece by piece.

    Raises :class:`StoreUnreachableError` or :class:`StoreError`.
    """
    lists = {"models": list(question.models), "metrics": list(question.metrics)}
    pieces = store.stream(statement("series"), asdict(question) | lists, FORMATS[form])
    return _as_list(pieces) if form == "json" else pieces


def _as_list(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines of JSON as one JSON list; the engine's own would begin anew with each of its blocks."""
    rest, before = b"", b"[\n"
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield before + b",\n".join(lines)
            before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"
