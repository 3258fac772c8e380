"""``torchperf site`` writes pages and documents as files; ``torchperf ingest`` also judges for the dashboard."""

from __future__ import annotations

import hashlib
import re
import shlex
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.config import find_config
from torchperf_ci.console import say
from torchperf_ci.document import counted
from torchperf_ci.errors import OutputDirectoryError, RecordsRefusedError, TorchperfError, failing_as
from torchperf_ci.records.files import replace_by
from torchperf_ci.store import command
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.web.documents import Documents, is_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.options.storage_commands import IngestOptions, SiteOptions

PAGES = Path(__file__).with_name("pages")
_OWN_PAGE = b" data-root="
"""What is in the pages of every version of the dashboard."""


def site_command(options: SiteOptions) -> int:
    """Write the site; files of an existing site are written only if they have changed."""
    config = find_config(options.config)
    with open_existing(options.store or config.store) as store:
        written, files = write_site(Documents(store, config), Path(options.dir))
    say(
        f"{counted(files, 'file')} in {options.dir}, {written} of them new or changed; "
        f"look at them: python3 -m http.server --directory {shlex.quote(options.dir)} 8000"
    )
    return 0


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
    config = find_config(options.config)
    try:
        with open_existing(options.store or config.store) as store:
            if store.has_values:  # else no judgment can be cached
                Documents(store, config).overview()
    except TorchperfError as error:
        say(f"{error}; the records are in, and the dashboard judges them when somebody looks")


def write_site(documents: Documents, folder: Path) -> tuple[int, int]:
    """Write pages and documents; return how many files were new or changed, and how many there are.

    Documents come first, so that a new page never meets documents that lack what it needs. Those about data that is no
    longer in the store are removed, but no other file. Raises :class:`OutputDirectoryError`, also if the folder has a
    start page of something else.
    """
    data, start = folder / "data", folder / "index.html"
    contents = chain(
        ((f"data/{path}", content) for path, content in documents.everything()), _versioned_pages()
    )
    written, files = 0, set()
    advice = "; name a directory that is writable"
    with failing_as(OutputDirectoryError, f"{folder}: the site cannot be written: ", advice):
        if start.exists() and _OWN_PAGE not in start.read_bytes():
            msg = f"{start} is not the dashboard's, and would be overwritten; name another directory"
            raise OutputDirectoryError(msg)
        for path, content in contents:
            target = folder / path
            files.add(target)
            if not target.exists() or target.read_bytes() != content:
                replace_by(target, methodcaller("write", content))
                written += 1
        for old in {*data.rglob("*.json")} - files:
            if is_document(old.relative_to(data).as_posix()):
                old.unlink()
    return written, len(files)


def _versioned_pages() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the pages by path, with scripts and styles at addresses that their contents determine.

    GitHub Pages lets browsers keep each file for ten minutes, so that a new page would run the old scripts.
    """
    files = {
        page.relative_to(PAGES): page.read_bytes() for page in sorted(PAGES.rglob("*")) if page.is_file()
    }
    version = hashlib.sha256(b"".join(files.values())).hexdigest()[:8]
    for path, content in files.items():
        yield str(path), re.sub(rb'(\.js|\.css)"', rf'\1?v={version}"'.encode(), content)
