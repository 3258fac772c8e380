"""The repository from which builds are made, and a server of wheels."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from checkout import Checkout
from serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from checkout import Git


@pytest.fixture
def checkout(tmp_path: Path, git: Git) -> Checkout:
    """The repository of a user who is in the middle of something."""
    folder = tmp_path / "repo with a space"
    folder.mkdir()
    return Checkout(folder, git)


@pytest.fixture
def url(shelf: Path) -> Iterator[str]:
    """Where the shelf is served."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=shelf))) as server:
        yield f"http://127.0.0.1:{server.server_port}"
