from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from seaweedfs import BUCKET

from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchperf_ci.places.place import RecordPlace


@pytest.fixture(params=["directory", "s3", "branch"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty place, of each kind in turn."""
    if request.param == "directory":
        return str(tmp_path / "kept")
    if request.param == "s3":
        request.getfixturevalue("aws")
        return f"s3://{BUCKET}/{uuid4()}"
    return f"branch:perf-data@{request.getfixturevalue('remote')}"


@pytest.fixture
def place(target: str) -> RecordPlace:
    return open_place(target, PlaceAccess(deadline=120))


@pytest.fixture
def checkout(tmp_path: Path, remote: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's checkout in which much is going on; the working directory."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "remote", "add", "origin", "../remote.git")
    (folder / "file").write_text("1")
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "-m", "one")
    (folder / "file").write_text("2")
    git(folder, "stash")
    (folder / "file").write_text("3")
    git(folder, "add", "file")
    (folder / "file").write_text("4")
    monkeypatch.chdir(folder)
    return folder
