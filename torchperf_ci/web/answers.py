"""Answers of one open store to many who ask: one at a time, kept as long as the store stays as it is."""

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
"""With the newest parts it changes with each insert and each deletion; the engine knows both without reading a row."""
KEPT_BYTES = 64 * 2**20
"""Of documents that are kept in memory; the oldest go first."""
MOST_QUERIED = 64 * 2**20
"""Bytes of an answer to a query; who wants more asks for less time at a time."""


@dataclass(frozen=True)
class Answer:
    """A document and what tells it from another version of itself."""

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
        """A document as the store has it now. Raises :class:`UnknownDocumentError`, or what reading raises."""
        with self._alone:
            self._look_at_store()
            if path not in self._kept:
                content = self._documents.document(path)
                self._kept[path] = Answer(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
                self._forget_oldest()
            self._kept.move_to_end(path)
            return self._kept[path]

    def query(self, question: StoreQuery, form: str) -> bytes:
        """The points of a question. Raises :class:`UsageError` where they are too many."""
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
        """Raise what asking the store raises."""
        with self._alone:
            self._store.rows("SELECT 1")

    def _look_at_store(self) -> None:
        """Nothing that was read before is told after something new was taken in."""
        state = [*self._store.rows(_PARTS), *self._store.rows(_RESULTS)]
        if state != self._state:
            self._state = state
            self._documents = documents_of_store(self._store, self._settings)
            self._kept.clear()

    def _forget_oldest(self) -> None:
        while len(self._kept) > 1 and sum(len(answer.content) for answer in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)
