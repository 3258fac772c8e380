from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from seaweedfs import BUCKET

from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
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
