"""Answer many clients from one open store, one at a time, and cache documents until the store changes."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError
from torchperf_ci.store.command import StoreQuery, run_query
from torchperf_ci.web.documents import documents_of_store

if TYPE_CHECKING:
    from torchperf_ci import config
    from torchperf_ci.store.client import Store
    from torchperf_ci.web.documents import Documents


_PARTS = """\
SELECT table, max(max_block_number) FROM system.parts
WHERE active AND database = currentDatabase() AND table IN (
    'oss_ci_benchmark_v3', 'torchperf_judged', 'torchperf_commits'
)
GROUP BY table ORDER BY table"""
_RESULTS = "SELECT count() FROM oss_ci_benchmark_v3"
"""Together with the newest parts, it changes with each insertion and deletion; the engine knows both without reading
rows."""
KEPT_BYTES = 64 * 2**20
"""Most bytes of documents that are cached; the least recently used are evicted first."""
MOST_QUERIED = 64 * 2**20
"""Most bytes of the answer to a query; clients that need more query shorter periods."""


@dataclass(frozen=True)
class Answer:
    """A document and its entity tag, which differs between versions of the document."""

    content: bytes
    etag: str


class Answers:
    """The documents and queries of ``store``."""

    def __init__(self, store: Store, settings: config.Config) -> None:
        self._store, self._settings = store, settings
        self._alone = threading.Lock()
        self._state: object = None
        self._documents: Documents
        self._kept: OrderedDict[str, Answer] = OrderedDict()

    def document(self, path: str) -> Answer:
        """Return the current version of a document. Raises :class:`UnknownDocumentError`, or what reading raises."""
        with self._alone:
            self._look_at_store()
            if path not in self._kept:
                content = self._documents.document(path)
                self._kept[path] = Answer(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
                self._forget_oldest()
            self._kept.move_to_end(path)
            return self._kept[path]

    def query(self, question: StoreQuery, form: str) -> bytes:
        """Return the points of a query. Raises :class:`UsageError` if the answer is too large."""
        found, size = [], 0
        with self._alone:
            for piece in run_query(self._store, question, form):
                size += len(piece)
                if size > MOST_QUERIED:
                    msg = f"the answer has more than {MOST_QUERIED} bytes; ask for less time, or for some models"
                    raise UsageError(msg)
                found.append(piece)
        return b"".join(found)

    def ready(self) -> None:
        """Check that the store answers. Raises what querying the store raises."""
        with self._alone:
            self._store.rows("SELECT 1")

    def _look_at_store(self) -> None:
        """Clear the cache if the store has changed."""
        state = [*self._store.rows(_PARTS), *self._store.rows(_RESULTS)]
        if state != self._state:
            self._state = state
            self._documents = documents_of_store(self._store, self._settings)
            self._kept.clear()

    def _forget_oldest(self) -> None:
        while len(self._kept) > 1 and sum(len(answer.content) for answer in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)
