"""``torchperf ingest``: ingest, then judge the machines that have new results, so that nobody has to wait for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci import config
from torchperf_ci.console import say
from torchperf_ci.document import counted
from torchperf_ci.errors import RecordsRefusedError, TorchperfError
from torchperf_ci.store import command
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.web.documents import collect_garbage_rarely, documents_of_store

if TYPE_CHECKING:
    from torchperf_ci.options.storage_commands import IngestOptions


def ingest_command(options: IngestOptions) -> int:
    """Ingest every source, say what was ingested, then judge. Raises as :func:`command.ingest_command`."""
    try:
        code = command.ingest_command(options)
    except RecordsRefusedError:  # all other records are in
        _judge(options)
        raise
    _judge(options)
    return code


def _judge(options: IngestOptions) -> None:
    """Judge the machines that have new results. A failure is only told, because the records are in."""
    settings = config.find(options.config)
    dsn = options.store or settings.store
    collect_garbage_rarely()
    try:
        with open_existing(dsn) as store:
            documents = documents_of_store(store, settings)
            if new := documents.unjudged:
                say(
                    f"judging what {counted(len(new), 'machine')} with new results measured, for the dashboard"
                )
                documents.overview()  # keeps the judgments
    except TorchperfError as error:
        say(f"{error}; the records are in, and the dashboard judges them when somebody looks")
