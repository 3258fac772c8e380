"""A past, and new runs to judge by it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from checking import SLOW, record, run
from made_points import noisy

from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Thirty nights of one case."""
    return thirty_nights(tmp_path)


def thirty_nights(folder: Path) -> Path:
    for day, value in enumerate(noisy(10, 30)):
        run(folder / "history", f"run-{day}", [record("latency(ms)", value, day)])
    return folder / "history"


@pytest.fixture(scope="session")
def stored_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with the same."""
    folder = tmp_path_factory.mktemp("stored")
    with open_store(f"chdb://{folder}/store") as store:
        ingest_place(store, open_place(str(thirty_nights(folder))))
    return folder / "store"


@pytest.fixture
def dsn(stored_history: Path, tmp_path: Path) -> str:
    """Such a store."""
    shutil.copytree(stored_history, tmp_path / "store", symlinks=True)
    return f"chdb://{tmp_path}/store"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Three fresh runs that are slower."""
    for number in range(3):
        run(tmp_path / "slow", f"run-{number}", [record("latency(ms)", 10 * SLOW + number / 100, None)])
    return tmp_path / "slow"


@pytest.fixture
def fine(tmp_path: Path) -> Path:
    """A fresh run like those before."""
    return run(tmp_path, "fine", [record("latency(ms)", 10.03, None)])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somewhere without a configuration, and in no job."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_BASE_REF", "GITHUB_REF", "GITHUB_ACTOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def zeros(tmp_path: Path) -> Path:
    """Twenty nights of a harness that reports failure as zero."""
    for day in range(20):
        run(tmp_path / "zeros", f"run-{day}", [record("latency(ms)", 0, day)])
    return tmp_path / "zeros"
