"""Answer from one open store, and cache documents until the store changes."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.store.client import AnswerLimits, Store
from torchperf_ci.store.command import StoreQuery, run_query
from torchperf_ci.web.documents import Documents, documents_of_store

if TYPE_CHECKING:
    from torchperf_ci import config


_PARTS = """\
SELECT table, max(max_block_number) FROM system.parts
WHERE active AND database = currentDatabase() AND table IN (
    'oss_ci_benchmark_v3', 'torchperf_values', 'torchperf_judged', 'torchperf_commits'
)
GROUP BY table ORDER BY table"""
_RESULTS = "SELECT count() FROM oss_ci_benchmark_v3"
"""Together with the newest parts, it changes with each insertion and deletion; the engine knows both without reading
rows."""
KEPT_BYTES = 64 * 2**20
"""Most bytes of documents, as they are and compressed, that are cached; before there are more, all are dropped."""
LIMITS = AnswerLimits(size=64 * 2**20, seconds=60)
"""Of the answer to a query; clients that need more query shorter periods."""


@dataclass(frozen=True)
class PackedDocument:
    """A document with its compressed form, so that neither is made for each request."""

    content: bytes
    packed: bytes
    etag: str

    @classmethod
    def of(cls, content: bytes) -> PackedDocument:
        """Return the document with this ``content``."""
        digest = hashlib.sha256(content).hexdigest()[:32]
        return cls(content, gzip.compress(content, compresslevel=6, mtime=0), f'"{digest}"')

    @property
    def size(self) -> int:
        """The bytes of both forms."""
        return len(self.content) + len(self.packed)


class Answers:
    """The documents and queries of ``store``; for one thread."""

    def __init__(self, store: Store, settings: config.Config) -> None:
        self._store, self._settings = store, settings
        self._state: object = None
        self._documents: Documents
        self._kept: dict[str, PackedDocument] = {}

    def document(self, path: str) -> PackedDocument:
        """Return the current version of a document. Raises :class:`UnknownDocumentError`, or what reading raises."""
        self._look_at_store()
        if path not in self._kept:
            made = PackedDocument.of(self._documents.document(path))
            if made.size + sum(kept.size for kept in self._kept.values()) > KEPT_BYTES:
                self._kept.clear()
            self._kept[path] = made
        return self._kept[path]

    def query(self, question: StoreQuery, form: str, packed: bool = False) -> bytes:
        """Return the points of a query, compressed by gzip if ``packed``.

        Raises :class:`UsageError` if the answer exceeds :data:`LIMITS`.
        """
        content = b"".join(run_query(self._store, question, form.lower(), LIMITS))
        return gzip.compress(content, compresslevel=1) if packed else content

    def ready(self) -> None:
        """Check that the store answers. Raises what querying the store raises."""
        self._store.rows("SELECT 1")

    def _look_at_store(self) -> None:
        """Clear the cache if the store has changed."""
        state = [*self._store.rows(_PARTS), *self._store.rows(_RESULTS)]
        if state != self._state:
            self._state = state
            self._documents = documents_of_store(self._store, self._settings)
            self._kept.clear()
