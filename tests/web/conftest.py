"""Forty nights on two machines, in a real store, as a site that a browser reads."""

from __future__ import annotations

import fcntl
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from dashboard_nights import NIGHTS, put_culprit, put_nights
from serving import serving
from watched_page import Watched, watching

from torchperf_ci.config import Config
from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.command import write_site
from torchperf_ci.web.documents import Documents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def dashboard(shared: Path) -> Path:
    """The folder of a store that has them, of their records, and of the whole site; one for all processes."""
    folder = shared / "dashboard"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "site").exists():
            put_nights(folder / "records", 0, NIGHTS)
            put_culprit(folder / "records/culprits.json")
            with open_store(f"chdb://{folder}/store") as store:
                ingest_place(store, open_place(str(folder / "records")))
                write_site(Documents(store, Config()), folder / "new site")
            (folder / "new site").rename(folder / "site")
    return folder


@pytest.fixture(scope="session")
def nights(dashboard: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a store that has them, for this process alone."""
    folder = tmp_path_factory.mktemp("nights") / "store"
    shutil.copytree(dashboard / "store", folder, symlinks=True)
    return f"chdb://{folder}"


@pytest.fixture(scope="session")
def site(dashboard: Path) -> Path:
    """The folder of the whole site, which is only read."""
    return dashboard / "site"


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where a plain web server has it."""
    handler = partial(_Silent, directory=str(site))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def watched(browser: Browser, address: str) -> Iterator[Watched]:
    """A page of the site."""
    with watching(browser, address) as found:
        yield found
