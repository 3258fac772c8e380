"""The repository that builds are made of, Pythons that make environments fast, and where temporary files go."""

from __future__ import annotations

import subprocess
import sys
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
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything temporary goes; it must be empty in the end."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """A Python whose virtual environments have no pip, which takes seconds to install."""
    return _program(tmp_path / "quick-python", f'exec {sys.executable} "$@" --without-pip')


@pytest.fixture(scope="session")
def pip_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pip in it."""
    folder = tmp_path_factory.mktemp("pip")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    return next(folder.glob("lib/python*/site-packages"))


@pytest.fixture
def with_pip(tmp_path: Path, pip_once: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python whose virtual environments share one pip, which asks no index by itself."""
    for name, value in {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "0", "PIP_FIND_LINKS": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no index").as_uri())
    link = f'for site in "$4"/lib/python*/site-packages; do echo "{pip_once}" > "$site/pip.pth"; done'
    return _program(tmp_path / "pip-python", f'{sys.executable} "$@" --without-pip && {link}')


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder for wheels."""
    folder = tmp_path / "a shelf"
    folder.mkdir()
    return folder


@pytest.fixture
def url(shelf: Path) -> Iterator[str]:
    """Where the shelf is served."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=shelf))) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def _program(file: Path, line: str) -> str:
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)
    return str(file)
